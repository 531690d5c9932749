/* SPDX-License-Identifier: MIT */
#include "report.h"

#include "../memory/meta.h"
#include "../os/memcheck.h"
#include "../thread/chains.h"
#include "../thread/heaps.h"
#include "../thread/tray.h"

#include <limits.h>

const char *mw_version(void)
{
    return MW_MODE == MW_FAST     ? MW_VERSION_STRING " fast"
           : MW_MODE == MW_SECURE ? MW_VERSION_STRING " secure"
                                  : MW_VERSION_STRING " debug";
}

/* These two read the counters of slabs that other threads may be using: at worst a number is a
 * moment old, which is all that a report promises. */
__attribute__((no_sanitize("thread"))) static void usage_add_slab(struct usage *usage,
                                                                  struct extent *extent)
{
    struct slab *slab = &extent->slab;
    uint32_t remote = list_word_length(atomic_get(&extent->remote));
    uint32_t used = slab->left + slab->bias;
    used = used >= remote && used - remote <= slab->capacity ? used - remote : slab->capacity;
    usage->slab_bytes += extent_size(extent);
    usage->slab_used_bytes += (size_t)used * slab->slot_size;
    usage->free_slots += slab->capacity - used;
}

__attribute__((no_sanitize("thread"))) static void usage_add_extent(struct usage *usage,
                                                                    struct extent *extent)
{
    enum extent_state state = extent_state(extent);
    if (state == EXTENT_CACHED) {
        usage->cached_bytes += extent_size(extent);
    } else if (state == EXTENT_ACTIVE && extent_is_slab(extent)) {
        usage_add_slab(usage, extent);
    } else if (state == EXTENT_ACTIVE) {
        usage->large_bytes += extent_size(extent);
        usage->large_count++;
    }
}

static void usage_add_arena(struct usage *usage, struct arena *arena)
{
    lock_take(&arena->lock);
    for (struct region *region = arena->regions; region != NULL; region = region->next) {
        uintptr_t at = region->start;
        while (at < region->start + region->size) {
            struct extent *extent = pagemap_find((void *)at);
            require(extent != pagemap_nothing() && extent->start == at);
            usage_add_extent(usage, extent);
            at = extent_end(extent);
        }
    }
    usage->region_bytes += arena->region_bytes;
    usage->huge_bytes += arena->huge_active_pages << os_page_shift;
    usage->huge_count += arena->huge_active_count;
    usage->huge_free_bytes += arena->huge.pages << os_page_shift;
    usage->dirty_bytes += (arena->dirty.pages + arena->huge.pages) << os_page_shift;
    usage->muzzy_bytes += arena->muzzy.pages << os_page_shift;
    usage->retained_bytes += arena->retained.pages << os_page_shift;
    usage->free_extents +=
        arena->dirty.count + arena->huge.count + arena->muzzy.count + arena->retained.count;
    lock_release(&arena->lock);
}

static void usage_add_guarded(struct usage *usage)
{
    struct guarded_figures guarded;
    if (!guarded_read(&guarded)) {
        return;
    }
    for (unsigned class = 1; class < CLASSES; class ++) {
        usage->slab_used_bytes += guarded.held[class] * class_size(class);
    }
    usage->region_bytes += guarded.mapped;
    usage->slab_bytes += guarded.active;
    usage->retained_bytes += guarded.mapped - guarded.active;
}

/* What lies in the lists of other threads, by their lengths: where lists hold blocks of pages these count as the program's. */
static void usage_take_off_blocks(struct usage *usage)
{
    for (struct heap *heap = heap_first(); heap != NULL; heap = heap_after(heap)) {
        size_t bytes = size_min(lists_pages(heap) << os_page_shift, usage->large_bytes);
        usage->large_bytes -= bytes;
        usage->cached_bytes += bytes;
    }
}

static struct usage usage_now(void)
{
    struct usage usage = {0};
    memcheck_enter();
    struct heap *heap = thread_enter();
    heap_return_lists(heap);
    stack_set_private(heap, false);
    thread_leave(heap);
    trays_empty();
    for (unsigned i = 0; i < arenas_ever(); i++) {
        usage_add_arena(&usage, arena_ever_at(i));
    }
    if (!MW_CODED_LINKS) {
        usage_take_off_blocks(&usage);
    }
    usage_add_guarded(&usage);
    usage.metadata_bytes = meta_bytes();
    memcheck_leave();
    return usage;
}

/* --- glibc's functions ------------------------------------------------------------------------ */

struct mw_mallinfo2 mw_mallinfo2(void)
{
    struct usage usage = usage_now();
    size_t in_use = usage.slab_used_bytes + usage.large_bytes;
    size_t space = usage.region_bytes + usage.huge_free_bytes;
    return (struct mw_mallinfo2){
        .arena = space,
        .ordblks = usage.free_extents,
        .smblks = usage.free_slots,
        .hblks = usage.huge_count,
        .hblkhd = usage.huge_bytes,
        .fsmblks = usage.slab_bytes - usage.slab_used_bytes,
        .uordblks = in_use,
        .fordblks = space - in_use,
        .keepcost = usage.dirty_bytes + usage.muzzy_bytes + usage.cached_bytes,
    };
}

static int int_of(size_t value)
{
    return value > INT_MAX ? INT_MAX : (int)value;
}

struct mw_mallinfo mw_mallinfo(void)
{
    struct mw_mallinfo2 wide = mw_mallinfo2();
    return (struct mw_mallinfo){
        .arena = int_of(wide.arena),
        .ordblks = int_of(wide.ordblks),
        .smblks = int_of(wide.smblks),
        .hblks = int_of(wide.hblks),
        .hblkhd = int_of(wide.hblkhd),
        .fsmblks = int_of(wide.fsmblks),
        .uordblks = int_of(wide.uordblks),
        .fordblks = int_of(wide.fordblks),
        .keepcost = int_of(wide.keepcost),
    };
}
