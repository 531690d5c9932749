/* SPDX-License-Identifier: MIT
 *
 * The figures of mw_stats_read are exact where a program can know them: what it allocated and freed
 * of a class, in one thread, in threads that have ended, in the child of a fork.
 */
#include "../allocator.h"
#include "../test.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { COUNT = 700, FREED = 300, THREADS = 4 };

static void *blocks[THREADS][COUNT];

static uint64_t figure(const char *name)
{
    uint64_t value = 0;
    CHECK_MSG(mw_stats_read(name, &value), "%s", name);
    return value;
}

static uint64_t figure_of_class(const char *kind, size_t bound, const char *name)
{
    char text[96];
    uint64_t value = 0;
    snprintf(text, sizeof text, "all.%s.%zu.%s", kind, bound, name);
    return mw_stats_read(text, &value) ? value : UINT64_MAX;
}

/* A figure of the class, of slots or of large blocks, that a size belongs to; of more than 16 MiB there
 * are few. A large block that is a mapping of its own, as some are in the secure build, is counted by its
 * size rounded up to a power of two. */
static uint64_t figure_of_size(size_t size, const char *name)
{
    bool is_slot = size <= 32768;
    /* In the secure build a slot holds a canary behind what was asked for. */
    size_t least = is_slot && t_has_canaries() ? size + 8 : size;
    size_t step = is_slot ? 16 : size > 16 << 20 ? 1 << 20 : 4096, power = 65536;
    uint64_t value = UINT64_MAX;
    for (size_t bound = (least + step - 1) / step * step; value == UINT64_MAX; bound += step) {
        CHECK(bound <= 2 * least + step);
        value = figure_of_class(is_slot ? "class" : "large", bound, name);
        least = value != UINT64_MAX ? bound : least;
    }
    while (power < least) {
        power *= 2;
    }
    uint64_t others = is_slot || power == least ? 0 : figure_of_class("large", power, name);
    return value + (others != UINT64_MAX ? others : 0);
}

struct totals {
    uint64_t allocations;
    uint64_t frees;
};

static struct totals totals_of(size_t size)
{
    return (struct totals){figure_of_size(size, "allocations"), figure_of_size(size, "frees")};
}

static void check_grown(size_t size, struct totals before, uint64_t allocations, uint64_t frees)
{
    struct totals now = totals_of(size);
    CHECK_MSG(now.allocations - before.allocations == allocations, "%zu: %lu, not %lu", size,
              (unsigned long)(now.allocations - before.allocations), (unsigned long)allocations);
    CHECK_MSG(now.frees - before.frees == frees, "%zu: %lu, not %lu", size,
              (unsigned long)(now.frees - before.frees), (unsigned long)frees);
}

/* Sizes of which nobody else allocates; small, medium, large, huge. */
static const size_t sizes[] = {208, 700, 1000, 1536, 3333, 20000, 33000, 70000, 1000000};

TEST(statistics_are_exact)
{
    if (t_has_red_zones()) {
        return;
    }
    size_t more = t_rounds(100000);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct totals before = totals_of(sizes[i]);
        check_grown(sizes[i], before, 0, 0);
        for (unsigned at = 0; at < COUNT; at++) {
            blocks[0][at] = t_malloc(sizes[i]);
        }
        check_grown(sizes[i], before, COUNT, 0);
        for (unsigned at = 0; at < FREED; at++) {
            t_free(blocks[0][at]);
        }
        check_grown(sizes[i], before, COUNT, FREED);
        for (size_t at = 0; at < more; at++) {
            t_free(t_malloc(sizes[i]));
        }
        check_grown(sizes[i], before, COUNT + more, FREED + more);
        for (unsigned at = FREED; at < COUNT; at++) {
            t_free(blocks[0][at]);
        }
        check_grown(sizes[i], before, COUNT + more, COUNT + more);
    }
}

TEST(statistics_of_huge_blocks_are_exact)
{
    if (t_has_red_zones()) {
        return;
    }
    size_t size = 20u << 20;
    struct totals before = totals_of(size);
    uint64_t blocks_before = figure_of_size(size, "blocks");
    void *kept = t_malloc(size);
    t_free(t_malloc(size));
    check_grown(size, before, 2, 1);
    CHECK_EQ(figure_of_size(size, "blocks"), blocks_before + 1);
    t_free(kept);
    check_grown(size, before, 2, 2);
}

/* A large block that realloc makes longer where it is counts as freed and allocated anew. */
TEST(statistics_follow_realloc)
{
    if (t_has_red_zones()) {
        return;
    }
    size_t size = 50000, larger = 3000000;
    struct totals before = totals_of(size), before_larger = totals_of(larger);
    void *block = t_realloc(t_malloc(size), larger);
    check_grown(size, before, 1, 1);
    CHECK_EQ(totals_of(larger).allocations, before_larger.allocations + 1);
    CHECK_EQ(totals_of(larger).frees, before_larger.frees);
    t_free(block);
    CHECK_EQ(totals_of(larger).frees, before_larger.frees + 1);
}

