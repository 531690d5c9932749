/* SPDX-License-Identifier: MIT
 *
 * What statistics count: locks that are waited for, purges, runs of free pages; and that the tables
 * for other processes say what the functions say.
 */
#include "unit.h"

TEST(statistics_sizes_of_the_page_are_those_of_the_classes)
{
    for (unsigned class = 0; class < LIST_CLASSES; class ++) {
        CHECK_EQ(stats_class_sizes[class], class_size(class));
    }
}

TEST(statistics_large_classes_hold_what_is_counted_there)
{
    os_init();
    for (size_t pages = 1; pages < 100000; pages += 1 + pages / 50) {
        for (unsigned is_huge = 0; is_huge < 2; is_huge++) {
            unsigned class = large_class_of(pages, is_huge);
            CHECK(class < LARGE_CLASSES && large_class_pages(class) >= pages);
            CHECK(large_class_pages(class) < 2 * pages || pages == 1);
        }
        unsigned bin = extent_bin(pages);
        CHECK(extent_bin_pages(bin) >= pages || bin == EXTENT_BINS - 1);
        CHECK(bin == 0 || extent_bin_pages(bin - 1) < pages);
    }
    CHECK(large_class_of(UINT32_MAX, true) < LARGE_CLASSES);
}

static struct lock lock = LOCK_INITIALIZER(LOCK_META);
static _Atomic bool is_taken;

/* Until somebody sleeps for it, or for a minute. */
static void *hold(void *unused)
{
    lock_take(&lock);
    atomic_set(&is_taken, true);
    for (unsigned i = 0; i < 60000 && (atomic_get(&lock.state) & LOCK_WAITED) == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    lock_release(&lock);
    return unused;
}

/* A lock that is found free counts an operation and no wait; one that is held for long, a wait. */
TEST(statistics_of_a_lock)
{
    for (unsigned i = 0; i < 10; i++) {
        lock_take(&lock);
        lock_release(&lock);
    }
    struct stats_lock figures = figures_of_lock(&lock);
    CHECK_EQ(figures.operations, 10);
    CHECK_EQ(figures.owner_changes, 1);
    CHECK_EQ(figures.waits + figures.spins + figures.queue_most, 0);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, hold, NULL), 0);
    while (!atomic_get(&is_taken)) {
        sched_yield();
    }
    lock_take(&lock);
    lock_release(&lock);
    pthread_join(thread, NULL);
    figures = figures_of_lock(&lock);
    CHECK_EQ(figures.operations, 12);
    CHECK_EQ(figures.owner_changes, 3);
    CHECK_EQ(figures.waits, 1);
    CHECK_EQ(figures.spins, 0);
    CHECK_EQ(figures.queue_most, 1);
    CHECK_EQ(figures.wait_time, figures.wait_time_most);
    CHECK(figures.wait_time > 0);
}

static uint64_t figure(const char *name)
{
    uint64_t value = 0;
    CHECK_MSG(mw_stats_read(name, &value), "%s", name);
    return value;
}

static bool is_shown(struct lock *lock)
{
    bool found = false;
    for (unsigned i = 0; i < STATS_PROCESS_LOCKS; i++) {
        found |= process_lock_at(i) == lock;
        CHECK(stats_process_lock_names[i] != NULL);
    }
    for (unsigned i = 0; i < STATS_ARENA_LOCKS * arenas_ever(); i++) {
        found |= arena_lock_at(arena_ever_at(i / STATS_ARENA_LOCKS), i % STATS_ARENA_LOCKS) == lock;
        CHECK(stats_arena_lock_names[i % STATS_ARENA_LOCKS] != NULL);
    }
    return found;
}

static bool is_not_shown(struct lock *lock)
{
    CHECK_MSG(is_shown(lock), "the lock of rank %u", lock->rank);
    return false;
}

TEST(statistics_of_each_lock_there_is)
{
    mw_free(mw_malloc(1));
    fork_visit_locks(is_not_shown);
    uint64_t before = figure("arena.0.lock.growth.operations");
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(mw_malloc(MiB) != NULL);
    }
    CHECK_LT(before, figure("all.lock.growth.operations"));
    CHECK_EQ(figure("lock.quarantine.waits"), 0);
}

