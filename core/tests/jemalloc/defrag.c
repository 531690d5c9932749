/* SPDX-License-Identifier: MIT
 *
 * A program that moves its blocks where je_get_defrag_hint says so, as Redis does, ends with fewer slabs;
 * and what experimental.utilization says of blocks.
 */
#include <jemalloc/jemalloc.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

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

enum { BLOCKS = 60000 };
static char *blocks[BLOCKS];

struct one {
    size_t free_slots, slots, size;
};

struct whole {
    void *current;
    struct one block;
    size_t bin_free_slots, bin_slots;
};

static size_t active(void)
{
    uint64_t epoch = 1;
    size_t value, size = sizeof value;
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.active", &value, &size, NULL, 0), 0);
    return value;
}

/* Fills slabs, then frees all but a tenth of the blocks at random. */
static unsigned fill_and_thin(size_t size)
{
    uint64_t state = 88172645463325252u;
    unsigned kept = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        memset(blocks[i], (int)i, size);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (state >> 33 < (1u << 31) / 10) {
            kept++;
        } else {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    return kept;
}

/* One turn over blocks, as Redis's activedefrag; returns how many moved. */
static unsigned move_all(char **all, unsigned count, size_t size)
{
    unsigned moved = 0;
    for (unsigned i = 0; i < count; i++) {
        if (all[i] == NULL || !je_get_defrag_hint(all[i])) {
            continue;
        }
        char *block = mallocx(size, MALLOCX_TCACHE_NONE);
        memcpy(block, all[i], size);
        dallocx(all[i], MALLOCX_TCACHE_NONE);
        all[i] = block;
        moved++;
    }
    return moved;
}

static unsigned move_blocks(size_t size)
{
    return move_all(blocks, BLOCKS, size);
}

static void check_defrag(size_t size)
{
    if (is_debug()) {
        return;
    }
    size_t before_all = active();
    unsigned kept = fill_and_thin(size);
    size_t thin = active() - before_all;
    unsigned moved = 0, turns = 0;
    for (; turns < 10; turns++) {
        unsigned now = move_blocks(size);
        moved += now;
        if (now < kept / 50) {
            break;
        }
        usleep(110 * 1000); /* the sums that hints are made from hold for so long */
    }
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    size_t dense = active() - before_all;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL) {
            CHECK_EQ(blocks[i][0], (char)i);
            CHECK_EQ(blocks[i][size - 1], (char)i);
            free(blocks[i]);
        }
    }
    /* With two slots in a page, one page in five has one of the blocks: no more than half of those can go. */
    size_t used = kept * size;
    CHECK_MSG(2 * thin > 3 * used, "nothing to win: %zu of %zu", used, thin);
    CHECK_MSG(dense < used + (thin - used) / 3,
              "size %zu: %zu -> %zu bytes after %u turns, %u moved; %u kept", size, thin, dense,
              turns, moved, kept);
    CHECK(mw_heap_is_valid());
}

TEST(defrag_of_small_blocks)
{
    check_defrag(48);
}

TEST(defrag_of_blocks_of_some_hundred_bytes)
{
    check_defrag(320);
}

TEST(defrag_of_blocks_of_two_kib)
{
    check_defrag(2000);
}

/* Half of the slabs are almost empty, but for blocks that never move: the others are forty times as full as
 * those, and become empty all the same. */
TEST(defrag_beside_blocks_that_never_move)
{
    enum { SIZE = 32, STAYING = 700, MOVING = 16 };
    if (is_debug()) {
        return;
    }
    size_t before = active();
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % (i < BLOCKS / 2 ? STAYING : MOVING) != 0) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    size_t thin = active() - before;
    unsigned moved = 0;
    for (unsigned turns = 0; turns < 5; turns++) {
        moved += move_all(blocks + BLOCKS / 2, BLOCKS / 2, SIZE);
        usleep(110 * 1000); /* the sums that hints are made from hold for so long */
    }
    size_t dense = active() - before;
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    CHECK_MSG(dense < thin * 3 / 4, "%zu -> %zu bytes, %u moved", thin, dense, moved);
    CHECK_LE(moved, 2 * BLOCKS / MOVING); /* it comes to an end */
}