/* Threads that end leave holes among smaller slots, in which larger blocks may lie. */
static void *allocate_some(void *argument)
{
    void **own = argument;
    for (unsigned at = 0; at < COUNT; at++) {
        own[at] = t_malloc(sizes[at % 4]);
    }
    return NULL;
}

static void *free_some(void *argument)
{
    void **others = argument;
    for (unsigned at = 0; at < COUNT; at++) {
        t_free(others[at]);
    }
    return NULL;
}

static void in_threads(void *(*run)(void *))
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, run, blocks[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

TEST(statistics_of_ended_threads_stay)
{
    if (t_has_red_zones()) {
        return;
    }
    struct totals before[4];
    uint64_t remote_before = figure("remote_frees");
    for (unsigned i = 0; i < 4; i++) {
        before[i] = totals_of(sizes[i]);
    }
    in_threads(allocate_some);
    for (unsigned i = 0; i < 4; i++) {
        check_grown(sizes[i], before[i], THREADS * COUNT / 4, 0);
    }
    in_threads(free_some);
    for (unsigned i = 0; i < 4; i++) {
        check_grown(sizes[i], before[i], THREADS * COUNT / 4, THREADS * COUNT / 4);
    }
    CHECK_MSG(figure("remote_frees") > remote_before, "frees by threads that own no slab");
}

/* Threads that hold lists, magazines and outboxes while they sleep. */
static pthread_barrier_t reached, read_by_main;

static void *allocate_and_sleep(void *argument)
{
    allocate_some(argument);
    for (unsigned at = 0; at < COUNT; at += 2) {
        t_free(((void **)argument)[at]);
    }
    pthread_barrier_wait(&reached);
    pthread_barrier_wait(&read_by_main);
    return NULL;
}

static void check_half_is_freed(const struct totals *before)
{
    for (unsigned i = 0; i < 4; i++) {
        uint64_t freed = i % 2 == 0 ? THREADS * COUNT / 4 : 0;
        check_grown(sizes[i], before[i], THREADS * COUNT / 4, freed);
    }
}

/* In the child these threads do not exist, and what they held in lists is free. */
TEST(statistics_of_sleeping_threads_are_exact)
{
    if (t_has_red_zones()) {
        return;
    }
    struct totals before[4];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < 4; i++) {
        before[i] = totals_of(sizes[i]);
    }
    pthread_barrier_init(&reached, NULL, THREADS + 1);
    pthread_barrier_init(&read_by_main, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, allocate_and_sleep, blocks[i]), 0);
    }
    pthread_barrier_wait(&reached);
    check_half_is_freed(before);
    pid_t child = fork();
    if (child == 0) {
        check_half_is_freed(before);
        t_free(t_malloc(sizes[0]));
        CHECK_EQ(totals_of(sizes[0]).frees, before[0].frees + THREADS * COUNT / 4 + 1);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    check_half_is_freed(before);
    pthread_barrier_wait(&read_by_main);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

TEST(statistics_go_on_in_a_child)
{
    if (t_has_red_zones()) {
        return;
    }
    struct totals before = totals_of(sizes[3]);
    allocate_some(blocks[0]);
    in_threads(allocate_some);
    pid_t child = fork();
    if (child == 0) {
        check_grown(sizes[3], before, (THREADS + 1) * COUNT / 4, 0);
        free_some(blocks[1]);
        check_grown(sizes[3], before, (THREADS + 1) * COUNT / 4, COUNT / 4);
        allocate_some(blocks[1]);
        check_grown(sizes[3], before, (THREADS + 2) * COUNT / 4, COUNT / 4);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    check_grown(sizes[3], before, (THREADS + 1) * COUNT / 4, 0);
}

/* A list that holds slots of two arenas in turns: the walk over it must not end at the first that is of
 * another arena than the one that it looks at. */
TEST(statistics_of_mixed_lists_are_exact)
{
    if (t_has_red_zones()) {
        return;
    }
    struct totals before = totals_of(sizes[3]);
    allocate_some(blocks[0]);
    in_threads(allocate_some);
    uint64_t allocated = (THREADS + 1) * COUNT / 4;
    check_grown(sizes[3], before, allocated, 0);
    uint64_t freed = 0;
    for (unsigned at = 3; at < COUNT; at += 4) {
        for (unsigned i = 0; i < THREADS; i++) {
            t_free(blocks[i][at]);
            freed++;
        }
        check_grown(sizes[3], before, allocated, freed);
    }
    for (unsigned at = 3; at < COUNT; at += 4) {
        blocks[0][at] = t_malloc(sizes[3]);
        allocated++;
        check_grown(sizes[3], before, allocated, freed);
    }
}

struct sums {
    uint64_t allocations, frees, held, bytes;
    unsigned figures;
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

/* Adds up the arenas' own figures. */
static void add_up(void *context, const struct mw_stat *stat)
{
    struct sums *sums = context;
    sums->figures++;
    CHECK(stat->help[0] != 0 && stat->unit[0] != 0);
    if (strncmp(stat->name, "arena.", 6) != 0) {
        return;
    }
    if (ends_with(stat->name, ".allocations")) {
        sums->allocations += stat->value;
    } else if (ends_with(stat->name, ".frees")) {
        sums->frees += stat->value;
    } else if (ends_with(stat->name, ".slots_out") || ends_with(stat->name, ".blocks")) {
        sums->held += stat->value;
    } else if (ends_with(stat->name, ".slots_cached")) {
        sums->held -= stat->value;
    }
}

/* Blocks with pages of their own that are no larger than slots: for their alignment. */
static void allocate_aligned(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0; i < 100; i++) {
        void *block = t_aligned_alloc(2 * page, 2 * page);
        CHECK(block != NULL);
        if (i % 4 == 0) {
            t_free(block);
        }
    }
}

TEST(statistics_add_up)
{
    in_threads(allocate_some);
    in_threads(free_some);
    allocate_aligned();
    struct sums sums = {0};
    CHECK(mw_stats_each(add_up, &sums));
    CHECK(sums.figures > 1000);
    CHECK_EQ(sums.allocations, figure("allocations"));
    CHECK_EQ(sums.frees, figure("frees"));
    CHECK_EQ(sums.allocations - sums.frees, sums.held);
    CHECK_EQ(figure("allocated"),
             figure("all.small_bytes") - figure("all.cached_bytes") + figure("all.large_bytes"));
}

/* mallinfo2 counts by itself, for it can be called where there is no memory for the statistics. */
TEST(mallinfo2_agrees_with_the_statistics)
{
    void *freed = t_malloc(30u << 20), *kept = t_malloc(20u << 20);
    for (size_t i = 0; i < COUNT; i++) {
        blocks[0][i] = t_malloc(sizes[i % (sizeof sizes / sizeof sizes[0])]);
    }
    for (size_t i = 0; i < COUNT; i += 3) {
        t_free(blocks[0][i]);
    }
    t_free(freed);
    struct mw_mallinfo2 info = t_mallinfo2(); /* puts what is in lists back into slabs */
    /* What waits in the secure build before it is free, it counts as in use, and the statistics as cached. */
    CHECK(t_has_canaries() || figure("cached") == 0);
    CHECK_EQ(info.uordblks + info.hblkhd, figure("allocated") + figure("cached"));
    CHECK_EQ(info.uordblks + info.fsmblks + info.hblkhd, figure("active"));
    CHECK_EQ(info.hblkhd, figure("all.huge_bytes"));
    CHECK_EQ(info.hblks, figure("all.huge_blocks"));
    CHECK_EQ(info.arena, figure("all.region_bytes") + figure("all.huge_dirty_bytes"));
    CHECK_EQ(info.keepcost, figure("dirty") + figure("muzzy"));
    CHECK_LE(info.keepcost, info.fordblks);
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 3 != 0) {
            t_free(blocks[0][i]);
        }
    }
    t_free(kept);
}

