/* SPDX-License-Identifier: MIT
 *
 * stats.* by name: what it says of known blocks, that arenas add up to the merged figures, and that it
 * may be asked from several threads, in the child of a fork, within malloc_message and by a signal
 * handler.
 */
#include <jemalloc/jemalloc.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "../test.h"

/* What a block may use is what was asked for in the secure and debug builds: not the size of its slot. */
static bool is_fast(void)
{
    return strstr(mw_version(), "fast") != NULL;
}

/* The debug build keeps freed blocks for a while and puts room around each: sizes and sums are others. */
static bool is_debug(void)
{
    return strstr(mw_version(), "debug") != NULL;
}

static uint64_t read_sized(const char *name, size_t wanted)
{
    uint64_t value = 0;
    size_t size = sizeof value;
    /* A wrong size is an error and tells the right one; then it is read with that. */
    if (mallctl(name, &value, &size, NULL, 0) != 0) {
        CHECK_MSG(mallctl(name, &value, &size, NULL, 0) == 0, "%s", name);
    }
    CHECK_MSG(size == wanted, "%s: %zu", name, size);
    return value;
}

/* A name with up to two numbers in it, of so many bytes. */
#define READ(wanted, ...)                           \
    __extension__({                                 \
        char name_[100];                            \
        snprintf(name_, sizeof name_, __VA_ARGS__); \
        read_sized(name_, wanted);                  \
    })

static void write_epoch(void)
{
    uint64_t epoch = 1;
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

static unsigned bin_of(size_t size)
{
    unsigned bin = 0;
    while (READ(8, "arenas.bin.%u.size", bin) != nallocx(size, 0)) {
        bin++;
    }
    return bin;
}

static unsigned lextent_of(size_t size)
{
    unsigned large = 0;
    while (READ(8, "arenas.lextent.%u.size", large) < size) {
        large++;
    }
    return large;
}

enum { BLOCKS = 10000 };
static void *blocks[BLOCKS];

TEST(a_bin_has_what_the_program_holds)
{
    if (!is_fast()) {
        return;
    }
    unsigned bin = bin_of(200);
    write_epoch();
    uint64_t before = READ(8, "stats.arenas.4096.bins.%u.curregs", bin);
    uint64_t given = READ(8, "stats.arenas.4096.bins.%u.nmalloc", bin);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(200);
    }
    CHECK_EQ(READ(8, "stats.arenas.4096.bins.%u.curregs", bin), before); /* no new epoch */
    write_epoch();
    uint64_t regs = READ(8, "stats.arenas.4096.bins.%u.curregs", bin);
    uint64_t slabs = READ(8, "stats.arenas.4096.bins.%u.curslabs", bin);
    CHECK_GE(regs, before + BLOCKS);
    CHECK_LE(regs, before + BLOCKS + 2000); /* those in the thread's list */
    CHECK_GE(slabs * READ(4, "arenas.bin.%u.nregs", bin), regs);
    CHECK_LE(READ(8, "stats.arenas.4096.bins.%u.nonfull_slabs", bin), slabs);
    CHECK_GE(READ(8, "stats.arenas.4096.bins.%u.nmalloc", bin), given + BLOCKS);
    CHECK_GE(READ(8, "stats.arenas.4096.bins.%u.nrequests", bin), given + BLOCKS);
    CHECK(READ(8, "stats.arenas.4096.bins.%u.nfills", bin) > 0);
    CHECK(READ(8, "stats.arenas.4096.bins.%u.nslabs", bin) > 0);
    CHECK_EQ(READ(8, "stats.arenas.4096.bins.%u.nmalloc", bin) -
                 READ(8, "stats.arenas.4096.bins.%u.ndalloc", bin),
             regs);
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    write_epoch();
    CHECK_LT(READ(8, "stats.arenas.4096.bins.%u.curregs", bin), before + 2000);
    CHECK_GE(READ(8, "stats.arenas.4096.bins.%u.ndalloc", bin), BLOCKS);
}

