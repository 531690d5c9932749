/* SPDX-License-Identifier: MIT
 *
 * stats.arenas.* by name: what is counted of purges and flushes, what becomes of free pages, how old an
 * arena is, and what is 0 because there is nothing of the kind.
 */
#include <jemalloc/jemalloc.h>

#include <stdlib.h>

#include "../test.h"
#include "read.h"

static void write_epoch(void)
{
    uint64_t epoch = 1;
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

static void set_decay_ms(const char *name, ssize_t ms)
{
    CHECK_EQ(mallctl(name, NULL, NULL, &ms, sizeof ms), 0);
}

/* Of all arenas, when the epoch was written last. */
static uint64_t of_all(const char *name)
{
    char whole[100];
    snprintf(whole, sizeof whole, "stats.arenas.4096.%s", name);
    return READ(uint64_t, whole);
}

static uint64_t of_bin(unsigned bin, const char *name)
{
    char inner[64];
    snprintf(inner, sizeof inner, "bins.%u.%s", bin, name);
    return of_all(inner);
}

static uint64_t of_all_bins(const char *name)
{
    uint64_t sum = 0;
    for (unsigned bin = 0; bin < READ(unsigned, "arenas.nbins"); bin++) {
        sum += of_bin(bin, name);
    }
    return sum;
}

static uint64_t of_all_extents(const char *name)
{
    uint64_t sum = 0;
    for (unsigned size = 0; size < 64; size++) {
        char inner[64];
        snprintf(inner, sizeof inner, "extents.%u.%s", size, name);
        sum += of_all(inner);
    }
    return sum;
}

/* Slots in every build: the debug build gives larger blocks back to the kernel at once. */
enum { BLOCKS = 2000, BLOCK = 20000, HALF = BLOCKS * BLOCK / 2 };

static void burst(void)
{
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = memset(malloc(BLOCK), 1, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
}

struct purges {
    uint64_t npurge, nmadvise, purged;
};

static struct purges dirty_purges(void)
{
    return (struct purges){of_all("dirty_npurge"), of_all("dirty_nmadvise"),
                           of_all("dirty_purged")};
}

static struct purges muzzy_purges(void)
{
    return (struct purges){of_all("muzzy_npurge"), of_all("muzzy_nmadvise"),
                           of_all("muzzy_purged")};
}

/* One purge at least, with a call for the kernel at least, of so many pages. */
static void check_purged(struct purges before, struct purges after, uint64_t pages)
{
    CHECK_LT(before.npurge, after.npurge);
    CHECK_GE(after.nmadvise - before.nmadvise, after.npurge - before.npurge);
    CHECK_GE(after.purged - before.purged, pages);
    CHECK_GE(after.purged - before.purged, after.nmadvise - before.nmadvise);
}

static void check_no_purge(struct purges before, struct purges after)
{
    CHECK_EQ(after.npurge, before.npurge);
    CHECK_EQ(after.nmadvise, before.nmadvise);
    CHECK_EQ(after.purged, before.purged);
}

KERNEL_TEST(dirty_pages_become_muzzy_and_go)
{
    size_t page = READ(size_t, "arenas.page");
    set_decay_ms("arenas.dirty_decay_ms", -1);
    set_decay_ms("arenas.muzzy_decay_ms", -1);
    burst();
    write_epoch();
    struct purges dirty = dirty_purges(), muzzy = muzzy_purges();
    CHECK_GE(of_all("pdirty"), HALF / page);
    CHECK_EQ(of_all("pmuzzy"), 0);
    CHECK_EQ(of_all_extents("nmuzzy"), 0);

    set_decay_ms("arenas.dirty_decay_ms", 0);
    CHECK_EQ(mallctl("arena.4096.decay", NULL, NULL, NULL, 0), 0);
    write_epoch();
    uint64_t pages = of_all("pmuzzy"), resident = of_all("resident");
    CHECK_GE(pages, HALF / page);
    CHECK(of_all_extents("nmuzzy") > 0);
    CHECK_EQ(of_all_extents("muzzy_bytes"), pages * page);
    check_purged(dirty, dirty_purges(), pages);
    check_no_purge(muzzy, muzzy_purges());

    dirty = dirty_purges();
    uint64_t retained = of_all_extents("retained_bytes");
    set_decay_ms("arenas.muzzy_decay_ms", 0);
    CHECK_EQ(mallctl("arena.4096.decay", NULL, NULL, NULL, 0), 0);
    write_epoch();
    check_purged(muzzy, muzzy_purges(), pages);
    check_no_purge(dirty, dirty_purges());
    CHECK_EQ(of_all("pmuzzy"), 0);
    CHECK_EQ(of_all_extents("muzzy_bytes"), 0);
    CHECK(of_all_extents("nretained") > 0);
    CHECK_GE(of_all_extents("retained_bytes"), retained + pages * page);
    CHECK_EQ(of_all_extents("retained_bytes"), of_all("retained"));
    CHECK_LE(of_all("resident") + pages * page, resident);
}

static unsigned bin_of(size_t size)
{
    char name[64];
    for (unsigned bin = 0;; bin++) {
        snprintf(name, sizeof name, "arenas.bin.%u.size", bin);
        if (READ(size_t, name) >= size) {
            return bin;
        }
    }
}

static uint64_t of_all_lextents(const char *name)
{
    uint64_t sum = 0;
    for (unsigned lextent = 0; lextent < READ(unsigned, "arenas.nlextents"); lextent++) {
        char inner[64];
        snprintf(inner, sizeof inner, "lextents.%u.%s", lextent, name);
        sum += of_all(inner);
    }
    return sum;
}

/* Blocks with pages of their own that are no larger than slots, for their alignment: they are counted too. */
TEST(lextents_add_up_to_large)
{
    size_t page = READ(size_t, "arenas.page");
    void *blocks[100];
    write_epoch();
    uint64_t given = of_all_lextents("nmalloc"), held = of_all_lextents("curlextents");
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(posix_memalign(&blocks[i], 2 * page, page), 0);
    }
    write_epoch();
    CHECK_GE(of_all_lextents("nmalloc"), given + 100);
    CHECK_GE(of_all_lextents("curlextents"), held + 100);
    CHECK_EQ(of_all_lextents("nmalloc"), of_all("large.nmalloc"));
    CHECK_EQ(of_all_lextents("ndalloc"), of_all("large.ndalloc"));
    CHECK_EQ(of_all_lextents("nrequests"), of_all("large.nrequests"));
    for (int i = 0; i < 100; i++) {
        free(blocks[i]);
    }
}

TEST(flushes_are_counted_of_each_bin_and_of_all)
{
    unsigned bin = bin_of(200);
    void *blocks[1000];
    write_epoch();
    uint64_t before = of_bin(bin, "nflushes"), all = of_all("small.nflushes");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) {
            blocks[i] = malloc(200);
        }
        for (int i = 0; i < 1000; i++) {
            free(blocks[i]);
        }
        CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    }
    write_epoch();
    /* With its red zones, in the debug build, a block is of another class. */
    uint64_t flushes =
        TEST_MODE == 2 ? of_all("small.nflushes") - all : of_bin(bin, "nflushes") - before;
    CHECK_GE(flushes, 3);
    CHECK_LE(flushes, 3000 + 3); /* a slot at least goes back with each */
    CHECK_GE(of_all("small.nflushes"), all + flushes);
    CHECK_EQ(of_all("small.nflushes"), of_all_bins("nflushes"));
    CHECK_EQ(of_all("small.nfills"), of_all_bins("nfills"));
    CHECK_EQ(of_all("small.nrequests"), of_all_bins("nrequests"));
    CHECK_EQ(of_all("small.nmalloc"), of_all_bins("nmalloc"));
    CHECK_EQ(of_all("small.ndalloc"), of_all_bins("ndalloc"));
}

