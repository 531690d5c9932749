/* SPDX-License-Identifier: MIT
 *
 * glibc's malloc_info and malloc_stats, in its form, with what Mallow's own table adds; and the
 * summary at the end of the program.
 */
#include "../thread/thread.h"
#include "huge_pages.h"
#include "stats.h"
#include "stats_text.h"

#include <errno.h>

static uint64_t free_slots(const struct stats_class *of)
{
    return of->slots - of->slots_out + of->slots_cached;
}

/* Of an arena, or of all. */
static void print_xml_totals(struct sink *sink, const struct stats_arena *arena)
{
    const struct stats_arena_figures *of = &arena->figures;
    uint64_t slots = 0, slot_bytes = 0, runs = 0, run_bytes = 0;
    for (unsigned class = 1; class < CLASSES; class ++) {
        slots += free_slots(&arena->classes[class]);
        slot_bytes += free_slots(&arena->classes[class]) * arena->classes[class].size;
    }
    for (unsigned bin = 0; bin < EXTENT_BINS; bin++) {
        const struct stats_extents *free = &arena->extents[bin];
        runs += free->dirty + free->muzzy + free->retained;
        run_bytes += free->dirty_bytes + free->muzzy_bytes + free->retained_bytes;
    }
    /* As in glibc, blocks that are mappings of their own stand apart. */
    uint64_t space = of->region_bytes + of->huge_dirty_bytes;
    sink_print(sink, "<total type=\"fast\" count=\"%lu\" size=\"%lu\"/>\n", slots, slot_bytes);
    sink_print(sink, "<total type=\"rest\" count=\"%lu\" size=\"%lu\"/>\n", runs, run_bytes);
    sink_print(sink, "<total type=\"mmap\" count=\"%lu\" size=\"%lu\"/>\n", of->huge_blocks,
               of->huge_bytes);
    sink_print(sink, "<system type=\"current\" size=\"%lu\"/>\n", space);
    sink_print(sink, "<system type=\"max\" size=\"%lu\"/>\n", space);
    sink_print(sink, "<aspace type=\"total\" size=\"%lu\"/>\n", space);
    sink_print(sink, "<aspace type=\"mprotect\" size=\"%lu\"/>\n", space - of->retained_bytes);
}

/* Free slots by size, as glibc lists its free chunks. */
static void print_xml_sizes(struct sink *sink, const struct stats_arena *arena)
{
    sink_print(sink, "<sizes>\n");
    for (unsigned class = 1; class < CLASSES; class ++) {
        const struct stats_class *of = &arena->classes[class];
        uint64_t count = free_slots(of);
        if (count != 0) {
            sink_print(sink, "<size from=\"%lu\" to=\"%lu\" total=\"%lu\" count=\"%lu\"/>\n",
                       of->size, of->size, count * of->size, count);
        }
    }
    sink_print(sink, "</sizes>\n");
}

#define XML_FIGURE(name, type, unit, help) \
    sink_print(sink, "<figure name=\"%s\" unit=\"%s\" value=\"%lu\"/>\n", #name, unit, of->name);

/* Behind what glibc has, where its readers look for nothing. */
static void print_xml_figures(struct sink *sink, const struct stats_process *of)
{
    sink_print(sink, "<mallow version=\"%s\">\n", mw_version());
#define PROCESS XML_FIGURE
#include "stats.def"
    sink_print(sink, "</mallow>\n");
}

int mw_malloc_info(int options, void *stream)
{
    if (options != 0 || stream == NULL) {
        return EINVAL;
    }
    struct sink sink = {libc_write_stream, stream};
    process_init();
    struct stats *stats = stats_open();
    if (stats == NULL) {
        return ENOMEM;
    }
    kernel_figures(&stats->process);
    sink_print(&sink, "<malloc version=\"1\">\n");
    for (unsigned i = 0; i < stats->arena_count; i++) {
        sink_print(&sink, "<heap nr=\"%u\">\n", i);
        print_xml_sizes(&sink, &stats->arenas[i]);
        print_xml_totals(&sink, &stats->arenas[i]);
        sink_print(&sink, "</heap>\n");
    }
    print_xml_totals(&sink, &stats->all);
    print_xml_figures(&sink, &stats->process);
    sink_print(&sink, "</malloc>\n");
    stats_close(stats);
    return 0;
}

/* What happened so far. */
static void print_counters(struct sink *sink)
{
    struct stats *stats = stats_open();
    if (stats == NULL) {
        return;
    }
    const struct stats_process *of = &stats->process;
    const struct stats_arena *all = &stats->all;
    sink_print(sink, "  %26s %12lu blocks\n", "given out", of->allocations);
    sink_print(sink, "  %26s %12lu blocks\n", "given back", of->frees);
    sink_print(sink, "  %26s %12lu blocks\n", "by threads without the slab", of->remote_frees);
    sink_print(sink, "  %26s %12lu pages\n", "purged",
               all->figures.dirty_pages_purged + all->figures.muzzy_pages_purged);
    uint64_t waits = 0;
    uint64_t wait_time = 0;
    for (unsigned i = 0; i < STATS_ARENA_LOCKS; i++) {
        waits += all->locks[i].waits;
        wait_time += all->locks[i].wait_time;
    }
    sink_print(sink, "  %26s %12lu, %lu us\n", "waits for locks of arenas", waits,
               wait_time / 1000);
    stats_close(stats);
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
        {"address space",
         usage.region_bytes + usage.huge_bytes + usage.huge_free_bytes + usage.metadata_bytes},
    };
    sink_print(sink, "mallow %s: heap in %u arenas\n", mw_version(), arena_count());
    for (size_t i = 0; i < array_count(rows); i++) {
        sink_print(sink, "  %26s %12zu bytes\n", rows[i].name, rows[i].bytes);
    }
    print_counters(sink);
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
    if (MW_TRACK) {
        tracked_start();
    }
    if (option(OPTION_stats_print)) {
        standard_error = os_file_of(2);
    }
}

/* Letters of stats_print_opts ask for jemalloc's own form. */
static void print_stats_asked_for(void)
{
    const char *letters = conf_text(conf_at(CONF_stats_print_opts));
    if (*letters != 0) {
        stats_print_to((struct stats_target){NULL, NULL}, letters);
    } else {
        mw_malloc_stats();
    }
}

/* Only where the user looks: the descriptor may have become a file of the program's. Not where a handler of a signal has
 * interrupted the allocator and calls exit: what a lock of its thread guards is not whole, and the lock never comes free. */
DESTRUCTOR static void print_stats_at_exit(void)
{
    bool looks = MW_TRACK || option(OPTION_stats_print);
    if (!looks || fork_visit_locks(lock_is_mine)) {
        return;
    }
    if (MW_TRACK) {
        tracked_sweep();
        if (option(OPTION_leak_check)) {
            leak_check_at_exit();
        }
    }
    if (option(OPTION_stats_print)) {
        struct os_file now = os_file_of(2);
        if (now.device == standard_error.device && now.inode == standard_error.inode) {
            print_stats_asked_for();
        }
    }
}
