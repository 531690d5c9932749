# SPDX-License-Identifier: MIT
#
# The promises of docs/architecture.md with their figures. Every program runs with the delivered
# library preloaded, in the modes that make the promise.

set(promise_dir ${CMAKE_CURRENT_BINARY_DIR}/promise)
set(promise_tls_modules 24)

function(mallow_promise_program name)
  add_executable(promise_${name} ${CMAKE_CURRENT_SOURCE_DIR}/promise/${name}.c)
  target_link_libraries(promise_${name} PRIVATE test_flags)
  set_target_properties(promise_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${promise_dir})
endfunction()

# What the quarantine of the debug build holds, up to 16 MiB, is not free yet.
set(promise_without_quarantine thread_churn no_keys stats_page idle burst)

# Small blocks between guards are no slots, and the place of all of them is made with the first: 6 MiB, which a
# program that locks its memory pays for, where one of 300 blocks is by chance such a block.
set(promise_without_guards stats_page locked_memory)

# mallow_promise(PROGRAM MODE SETTINGS): runs it with the library of the mode preloaded.
function(mallow_promise program mode settings)
  set(all_settings "${settings}")
  if(mode STREQUAL debug AND program IN_LIST promise_without_quarantine)
    string(APPEND all_settings ",quarantine:0")
  endif()
  if(NOT mode STREQUAL fast AND program IN_LIST promise_without_guards)
    string(APPEND all_settings ",guard_first:0,guard_sample:0")
  endif()
  string(REGEX REPLACE "^," "" all_settings "${all_settings}")
  string(REPLACE "mallow-fast" "mallow" library mallow-${mode})
  string(REGEX REPLACE "[^a-z0-9]+" "-" suffix "${mode}-${settings}")
  string(REGEX REPLACE "-$" "" suffix "${suffix}")
  mallow_test(promise-${program}-${suffix}
    COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}-shared> MALLOW_CONF=${all_settings}
            $<TARGET_FILE:promise_${program}>)
endfunction()

foreach(program virt fresh ulimit mappings foreign fork thread_churn idle tls fork_handlers
        dying_threads sleeping_owner fork_purge shrink unload stats_page holes many_threads impossible_size
        fork_signal fork_streams many_handlers no_keys locked_in stats_print behind small_tls
        fork_chain fork_first_heap fork_first_arena locked_memory limit limit_cgroup stats_json deepbind foreign_clock
        cut_guard trimmed no_guards reused_holes regrowth children_differ held
        scattered beside emptied many_stacks small_data no_actions small_pages each_instruction
        start_together looked_at written crowded stuck_guards strict_frees
        strict_works strict_news short_ring burst old_blocks fell_asleep freed_twice sealed fork_moving
        protected_blocks purge_in_child metadata_guards string_ends few_calls last_thread same_user fork_pages
        faked_advice refilled)
  mallow_promise_program(${program})
endforeach()
add_library(small_tls_module MODULE ${CMAKE_CURRENT_LIST_DIR}/small_tls_module.c)
add_library(deepbind_module MODULE ${CMAKE_CURRENT_LIST_DIR}/deepbind_module.c)
set_target_properties(deepbind_module PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${promise_dir}/modules)
target_link_options(promise_deepbind PRIVATE LINKER:-rpath,${promise_dir}/modules)
add_library(front_allocator MODULE ${CMAKE_CURRENT_LIST_DIR}/front_allocator.c)
target_link_libraries(front_allocator PRIVATE test_flags)
target_compile_definitions(promise_fresh PRIVATE PROMISE_DIRTY_KIB="120")
target_compile_definitions(promise_tls PRIVATE PROMISE_TLS_MODULES=${promise_tls_modules})

