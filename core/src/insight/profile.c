/* SPDX-License-Identifier: MIT */
#include "profile.h"

#include "../api/alloc.h"
#include "../arena/arena.h"
#include "../os/log.h"
#include "../profile/unwind.h"
#include "../settings/options.h"

#include <errno.h>
#include <string.h>

/* What is written goes out in pieces of this size: not from the stack, of which there may be little. */
static struct {
    char buffer[8192]; /* who set profile.is_dumping */
    size_t used;
    int fd;
    int error; /* the first */
} dump IN_SECTION(dump);

static _Atomic uint32_t dump_count;                                  /* of all */
static _Atomic uint32_t dump_counts['z' - 'a' + 1] IN_SECTION(dump); /* by reason */
static _Atomic size_t dump_peak; /* bytes held at the last one of 'u' */

static void dump_flush(void)
{
    int error = dump.error == 0 ? os_write_all(dump.fd, dump.buffer, dump.used) : 0;
    dump.error = dump.error != 0 ? dump.error : error;
    dump.used = 0;
}

static void dump_write(void *context, const char *text, size_t size)
{
    (void)context;
    while (size > 0) {
        size_t part = size_min(size, sizeof dump.buffer - dump.used);
        memcpy(dump.buffer + dump.used, text, part);
        dump.used += part;
        text += part;
        size -= part;
        if (dump.used == sizeof dump.buffer) {
            dump_flush();
        }
    }
}

/* Blocks and bytes, as they are and as they are written. */
struct tally {
    double blocks;
    double bytes;
};

/* A difference that went below 0 for a moment, or because of prof.reset, is none. */
static double figure_of(struct call_stack *stack, unsigned index)
{
    uint32_t epoch = atomic_get_acquire(&profile.epoch); /* pairs with profile_reset */
    int64_t value = (int64_t)atomic_get(&figures_of_epoch(stack, epoch)[index]);
    return value > 0 ? (double)value : 0;
}

static struct tally tally_of(struct call_stack *stack, unsigned blocks, unsigned bytes)
{
    return (struct tally){figure_of(stack, blocks) / BLOCK_UNIT, figure_of(stack, bytes)};
}

/* What readers will multiply, see profile.h. At least one block, if there is any. */
static struct tally tally_written(struct tally tally)
{
    if (tally.blocks <= 0 || tally.bytes <= 0) {
        return (struct tally){0, 0};
    }
    double rate = (double)((uint64_t)1 << atomic_get(&profile.rate_log2));
    double share = share_until(tally.bytes / tally.blocks / rate);
    struct tally written = {tally.blocks * share, tally.bytes * share};
    if (written.blocks < 1) {
        written.bytes /= written.blocks;
        written.blocks = 1;
    }
    return written;
}

static bool is_for_pprof(void)
{
    return option(OPTION_prof_format) == PROF_FORMAT_PPROF;
}

static void print_tally(struct sink *sink, struct tally live, struct tally all)
{
    sink_print(sink, "%lu: %lu [%lu: %lu]", (uint64_t)(live.blocks + 0.5),
               (uint64_t)(live.bytes + 0.5), (uint64_t)(all.blocks + 0.5),
               (uint64_t)(all.bytes + 0.5));
}

/* The mean distance of samples, and the sums of all stacks. */
static void print_head(struct sink *sink, struct tally live, struct tally all)
{
    uint64_t distance = (uint64_t)1 << atomic_get(&profile.rate_log2);
    if (is_for_pprof()) {
        sink_print(sink, "heap profile: ");
        print_tally(sink, live, all);
        sink_print(sink, " @ heap_v2/%lu\n", distance);
    } else {
        sink_print(sink, "heap_v2/%lu\n  t*: ", distance);
        print_tally(sink, live, all);
        sink_print(sink, "\n");
    }
}

static void print_frames(struct sink *sink, struct call_stack *stack)
{
    sink_print(sink, "@");
    for (uint32_t i = 0; i < stack->count; i++) {
        sink_print(sink, " 0x%lx", stack->frames[i]);
    }
}

static void print_stack(struct sink *sink, struct call_stack *stack, struct tally live,
                        struct tally all)
{
    if (is_for_pprof()) {
        print_tally(sink, live, all);
        sink_print(sink, " ");
        print_frames(sink, stack);
    } else {
        print_frames(sink, stack);
        sink_print(sink, "\n  t*: ");
        print_tally(sink, live, all);
    }
    sink_print(sink, "\n");
}

