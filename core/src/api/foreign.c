/* SPDX-License-Identifier: MIT */
#include "foreign.h"

#include "../memory/fence.h"
#include "../slots/made.h"

/* The next allocator's function: the look-up is slow. NULL if there is none. */
static COLD void *foreign_next(const char *call)
{
    static _Atomic(void *) functions[2]; /* free, realloc */
    _Atomic(void *) *known = &functions[call[0] == 'r'];
    if (atomic_get(known) == NULL) {
        atomic_set(known, libc_next_symbol(call));
    }
    return atomic_get(known);
}

static COLD void foreign_remember(void)
{
    foreign_next("free");
    foreign_next("realloc");
}

/* Returns if nobody knows of a block that was there. */
static COLD void foreign_block_left(const char *call, const void *block)
{
    if (!fence_left(block)) {
        return;
    }
    if (call_releases(call)) {
        fault_simple(FAULT_DOUBLE_FREE, call, block,
                     "double free of %p (a block of more than %zu bytes)", block, SLOT_MAX);
    }
    fault_simple(FAULT_DOUBLE_FREE, call, block, "%s of %p (more than %zu bytes), which is free",
                 call, block, SLOT_MAX);
}

static COLD void *foreign_function(const char *call, const void *block)
{
    void *next;
    switch (option(OPTION_foreign)) {
    case FOREIGN_IGNORE:
        return NULL;
    case FOREIGN_NEXT:
        if (!text_is(call, "free") && !text_is(call, "realloc")) {
            return NULL; /* a call of ours alone, or for a size, which nobody is asked for */
        }
        next = foreign_next(call);
        if (next != NULL) {
            return next;
        }
        foreign_block_left(call, block);
        fault_simple(FAULT_FOREIGN_FREE, call, block,
                     "%s of %p, which mallow did not allocate, and there is no other allocator",
                     call, block);
    default:
        foreign_block_left(call, block);
        fault_simple(FAULT_FOREIGN_FREE, call, block, "%s of %p, which mallow did not allocate",
                     call, block);
    }
}

/* The page map may know the ends of the extent only. */
static COLD struct extent *extent_around(const void *address)
{
    const size_t reach = 256 * MiB;
    uint32_t generation = pagemap_generation();
    if (pagemap_knows_foreign(address)) {
        return NULL;
    }
    uintptr_t at = (uintptr_t)address & ~(GRANULE - 1);
    uintptr_t end = at > reach ? at - reach : 0;
    for (; at > end; at -= GRANULE) {
        struct extent *extent = pagemap_find((void *)at);
        if (extent != pagemap_nothing()) {
            if (extent_end(extent) > (uintptr_t)address) {
                return extent;
            }
            break;
        }
    }
    pagemap_note_foreign(address, generation);
    return NULL;
}

_Noreturn static COLD void bad_block(const char *call, const void *block, struct extent *extent)
{
    enum extent_state state = extent_state(extent);
    if (state == EXTENT_ACTIVE && extent_is_slab(extent) && slab_is_common(extent)) {
        common_bad_block(call, extent, block);
    }
    if (state == EXTENT_ACTIVE && extent_is_slab(extent)) {
        harden_bad_block(call, extent, block);
    }
    if (state == EXTENT_ACTIVE && (uintptr_t)block != extent->start) {
        harden_interior(call, block, extent->start, extent_size(extent));
    }
    if ((uintptr_t)block == extent->start && call_releases(call)) {
        fault_simple(FAULT_DOUBLE_FREE, call, block,
                     "double free of %p (a block of more than %zu bytes)", block, SLOT_MAX);
    }
    fault_simple(FAULT_INVALID_FREE, call, block, "%s of %p, which is in free memory", call, block);
}