foreach(mode IN LISTS MALLOW_MODES)
  foreach(program virt ulimit thread_churn fork_handlers shrink stats_page fork_signal
          fork_streams fork_first_heap fork_first_arena many_handlers no_keys locked_in fork_chain
          locked_memory foreign_clock trimmed no_guards beside small_data no_actions small_pages faked_advice)
    mallow_promise(${program} ${mode} "")
  endforeach()
  mallow_promise(impossible_size ${mode} "dirty_decay_ms:-1") # so that no other reason gives memory back
  mallow_promise(stuck_guards ${mode} "guard_sample:2")
  mallow_promise(stats_print ${mode} "stats_print:true")
  mallow_promise(looked_at ${mode} "")
  mallow_promise(last_thread ${mode} "purge_thread:true")
  mallow_promise(same_user ${mode} "purge_thread:true")
  mallow_promise(start_together ${mode} "arenas:1") # where they meet most often
  mallow_promise(limit ${mode} "memory_limit:64M")
  mallow_promise(limit_cgroup ${mode} "") # which sets them itself
  set_tests_properties(promise-limit_cgroup-${mode} promise-no_actions-${mode} promise-small_pages-${mode}
                       PROPERTIES SKIP_RETURN_CODE 77)
  mallow_promise(foreign ${mode} "foreign:next")
  mallow_promise(foreign ${mode} "foreign:ignore")
  mallow_promise(locked_in ${mode} "dirty_decay_ms:100")
  mallow_promise(locked_in ${mode} "memory_limit:80%") # whose cgroup is asked no more
  mallow_promise(idle ${mode} "dirty_decay_ms:500")
  mallow_promise(idle ${mode} "dirty_decay_ms:500,purge_thread:true")
  mallow_promise(burst ${mode} "dirty_decay_ms:1000")
  mallow_promise(burst ${mode} "dirty_decay_ms:1000,purge_thread:true")
endforeach()
foreach(mode fast secure) # what debug knows of each block stays
  mallow_promise(emptied ${mode} "")
  mallow_promise(emptied ${mode} "dirty_decay_ms:1000,purge_thread:true")
  mallow_promise(fork_pages ${mode} "")
  mallow_promise(purge_in_child ${mode} "dirty_decay_ms:500,purge_thread:true")
endforeach()
foreach(program fresh mappings fork fork_moving dying_threads sleeping_owner fork_purge holes many_threads regrowth
        scattered)
  mallow_promise(${program} fast "")
endforeach()
mallow_promise(sleeping_owner fast "arenas:2")
mallow_promise(old_blocks fast "dirty_decay_ms:100")
mallow_promise(freed_twice fast "")
mallow_promise(protected_blocks fast "")
mallow_promise(few_calls fast "guard_sample:100")
mallow_promise(few_calls secure "")
mallow_promise(fell_asleep fast "dirty_decay_ms:500,purge_thread:true")
mallow_promise(written secure "guard_first:0,guard_sample:0")
mallow_promise(written debug "quarantine:65536,guard_first:0,guard_sample:0")
mallow_promise(string_ends secure "guard_sample:0")
mallow_promise(crowded secure "")
mallow_promise(sealed secure "")
mallow_promise(sealed debug "")
mallow_promise(metadata_guards secure "")
mallow_promise(metadata_guards debug "")
mallow_promise(cut_guard secure "")
mallow_promise(strict_frees secure "security:4") # all large blocks have guards
mallow_promise(faked_advice secure "security:4")
mallow_promise(strict_frees debug "")
mallow_promise(short_ring debug "")
mallow_promise(refilled debug "")
mallow_promise(strict_works fast "")
mallow_promise(strict_news fast "dirty_decay_ms:200,purge_thread:true")
mallow_promise(strict_news secure "dirty_decay_ms:200,purge_thread:true")
mallow_promise(strict_works secure "")
mallow_promise(strict_works secure "memory_limit:80%") # which asks the cgroup until then
mallow_promise(children_differ secure "")
mallow_promise(held secure "dirty_decay_ms:200,purge_thread:true")
if("debug" IN_LIST MALLOW_MODES)
  mallow_promise(many_stacks debug "")
  mallow_test(promise-many_stacks-debug-asked
    COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:mallow-debug-shared> MALLOW_CONF=guard_first:1
            $<TARGET_FILE:promise_many_stacks> 1)
endif()
foreach(level RANGE 1 4)
  mallow_promise(reused_holes secure "security:${level}")
endforeach()

# Builds with the checks that the delivered ones leave out: of what these alone do no other test has them.
foreach(mode fast secure)
  if(mode IN_LIST MALLOW_MODES)
    add_library(checked_${mode} MODULE ${PROJECT_SOURCE_DIR}/core/src/mallow.c)
    target_link_libraries(checked_${mode} PRIVATE mallow_flags Threads::Threads)
    target_include_directories(checked_${mode} PRIVATE ${PROJECT_SOURCE_DIR}/core/include)
    target_compile_definitions(checked_${mode} PRIVATE MW_MODE=${mode_number_${mode}} MW_EXPORT_LIBC=1 MW_CHECK_LEVEL=2)
    target_compile_options(checked_${mode} PRIVATE -O1 -Wno-address)
  endif()