TEST(a_large_size_has_what_the_program_holds)
{
    if (is_debug()) {
        return;
    }
    unsigned large = lextent_of(100000);
    write_epoch();
    uint64_t before = READ(8, "stats.arenas.4096.lextents.%u.curlextents", large);
    uint64_t given = READ(8, "stats.arenas.4096.lextents.%u.nmalloc", large);
    for (int i = 0; i < 100; i++) {
        blocks[i] = malloc(100000);
    }
    write_epoch();
    CHECK_EQ(READ(8, "stats.arenas.4096.lextents.%u.curlextents", large), before + 100);
    CHECK_EQ(READ(8, "stats.arenas.4096.lextents.%u.nmalloc", large), given + 100);
    CHECK_EQ(READ(8, "stats.arenas.4096.lextents.%u.nrequests", large), given + 100);
    CHECK_GE(READ(8, "stats.arenas.4096.large.allocated"), 100 * 100000);
    for (int i = 0; i < 100; i++) {
        free(blocks[i]);
    }
    write_epoch();
    CHECK_EQ(READ(8, "stats.arenas.4096.lextents.%u.curlextents", large), before);
    CHECK_GE(READ(8, "stats.arenas.4096.lextents.%u.ndalloc", large), 100);
    CHECK_GE(READ(8, "stats.arenas.4096.pdirty"), 100 * 100000 / 4096 / 2);
}

/* A figure of all arenas, added up, is the merged one. */
static void check_sum(const char *name)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < READ(4, "arenas.narenas"); i++) {
        if (READ(1, "arena.%u.initialized", i)) {
            sum += READ(8, "stats.arenas.%u.%s", i, name);
        }
    }
    CHECK_MSG(READ(8, "stats.arenas.4096.%s", name) == sum, "%s", name);
    CHECK_MSG(READ(8, "stats.arenas.%u.%s", (unsigned)READ(4, "arenas.narenas"), name) == sum, "%s",
              name); /* the old index of all */
}

TEST(arenas_add_up)
{
    for (unsigned i = 0; i < READ(4, "arenas.narenas"); i++) {
        CHECK_EQ(mallctl("thread.arena", NULL, NULL, &i, sizeof i), 0);
        blocks[i] = malloc(100000 * (i + 1));
        free(malloc(1000));
    }
    write_epoch();
    static const char *const names[] = {
        "pactive",       "pdirty",          "mapped",        "retained",        "base",
        "resident",      "tcache_bytes",    "dirty_npurge",  "small.allocated", "small.nmalloc",
        "large.ndalloc", "large.allocated", "bins.3.nmalloc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_sum(names[i]);
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK_EQ(READ(8, "stats.arenas.4096.pactive") * page, READ(8, "stats.active"));
    CHECK_EQ(READ(8, "stats.arenas.4096.small.allocated") +
                 READ(8, "stats.arenas.4096.large.allocated"),
             READ(8, "stats.allocated"));
    CHECK_EQ(READ(8, "stats.arenas.4096.resident"), READ(8, "stats.resident"));
    CHECK(READ(4, "stats.arenas.4096.nthreads") >= 1);
    CHECK_EQ((int64_t)READ(8, "stats.arenas.4096.dirty_decay_ms"), -1);
    CHECK_EQ(READ(8, "stats.arenas.0.dirty_decay_ms"), 10000);
    CHECK(!strcmp((const char *)READ(8, "stats.arenas.0.dss"), "disabled"));
    uint64_t pages = 0;
    for (unsigned j = 0; j < 64; j++) {
        pages += READ(8, "stats.arenas.4096.extents.%u.dirty_bytes", j) / page;
    }
    CHECK_EQ(READ(8, "stats.arenas.4096.pdirty"), pages);
    for (unsigned i = 0; i < READ(4, "arenas.narenas"); i++) {
        free(blocks[i]);
    }
}

TEST(an_arena_of_the_program_has_its_own_decay)
{
    char name[64];
    unsigned arena;
    size_t size = sizeof arena;
    uint64_t epoch = 1;
    ssize_t decay_ms = 1234;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    snprintf(name, sizeof name, "arena.%u.dirty_decay_ms", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, &decay_ms, sizeof decay_ms), 0);
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    snprintf(name, sizeof name, "stats.arenas.%u.dirty_decay_ms", arena);
    CHECK_EQ((int64_t)read_sized(name, 8), 1234);
}