TEST(large_blocks_are_counted_one_by_one)
{
    void *blocks[50];
    write_epoch();
    uint64_t given = of_all("large.nmalloc"), freed = of_all("large.ndalloc");
    for (int i = 0; i < 50; i++) {
        blocks[i] = malloc(300000);
    }
    for (int i = 0; i < 50; i++) {
        free(blocks[i]);
    }
    write_epoch();
    CHECK_EQ(of_all("large.nmalloc"), given + 50);
    CHECK_EQ(of_all("large.ndalloc"), freed + 50);
    CHECK_EQ(of_all("large.nrequests"), of_all("large.nmalloc"));
    CHECK_EQ(of_all("large.nfills"), 0);
    CHECK_EQ(of_all("large.nflushes"), 0);
}

/* Free neighbours become one, and what described the others is kept for the next. */
TEST(descriptors_without_use_are_counted)
{
    void *blocks[200];
    write_epoch();
    uint64_t before = of_all("extent_avail");
    for (int i = 0; i < 200; i++) {
        blocks[i] = malloc(100000);
    }
    for (int i = 0; i < 200; i++) {
        free(blocks[i]);
    }
    CHECK_EQ(mallctl("arena.4096.purge", NULL, NULL, NULL, 0), 0);
    write_epoch();
    CHECK_GE(of_all("extent_avail"), before + 100);
}

