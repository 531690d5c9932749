/* SPDX-License-Identifier: MIT
 *
 * mallctl as clients of jemalloc use it: Rust's tikv-jemalloc-ctl, folly's detection, Redis and
 * RocksDB, in C.
 */
#include <jemalloc/jemalloc.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "../test.h"
#include "memory.h"
#include "read.h"

static void write_epoch(void)
{
    uint64_t epoch = 1;
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

TEST(version_is_that_of_the_header)
{
    const char *version = READ(const char *, "version");
    CHECK_MSG(!strcmp(version, JEMALLOC_VERSION), "%s", version);
    CHECK_MSG(strstr(version, "mallow") != NULL, "%s", version);
    CHECK_EQ(atoi(version), JEMALLOC_VERSION_MAJOR);
}

/* folly asks for the counter, allocates a byte, and takes the allocator for another one if the
 * counter stayed as it was. */
TEST(folly_finds_jemalloc)
{
    uint64_t *counter = READ(uint64_t *, "thread.allocatedp");
    uint64_t before = *counter;
    void *volatile block = malloc(1);
    CHECK_NE(*counter, before);
    free(block);
}

/* What a counter has grown by when the program got a block: the bytes of its slot or pages. In the fast
 * build all of these may be used; the others have canaries or red zones there. */
static void check_counted(uint64_t counted, size_t usable)
{
    size_t beside = usable / 4 + (usable > 32000 ? 8192 : 128);
    CHECK_GE(counted, usable);
    CHECK_LE(counted, usable + (TEST_MODE == 0 ? 0 : beside));
}

static void check_counts(void)
{
    uint64_t *allocated = READ(uint64_t *, "thread.allocatedp");
    uint64_t *freed = READ(uint64_t *, "thread.deallocatedp");
    static const size_t sizes[] = {1, 100, 2000, 40000, 3 << 20, 20 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int round = 0; round < 30; round++) {
            uint64_t allocated_before = *allocated, freed_before = *freed;
            char *block = round % 3 == 0   ? malloc(sizes[i])
                          : round % 3 == 1 ? calloc(1, sizes[i])
                                           : aligned_alloc(64, sizes[i]);
            size_t usable = malloc_usable_size(block);
            check_counted(*allocated - allocated_before, usable);
            CHECK_EQ(*freed, freed_before);
            block = realloc(block, sizes[i] * 2);
            check_counted(*allocated - *freed - (allocated_before - freed_before),
                          malloc_usable_size(block));
            free(block);
            CHECK_EQ(*allocated - allocated_before, *freed - freed_before);
        }
    }
    CHECK_EQ(READ(uint64_t, "thread.allocated"), *allocated);
    CHECK_EQ(READ(uint64_t, "thread.deallocated"), *freed);
    CHECK(READ(uint64_t *, "thread.allocatedp") == allocated);
}

static void *check_counts_of_thread(void *unused)
{
    (void)unused;
    void *volatile before = malloc(100);
    check_counts();
    free(before);
    return NULL;
}

TEST(thread_counters_are_exact_for_each_call)
{
    pthread_t threads[3];
    check_counts();
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, check_counts_of_thread, NULL);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    check_counts();
}

TEST(stats_change_with_the_epoch_only)
{
    write_epoch();
    size_t before = READ(size_t, "stats.allocated");
    void *block = malloc(50 << 20);
    CHECK_EQ(READ(size_t, "stats.allocated"), before);
    uint64_t epoch = READ(uint64_t, "epoch"), next = 0;
    size_t size = sizeof next;
    CHECK_EQ(mallctl("epoch", &next, &size, &epoch, sizeof epoch), 0); /* both at once */
    CHECK_EQ(next, epoch + 1);
    CHECK_GE(READ(size_t, "stats.allocated"), before + (50 << 20));
    CHECK_GE(READ(size_t, "stats.active"), READ(size_t, "stats.allocated"));
    CHECK_GE(READ(size_t, "stats.mapped"), READ(size_t, "stats.active"));
    CHECK_GE(READ(size_t, "stats.resident"), READ(size_t, "stats.metadata"));
    CHECK(READ(size_t, "stats.metadata") > 0);
    CHECK(READ(size_t, "stats.retained") > 0);
    free(block);
    write_epoch();
    CHECK_LT(READ(size_t, "stats.allocated"), before + (1 << 20));
}