TEST(stats_of_an_arena_that_is_not_made_do_not_exist)
{
    uint64_t value;
    size_t size = sizeof value;
    unsigned arenas = (unsigned)READ(4, "arenas.narenas");
    char name[64];
    snprintf(name, sizeof name, "stats.arenas.%u.pactive", arenas + 1);
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), ENOENT);
    snprintf(name, sizeof name, "stats.arenas.%u.pactive", MALLCTL_ARENAS_DESTROYED);
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("stats.arenas.0.bins.1000.nmalloc", &value, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("stats.arenas.0.pactive", NULL, NULL, &value, 8), EPERM);
}

static int error_of(const char *format, unsigned arena)
{
    uint64_t value;
    size_t size = sizeof value;
    char name[64];
    snprintf(name, sizeof name, format, arena);
    return mallctl(name, &value, &size, NULL, 0);
}

static unsigned create(void)
{
    unsigned arena;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    return arena;
}

static void destroy(unsigned arena)
{
    char name[64];
    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
}

TEST(stats_of_an_arena_exist_from_the_next_epoch_until_it_is_destroyed)
{
    write_epoch();
    unsigned arena = create(), last = create();
    CHECK_EQ(error_of("stats.arenas.%u.pactive", arena), ENOENT);
    CHECK_EQ(READ(4, "arenas.narenas"), last + 1);
    CHECK_EQ(error_of("stats.arenas.%u.pactive", last + 1), 0); /* all */
    write_epoch();
    CHECK_EQ(READ(8, "stats.arenas.%u.pactive", last + 1), READ(8, "stats.arenas.4096.pactive"));
    CHECK_EQ(READ(8, "stats.arenas.%u.pactive", arena), 0);
    destroy(arena);
    CHECK_EQ(error_of("stats.arenas.%u.pactive", arena), ENOENT);
    write_epoch();
    CHECK_EQ(error_of("stats.arenas.%u.pactive", arena), ENOENT);
    CHECK_EQ(error_of("stats.arenas.%u.pactive", last), 0);
    destroy(last);
}

static char report[8 << 20];

static void add_to_report(void *length, const char *text)
{
    size_t *used = length, more = strlen(text);
    CHECK_LT(*used + more, sizeof report);
    memcpy(report + *used, text, more + 1);
    *used += more;
}

TEST(a_report_has_each_arena_by_its_number)
{
    enum { ARENAS = 500 };
    unsigned arenas[ARENAS];
    for (unsigned i = 0; i < ARENAS; i++) {
        arenas[i] = create();
    }
    destroy(arenas[3]);
    for (int is_text = 0; is_text < 2; is_text++) {
        size_t used = 0;
        malloc_stats_print(add_to_report, &used, is_text ? "blxeh" : "Jblxeh");
        for (unsigned i = 0; i < ARENAS; i++) {
            char title[32];
            snprintf(title, sizeof title, is_text ? "arenas[%u]:" : "\"%u\": {", arenas[i]);
            CHECK_MSG((strstr(report, title) != NULL) == (i != 3), "%s", title);
        }
    }
    for (unsigned i = 0; i < ARENAS; i++) {
        if (i != 3) {
            destroy(arenas[i]);
        }
    }
}

