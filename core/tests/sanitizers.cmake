# SPDX-License-Identifier: MIT
#
# The model and stress tests with the compiler's sanitizers. The allocator is the debug build
# under its mw_ names, so that the sanitizer's own malloc serves everything else.

include(CheckCSourceCompiles)

# mallow_sanitized(NAME FLAGS EXCLUDED): tests of stress/ named in EXCLUDED are left out.
function(mallow_sanitized name flags excluded)
  set(CMAKE_REQUIRED_FLAGS "${flags}")
  check_c_source_compiles("int main(void) { return 0; }" MALLOW_CAN_${name})
  if(NOT MALLOW_CAN_${name})
    foreach(kind stress model model-concurrent)
      mallow_skipped(${kind}-${name} "the compiler has no ${name} that links")
    endforeach()
    return()
  endif()
  separate_arguments(options UNIX_COMMAND "${flags} -fno-omit-frame-pointer -O1")
  set(sources ${stress_mw_sources})
  foreach(file IN LISTS excluded)
    list(FILTER sources EXCLUDE REGEX "${file}\\.c$")
  endforeach()

  mallow_mw(mw_${name} ${mode_number_debug} ${options})
  foreach(kind stress model)
    if(kind STREQUAL "model")
      set(sources ${model_sources} model/driver.c)
      add_executable(model-${name} ${sources} allocator.c $<TARGET_OBJECTS:mw_${name}>)
    else()
      add_executable(stress-${name} ${sources} test_main.c allocator.c $<TARGET_OBJECTS:mw_${name}>)
    endif()
    target_link_libraries(${kind}-${name} PRIVATE test_flags)
    target_compile_definitions(${kind}-${name} PRIVATE TEST_MW_NAMES STRESS_DIVISOR=20)
    target_compile_options(${kind}-${name} PRIVATE ${options})
    target_link_options(${kind}-${name} PRIVATE ${options})
  endforeach()
  mallow_test(stress-${name} COMMAND stress-${name})
  mallow_test(model-${name} COMMAND model-${name} --rounds 2 --ops 2000)
  mallow_test(model-concurrent-${name} COMMAND model-${name} --rounds 2 --ops 2000 --concurrent)
  set_tests_properties(stress-${name} model-${name} model-concurrent-${name} PROPERTIES ENVIRONMENT
    "TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/tsan.supp;ASAN_OPTIONS=detect_leaks=0")
  # So short a run does not fill the quarantine before it looks at the memory for the first time.
  set_property(TEST stress-${name} APPEND PROPERTY ENVIRONMENT MALLOW_CONF=quarantine:1048576)
endfunction()

# ASan: the lock of its own malloc may be held at a fork; the stacks of dead threads stay in quarantine.
mallow_sanitized(asan "-fsanitize=address,undefined -fno-sanitize-recover=undefined" "fork_storm;key_destructors")
# TSan: a fork of a threaded program ends in its runtime, signals are delayed by it, and code that
# runs after its own thread destructor crashes.
mallow_sanitized(tsan "-fsanitize=thread" "fork_storm;signals;key_destructors")

# The model test under libFuzzer, of each build, with the sanitizer of undefined behaviour. In the debug build the
# allocator finds what the test does wrong.
set(can ${PROJECT_SOURCE_DIR}/tools/can)
execute_process(COMMAND ${can} fuzz RESULT_VARIABLE cannot_fuzz)
if(cannot_fuzz)
  foreach(mode IN LISTS MALLOW_MODES)
    mallow_skipped(model-fuzz-${mode} "no clang here that links with libFuzzer")
  endforeach()
else()
  execute_process(COMMAND ${can} name-clang OUTPUT_VARIABLE clang OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(fuzz_sources ${CMAKE_CURRENT_SOURCE_DIR}/model/fuzz.c ${CMAKE_CURRENT_SOURCE_DIR}/model/run.c
      ${CMAKE_CURRENT_SOURCE_DIR}/model/ops.c ${CMAKE_CURRENT_SOURCE_DIR}/allocator.c
      ${PROJECT_SOURCE_DIR}/core/src/mallow.c)
  file(GLOB_RECURSE core_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/src/*)
  set(fuzz_options -max_len=6000 -len_control=0 -rss_limit_mb=4096 -timeout=60 -print_final_stats=1)
  # mallow_fuzzer(FILE MODE FLAG ...): how to make the program.
  function(mallow_fuzzer file mode)
    add_custom_command(OUTPUT ${file}
      COMMAND ${clang} -std=c17 ${ARGN} -fsanitize=fuzzer,undefined
              -fno-sanitize-recover=undefined -fno-builtin -w -D_GNU_SOURCE -DTEST_MW_NAMES
              -DMW_MODE=${mode_number_${mode}} -DMW_EXPORT_LIBC=0 -I${PROJECT_SOURCE_DIR}/core/include
              ${fuzz_sources} -o ${file} -pthread
      DEPENDS ${fuzz_sources} ${core_files} VERBATIM)
  endfunction()
  add_custom_target(fuzz)
  # The test runs for ten seconds: to compile its program with -O1 takes four times as long as with -O0.
  foreach(mode IN LISTS MALLOW_MODES)
    set(short ${CMAKE_CURRENT_BINARY_DIR}/model-fuzz-${mode})
    set(long ${CMAKE_CURRENT_BINARY_DIR}/model-fuzz-long-${mode})
    mallow_fuzzer(${short} ${mode} -O0 -g1)
    mallow_fuzzer(${long} ${mode} -O1 -g)
    add_custom_target(model_fuzz_${mode} ALL DEPENDS ${short})
    set(corpus ${CMAKE_CURRENT_BINARY_DIR}/corpus-${mode})
    file(MAKE_DIRECTORY ${corpus})
    mallow_test(model-fuzz-${mode} COMMAND ${short} ${corpus} ${fuzz_options} -max_total_time=10)
    add_custom_target(fuzz-${mode}
      COMMAND ${long} ${corpus} ${fuzz_options} -max_total_time=${MALLOW_FUZZ_SECONDS}
      DEPENDS ${long} USES_TERMINAL VERBATIM)
    add_dependencies(fuzz fuzz-${mode})
  endforeach()
endif()
