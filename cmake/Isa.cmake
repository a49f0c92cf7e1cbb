# Sources named *_avx2.c, *_avx512.c, *_avx512bf16.c and *_amx.c may use those instructions; nothing else may, so that the
# program starts on any x86-64 and chooses at run time.
set(FATHOM_AVX2_FLAGS -mavx2 -mfma -mbmi -mbmi2 -mf16c -mlzcnt -mpopcnt)
set(FATHOM_AVX512_FLAGS ${FATHOM_AVX2_FLAGS} -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl
  -mprefer-vector-width=512)
# GCC would add a loop for strides of 1, which kernels' are not, and keep fewer sums in AVX2's sixteen registers in both.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND FATHOM_AVX2_ONLY -fno-version-loops-for-strides)
endif()
file(STRINGS /proc/cpuinfo FATHOM_CPU_HAS_AVX512 REGEX avx512f LIMIT_COUNT 1)
foreach(source ${FATHOM_SOURCES})
  set(how -O3)
  # Hundreds of unrolled blocks, each with its checks: GCC would take two minutes for each of the two.
  if(FATHOM_SANITIZE STREQUAL "address+undefined" AND source MATCHES "/attention_avx[0-9]+\\.c$")
    set(how -O1 -g0 -fno-sanitize=undefined --param=asan-instrumentation-with-call-threshold=0)
  endif()
  # What this CPU cannot run needs no checks, which take most of the time to compile it.
  if(FATHOM_SANITIZE AND NOT FATHOM_CPU_HAS_AVX512 AND source MATCHES "_(avx512|avx512bf16|amx)\\.c$")
    set(how -O1 -g0 -fno-sanitize=all)
  endif()
  # Fuzzing is for what reads text. clang takes many minutes over sanitized arithmetic kernels.
  if(FATHOM_SANITIZE STREQUAL "fuzzer" AND NOT source MATCHES "/(scan|decimal|text_keys)_[a-z0-9]+\\.c$")
    set(how -O1 -fno-sanitize=all)
  endif()
  if(source MATCHES "_avx2\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${FATHOM_AVX2_FLAGS};${how};${FATHOM_AVX2_ONLY}")
  elseif(source MATCHES "_amx\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "${FATHOM_AVX512_FLAGS};-mamx-tile;-mamx-bf16;${how}")
  elseif(source MATCHES "_avx512bf16\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "${FATHOM_AVX512_FLAGS};-mavx512bf16;${how}")
  elseif(source MATCHES "_avx512\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${FATHOM_AVX512_FLAGS};${how}")
  endif()
endforeach()