TEST(a_report_has_the_name_of_each_arena)
{
    unsigned named = create(), other = create();
    const char *name = "req\"uest";
    char path[32], expected[48];
    snprintf(path, sizeof path, "arena.%u.name", named);
    CHECK_EQ(mallctl(path, NULL, NULL, &name, sizeof name), 0);
    size_t used = 0;
    malloc_stats_print(add_to_report, &used, "Jblxeh");
    CHECK(strstr(report, "\"name\": \"req?uest\"") != NULL);
    snprintf(expected, sizeof expected, "\"name\": \"manual_%u\"", other);
    CHECK_MSG(strstr(report, expected) != NULL, "%s", expected);
    CHECK(strstr(report, "\"name\": \"auto_0\"") != NULL);
    destroy(named);
    destroy(other);
}

/* Blocks that are mappings of their own have a descriptor each, and 600 MiB of addresses, wherever they lie, words
 * in a part of the page map that was not there before. */
TEST(stats_say_what_metadata_is_made_of)
{
    enum { BLOCKS = 200 };
    void *blocks[BLOCKS];
    write_epoch();
    uint64_t edata = READ(8, "stats.metadata_edata"), rtree = READ(8, "stats.metadata_rtree");
    CHECK_GE(rtree, 1);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)12 << 20);
    }
    CHECK_EQ(READ(8, "stats.metadata_edata"), edata);
    write_epoch();
    uint64_t more = READ(8, "stats.metadata_edata") - edata;
    CHECK(more >= 60 * BLOCKS && more <= 1000 * BLOCKS);
    CHECK_GE(READ(8, "stats.metadata_rtree"), rtree + ((size_t)1 << 20));
    CHECK_LE(READ(8, "stats.metadata_edata") + READ(8, "stats.metadata_rtree"),
             READ(8, "stats.metadata"));
    CHECK_EQ(READ(8, "stats.metadata_edata"), READ(8, "stats.arenas.0.metadata_edata"));
    CHECK_EQ(READ(8, "stats.metadata_rtree"), READ(8, "stats.arenas.4096.metadata_rtree"));
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