TEST(zero_reallocs_are_counted)
{
    size_t before = READ(size_t, "stats.zero_reallocs");
    void *volatile block = malloc(10);
    CHECK(realloc(block, 0) == NULL);
    CHECK_EQ(READ(size_t, "stats.zero_reallocs"), before + 1);
}

TEST(bins_are_those_of_malloc)
{
    size_t mib[8], depth = 8;
    CHECK_EQ(mallctlnametomib("arenas.bin.0.size", mib, &depth), 0);
    CHECK_EQ(depth, 4);
    CHECK_EQ(mib[2], 0);
    unsigned bins = READ(unsigned, "arenas.nbins");
    for (unsigned j = 0; j < bins; j++) {
        size_t size, length = sizeof size;
        mib[2] = j;
        CHECK_EQ(mallctlbymib(mib, depth, &size, &length, NULL, 0), 0);
        CHECK_EQ(nallocx(size, 0), size);
        CHECK_MSG(j + 1 == bins || nallocx(size + 1, 0) > size, "bin %u", j);
        char name[64];
        snprintf(name, sizeof name, "arenas.bin.%u.nregs", j);
        uint32_t slots = READ(uint32_t, name);
        snprintf(name, sizeof name, "arenas.bin.%u.slab_size", j);
        CHECK(slots > 0 && slots * size <= READ(size_t, name));
        snprintf(name, sizeof name, "arenas.bin.%u.nshards", j);
        CHECK_EQ(READ(uint32_t, name), 1);
    }
    CHECK_EQ(READ(unsigned, "arenas.nhbins"), bins); /* of each, lists hold slots */
    unsigned large = READ(unsigned, "arenas.nlextents");
    for (unsigned j = 0; j < large; j++) {
        char name[64];
        snprintf(name, sizeof name, "arenas.lextent.%u.size", j);
        size_t size = READ(size_t, name);
        if (size != 0 && size < (size_t)1 << 47) { /* 0: a size that large pages leave out */
            CHECK_EQ(nallocx(size, 0), size);
        }
    }
    CHECK_EQ(READ(size_t, "arenas.page"), sysconf(_SC_PAGESIZE));
    CHECK_EQ(READ(size_t, "arenas.quantum"), 16);
    CHECK_EQ(READ(size_t, "arenas.hugepage"), 2 << 20);
}

TEST(config_says_what_the_build_has)
{
    static const char *const always[] = {"config.fill", "config.stats", "config.xmalloc"};
    static const char *const never[] = {"config.cache_oblivious", "config.lazy_lock",
                                        "config.prof_libgcc",     "config.prof_libunwind",
                                        "config.prof_frameptr",   "config.utrace"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        CHECK_MSG(READ(bool, always[i]), "%s", always[i]);
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        CHECK_MSG(!READ(bool, never[i]), "%s", never[i]);
    }
    CHECK_EQ(READ(bool, "config.debug"), TEST_MODE == 2);
    CHECK_EQ(READ(bool, "config.opt_safety_checks"), TEST_MODE != 0);
    CHECK_EQ(strlen(READ(const char *, "config.malloc_conf")), 0);
}

TEST(a_short_mib_gives_the_beginning)
{
    size_t whole[4], depth = 4, mib[4] = {0, 0, 0, 99}, three = 3;
    CHECK_EQ(mallctlnametomib("arenas.bin.7.nregs", whole, &depth), 0);
    CHECK_EQ(mallctlnametomib("arenas.bin.7.nregs", mib, &three), 0);
    CHECK_EQ(three, 3);
    CHECK_EQ(mib[3], 99);
    CHECK_EQ(memcmp(mib, whole, 3 * sizeof *mib), 0);
}

static void find_in_report(void *found, const char *text)
{
    static char report[1 << 16];
    static size_t used;
    size_t more = strlen(text);
    CHECK_LT(used + more, sizeof report);
    memcpy(report + used, text, more + 1);
    used += more;
    *(const char **)found = report;
}

TEST(the_mode_of_huge_pages_is_a_word_of_jemallocs)
{
    static const char *const words[] = {"always", "madvise", "never", "not supported"};
    const char *mode = READ(const char *, "system.thp_mode");
    bool is_known = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        is_known |= !strcmp(mode, words[i]);
    }
    CHECK_MSG(is_known, "%s", mode);
}