/* Larger blocks have come to lie in the holes between small ones, and most of them went too. */
TEST(defrag_of_blocks_in_holes)
{
    enum { LARGER = 6000, SMALL_SIZE = 64, LARGER_SIZE = 440 };
    static char *larger[LARGER];
    if (is_debug()) {
        return;
    }
    size_t before = active();
    size_t used = fill_and_thin(SMALL_SIZE) * SMALL_SIZE;
    for (unsigned i = 0; i < LARGER; i++) {
        larger[i] = malloc(LARGER_SIZE);
        memset(larger[i], (int)i, LARGER_SIZE);
    }
    for (unsigned i = 0; i < LARGER; i++) {
        if (i % 16 != 0) {
            free(larger[i]);
            larger[i] = NULL;
        } else {
            used += LARGER_SIZE;
        }
    }
    size_t thin = active() - before;
    CHECK_MSG(thin > 3 * used, "nothing to win: %zu of %zu", used, thin);
    for (unsigned turn = 0; turn < 10; turn++) {
        move_blocks(SMALL_SIZE);
        move_all(larger, LARGER, LARGER_SIZE);
        usleep(110 * 1000);
    }
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    size_t dense = active() - before;
    CHECK_MSG(dense < 2 * used, "%zu bytes used, %zu -> %zu", used, thin, dense);
    for (unsigned i = 0; i < LARGER; i++) {
        CHECK(larger[i] == NULL || larger[i][LARGER_SIZE - 1] == (char)i);
        free(larger[i]);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

TEST(no_hint_for_what_is_dense_large_or_not_ours)
{
    int on_stack;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(64);
    }
    unsigned hints = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        hints += je_get_defrag_hint(blocks[i]) != 0;
    }
    CHECK_MSG(hints < BLOCKS / 20, "%u hints in a dense heap", hints);
    void *large = malloc(1 << 20);
    CHECK_EQ(je_get_defrag_hint(large), 0);
    CHECK_EQ(je_get_defrag_hint(&on_stack), 0);
    CHECK_EQ(je_get_defrag_hint(NULL), 0);
    free(large);
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

TEST(utilization_of_a_batch)
{
    if (!is_fast()) {
        return;
    }
    void *asked[3] = {malloc(64), malloc(100000), &(int){0}};
    struct one results[3];
    size_t size = sizeof results;
    CHECK_EQ(mallctl("experimental.utilization.batch_query", results, &size, asked, sizeof asked),
             0);
    CHECK(results[0].slots > 1 && results[0].free_slots < results[0].slots);
    CHECK_GE(results[0].size, 64 * results[0].slots);
    CHECK_EQ(results[1].slots, 1);
    CHECK_EQ(results[1].free_slots, 0);
    CHECK_EQ(results[1].size, malloc_usable_size(asked[1]));
    CHECK_EQ(results[2].slots + results[2].free_slots + results[2].size, 0);
    struct whole whole;
    size = sizeof whole;
    CHECK_EQ(mallctl("experimental.utilization.query", &whole, &size, asked, sizeof(void *)), 0);
    CHECK_EQ(whole.block.slots, results[0].slots);
    CHECK_GE(whole.bin_slots, whole.block.slots);
    CHECK_LE(whole.bin_free_slots, whole.bin_slots);
    CHECK(whole.current != NULL);
    free(asked[0]);
    free(asked[1]);
}

TEST(utilization_of_wrong_lengths)
{
    void *asked[2] = {NULL, NULL};
    struct whole results[2];
    size_t size = sizeof(struct one);
    const char *batch = "experimental.utilization.batch_query";
    CHECK_EQ(mallctl(batch, results, &size, asked, sizeof asked), EINVAL);
    size = 2 * sizeof(struct one) + 1;
    CHECK_EQ(mallctl(batch, results, &size, asked, sizeof asked), EINVAL);
    size = sizeof(struct one);
    CHECK_EQ(mallctl(batch, results, &size, asked, 7), EINVAL);
    CHECK_EQ(mallctl(batch, results, &size, asked, 0), EINVAL);
    CHECK_EQ(mallctl(batch, results, &size, NULL, 0), EINVAL);
    CHECK_EQ(mallctl(batch, NULL, NULL, asked, sizeof asked), EINVAL);
    CHECK_EQ(mallctl("experimental.utilization.query", results, &size, asked, 8), EINVAL);
    size = sizeof(struct whole);
    CHECK_EQ(mallctl("experimental.utilization.query", results, &size, asked, 4), EINVAL);
    CHECK_EQ(mallctl("experimental.utilization.query", results, &size, asked, 8), 0);
    CHECK_EQ(results[0].block.size, 0);
}

TEST(other_experimental_names_do_not_exist)
{
    uint64_t old[8];
    size_t size = sizeof old;
    CHECK_EQ(mallctl("experimental.arenas.0.pactivep", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("experimental.hooks.install", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("experimental.hooks.prof_sample", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("experimental.hooks.prof_sample", NULL, NULL, &size, sizeof size), ENOENT);
    CHECK_EQ(mallctl("experimental.batch_alloc", old, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("experimental.thread.activity_callback", old, &size, NULL, 0), ENOENT);
}

/* Hints while others allocate, free and end. */
static _Atomic bool is_over;

static void *churn(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !is_over; i++) {
        void *block = malloc(16 + i % 2000);
        free(block);
    }
    return NULL;
}

TEST(hints_while_others_work)
{
    if (is_debug()) {
        return;
    }
    pthread_t threads[3];
    is_over = false;
    unsigned kept = fill_and_thin(100);
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, churn, NULL);
    }
    unsigned moved = 0;
    for (int turn = 0; turn < 5; turn++) {
        moved += move_blocks(100);
    }
    is_over = true;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(moved > kept / 10);
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    CHECK(mw_heap_is_valid());
}