/* In all mappings of the process, in bytes. */
static uint64_t huge_bytes_of_process(void)
{
    char line[512];
    unsigned long kib, sum = 0;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    while (smaps != NULL && fgets(line, sizeof line, smaps) != NULL) {
        sum += sscanf(line, "AnonHugePages: %lu kB", &kib) == 1 ? kib : 0;
    }
    fclose(smaps);
    return sum * 1024;
}

enum { PAGE = 64 << 10 };

/* Pages of any size within a block of some MiB. */
static char *within(void *block)
{
    return (char *)(((uintptr_t)block + (8 << 20)) & ~(uintptr_t)(PAGE - 1));
}

/* What is in mappings of its own is so many more; what the program has mapped itself is none of ours. Huge blocks
 * that lie side by side the kernel may join, so there are pages that cannot be written to in each of these. */
TEST(statistics_tell_of_mappings)
{
    enum { BLOCKS = 8, SIZE = 24 << 20 };
    void *blocks[BLOCKS], *other[BLOCKS];
    void *first = t_malloc(100);
    uint64_t before = figure("mappings");
    CHECK_GE(before, 1);
    for (int i = 0; i < BLOCKS; i++) {
        other[i] =
            mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(other[i] != MAP_FAILED);
    }
    CHECK_EQ(figure("mappings"), before);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = t_malloc(SIZE);
        CHECK(blocks[i] != NULL);
        CHECK_EQ(mprotect(within(blocks[i]), PAGE, PROT_READ),
                 0); /* so that none is joined with it */
    }
    CHECK_GE(figure("mappings"), before + BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK_EQ(mprotect(within(blocks[i]), PAGE, PROT_READ | PROT_WRITE), 0);
        t_free(blocks[i]);
        munmap(other[i], PAGE);
    }
    t_free(first);
}