TEST(an_arena_grows_older)
{
    enum { SLEPT_US = 100000, LEAST_NS = 50000000 }; /* the clock has steps of some milliseconds */
    write_epoch();
    uint64_t before = READ(uint64_t, "stats.arenas.0.uptime");
    usleep(SLEPT_US);
    CHECK_EQ(READ(uint64_t, "stats.arenas.0.uptime"), before); /* no new epoch */
    write_epoch();
    CHECK_GE(READ(uint64_t, "stats.arenas.0.uptime"), before + LEAST_NS);
    CHECK_GE(of_all("uptime"), READ(uint64_t, "stats.arenas.0.uptime"));
}

TEST(an_arena_tells_its_muzzy_decay)
{
    char name[64];
    unsigned arena;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    snprintf(name, sizeof name, "arena.%u.muzzy_decay_ms", arena);
    set_decay_ms(name, 4321);
    write_epoch();
    snprintf(name, sizeof name, "stats.arenas.%u.muzzy_decay_ms", arena);
    CHECK_EQ(READ(ssize_t, name), 4321);
    CHECK_EQ(READ(ssize_t, "stats.arenas.0.muzzy_decay_ms"), 0);
    CHECK_EQ((ssize_t)of_all("muzzy_decay_ms"), -1);
}

TEST(what_there_is_nothing_of_is_0)
{
    static const char *const names[] = {"pinned",
                                        "internal",
                                        "tcache_stashed_bytes",
                                        "abandoned_vm",
                                        "hpa_sec_bytes",
                                        "hpa_sec_hits",
                                        "hpa_sec_misses",
                                        "hpa_sec_dalloc_noflush",
                                        "hpa_sec_dalloc_flush",
                                        "hpa_sec_overfills",
                                        "hpa_shard.npageslabs",
                                        "hpa_shard.nactive",
                                        "hpa_shard.ndirty",
                                        "hpa_shard.npurges",
                                        "hpa_shard.nhugify_failures",
                                        "hpa_shard.slabs.nactive_huge",
                                        "hpa_shard.full_slabs.npageslabs_huge",
                                        "hpa_shard.empty_slabs.ndirty_nonhuge",
                                        "hpa_shard.nonfull_slabs.3.nactive_huge"};
    burst();
    write_epoch();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_MSG(of_all(names[i]) == 0, "%s", names[i]);
    }
    CHECK_EQ(READ(size_t, "stats.pinned"), 0);
    CHECK_EQ(of_all_extents("npinned"), 0);
    CHECK_EQ(of_all_extents("pinned_bytes"), 0);
    CHECK_EQ(of_all_bins("nreslabs"), 0);
}