TEST(the_report_begins_with_the_settings)
{
    const char *report = NULL;
    char line[64];
    malloc_stats_print(find_in_report, &report, "madblxe");
    static const char *const lines[] = {
        "Build-time option settings\n  config.cache_oblivious: false\n",
        "  config.xmalloc: true\n",
        "System configuration\n  system.thp_mode: \"",
        "Run-time option settings\n  Global variable malloc_conf: \"",
        "  Symbolic link malloc.conf: \"",
        "  Environment variable MALLOC_CONF: \"",
        "\n  opt.",
        "  opt.dss: \"disabled\"\n",
        "  opt.hpa_dirty_mult: \"-1\"\n",
        "Version: \"" JEMALLOC_VERSION "\"\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        CHECK_MSG(strstr(report, lines[i]) != NULL, "%s", lines[i]);
    }
    snprintf(line, sizeof line, "\n  opt.narenas: %u\n", READ(unsigned, "opt.narenas"));
    CHECK_MSG(strstr(report, line) != NULL, "%s", line);
    snprintf(line, sizeof line, "\nArenas: %u\n", READ(unsigned, "arenas.narenas"));
    CHECK_MSG(strstr(report, line) != NULL, "%s", line);
    snprintf(line, sizeof line, "\nNumber of bin size classes: %u\n",
             READ(unsigned, "arenas.nbins"));
    CHECK_MSG(strstr(report, line) != NULL, "%s", line);
}

TEST(the_report_has_the_config_of_mallctl)
{
    const char *report = NULL;
    malloc_stats_print(find_in_report, &report, "madblxe");
    const char *line = strstr(report, "\n  config.");
    unsigned compared = 0;
    for (; line != NULL && !strncmp(line, "\n  config.", 10); line = strchr(line + 1, '\n')) {
        char name[64], said[64];
        CHECK_EQ(sscanf(line, " %63[^:]: %63s", name, said), 2);
        if (strcmp(name, "config.malloc_conf") != 0) { /* a text */
            bool has = READ(bool, name);
            CHECK_MSG(!strcmp(said, has ? "true" : "false"), "%s: %s", name, said);
            compared++;
        }
    }
    CHECK_EQ(compared, 12);
}

TEST(errors_are_jemallocs)
{
    char old[32], new[32] = {0};
    size_t size = 8;
    CHECK_EQ(mallctl("no.such.name", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arenas", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arenas.page.more", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arenas.extend", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arena.0.chunk_hooks", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arena.0.decay_time", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arenas.bin.x.size", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arenas.bin.1000.size", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arena.3000.purge", NULL, NULL, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("arenas.page", NULL, NULL, new, 8), EPERM);
    CHECK_EQ(mallctl("arenas.page", NULL, NULL, NULL, 8), EPERM);
    CHECK_EQ(mallctl("arena.0.purge", old, &size, NULL, 0), EPERM);
    CHECK_EQ(mallctl("epoch", NULL, NULL, new, 4), EINVAL);
    CHECK_EQ(mallctl("background_thread", NULL, NULL, new, 4), EINVAL);
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &(unsigned){3000}, sizeof(unsigned)), EFAULT);
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", NULL, NULL, &(ssize_t){-2}, sizeof(ssize_t)), EFAULT);
    CHECK_EQ(mallctl("prof.dump", NULL, NULL, NULL, 0), ENOENT); /* as without profiling */
    const char *log = "log.json";
    CHECK_EQ(mallctl("prof.log_start", NULL, NULL, &log, sizeof log), ENOENT);
    CHECK_EQ(mallctl("prof.log_stop", NULL, NULL, NULL, 0), ENOENT);
}

TEST(what_cannot_be_set_has_an_error_of_its_own)
{
    const char *word = NULL, *nonsense = "nonsense";
    size_t small = 100, size = 8;
    ssize_t eternity = (ssize_t)18446744072001;
    CHECK_EQ(mallctl("arena.0.retain_grow_limit", NULL, NULL, &small, sizeof small), EFAULT);
    CHECK_EQ(mallctl("arena.0.dirty_decay_ms", NULL, NULL, &eternity, sizeof eternity), EFAULT);
    CHECK_EQ(mallctl("arenas.muzzy_decay_ms", NULL, NULL, &eternity, sizeof eternity), EFAULT);
    CHECK_EQ(mallctl("arena.0.dss", NULL, NULL, &word, sizeof word), 0);
    CHECK_EQ(mallctl("arena.4096.dss", NULL, NULL, &word, sizeof word), 0);
    CHECK_EQ(mallctl("arena.0.dss", NULL, NULL, &nonsense, sizeof nonsense), EINVAL);
    CHECK_EQ(mallctl("arena.4097.dss", &word, &size, NULL, 0), EFAULT);
    CHECK_EQ(mallctl("arena.4096.name", &word, &size, NULL, 0), EINVAL);
    CHECK_EQ(mallctl("arena.4096.name", NULL, NULL, &nonsense, sizeof nonsense), EINVAL);
}

