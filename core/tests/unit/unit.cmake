# SPDX-License-Identifier: MIT
#
# Unit tests: each program takes the whole source in, in debug mode with the slow checks as well; and
# with ASan and UBSan, where these link. -O0: to compile it takes far longer than to run it, so that most
# files are compiled together. Each file is a test, and each of its tests runs in a process of its own.

file(GLOB unit_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)

# unit_program(NAME FILE ...): one program of some files, whose stems are given.
function(unit_program name)
  set(text "/* Written by unit.cmake. */\n")
  foreach(stem IN LISTS ARGN)
    string(APPEND text "#include \"${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${stem}.c\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.c CONTENT "${text}" @ONLY)
  add_executable(${name} ${CMAKE_CURRENT_BINARY_DIR}/${name}.c ${CMAKE_CURRENT_SOURCE_DIR}/test_main.c)
  target_link_libraries(${name} PRIVATE test_flags)
  target_compile_options(${name} PRIVATE -O0 -Wno-address -Wno-unused-function)
  foreach(stem IN LISTS ARGN)
    mallow_test(unit-${stem} COMMAND ${name} ${stem})
  endforeach()
endfunction()

function(unit_sanitize name)
  if(NOT MALLOW_CAN_asan)
    return()
  endif()
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=undefined)
  target_compile_options(${name} PRIVATE ${sanitizers})
  target_link_options(${name} PRIVATE ${sanitizers})
  foreach(stem IN LISTS ARGN)
    set_tests_properties(unit-${stem} PROPERTIES ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
  endforeach()
endfunction()

set(unit_together)
foreach(source IN LISTS unit_sources)
  get_filename_component(stem ${source} NAME_WE)
  list(APPEND unit_together ${stem})
endforeach()
# These crash on purpose, in ASan's way then; unwind is held against backtrace(), which ASan replaces.
set(unit_plain lock meta unwind)
list(REMOVE_ITEM unit_together ${unit_plain})

unit_program(unit ${unit_together})
unit_sanitize(unit ${unit_together})
unit_program(unit-plain ${unit_plain})
