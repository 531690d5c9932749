/* SPDX-License-Identifier: MIT
 *
 * Inside musl: what libc.c is for a library beside the libc. The libc calls the allocator where a
 * library would have to ask for it: at a fork, and when a thread ends (entry/shim_musl.c). Nothing
 * here pulls another member into a static program.
 */
#include "os.h"

/* Only the secure and debug builds, and a library of its own, look anything up or start a thread. */
static void libc_watch_threads(void (*at_exit)(void *))
{
    (void)at_exit;
}

static bool libc_watch_this_thread(void *argument)
{
    (void)argument;
    return false;
}

/* musl's fork takes the locks of its streams itself. */
static void libc_lock_streams(void)
{
}

static void libc_unlock_streams(void)
{
}

static void libc_reset_streams_in_child(void)
{
}

/* The loader calls malloc before threads can be started, and a static program may have none of what
 * they need. */
static bool libc_start_thread(void *(*run)(void *), _Atomic uint64_t *mask)
{
    (void)run, (void)mask;
    return false;
}

UNUSED static int libc_thread_number(void)
{
    return os_thread_number();
}

/* Nothing of a libc's own program is C++. */
UNUSED static bool os_object_takes(const void *inside, const char *const *names, size_t count)
{
    (void)inside, (void)names, (void)count;
    return false;
}

UNUSED static bool os_object_is_cxx(const void *inside)
{
    (void)inside;
    return false;
}

UNUSED static const void *os_called_before(uintptr_t pc)
{
    (void)pc;
    return NULL;
}

/* What the program calls may be another allocator; behind the libc's there is none. */
static void *libc_next_symbol(const char *name)
{
    (void)name;
    return NULL;
}
