/* SPDX-License-Identifier: MIT */
#include "retired.h"

#include "../os/fault.h"
#include "../os/trap.h"

/* Blocks that leave with one that comes: more than one, so that the bound is met soon. */
#define LEAVING_MOST 4u

/* A block whose time is over. If the kernel has no room to unmap it or to give the access back, it waits
 * on. */
static void retired_leave_locked(struct extent *extent)
{
    check(lock_is_mine(&quarantine.lock) && extent_state(extent) == EXTENT_MOVING);
    if (!arena_drop_fenced(extent)) {
        quarantine_put_locked(extent->start, extent_size(extent));
    }
}

/* Puts it into the ring; what leaves for it goes. */
static void retired_wait_locked(struct extent *extent)
{
    if (!quarantine_put_locked(extent->start, extent_size(extent))) {
        arena_drop_fenced(extent);
        return;
    }
    for (unsigned count = 0; count < LEAVING_MOST; count++) {
        uintptr_t block = quarantine_take_locked(RETIRED_BYTES);
        if (block == 0) {
            break;
        }
        retired_leave_locked(pagemap_find((void *)block));
    }
}

static void retired_put_locked(struct extent *extent)
{
    bool waits = extent_size(extent) <= RETIRED_MOST && fence_shut(extent);
    if (waits || !arena_drop_fenced(extent)) {
        retired_wait_locked(extent);
    }
}

/* What was not paid when the block was allocated: its next owner will need as much memory anew. */
static bool retired_pays(size_t size)
{
    if (size > LARGE_MAX) {
        return rate_pay(RATE_OF_BLOCKS, size);
    }
    return size <= FENCE_PRICE_OF_PAGES_MOST ||
           rate_pay(RATE_OF_FREES, size - FENCE_PRICE_OF_PAGES_MOST);
}

static bool retired_put(struct extent *extent)
{
    if (!extent_has_fence(extent)) {
        return false;
    }
    size_t size = extent_size(extent);
    arena_regain_tail(extent);
    /* Until all is done: a child of fork has each block in one place. */
    lock_take(&quarantine.lock);
    bool can_pay = retired_pays(size);
    if (!MW_IN_LIBC) {
        trap_keep();
    }
    bool is_held = !can_pay || arena_take_out_fenced(extent);
    if (can_pay && is_held) {
        retired_put_locked(extent);
    }
    lock_release(&quarantine.lock);
    if (unlikely(!is_held)) { /* another thread was faster */
        fault_simple(FAULT_DOUBLE_FREE, "free", (void *)extent->start,
                     "double free of %p (a block of more than %zu bytes)", (void *)extent->start,
                     SLOT_MAX);
    }
    return can_pay;
}

static void retired_release_all(void)
{
    if (!MW_FENCES) {
        return;
    }
    lock_take(&quarantine.lock);
    for (size_t count = quarantine.count; count > 0; count--) {
        retired_leave_locked(pagemap_find((void *)quarantine_take_locked(0)));
    }
    lock_release(&quarantine.lock);
}
