# SPDX-License-Identifier: MIT
#
# Profiles of a known program: preloaded, and static with the archive.

if(is_native)
  add_library(profile_module MODULE ${CMAKE_CURRENT_LIST_DIR}/module.c)
  foreach(program client exchanged resized)
    add_executable(profile_${program} ${CMAKE_CURRENT_LIST_DIR}/${program}.c)
    target_link_libraries(profile_${program} PRIVATE test_flags)
    target_link_options(profile_${program} PRIVATE LINKER:-z,dynamic-undefined-weak)
  endforeach()
  foreach(mode IN LISTS MALLOW_MODES)
    string(REPLACE "mallow-fast" "mallow" library mallow-${mode})
    add_executable(profile_client_${mode} ${CMAKE_CURRENT_LIST_DIR}/client.c)
    target_link_libraries(profile_client_${mode} PRIVATE test_flags ${library}-static)
    target_link_options(profile_client_${mode} PRIVATE -static)
    mallow_test(profile-${mode}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run.py ${mode}
              $<TARGET_FILE:${library}-shared> $<TARGET_FILE:profile_client>
              $<TARGET_FILE:profile_client_${mode}> $<TARGET_FILE:profile_module>
              $<TARGET_FILE:profile_exchanged> $<TARGET_FILE:profile_resized>)
  endforeach()
endif()
