# Everything Fathom links, in one interface target. tools/install-deps lists the Debian packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
find_path(RANDOM123_INCLUDE Random123/philox.h REQUIRED)
find_path(DNNL_INCLUDE dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(OPENBLAS_INCLUDE openblas_config.h PATH_SUFFIXES openblas-pthread openblas REQUIRED)
find_library(OPENBLAS_LIBRARY openblas REQUIRED)
find_path(XSMM_INCLUDE libxsmm.h REQUIRED)
find_library(XSMM_LIBRARY libxsmm.a REQUIRED)
find_library(XSMM_NOBLAS_LIBRARY libxsmmnoblas.a REQUIRED)
find_library(GOMP_LIBRARY NAMES gomp libgomp.so.1 PATHS /usr/lib/gcc/x86_64-linux-gnu/12
  /usr/lib/gcc/x86_64-linux-gnu/13 /usr/lib/gcc/x86_64-linux-gnu/14 REQUIRED)

add_library(fathom_dependencies INTERFACE)
target_include_directories(fathom_dependencies SYSTEM INTERFACE ${RANDOM123_INCLUDE} ${DNNL_INCLUDE}
  ${OPENBLAS_INCLUDE} ${XSMM_INCLUDE})
target_link_libraries(fathom_dependencies INTERFACE PkgConfig::YAML PkgConfig::JANSSON
  PkgConfig::XXHASH PkgConfig::ZSTD PkgConfig::ZLIB ${XSMM_LIBRARY} ${XSMM_NOBLAS_LIBRARY}
  ${DNNL_LIBRARY} ${OPENBLAS_LIBRARY} ${GOMP_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)