TEST(statistics_of_purges)
{
    mw_collect(true);
    uint64_t purged = figure("all.dirty_pages_purged");
    uint64_t calls = figure("all.dirty_purge_calls");
    char *block = mw_malloc(2 * MiB);
    memset(block, 1, 2 * MiB);
    mw_free(block);
    CHECK_EQ(figure("dirty"), 2 * MiB);
    CHECK_EQ(figure("all.stacked_bytes"), 2 * MiB);
    size_t pages = 2 * MiB >> os_page_shift;
    char dirty_extents[40];
    snprintf(dirty_extents, sizeof dirty_extents, "all.extents.%zu.dirty", pages);
    CHECK_EQ(figure(dirty_extents), 1);
    mw_collect(true);
    CHECK_EQ(figure("dirty"), 0);
    CHECK_EQ(figure("all.dirty_pages_purged"), purged + pages);
    CHECK_EQ(figure("all.dirty_purge_calls"), calls + 1);
}

/* A block that grows beyond where it is becomes a mapping of its own. */
TEST(statistics_of_mappings)
{
    uint64_t made = figure("mappings_made");
    void *block = mw_malloc(20 * MiB);
    CHECK(figure("mappings_made") > made);
    uint64_t dropped = figure("mappings_dropped");
    mw_free(block);
    mw_collect(true);
    CHECK(figure("mappings_dropped") > dropped + 1); /* mw_stats_read drops one itself */
}

/* With thp:always that is all in which blocks lie, while it is mapped. */
TEST(statistics_of_huge_pages_that_were_asked_for)
{
    mw_free(mw_malloc(1));
    CHECK_EQ(figure("all.huge_page_bytes"), 0);
    os_wants_huge_pages = true;
    uint64_t others = figure("all.region_bytes");
    for (unsigned i = 0; i < 100; i++) {
        CHECK(mw_malloc(MiB) != NULL);
    }
    uint64_t before = figure("all.huge_page_bytes");
    CHECK_GE(before, 90 * MiB);
    CHECK_EQ(before + others, figure("all.region_bytes") + figure("all.huge_bytes") +
                                  figure("all.huge_dirty_bytes"));
    void *block = mw_malloc(64 * MiB);
    CHECK_GE(figure("all.huge_page_bytes"), before + 64 * MiB);
    block = mw_realloc(block, 128 * MiB);
    CHECK_GE(figure("all.huge_page_bytes"), before + 128 * MiB);
    mw_free(block);
    mw_collect(true);
    CHECK_LT(figure("all.huge_page_bytes"), before + 64 * MiB);
    os_wants_huge_pages = false;
}

/* An orphan's figures, which the child of a fork empties, keep what was counted. */
static void *allocate_and_wait(void *ends)
{
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(mw_malloc(208) != NULL);
    }
    CHECK_EQ(write(((int *)ends)[1], "", 1), 1);
    pause();
    return NULL;
}

TEST(statistics_of_an_orphan)
{
    int ends[2];
    char byte;
    pthread_t thread;
    CHECK_EQ(pipe(ends), 0);
    mw_free(mw_malloc(1));
    CHECK_EQ(pthread_create(&thread, NULL, allocate_and_wait, ends), 0);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    CHECK_EQ(figure("all.class.224.allocations"), 1000);
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(figure("all.class.224.allocations"), 1000);
        CHECK_EQ(figure("all.class.224.frees"), 0);
        CHECK_EQ(figure("all.class.224.slots_cached"), 0);
        CHECK(mw_heap_is_valid());
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* As a thread leaves its heap that another one's fork meets between a list and its count. */
static void *stop_between_list_and_count(void *ends)
{
    unsigned class = PAGE_CLASS_LISTED;
    while (!page_class_is_listed(class)) {
        class ++;
    }
    void *block = mw_malloc((page_class_pages(class) << os_page_shift) - 64);
    mw_free(block);
    struct heap *heap = thread_enter_to_free();
    delay_settle(heap); /* nothing more comes into the list */
    if (!heap->is_private) {
        stack_make_private(heap);
    }
    unsigned list = block_class_of(class);
    CHECK(heap->free[list] != NULL && heap->rooms[list] != 0);
    heap->rooms[list] = 0;
    thread_leave(heap);
    CHECK_EQ(write(((int *)ends)[1], "", 1), 1);
    pause();
    return NULL;
}

TEST(orphan_whose_owner_was_at_work)
{
    int ends[2];
    char byte;
    pthread_t thread;
    CHECK_EQ(pipe(ends), 0);
    mw_free(mw_malloc(1));
    CHECK_EQ(pthread_create(&thread, NULL, stop_between_list_and_count, ends), 0);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    pid_t child = fork();
    if (child == 0) {
        mw_free(mw_malloc(32 * KiB));
        CHECK(mw_heap_is_valid());
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}