/* Whether those of a block are told, and others are not. It stays, or the next would get its huge pages. */
static bool tells_of_huge_pages(void)
{
    enum { SIZE = 32 << 20, ALIGNMENT = 2 << 20 };
    uint64_t told_before = figure("huge_pages"), before = huge_bytes_of_process();
    char *other =
        mmap(NULL, SIZE + ALIGNMENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(other != MAP_FAILED);
    CHECK_EQ(mprotect(other, 4096, PROT_NONE),
             0); /* so that no mapping of ours is joined with it */
    CHECK_EQ(mprotect(other + SIZE + ALIGNMENT - 4096, 4096, PROT_NONE), 0);
    madvise(other + 4096, SIZE, MADV_HUGEPAGE);
    memset(other + 4096, 1, SIZE);
    uint64_t with_other = huge_bytes_of_process(), told = figure("huge_pages");
    char *block = t_aligned_alloc(ALIGNMENT, SIZE);
    madvise(block, SIZE, MADV_HUGEPAGE);
    memset(block, 1, SIZE);
    uint64_t in_block = huge_bytes_of_process() - with_other, told_after = figure("huge_pages");
    munmap(other, SIZE + ALIGNMENT);
    return told_before <= before && told <= before && told_after == told + in_block;
}

/* The kernel gives huge pages where it has some, and may make more of them between two looks. */
TEST(statistics_tell_of_huge_pages)
{
    bool is_told = false;
    for (int i = 0; i < 10 && !is_told; i++) {
        is_told = tells_of_huge_pages();
    }
    CHECK(is_told);
}

TEST(statistics_unknown_name_is_not_found)
{
    uint64_t value = 7;
    CHECK(!mw_stats_read("", &value));
    CHECK(!mw_stats_read("all.class.49.allocations", &value));
    CHECK_EQ(value, 7);
}

/* What reads does not change what it reads. */
TEST(statistics_do_not_allocate)
{
    uint64_t before = figure("allocations");
    for (unsigned i = 0; i < 20; i++) {
        CHECK_EQ(figure("allocations"), before);
    }
    uint64_t mapped = figure("mapped");
    CHECK(mapped != 0);
    CHECK_EQ(figure("mapped"), mapped);
}

static unsigned pieces_written;

static void count_piece(void *context, const char *text)
{
    CHECK(context == &pieces_written && text[0] != 0);
    pieces_written++;
}

TEST(stats_print_does_not_allocate)
{
    uint64_t before = figure("allocations");
    mw_malloc_stats_print(count_piece, &pieces_written, "J");
    mw_malloc_stats_print(count_piece, &pieces_written, NULL);
    CHECK(pieces_written > 2);
    CHECK_EQ(figure("allocations"), before);
}

static volatile bool is_working;

/* Blocks whose first word, where a free slot has its link, is anything. */
static void *work(void *argument)
{
    uint64_t state = (uintptr_t)argument | 1;
    uint64_t *kept[200] = {0};
    while (is_working) {
        uint64_t number = test_random(&state);
        unsigned at = (unsigned)(number % 200);
        t_free(kept[at]);
        size_t size = 16 + (number >> 20) % (number % 50 == 0 ? 500000 : 2000);
        kept[at] = t_malloc(size);
        *kept[at] = number;
        if (number % 20000 == 0) {
            mw_collect(true);
        }
    }
    for (unsigned at = 0; at < 200; at++) {
        t_free(kept[at]);
    }
    return NULL;
}

static void look_at(void *context, const struct mw_stat *stat)
{
    uint64_t *bytes = context;
    if (strcmp(stat->name, "allocated") == 0 || strcmp(stat->name, "cached") == 0) {
        *bytes += stat->value;
    }
}

/* Who reads while others work gets figures of some moment: none that no moment could have. */
TEST(statistics_are_read_while_threads_work)
{
    pthread_t threads[THREADS];
    is_working = true;
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, work, blocks[i]), 0);
    }
    for (size_t i = 0; i < t_rounds(200); i++) {
        uint64_t bytes = 0;
        CHECK(mw_stats_each(look_at, &bytes));
        CHECK_MSG(bytes < (uint64_t)1 << 30, "%lu bytes", (unsigned long)bytes);
    }
    is_working = false;
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    struct sums sums = {0};
    CHECK(mw_stats_each(add_up, &sums));
    CHECK_EQ(sums.allocations - sums.frees, sums.held);
}