/* jemalloc says so before it looks at the values. */
TEST(without_profiles_their_names_are_not_there)
{
    static const char *const names[] = {"prof.dump", "prof.prefix", "prof.reset",
                                        "thread.prof.name"};
    static const char *const switches[] = {"prof.gdump", "prof.thread_active_init",
                                           "thread.prof.active"};
    char old[16], new[16] = {0};
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQ(mallctl(names[i], old, &(size_t){8}, NULL, 0), ENOENT);
        CHECK_EQ(mallctl(names[i], NULL, NULL, new, 3), ENOENT);
    }
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(mallctl(switches[i], old, &(size_t){1}, NULL, 0), 0);
        CHECK_EQ(mallctl(switches[i], NULL, NULL, new, 3), ENOENT);
    }
    CHECK_EQ(mallctl("prof.active", NULL, NULL, new, 1), 0);
    CHECK_EQ(mallctl("prof.active", NULL, NULL, new, 3), EINVAL);
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &(bool){true}, 1), ENOENT);
}

TEST(a_mib_of_more_than_a_name_is_none)
{
    size_t mib[8], depth = 8;
    for (depth = 3; depth < 6; depth++) {
        CHECK_EQ(mallctlnametomib("arena.0.purge.more", mib, &depth), ENOENT);
    }
    CHECK_EQ(mallctlnametomib("arena.0.purge.more", mib, &(size_t){2}), 0);
    CHECK_EQ(mallctlnametomib("", mib, &(size_t){0}), ENOENT);
    CHECK_EQ(mallctlnametomib("epoch.", mib, &(size_t){1}), ENOENT);
}

