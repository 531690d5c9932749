/* SPDX-License-Identifier: MIT */
/*
 * Carries out a plan on the allocator that serves this process, and prints what it cost as one JSON
 * object. The player allocates nothing itself before the result is complete, so that every block
 * that it sees is the plan's (but for those of the C library when it starts a thread).
 *
 *   player PLAN lockstep|free pages|all|none [count]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "count.h"
#include "lane.h"

struct player player;

_Noreturn void player_fail(const char *what, const char *detail)
{
    dprintf(STDERR_FILENO, "%s: %s\n", what, detail);
    _exit(1);
}

/* What the process used at a moment. */
struct usage {
    uint64_t real_ns;
    uint64_t user_us;
    uint64_t system_us;
    uint64_t minor_faults;
    uint64_t major_faults;
    uint64_t ticks;
};

static struct usage usage_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct usage){
        .real_ns = clock_real_ns(),
        .user_us = (uint64_t)usage.ru_utime.tv_sec * 1000000 + (uint64_t)usage.ru_utime.tv_usec,
        .system_us = (uint64_t)usage.ru_stime.tv_sec * 1000000 + (uint64_t)usage.ru_stime.tv_usec,
        .minor_faults = (uint64_t)usage.ru_minflt,
        .major_faults = (uint64_t)usage.ru_majflt,
        .ticks = clock_ticks(),
    };
}

/* ---- the plan ---------------------------------------------------------------------------- */

static void read_at(void *into, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t length =
            pread(player.plan_file, (char *)into + done, size - done, (off_t)(offset + done));
        if (length <= 0) {
            player_fail("the plan cannot be read", length < 0 ? strerror(errno) : "it is cut off");
        }
        done += (size_t)length;
    }
}

static struct plan_header read_header(const char *path)
{
    struct plan_header header;
    player.plan_file = open(path, O_RDONLY | O_CLOEXEC);
    if (player.plan_file < 0) {
        player_fail("the plan cannot be opened", strerror(errno));
    }
    read_at(&header, sizeof header, 0);
    if (memcmp(header.magic, PLAN_MAGIC, sizeof header.magic) != 0 ||
        header.version != PLAN_VERSION || header.header_size != sizeof header ||
        header.lane_count == 0) {
        player_fail("the plan cannot be used", "it is of another version");
    }
    return header;
}

/* The tables and the buffers of the lanes, all in memory that is counted apart. */
static void prepare(const struct plan_header *header)
{
    size_t lane_bytes = header->lane_count * sizeof(struct plan_lane);
    struct plan_lane *lanes = memory_table(lane_bytes);
    read_at(lanes, lane_bytes, header->lane_table);
    size_t chunk_bytes = header->chunk_count * sizeof(uint64_t);
    uint64_t *chunks = memory_table(chunk_bytes);
    read_at(chunks, chunk_bytes, header->chunk_table);

    uint64_t buffer_ops = 0;
    for (uint32_t number = 0; number < header->lane_count; number++) {
        uint64_t count = lanes[number].op_count;
        buffer_ops += count < PLAN_CHUNK_OPS ? count : PLAN_CHUNK_OPS;
    }
    struct plan_op *buffers = memory_table(buffer_ops * sizeof *buffers);
    struct times *times = NULL;
    if (!player.lockstep) {
        times = memory_table(header->lane_count * sizeof *times);
    }
    player.lane_count = header->lane_count;
    player.lanes = memory_table(header->lane_count * sizeof *player.lanes);
    player.objects = memory_table(header->slot_count * sizeof *player.objects);
    player.samples = memory_table(header->sample_count * sizeof *player.samples);
    player.page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint32_t number = 0; number < header->lane_count; number++) {
        struct lane *lane = &player.lanes[number];
        uint64_t count = lanes[number].op_count;
        lane->number = number;
        lane->flags = lanes[number].flags;
        lane->op_count = count;
        lane->chunks = chunks + lanes[number].first_chunk;
        lane->ops = buffers;
        lane->times = times == NULL ? NULL : &times[number];
        buffers += count < PLAN_CHUNK_OPS ? count : PLAN_CHUNK_OPS;
    }
}

/* ---- the result -------------------------------------------------------------------------- */

/* Nanoseconds by the ticks of the whole run. */
static void print_times(const char *name, size_t offset, double ns_per_tick)
{
    static struct histogram sum;
    memset(&sum, 0, sizeof sum);
    for (uint32_t number = 0; number < player.lane_count; number++) {
        histogram_merge(&sum, (struct histogram *)((char *)player.lanes[number].times + offset));
    }
    static const struct {
        const char *name;
        uint64_t per_mille;
    } percentiles[] = {{"p50", 500}, {"p99", 990}, {"p999", 999}};
    printf(",\"%s\":{\"timed\":%" PRIu64, name, histogram_total(&sum));
    for (size_t index = 0; index < sizeof percentiles / sizeof percentiles[0]; index++) {
        uint64_t ticks = histogram_percentile(&sum, percentiles[index].per_mille);
        printf(",\"%s_ns\":%.1f", percentiles[index].name, (double)ticks * ns_per_tick);
    }
    printf("}");
}