endforeach()
if("fast" IN_LIST MALLOW_MODES)
  foreach(program old_blocks regrowth dying_threads fork_chain)
    mallow_test(promise-${program}-checked-fast
      COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:checked_fast> MALLOW_CONF=dirty_decay_ms:100
              $<TARGET_FILE:promise_${program}>)
  endforeach()
endif()
if("secure" IN_LIST MALLOW_MODES)
  foreach(program fork_chain dying_threads looked_at)
    foreach(level 2 4)
      mallow_test(promise-${program}-checked-${level}
        COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:checked_secure>
                MALLOW_CONF=security:${level},dirty_decay_ms:200 $<TARGET_FILE:promise_${program}>)
    endforeach()
  endforeach()
  mallow_test(promise-looked_at-checked-profile
    COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:checked_secure>
            MALLOC_CONF=prof:true,lg_prof_sample:8 $<TARGET_FILE:promise_looked_at>)
endif()

math(EXPR last_module "${promise_tls_modules} - 1")
foreach(number RANGE ${last_module})
  add_library(tls_module_${number} MODULE ${CMAKE_CURRENT_LIST_DIR}/tls_module.c)
  set_target_properties(tls_module_${number} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${promise_dir})
endforeach()
foreach(mode IN LISTS MALLOW_MODES)
  string(REPLACE "mallow-fast" "mallow" library mallow-${mode})
  mallow_test(promise-small_tls-${mode}
    COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}-shared>
            $<TARGET_FILE:promise_small_tls> $<TARGET_FILE:small_tls_module>)
  mallow_test(promise-deepbind-${mode}
    COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}-shared>
            $<TARGET_FILE:promise_deepbind> $<TARGET_FILE_NAME:deepbind_module>)
  foreach(way fork handler calls)
    mallow_test(promise-each_instruction-${way}-${mode}
      COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}-shared> MALLOW_CONF=guard_sample:20
              $<TARGET_FILE:promise_each_instruction> ${way})
    set_tests_properties(promise-each_instruction-${way}-${mode} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
  # Slots that the other thread made are kept, and go home when a sample is due.
  mallow_test(promise-each_instruction-kept-${mode}
    COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}-shared>
            MALLOC_CONF=narenas:1,prof:true,lg_prof_sample:8
            $<TARGET_FILE:promise_each_instruction> fork 40)
  set_tests_properties(promise-each_instruction-kept-${mode} PROPERTIES SKIP_RETURN_CODE 77)
  # In the debug build such blocks count with all their pages.
  set(guarded_one_in 10)
  if(mode STREQUAL debug)
    set(guarded_one_in 0)
  endif()
  mallow_test(promise-stats_json-${mode}
    COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}-shared>
            MALLOW_CONF=quarantine:0,guard_sample:${guarded_one_in}
            ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/stats_json.py
            $<TARGET_FILE:promise_stats_json>)
  mallow_test(promise-behind-${mode}
    COMMAND ${CMAKE_COMMAND} -E env
            LD_PRELOAD=$<TARGET_FILE:front_allocator>:$<TARGET_FILE:${library}-shared>
            $<TARGET_FILE:promise_behind>)
  # The allocator as part of a module, as from an archive.
  add_library(unload_module_${mode} MODULE ${PROJECT_SOURCE_DIR}/core/src/mallow.c)
  target_link_libraries(unload_module_${mode} PRIVATE mallow_flags Threads::Threads)
  target_include_directories(unload_module_${mode} PRIVATE ${PROJECT_SOURCE_DIR}/core/include)
  target_compile_definitions(unload_module_${mode} PRIVATE MW_MODE=${mode_number_${mode}}
                             MW_EXPORT_LIBC=0 MW_SHARED_OBJECT=0)
  target_compile_options(unload_module_${mode} PRIVATE -O0 -Wno-address) # it runs for a moment
  mallow_test(promise-unload-module-${mode}
              COMMAND promise_unload $<TARGET_FILE:unload_module_${mode}>)
  mallow_test(promise-unload-${mode} COMMAND promise_unload $<TARGET_FILE:${library}-shared>)
  mallow_test(promise-tls-${mode} COMMAND promise_tls $<TARGET_FILE:${library}-shared> ${promise_dir})
endforeach()