TEST(a_wrong_length_copies_what_fits)
{
    unsigned char old[16];
    memset(old, 0xcc, sizeof old);
    size_t size = 3, page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK_EQ(mallctl("arenas.page", old, &size, NULL, 0), EINVAL);
    CHECK_EQ(size, 3);
    CHECK_EQ(memcmp(old, &page, 3), 0);
    CHECK_EQ(old[3], 0xcc);
    size = 16;
    CHECK_EQ(mallctl("arenas.page", old, &size, NULL, 0), EINVAL);
    CHECK_EQ(size, 8);
    CHECK_EQ(memcmp(old, &page, 8), 0);
    CHECK_EQ(old[8], 0xcc);
    size = 8;
    CHECK_EQ(mallctl("background_thread", old, &size, NULL, 0), EINVAL);
    CHECK_EQ(size, 1); /* a bool */
    size = 0;
    CHECK_EQ(mallctl("arenas.page", old, &size, NULL, 0), EINVAL);
    CHECK_EQ(mallctl("arenas.page", NULL, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("arenas.page", old, NULL, NULL, 0), 0);
}

TEST(decay_times_of_all_and_of_one)
{
    size_t size = sizeof(ssize_t);
    ssize_t old, own = 123, all = 456;
    free(malloc(100));
    CHECK_EQ(READ(ssize_t, "arenas.dirty_decay_ms"), 10000);
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", &old, &size, &all, sizeof all), 0);
    CHECK_EQ(old, 10000);
    CHECK_EQ(READ(ssize_t, "arena.0.dirty_decay_ms"), all);
    CHECK_EQ(READ(ssize_t, "opt.dirty_decay_ms"), 10000);
    CHECK_EQ(mallctl("arena.0.dirty_decay_ms", &old, &size, &own, sizeof own), 0);
    CHECK_EQ(old, all);
    CHECK_EQ(READ(ssize_t, "arena.0.dirty_decay_ms"), own);
    CHECK_EQ(READ(ssize_t, "arenas.dirty_decay_ms"), all);
    CHECK_EQ(mallctl("arena.0.muzzy_decay_ms", NULL, NULL, &own, sizeof own), 0);
    CHECK_EQ(READ(ssize_t, "arena.0.muzzy_decay_ms"), own);
    CHECK_EQ(READ(ssize_t, "arenas.muzzy_decay_ms"), 0);
}

static void burst(size_t block_size)
{
    enum { BURST = 64 << 20 };
    static void *blocks[BURST / 1000];
    size_t count = BURST / block_size;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(block_size);
        memset(blocks[i], 1, block_size);
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

static void check_purge(const char *name)
{
    static const size_t sizes[] = {1000, 5000, 100000, 30 << 20};
    ssize_t never = -1;
    size_t start = resident();
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", NULL, NULL, &never, sizeof never), 0);
    for (int i = 0; i < 4; i++) {
        burst(sizes[i]);
        CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
        size_t before = resident();
        CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
        size_t after = resident();
        size_t fenced = TEST_MODE == 2 ? 32769 : TEST_MODE == 1 ? 128 << 10 : SIZE_MAX;
        if (sizes[i] >= fenced) { /* such a block loses its memory with its access */
            CHECK_MSG(after < start + (16 << 20), "%zu: %zu -> %zu", sizes[i], start, after);
            continue;
        }
        CHECK_MSG(before > after + (40 << 20), "%s after %zu: %zu -> %zu", name, sizes[i], before,
                  after);
    }
}

TEST(purge_of_all_arenas)
{
    char name[64];
    snprintf(name, sizeof name, "arena.%u.purge", MALLCTL_ARENAS_ALL);
    check_purge(name);
}

TEST(purge_of_all_arenas_by_the_old_index)
{
    char name[64];
    snprintf(name, sizeof name, "arena.%u.purge", READ(unsigned, "arenas.narenas"));
    check_purge(name);
}

TEST(purge_of_one_arena)
{
    char name[64];
    free(malloc(1));
    snprintf(name, sizeof name, "arena.%u.purge", READ(unsigned, "thread.arena"));
    check_purge(name);
}

TEST(decay_of_an_arena_runs_when_it_is_asked_for)
{
    ssize_t at_once = 0, never = -1;
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", NULL, NULL, &never, sizeof never), 0);
    burst(TEST_MODE == 2 ? 5000 : 100000); /* debug gives large blocks back at once */
    size_t before = resident();
    CHECK_EQ(mallctl("arena.4096.decay", NULL, NULL, NULL, 0), 0);
    CHECK_MSG(before < resident() + (8 << 20), "%zu -> %zu", before, resident());
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", NULL, NULL, &at_once, sizeof at_once), 0);
    CHECK_EQ(mallctl("arena.4096.decay", NULL, NULL, NULL, 0), 0);
    CHECK_MSG(before > resident() + (40 << 20), "%zu -> %zu", before, resident());
}

TEST(indices_of_arenas)
{
    char name[64];
    unsigned count = READ(unsigned, "arenas.narenas");
    void *blocks[64];
    free(malloc(1));
    CHECK_EQ(READ(bool, "arena.0.initialized"), true);
    CHECK_EQ(READ(bool, "arena.4096.initialized"), true);
    CHECK_EQ(READ(bool, "arena.4097.initialized"), false);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "arena.%u.initialized", i);
        (void)READ(bool, name);
        unsigned old;
        size_t size = sizeof old;
        CHECK_EQ(mallctl("thread.arena", &old, &size, &i, sizeof i), 0);
        CHECK_EQ(READ(unsigned, "thread.arena"), i);
        CHECK_EQ(READ(bool, name), true);
        void *block = malloc(100000), *huge = malloc(30 << 20);
        unsigned found;
        CHECK_EQ(mallctl("arenas.lookup", &found, &size, &huge, sizeof huge), 0);
        CHECK_EQ(found, i);
        blocks[i] = huge; /* kept: what is free of another arena would be used first */
        free(block);
    }
    for (unsigned i = 0; i < count; i++) {
        free(blocks[i]);
    }
    void *foreign = &count;
    CHECK_EQ(mallctl("arenas.lookup", NULL, NULL, &foreign, sizeof foreign), EINVAL);
    CHECK(mw_heap_is_valid());
}

/* Any address of a slot will do, and that of a block that was freed is no misuse. */
TEST(arenas_are_looked_up_by_any_address)
{
    static const size_t sizes[] = {100, 5000, 300000, (size_t)20 << 20};
    for (int i = 0; i < 4; i++) {
        char *block = malloc(sizes[i]), *inside = block + sizes[i] / 2 + 1;
        unsigned of_block = 1000, of_inside = 1001;
        int wanted = sizes[i] <= 5000 ? 0 : EINVAL;
        size_t size = sizeof of_block;
        CHECK_EQ(mallctl("arenas.lookup", &of_block, &size, &block, sizeof block), 0);
        CHECK_EQ(mallctl("arenas.lookup", &of_inside, &size, &inside, sizeof inside), wanted);
        CHECK(wanted != 0 || of_block == of_inside);
        free(block);
        (void)mallctl("arenas.lookup", &of_block, &size, &block, sizeof block);
    }
    free(malloc(100));
}

