/* SPDX-License-Identifier: MIT */
#include "large.h"

static bool large_try_resize(struct extent *extent, size_t size)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    struct arena *arena = arena_of(extent);
    size_t pages = large_pages(size);
    size_t old_pages = extent_pages(extent);
    if (pages == old_pages) {
        return true;
    }
    if (pages < old_pages) {
        /* A huge block that becomes a small one moves, so that it does not pin a mapping. */
        if (extent->is_huge && size < HUGE_MIN / 2) {
            return false;
        }
        arena_shrink(arena, extent, pages);
        return true;
    }
    if (pages > UINT32_MAX) {
        return false;
    }
    return arena_try_expand(arena, extent, pages) ||
           (extent->is_huge && arena_try_remap(arena, extent, pages));
}
