/* SPDX-License-Identifier: MIT */
#include "stats_walk.h"

static void add_dirty(struct stats_arena *to, struct extent *extent)
{
    struct stats_extents *extents = &to->extents[extent_bin(extent_pages(extent))];
    extents->dirty++;
    extents->dirty_bytes += extent_size(extent);
}

static void add_free_extent(struct stats_arena *to, struct extent *extent)
{
    struct stats_extents *extents = &to->extents[extent_bin(extent_pages(extent))];
    switch (extent_state(extent)) {
    case EXTENT_CACHED:
        to->figures.stacked_bytes += extent_size(extent);
        add_dirty(to, extent);
        break;
    case EXTENT_DIRTY:
        add_dirty(to, extent);
        break;
    case EXTENT_MUZZY:
        extents->muzzy++;
        extents->muzzy_bytes += extent_size(extent);
        break;
    case EXTENT_RETAINED:
        extents->retained++;
        extents->retained_bytes += extent_size(extent);
        break;
    default:
        break; /* on its way */
    }
}

/* A block that lies on several slots of a smaller class counts as one slot of its own, which is taken, and
 * those as none. */
static void add_common_locked(struct stats_arena *to, struct extent *extent)
{
    struct common_figures figures;
    common_count_locked(extent, &figures);
    struct stats_class *own = &to->classes[extent->slab.class];
    uint32_t slots = extent->slab.capacity - figures.lent;
    bool is_full = figures.blocks[extent->slab.class] == slots;
    own->slabs++;
    own->slabs_nonfull += !is_full;
    own->slots_nonfull += is_full ? 0 : slots;
    own->slots += slots - figures.blocks[extent->slab.class];
    for (unsigned class = 1; class < CLASSES; class ++) {
        to->classes[class].slots += figures.blocks[class];
        to->classes[class].slots_out += figures.blocks[class];
        to->figures.small_bytes += (uint64_t)figures.blocks[class] * class_size(class);
    }
    to->figures.slab_bytes += extent_size(extent);
}

/* Other threads may be using the slab. */
__attribute__((no_sanitize("thread"))) static void add_slab(struct stats_arena *to,
                                                            struct extent *extent)
{
    struct slab *slab = &extent->slab;
    struct stats_class *class = &to->classes[slab->class];
    uint32_t remote = list_word_length(atomic_get(&extent->remote));
    uint32_t out = slab->left + slab->bias;
    out = out >= remote && out - remote <= slab->capacity ? out - remote : slab->capacity;
    class->slabs++;
    class->slabs_nonfull += out < slab->capacity;
    class->slots_nonfull += out < slab->capacity ? slab->capacity : 0;
    class->slots += slab->capacity;
    class->slots_out += out;
    to->figures.slab_bytes += extent_size(extent);
    to->figures.small_bytes += (uint64_t)out * slab->slot_size;
}

static void add_region_locked(struct stats_arena *to, struct region *region, bool has_common)
{
    uintptr_t at = region->start;
    to->figures.huge_page_bytes += atomic_get(&region->huge_page_bytes);
    while (at < region->start + region->size) {
        struct extent *extent = pagemap_find((void *)at);
        require(extent != pagemap_nothing() && extent->start == at);
        if (extent_state(extent) != EXTENT_ACTIVE) {
            add_free_extent(to, extent);
        } else if (extent_is_slab(extent)) {
            if (has_common && slab_is_common(extent)) {
                add_common_locked(to, extent);
            } else {
                add_slab(to, extent);
            }
        } else {
            to->large[large_class_of(extent_pages(extent), false)].blocks++;
            to->figures.large_bytes += extent_size(extent);
        }
        at = extent_end(extent);
    }
}

static void add_huge_locked(struct stats_arena *to, struct arena *arena)
{
    for (unsigned size = 0; size < HUGE_SIZES; size++) {
        uint32_t count = arena->huge_counts[size];
        if (count != 0) {
            to->large[large_class_of((size_t)1 << size, true)].blocks += count;
        }
    }
    uint64_t bytes = arena->huge_active_pages << os_page_shift;
    to->figures.huge_blocks += arena->huge_active_count;
    to->figures.huge_bytes += bytes;
    to->figures.large_bytes += bytes;
    /* With thp:always os_map_aligned asks for all that it maps, but not for a block between fences of less than
     * a huge page, which is counted too. */
    size_t asked = os_wants_huge_pages ? arena->huge_active_pages + arena->huge.pages : 0;
    to->figures.huge_page_bytes += (uint64_t)asked << os_page_shift;
    struct link *head = &arena->huge.lru;
    for (struct link *at = list_first(head); at != head; at = at->next) {
        add_dirty(to, container_of(at, struct extent, link));
    }
}

static void stats_walk_arena(struct stats_arena *to, struct arena *arena)
{
    check(lock_is_mine(&arena->lock));
    bool has_common = !arena->is_explicit && slab_pools_are_used();
    check(!has_common || lock_is_mine(&slab_pool_at(arena)->lock));
    for (struct region *region = arena->regions; region != NULL; region = region->next) {
        add_region_locked(to, region, has_common);
    }
    add_huge_locked(to, arena);
}

__attribute__((no_sanitize("thread"))) static void
stats_walk_blocks_locked(struct stats *stats, unsigned locked, struct slot *block)
{
    for (uint32_t i = 0; block != NULL && i <= LISTED_MOST; i++) {
        struct extent *extent = pagemap_find(block);
        if (extent_state(extent) != EXTENT_ACTIVE || extent_is_slab(extent) ||
            extent->start != (uintptr_t)block || extent_arena(extent) >= locked) {
            return;
        }
        struct stats_arena *to = place_of_arena(stats, extent_arena(extent));
        struct stats_large *large = &to->large[large_class_of(extent_pages(extent), false)];
        if (large->blocks == 0 || to->figures.large_bytes < extent_size(extent)) {
            return; /* it came after the walk */
        }
        large->blocks--;
        to->figures.large_bytes -= extent_size(extent);
        to->figures.stacked_bytes += extent_size(extent);
        add_dirty(to, extent);
        block = slot_peek_next(block);
    }
}

/* Of `count` blocks of a page class so many as the arena has; returns how many are left. */
static uint64_t take_guessed(struct stats_arena *to, unsigned page_class, uint64_t count)
{
    size_t pages = page_class_pages(page_class);
    uint64_t size = pages << os_page_shift;
    struct stats_large *large = &to->large[page_class];
    struct stats_extents *extents = &to->extents[extent_bin(pages)];
    uint64_t most = size_min(large->blocks, to->figures.large_bytes / size);
    uint64_t taken = size_min(count, most);
    large->blocks -= taken;
    to->figures.large_bytes -= taken * size;
    to->figures.stacked_bytes += taken * size;
    extents->dirty += taken;
    extents->dirty_bytes += taken * size;
    return count - taken;
}

static void stats_guess_blocks_locked(struct stats *stats, unsigned locked, unsigned arena,
                                      unsigned page_class, uint32_t count)
{
    if (page_class >= PAGE_CLASSES || !page_class_is_listed(page_class)) {
        return; /* with larger pages some lists are of none */
    }
    uint64_t left = take_guessed(place_of_arena(stats, arena), page_class, count);
    for (unsigned i = 0; left != 0 && i < locked; i++) {
        left = take_guessed(place_of_arena(stats, i), page_class, left);
    }
}