static bool stack_tallies(struct call_stack *stack, struct tally *live, struct tally *all)
{
    *live = tally_written(tally_of(stack, LIVE_BLOCKS, LIVE_BYTES));
    *all = (struct tally){0, 0};
    if (option(OPTION_prof_accum)) {
        *all = tally_written(tally_of(stack, ALL_BLOCKS, ALL_BYTES));
    }
    return live->blocks > 0 || all->blocks > 0;
}

static void print_stacks(struct sink *sink)
{
    struct tally live, all, live_sum = {0, 0}, all_sum = {0, 0};
    for (struct call_stack *at = store_newest(); at != NULL; at = at->older) {
        if (stack_tallies(at, &live, &all)) {
            live_sum = (struct tally){live_sum.blocks + live.blocks, live_sum.bytes + live.bytes};
            all_sum = (struct tally){all_sum.blocks + all.blocks, all_sum.bytes + all.bytes};
        }
    }
    print_head(sink, live_sum, all_sum);
    for (struct call_stack *at = store_newest(); at != NULL; at = at->older) {
        if (stack_tallies(at, &live, &all)) {
            print_stack(sink, at, live, all);
        }
    }
}

static void print_mappings(struct sink *sink)
{
    sink_print(sink, "\nMAPPED_LIBRARIES:\n");
    int fd = os_open_to_read(OS_MAPS);
    if (fd < 0) {
        return;
    }
    char text[512];
    for (long got; (got = os_read_some(fd, text, sizeof text)) > 0;) {
        sink->write(sink->context, text, (size_t)got);
    }
    os_close(fd);
}

/* The number in "pid:[4026531836]", or 0: where there is no /proc. */
static uint64_t pid_namespace(void)
{
    char text[32];
    uint64_t number = 0;
    if (os_read_link_or_file("/proc/self/ns/pid", text, sizeof text) > 0) {
        for (const char *at = text; *at != 0; at++) {
            if (*at >= '0' && *at <= '9') {
                number = number * 10 + (uint64_t)(*at - '0');
            }
        }
    }
    return number;
}

/* The name of a profile that was not given one: prefix.process.number.reason.heap, as jemalloc names it; with
 * prof_pid_namespace prefix.namespace.process... */
static void dump_name(char *name, size_t size, char reason)
{
    uint32_t number = atomic_add(&dump_count, 1);
    uint32_t of_reason = atomic_add(&dump_counts[reason - 'a'], 1);
    name[0] = 0;
    text_print_behind(name, size, "%s", prof_prefix());
    if (conf_value(conf_at(CONF_prof_pid_namespace)) != 0) {
        text_print_behind(name, size, ".%lu", pid_namespace());
    }
    text_print_behind(name, size, ".%d.%u.%c", os_process_number(), number, reason);
    if (reason != DUMP_FINAL) {
        text_print_behind(name, size, "%u", of_reason);
    }
    text_print_behind(name, size, ".heap");
}

static int dump_to(const char *path)
{
    struct sink sink = {dump_write, NULL};
    dump.fd = os_create_file(path);
    if (dump.fd < 0) {
        return -dump.fd;
    }
    dump.used = 0;
    dump.error = 0;
    print_stacks(&sink);
    print_mappings(&sink);
    dump_flush();
    if (dump.error != 0) {
        os_empty_file(dump.fd); /* half of a profile misleads */
    }
    if (!os_close(dump.fd) && dump.error == 0) {
        dump.error = EIO;
    }
    return dump.error;
}

static int profile_dump(const char *path, char reason)
{
    char name[PREFIX_MOST + 64];
    if (path == NULL && prof_prefix()[0] == 0) {
        return EFAULT;
    }
    if (atomic_exchange_explicit(&profile.is_dumping, true, memory_order_acquire)) {
        return EAGAIN;
    }
    if (path == NULL) {
        dump_name(name, sizeof name, reason);
    }
    int error = dump_to(path != NULL ? path : name);
    if (error != 0) {
        log_warn("the profile %s cannot be written (error %d)", path != NULL ? path : name, error);
    }
    atomic_set_release(&profile.is_dumping, false); /* pairs with the exchange above */
    return error;
}

/* --- When ------------------------------------------------------------------------------------- */

