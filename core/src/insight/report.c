/* SPDX-License-Identifier: MIT */
#include "report.h"

#include "../memory/meta.h"

#include <errno.h>
#include <limits.h>

/* These two read the counters of slabs that other threads may be using: at worst a number is a
 * moment old, which is all that a report promises. */
__attribute__((no_sanitize("thread"))) static void usage_add_slab(struct usage *usage,
                                                                  struct extent *extent)
{
    struct slab *slab = &extent->slab;
    uint32_t remote = (uint32_t)(atomic_get(&extent->remote) >> REMOTE_HEAD_BITS);
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
    usage->dirty_bytes += (arena->dirty.pages + arena->huge.pages) << os_page_shift;
    usage->muzzy_bytes += arena->muzzy.pages << os_page_shift;
    usage->retained_bytes += arena->retained.pages << os_page_shift;
    usage->free_extents +=
        arena->dirty.count + arena->huge.count + arena->muzzy.count + arena->retained.count;
    lock_release(&arena->lock);
}

static struct usage usage_now(void)
{
    struct usage usage = {0};
    struct heap *heap = thread_enter();
    heap_return_lists(heap);
    thread_leave(heap);
    for (unsigned i = 0; i < arena_count(); i++) {
        usage_add_arena(&usage, arena_at(i));
    }
    usage.metadata_bytes = meta_bytes();
    return usage;
}

/* --- glibc's functions ------------------------------------------------------------------------ */

struct mw_mallinfo2 mw_mallinfo2(void)
{
    struct usage usage = usage_now();
    size_t in_use = usage.slab_used_bytes + usage.large_bytes;
    return (struct mw_mallinfo2){
        .arena = usage.region_bytes,
        .ordblks = usage.free_extents,
        .smblks = usage.free_slots,
        .hblks = usage.huge_count,
        .hblkhd = usage.huge_bytes,
        .fsmblks = usage.slab_bytes - usage.slab_used_bytes,
        .uordblks = in_use,
        .fordblks = usage.region_bytes - in_use,
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

static void print_xml_totals(struct sink *sink, const struct usage *usage)
{
    size_t in_use = usage->slab_used_bytes + usage->large_bytes;
    sink_print(sink, "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n", usage->free_slots,
               usage->slab_bytes - usage->slab_used_bytes);
    sink_print(sink, "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n", usage->free_extents,
               usage->dirty_bytes + usage->muzzy_bytes + usage->retained_bytes);
    sink_print(sink, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", usage->huge_count,
               usage->huge_bytes);
    sink_print(sink, "<system type=\"current\" size=\"%zu\"/>\n",
               usage->region_bytes + usage->huge_bytes);
    sink_print(sink, "<system type=\"max\" size=\"%zu\"/>\n",
               usage->region_bytes + usage->huge_bytes);
    sink_print(sink, "<aspace type=\"total\" size=\"%zu\"/>\n",
               usage->region_bytes + usage->huge_bytes);
    sink_print(sink, "<aspace type=\"mprotect\" size=\"%zu\"/>\n",
               in_use + usage->huge_bytes + usage->dirty_bytes);
}

int mw_malloc_info(int options, void *stream)
{
    if (options != 0 || stream == NULL) {
        return EINVAL;
    }
    struct sink sink = {libc_write_stream, stream};
    process_init();
    sink_print(&sink, "<malloc version=\"1\">\n");
    for (unsigned i = 0; i < arena_count(); i++) {
        struct usage usage = {0};
        usage_add_arena(&usage, arena_at(i));
        sink_print(&sink, "<heap nr=\"%u\">\n<sizes>\n</sizes>\n", i);
        print_xml_totals(&sink, &usage);
        sink_print(&sink, "</heap>\n");
    }
    struct usage usage = usage_now();
    print_xml_totals(&sink, &usage);
    sink_print(&sink, "</malloc>\n");
    return 0;
}

static void print_stats(struct sink *sink)
{
    struct usage usage = usage_now();
    struct {
        const char *name;
        size_t bytes;
    } rows[] = {
        {"allocated in slots", usage.slab_used_bytes},
        {"allocated in large blocks", usage.large_bytes},
        {"allocated in huge blocks", usage.huge_bytes},
        {"free slots", usage.slab_bytes - usage.slab_used_bytes},
        {"free pages in stacks", usage.cached_bytes},
        {"dirty", usage.dirty_bytes},
        {"muzzy", usage.muzzy_bytes},
        {"retained", usage.retained_bytes},
        {"metadata", usage.metadata_bytes},
        {"address space", usage.region_bytes + usage.huge_bytes + usage.metadata_bytes},
    };
    sink_print(sink, "mallow %s %s: heap in %u arenas\n", MW_VERSION_STRING, MW_MODE_NAME,
               arena_count());
    for (size_t i = 0; i < array_count(rows); i++) {
        sink_print(sink, "  %26s %12zu bytes\n", rows[i].name, rows[i].bytes);
    }
}

void mw_malloc_stats(void)
{
    struct sink sink = log_sink();
    print_stats(&sink);
}

/* What standard error was when the program began. */
static struct os_file standard_error;

CONSTRUCTOR static void remember_standard_error(void)
{
    process_init();
    if (option(OPTION_stats_print)) {
        standard_error = os_file_of(2);
    }
}

/* Only where the user looks: the descriptor may have become a file of the program's. */
DESTRUCTOR static void print_stats_at_exit(void)
{
    if (option(OPTION_stats_print)) {
        struct os_file now = os_file_of(2);
        if (now.device == standard_error.device && now.inode == standard_error.inode) {
            mw_malloc_stats();
        }
    }
}