TEST(names_with_a_number_of_nothing_do_not_exist)
{
    static const char *const names[] = {
        "arena.3999.initialized",
        "arena.3999.dirty_decay_ms",
        "arena.3999.purge",
        "arena.3999",
        "arenas.bin.999.size",
        "arenas.bin.999",
        "arenas.lextent.999.size",
        "stats.arenas.3999.pactive",
        "stats.arenas.3999.mutexes.base.num_ops",
        "stats.arenas.3999",
        "stats.arenas.4097.pactive",
        "stats.arenas.0.bins.999.nmalloc",
        "stats.arenas.0.bins.999.mutex.num_ops",
        "stats.arenas.0.lextents.999.nmalloc",
        "stats.arenas.0.extents.64.ndirty",
        "stats.arenas.0.hpa_shard.nonfull_slabs.64.ndirty_huge",
        "stats.arenas.0.hpa_shard.nhugs",
        "stats.arenas.0.hpa_shard.slabs.nactive",
    };
    static const char *const good[] = {"arena.4096.purge",
                                       "arena.4097.initialized",
                                       "stats.arenas.4096.bins.0.nmalloc",
                                       "arena.0",
                                       "stats.arenas.0.mutexes.base.num_ops",
                                       "stats.arenas.0.hpa_shard.nhugify_failures",
                                       "stats.arenas.0.hpa_shard.slabs.nactive_huge"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t mib[7], depth = 7;
        CHECK_MSG(mallctlnametomib(names[i], mib, &depth) == ENOENT, "%s", names[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t mib[7], depth = 7;
        CHECK_MSG(mallctlnametomib(good[i], mib, &depth) == 0, "%s", good[i]);
    }
    size_t mib[7], depth = 7;
    ssize_t ms = 1000;
    CHECK_EQ(mallctlnametomib("arena.0.dirty_decay_ms", mib, &depth), 0);
    mib[1] = 3999;
    CHECK_EQ(mallctlbymib(mib, depth, NULL, NULL, &ms, sizeof ms), ENOENT);
    CHECK_EQ(mallctl("arena.3999.dirty_decay_ms", NULL, NULL, &ms, sizeof ms), ENOENT);
}

TEST(a_mib_is_used_for_all_bins_and_all_arenas)
{
    size_t mib[7], depth = 7;
    write_epoch();
    CHECK_EQ(mallctlnametomib("stats.arenas.0.bins.0.nmalloc", mib, &depth), 0);
    CHECK_EQ(depth, 6);
    mib[2] = 4096;
    for (unsigned j = 0; j < READ(4, "arenas.nbins"); j++) {
        uint64_t value;
        size_t size = sizeof value;
        mib[4] = j;
        CHECK_EQ(mallctlbymib(mib, depth, &value, &size, NULL, 0), 0);
        CHECK_EQ(value, READ(8, "stats.arenas.4096.bins.%u.nmalloc", j));
    }
    mib[4] = SIZE_MAX;
    CHECK_EQ(mallctlbymib(mib, depth, NULL, NULL, NULL, 0), ENOENT);
    depth = 7;
    CHECK_EQ(mallctlnametomib("stats.arenas.0.mutexes.extents_dirty.num_ops", mib, &depth), 0);
    uint64_t value;
    size_t size = sizeof value;
    CHECK_EQ(mallctlbymib(mib, depth, &value, &size, NULL, 0), 0);
    CHECK_EQ(value, READ(8, "stats.arenas.0.mutexes.extents_dirty.num_ops"));
}

TEST(mutexes_begin_anew)
{
    for (int i = 0; i < 300; i++) {
        free(malloc((size_t)20 << 20)); /* takes the lock of the arena */
    }
    write_epoch();
    uint64_t before = READ(8, "stats.arenas.4096.mutexes.extents_dirty.num_ops");
    CHECK_GE(before, 300);
    (void)READ(4, "stats.arenas.4096.mutexes.extents_dirty.max_num_thds");
    (void)READ(4, "stats.mutexes.ctl.max_num_thds");
    (void)READ(4, "stats.arenas.4096.bins.0.mutex.max_num_thds");
    CHECK(READ(8, "stats.mutexes.ctl.num_ops") > 0);
    CHECK(READ(8, "stats.arenas.4096.bins.0.mutex.num_ops") < 1000000);
    CHECK_EQ(mallctl("stats.mutexes.reset", NULL, NULL, NULL, 0), 0);
    CHECK_EQ(READ(8, "stats.arenas.4096.mutexes.extents_dirty.num_ops"), before);
    write_epoch();
    CHECK_LT(READ(8, "stats.arenas.4096.mutexes.extents_dirty.num_ops"), before / 2);
    CHECK_EQ(mallctl("stats.mutexes.reset", &before, &(size_t){8}, &before, 8), 0);
}

TEST(background_thread_is_counted)
{
    bool on = true;
    ssize_t decay_ms = 320;
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", NULL, NULL, &decay_ms, sizeof decay_ms), 0);
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &on, sizeof on), 0);
    for (int i = 0; i < 500; i++) {
        write_epoch();
        if (READ(8, "stats.background_thread.num_runs") >= 3) {
            break;
        }
        usleep(10000);
    }
    CHECK_GE(READ(8, "stats.background_thread.num_runs"), 3);
    CHECK_EQ(READ(8, "stats.background_thread.num_threads"), 1);
    CHECK_GE(READ(8, "stats.background_thread.run_interval"), 1000000);
}

TEST(approximate_active_needs_no_epoch)
{
    if (is_debug()) {
        return;
    }
    uint64_t before = READ(8, "approximate_stats.active");
    void *block = malloc((size_t)50 << 20);
    CHECK_GE(READ(8, "approximate_stats.active"), before + (50 << 20));
    free(block);
    CHECK_LT(READ(8, "approximate_stats.active"), before + (1 << 20));
}

