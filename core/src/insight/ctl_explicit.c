/* SPDX-License-Identifier: MIT */
#include "ctl_explicit.h"

#include "../arena/purge.h"

#include <errno.h>
#include <string.h>

static _Atomic bool any_destroyed;

/* --- Numbers ---------------------------------------------------------------------------------- */

static unsigned number_count(void)
{
    return arena_numbers(thread_arenas());
}

static bool number_is_all(size_t number)
{
    return number == MALLCTL_ARENAS_ALL || number == number_count();
}

static bool number_is_valid(size_t number)
{
    return number < number_count() || number_is_all(number) || number == MALLCTL_ARENAS_DESTROYED;
}

static struct arena *arena_of_number(size_t number)
{
    if (number == 0 && arena_numbered(0) == NULL) {
        /* A program may ask before it allocates, and the first arena comes with the first heap. */
        thread_leave(thread_enter());
    }
    return number < number_count() ? arena_numbered((unsigned)number) : NULL;
}

/* --- Start and end ---------------------------------------------------------------------------- */

static bool hooks_are_of_kernel(extent_hooks_t *hooks)
{
    return hooks == NULL || hooks == hooks_of_kernel();
}

static int arena_create(extent_hooks_t *hooks, uint64_t *number)
{
    process_init();
    lock_take(&table_lock);
    struct arena *arena =
        direct_create_arena(thread_arenas(), hooks_are_of_kernel(hooks) ? NULL : hooks);
    lock_release(&table_lock);
    if (arena == NULL) {
        return EAGAIN;
    }
    *number = arena->number;
    return 0;
}

/* The pool of an arena of that number that the program made; NULL if there is none. */
static struct direct *explicit_numbered(size_t number)
{
    struct arena *arena = arena_of_number(number);
    bool is_programs = arena != NULL && arena->is_explicit && arena != thread_oversize_arena();
    return is_programs ? direct_find(arena) : NULL;
}

static int arena_reset(size_t number)
{
    int error = number_is_valid(number) ? EFAULT : ENOENT;
    lock_take(&table_lock); /* so that nobody destroys it meanwhile */
    struct direct *direct = explicit_numbered(number);
    if (direct != NULL) {
        direct_reset(direct);
        error = 0;
    }
    lock_release(&table_lock);
    return error;
}

static int arena_destroy(size_t number)
{
    int error = number_is_valid(number) ? EFAULT : ENOENT;
    lock_take(&table_lock);
    struct direct *direct = explicit_numbered(number);
    if (direct != NULL && atomic_get(&direct->arena->bound) == 0) {
        direct_destroy_arena(direct);
        atomic_set(&any_destroyed, true);
        error = 0;
    }
    lock_release(&table_lock);
    return error;
}

static bool arenas_were_destroyed(void)
{
    return atomic_get(&any_destroyed);
}

static void arena_give_back(struct arena *arena, bool all)
{
    struct direct *direct = direct_find(arena);
    if (direct != NULL && all) {
        direct_purge(direct);
    } else if (direct != NULL) {
        direct_decay(direct, clock_look());
    }
    if (!arena->is_explicit && all) {
        arena_purge(arena, 0);
    } else if (!arena->is_explicit) {
        arena_tick(arena, clock_look());
    }
}

/* --- What an arena has ------------------------------------------------------------------------ */

/* Of one that threads share also before it is made, where `arena` is NULL. A hook may ask: where there is one, the table
 * lock is not taken, which fork may have, and wait for that hook. */
static extent_hooks_t *arena_hooks(struct arena *arena)
{
    extent_hooks_t *kernel = hooks_of_kernel_known();
    if (kernel == NULL) {
        lock_take(&table_lock);
        kernel = hooks_of_kernel();
        lock_release(&table_lock);
    }
    extent_hooks_t *hooks = arena != NULL ? arena->hooks : NULL;
    return hooks != NULL ? hooks : kernel;
}

static int arena_set_hooks(struct arena *arena, extent_hooks_t *hooks)
{
    if (!arena->is_explicit) {
        return EPERM; /* threads share it: its blocks move by page tables, past all hooks */
    }
    if (hooks == NULL) {
        return EINVAL;
    }
    lock_take(&table_lock);
    direct_set_hooks(direct_find(arena), hooks_are_of_kernel(hooks) ? NULL : hooks);
    lock_release(&table_lock);
    return 0;
}

static void arena_set_name(struct arena *arena, const char *name)
{
    lock_take(&arena->lock);
    memset(arena->name, 0, ARENA_NAME_SIZE);
    memcpy(arena->name, name, size_min(strlen(name), ARENA_NAME_SIZE - 1));
    lock_release(&arena->lock);
}

static size_t arena_region_most(struct arena *arena)
{
    lock_take(&arena->lock);
    size_t most = arena->region_most;
    lock_release(&arena->lock);
    return most != 0 ? most : REGION_MAX;
}

static int arena_set_region_most(struct arena *arena, size_t size)
{
    if (size < os_page_size) {
        return EFAULT;
    }
    lock_take(&arena->lock);
    arena->region_most = size_min(size & ~(os_page_size - 1), REGION_MAX);
    lock_release(&arena->lock);
    return 0;
}

static size_t arena_oversize(struct arena *arena)
{
    lock_take(&arena->lock);
    size_t size = arena->told_oversize;
    lock_release(&arena->lock);
    return size;
}

static void arena_set_oversize(struct arena *arena, size_t size)
{
    lock_take(&arena->lock);
    arena->told_oversize = size;
    lock_release(&arena->lock);
}
