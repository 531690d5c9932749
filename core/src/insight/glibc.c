/* SPDX-License-Identifier: MIT
 *
 * glibc's malloc_info and malloc_stats, in its form, with what Mallow's own table adds; and the
 * summary at the end of the program.
 */
#include "stats.h"
#include "stats_text.h"

#include <errno.h>

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

/* Free slots by size, as glibc lists its free chunks. */
static void print_xml_sizes(struct sink *sink, const struct stats_arena *arena)
{
    sink_print(sink, "<sizes>\n");
    for (unsigned class = 1; class < CLASSES; class ++) {
        const struct stats_class *of = &arena->classes[class];
        uint64_t count = of->slots - of->slots_out + of->slots_cached;
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
    sink_print(&sink, "<malloc version=\"1\">\n");
    for (unsigned i = 0; i < stats->arena_count; i++) {
        struct usage usage = {0};
        if (arena_numbered(i) != NULL) {
            usage_add_arena(&usage, arena_numbered(i));
        }
        sink_print(&sink, "<heap nr=\"%u\">\n", i);
        print_xml_sizes(&sink, &stats->arenas[i]);
        print_xml_totals(&sink, &usage);
        sink_print(&sink, "</heap>\n");
    }
    struct usage usage = usage_now();
    print_xml_totals(&sink, &usage);
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
        {"address space", usage.region_bytes + usage.huge_bytes + usage.metadata_bytes},
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

/* Only where the user looks: the descriptor may have become a file of the program's. */
DESTRUCTOR static void print_stats_at_exit(void)
{
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
