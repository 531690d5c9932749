# SPDX-License-Identifier: MIT
#
# The hit path has no more instructions than figures.txt says. A build without optimization has others.

foreach(mode fast secure)
  string(REPLACE "mallow-fast" "mallow" library mallow-${mode})
  if(NOT mode IN_LIST MALLOW_MODES)
    continue()
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    string(REGEX REPLACE "[.].*" "" compiler "${CMAKE_C_COMPILER_ID}-${CMAKE_C_COMPILER_VERSION}")
    mallow_test(instructions-${mode}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/check.py ${mode}
              $<TARGET_FILE:${library}-shared> ${compiler})
    set_tests_properties(instructions-${mode} PROPERTIES SKIP_RETURN_CODE 77)
  else()
    mallow_skipped(instructions-${mode} "the figures are those of a release build")
  endif()
endforeach()