/* jemalloc gives the beginning of a MIB for that of a name; it names nothing to be read. */
TEST(beginnings_of_names_have_mibs)
{
    size_t mib[6], whole[6], depth = 6, whole_depth = 6, length = sizeof(size_t), value;
    CHECK_EQ(mallctlnametomib("arenas.bin.3", mib, &depth), 0);
    CHECK_EQ(depth, 3);
    CHECK_EQ(mallctlnametomib("arenas.bin.3.size", whole, &whole_depth), 0);
    CHECK_EQ(whole_depth, 4);
    CHECK(memcmp(mib, whole, 3 * sizeof *mib) == 0);
    CHECK_EQ(mallctlbymib(mib, depth, &value, &length, NULL, 0), ENOENT);
    depth = 6;
    CHECK_EQ(mallctlnametomib("arenas.", mib, &depth), ENOENT);
    CHECK_EQ(mallctl("arenas.bin.3", &value, &length, NULL, 0), ENOENT);
    depth = 0;
    CHECK_EQ(mallctlnametomib("epoch", mib, &depth), 0);
}

TEST(profiles_that_are_off_can_be_turned_off)
{
    bool off = false, on = true;
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &off, sizeof off), 0);
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &on, sizeof on), ENOENT);
}

TEST(background_thread_starts_and_ends)
{
    size_t size = sizeof(bool);
    bool on = true, off = false, old = true;
    CHECK_EQ(mallctl("background_thread", &old, &size, &on, sizeof on), 0);
    CHECK_EQ(old, false);
    CHECK_EQ(READ(bool, "background_thread"), true);
    CHECK_EQ(READ(bool, "opt.background_thread"), false); /* what it was at the start */
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &off, sizeof off), 0);
    CHECK_EQ(READ(bool, "background_thread"), false);
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &on, sizeof on), 0);
    /* Up to what was set at the start, and no more. */
    size_t most = READ(size_t, "opt.max_background_threads"), fewer = most - 1, more = most + 1,
           none = 0;
    CHECK_EQ(most, 4);
    CHECK_EQ(mallctl("max_background_threads", NULL, NULL, &fewer, sizeof fewer), 0);
    CHECK_EQ(READ(size_t, "max_background_threads"), fewer);
    CHECK_EQ(mallctl("max_background_threads", NULL, NULL, &more, sizeof more), EINVAL);
    CHECK_EQ(mallctl("max_background_threads", NULL, NULL, &none, sizeof none), EINVAL);
    CHECK_EQ(READ(size_t, "max_background_threads"), fewer);
    CHECK_EQ(mallctl("max_background_threads", NULL, NULL, &most, sizeof most), 0);
    CHECK_EQ(READ(size_t, "max_background_threads"), most);
}

/* What lists of threads hold. */
static size_t cached_bytes(void)
{
    write_epoch();
    return READ(size_t, "stats.arenas.4096.tcache_bytes");
}

/* Blocks that wait before they are free, in secure and debug builds, come into no list at first. */
static void check_lists_are_emptied(const char *name)
{
    enum { COUNT = 300 };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = malloc(100 + 30 * i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        free(blocks[i]);
    }
    CHECK(TEST_MODE != 0 || cached_bytes() > 200 * 1000);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    CHECK_MSG(cached_bytes() == 0, "%s: %zu", name, cached_bytes());
}

TEST(idle_and_flush_empty_lists)
{
    check_lists_are_emptied("thread.idle");
    check_lists_are_emptied("thread.tcache.flush");
}

TEST(idle_and_flush_may_be_called_any_time)
{
    for (int i = 0; i < 100; i++) {
        void *volatile block = malloc(100 + 100 * (size_t)i);
        CHECK_EQ(mallctl("thread.idle", NULL, NULL, NULL, 0), 0);
        CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
        free(block);
    }
    CHECK_EQ(READ(bool, "thread.tcache.enabled"), true);
    CHECK(mw_heap_is_valid());
}
