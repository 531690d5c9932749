/* SPDX-License-Identifier: MIT */
#include "os.h"

static _Atomic bool some_are_strict;

ALWAYS_INLINE bool os_some_are_strict(void)
{
    return unlikely(atomic_get(&some_are_strict));
}

static void os_note_strict(void)
{
    atomic_set(&some_are_strict, true);
}

ALWAYS_INLINE bool os_refuses_changes(void)
{
    return os_some_are_strict() && os_thread_is_strict();
}