/* Bytes of address space that the allocator holds for blocks. */
static size_t bytes_held(void)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < arena_count(); i++) {
        struct arena *arena = arena_at(i);
        bytes += atomic_peek(&arena->region_bytes) +
                 (atomic_peek(&arena->huge_active_pages) << os_page_shift);
    }
    return bytes;
}

static void note_allocated(uint64_t bytes)
{
    if (atomic_get(&profile.dumps_at_peak)) {
        size_t held = bytes_held();
        size_t peak = atomic_get(&dump_peak);
        if (held > peak && atomic_replace(&dump_peak, &peak, held)) {
            profile_dump(NULL, DUMP_AT_PEAK);
        }
    }
    if (option(OPTION_lg_prof_interval) >= 0) {
        uint64_t left = atomic_sub(&profile.until_interval, bytes);
        if (left <= bytes) { /* this thread made it end */
            /* One sample may stand for several intervals. */
            uint64_t intervals = ((bytes - left) >> option(OPTION_lg_prof_interval)) + 1;
            atomic_add(&profile.until_interval, intervals << option(OPTION_lg_prof_interval));
            profile_dump(NULL, DUMP_AT_INTERVAL);
        }
    }
}

static void (*const profile_note_allocated)(uint64_t) = note_allocated;

/* Begins a profile, or writes it and ends it. */
static void on_signal(int signal)
{
    (void)signal;
    if (atomic_get(&profile.is_active)) {
        profile_dump(NULL, DUMP_ASKED_FOR);
        profile_set_active(false);
    } else {
        profile_reset(atomic_get(&profile.rate_log2));
        profile_set_active(true);
    }
}

/* --- Start and end ---------------------------------------------------------------------------- */

static void note_own(void)
{
    const void *const own[] = {(const void *)mw_malloc,         (const void *)mw_calloc,
                               (const void *)mw_realloc,        (const void *)mw_aligned_alloc,
                               (const void *)mw_posix_memalign, (const void *)alloc_slow,
                               (const void *)alloc_zeroed,      (const void *)sample_take,
                               (const void *)sample_begin,      (const void *)unwind_sample,
                               (const void *)guarded_take,      (const void *)guarded_free};
    for (size_t i = 0; i < array_count(own); i++) {
        unwind_note_own(own[i]);
    }
}

static void (*const profile_note_own)(void) = note_own;

CONSTRUCTOR static void profile_loaded(void)
{
    if (option(OPTION_prof_signal) != 0 &&
        !libc_watch_signal((int)option(OPTION_prof_signal), on_signal)) {
        log_warn("prof_signal: signal %ld cannot be handled", option(OPTION_prof_signal));
    }
}

/* jemalloc's words, which scripts look for. Whether there is anything. */
static bool report_leaks(void)
{
    struct tally sum = {0, 0};
    unsigned contexts = 0;
    for (struct call_stack *at = store_newest(); at != NULL; at = at->older) {
        struct tally live = tally_of(at, LIVE_BLOCKS, LIVE_BYTES);
        sum = (struct tally){sum.blocks + live.blocks, sum.bytes + live.bytes};
        contexts += live.bytes > 0;
    }
    if (contexts == 0) {
        return false;
    }
    struct sink sink = log_sink();
    sink_print(&sink,
               "<jemalloc>: Leak approximation summary: ~%lu bytes, ~%lu objects, >= %u contexts\n",
               (uint64_t)(sum.bytes + 0.5), (uint64_t)(sum.blocks + 0.5), contexts);
    sink_print(&sink, "<jemalloc>: Run jeprof on dump output for leak detail\n");
    return true;
}

DESTRUCTOR static void profile_ended(void)
{
    /* A copy of the library that has served nobody would write over the profile of the one that has. */
    if (!atomic_get(&profile.is_enabled) || atomic_get(&heaps.in_use) == 0) {
        return;
    }
    bool is_wanted =
        option(OPTION_prof_leak) || (option(OPTION_prof_leak_error) && option(OPTION_prof_final));
    bool has_leaks = is_wanted && report_leaks();
    if (option(OPTION_prof_final)) {
        profile_dump(NULL, DUMP_FINAL);
    }
    if (has_leaks && option(OPTION_prof_leak_error)) {
        struct sink sink = log_sink();
        sink_print(&sink,
                   "<jemalloc>: Exiting with error code because memory leaks were detected\n");
        libc_flush_streams();
        os_exit(1);
    }
}
