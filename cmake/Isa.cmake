# Sources named *_avx2.c, *_avx512.c, *_avx512bf16.c and *_amx.c may use those instructions; nothing else may, so that the
# program starts on any x86-64 and chooses at run time.
set(FATHOM_AVX2_FLAGS -mavx2 -mfma -mbmi -mbmi2 -mf16c -mlzcnt -mpopcnt)
set(FATHOM_AVX512_FLAGS ${FATHOM_AVX2_FLAGS} -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl
  -mprefer-vector-width=512)
foreach(source ${FATHOM_SOURCES})
  if(source MATCHES "_avx2\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${FATHOM_AVX2_FLAGS};-O3")
  elseif(source MATCHES "_amx\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "${FATHOM_AVX512_FLAGS};-mamx-tile;-mamx-bf16;-O3")
  elseif(source MATCHES "_avx512bf16\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "${FATHOM_AVX512_FLAGS};-mavx512bf16;-O3")
  elseif(source MATCHES "_avx512\\.c$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${FATHOM_AVX512_FLAGS};-O3")
  endif()
endforeach()