TEST(the_peak_of_a_thread)
{
    if (!is_fast()) {
        return;
    }
    CHECK_EQ(mallctl("thread.peak.reset", NULL, NULL, NULL, 0), 0);
    CHECK_EQ(READ(8, "thread.peak.read"), 0);
    void *one = malloc(100000), *other = malloc(1000);
    uint64_t most = malloc_usable_size(one) + malloc_usable_size(other);
    free(one);
    CHECK_EQ(READ(8, "thread.peak.read"), most);
    one = malloc(50000);
    CHECK_EQ(READ(8, "thread.peak.read"), most);
    one = realloc(one, (size_t)20 << 20);
    CHECK_GE(READ(8, "thread.peak.read"), (uint64_t)20 << 20);
    CHECK_EQ(mallctl("thread.peak.reset", NULL, NULL, NULL, 0), 0);
    free(one);
    free(other);
    CHECK_EQ(READ(8, "thread.peak.read"), 0); /* less than at the reset */
    CHECK_EQ(mallctl("thread.peak.read", NULL, NULL, &most, sizeof most), EPERM);
}

/* --- From everywhere -------------------------------------------------------------------------- */

/* Each thread sees, once it has written the epoch, what it allocated before. */
static void *epochs_of_thread(void *unused)
{
    (void)unused;
    for (int round = 0; round < 200; round++) {
        void *block = malloc((size_t)100 << 20);
        write_epoch();
        uint64_t with = READ(8, "stats.arenas.4096.large.allocated");
        CHECK_GE(with, (uint64_t)100 << 20);
        CHECK_GE(READ(8, "stats.active"), READ(8, "arenas.page"));
        (void)READ(8, "stats.arenas.4096.bins.5.curregs");
        free(block);
    }
    return NULL;
}

TEST(epochs_of_several_threads)
{
    if (is_debug()) {
        return;
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, epochs_of_thread, NULL);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    write_epoch();
    CHECK_LT(READ(8, "stats.arenas.4096.large.allocated"), (uint64_t)100 << 20);
    CHECK(mw_heap_is_valid());
}

static _Atomic bool is_over;

static void *writer_of_epochs(void *unused)
{
    (void)unused;
    while (!is_over) {
        write_epoch();
        (void)READ(8, "stats.arenas.4096.resident");
    }
    return NULL;
}

TEST(a_child_of_a_fork_reads_and_refreshes)
{
    pthread_t thread;
    is_over = false;
    pthread_create(&thread, NULL, writer_of_epochs, NULL);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            (void)READ(8, "stats.allocated");
            void *block = malloc((size_t)64 << 20);
            write_epoch();
            _exit(READ(8, "stats.arenas.4096.large.allocated") >= (uint64_t)64 << 20 ? 0 : 1);
            free(block);
        }
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    is_over = true;
    pthread_join(thread, NULL);
}

static unsigned messages;

static void read_in_message(void *context, const char *text)
{
    (void)context;
    (void)text;
    write_epoch();
    CHECK_GE(READ(8, "stats.active"), READ(8, "stats.arenas.4096.small.allocated"));
    free(malloc(1000));
    messages++;
}

TEST(a_message_may_read_what_it_tells_of)
{
    malloc_message = read_in_message;
    malloc_stats_print(NULL, NULL, "J");
    malloc_stats_print(NULL, NULL, NULL);
    malloc_message = NULL;
    CHECK(messages >= 4);
}

static _Atomic unsigned handled;

static void read_in_handler(int number)
{
    (void)number;
    uint64_t value;
    size_t size = sizeof value;
    if (mallctl("stats.active", &value, &size, NULL, 0) == 0 &&
        mallctl("stats.arenas.4096.bins.2.curregs", &value, &size, NULL, 0) == 0) {
        handled++;
    }
}

/* Reading takes no lock: a handler may do it wherever it interrupts the thread. */
TEST(a_signal_handler_reads)
{
    struct sigaction action = {.sa_handler = read_in_handler};
    sigaction(SIGALRM, &action, NULL);
    write_epoch();
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 2000 || handled < 100; i++) {
        write_epoch();
        (void)READ(8, "stats.resident");
        free(malloc(5000));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
    CHECK(handled >= 100);
}