/* The mean over the recorded time; each sample stands for the time since the one before. */
static uint64_t average_resident(void)
{
    double sum = 0;
    double time = 0;
    for (uint64_t index = 1; index < player.sample_count; index++) {
        uint64_t length = player.samples[index].time_ns - player.samples[index - 1].time_ns;
        sum += (double)player.samples[index].resident * (double)length;
        time += (double)length;
    }
    return time > 0 ? (uint64_t)(sum / time) : memory_resident();
}

static void print_lockstep(void)
{
    printf(",\"order_hash\":\"%016" PRIx64 "\",\"peak_live_bytes\":%" PRIu64
           ",\"live_bytes\":%" PRIu64 ",\"average_rss\":%" PRIu64 ",\"samples\":[",
           player.order_hash, player.peak_live_bytes, player.live_bytes, average_resident());
    for (uint64_t index = 0; index < player.sample_count; index++) {
        const struct memory_sample *sample = &player.samples[index];
        printf("%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", index == 0 ? "" : ",", sample->time_ns,
               sample->resident, sample->anonymous);
    }
    printf("]");
}

static void print_result(const struct usage *start, const struct usage *end, int64_t kernel_calls)
{
    uint64_t final = memory_resident();
    uint64_t peak = memory_peak();
    uint64_t calls = 0;
    uint64_t failed = 0;
    for (uint32_t number = 0; number < player.lane_count; number++) {
        calls += player.lanes[number].calls;
        failed += player.lanes[number].failed;
    }
    uint64_t ns = end->real_ns - start->real_ns;
    printf("{\"calls\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"wall_ns\":%" PRIu64
           ",\"user_us\":%" PRIu64 ",\"system_us\":%" PRIu64 ",\"minor_faults\":%" PRIu64
           ",\"major_faults\":%" PRIu64 ",\"peak_rss\":%" PRIu64 ",\"final_rss\":%" PRIu64
           ",\"table_bytes\":%" PRIu64 ",\"kernel_calls\":%" PRId64,
           calls, failed, ns, end->user_us - start->user_us, end->system_us - start->system_us,
           end->minor_faults - start->minor_faults, end->major_faults - start->major_faults, peak,
           final, memory_tables(), kernel_calls);
    if (player.lockstep) {
        print_lockstep();
    } else {
        double ns_per_tick = (double)ns / (double)(end->ticks - start->ticks);
        print_times("allocate", offsetof(struct times, allocations), ns_per_tick);
        print_times("free", offsetof(struct times, frees), ns_per_tick);
    }
    printf("}\n");
    fflush(stdout);
}

/* ---- begin ------------------------------------------------------------------------------- */

/* Lockstep is to be the same each time, the addresses included. */
static void fix_addresses(char **argv)
{
    int persona = personality(0xffffffff);
    if (persona >= 0 && (persona & ADDR_NO_RANDOMIZE) == 0 &&
        personality((unsigned long)persona | ADDR_NO_RANDOMIZE) >= 0) {
        execv("/proc/self/exe", argv);
    }
}

static enum touch parse_touch(const char *word)
{
    if (strcmp(word, "all") == 0) {
        return TOUCH_ALL;
    }
    return strcmp(word, "none") == 0 ? TOUCH_NONE : TOUCH_PAGES;
}

/* Among the words behind the first three. */
static bool has_option(char **argv, const char *name)
{
    for (char **word = argv + 4; *word != NULL; word++) {
        if (strcmp(*word, name) == 0) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        player_fail("usage", "player PLAN lockstep|free pages|all|none [count] [small-pages]");
    }
    player.lockstep = strcmp(argv[2], "lockstep") == 0;
    player.touch = parse_touch(argv[3]);
    bool count = has_option(argv, "count");
    if (has_option(argv, "small-pages")) {
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* as the recorded program did */
    }
    if (player.lockstep) {
        fix_addresses(argv);
    } else {
        clock_use_real();
    }
    struct plan_header header = read_header(argv[1]);
    prepare(&header);
    memory_start();
    bool counting = count && count_start();

    struct usage start = usage_now();
    lane_run(&player.lanes[0]);
    lane_wait_for_others();
    struct usage end = usage_now();
    int64_t kernel_calls = counting ? (int64_t)count_calls() : -1;
    if (player.lockstep && player.order_hash != header.order_hash) {
        player_fail("the calls were not made in the recorded order", "the plan is inconsistent");
    }
    print_result(&start, &end, kernel_calls);
    _exit(0);
}
