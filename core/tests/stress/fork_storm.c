/* SPDX-License-Identifier: MIT
 *
 * fork from a parent whose other threads are in the middle of malloc and free. Each child
 * allocates, frees blocks of its parent, starts a thread, forks again and exits; no child may hang
 * on a lock that a thread held which does not exist in it. What such a thread left free the child
 * uses: it allocates more than that, and none of its blocks may be a part of one that was in use.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "stress.h"

enum { THREADS = 8, SLOTS = 512, KEPT = 64, FRESH = 600, CHILD_LIMIT_S = 240 };

static struct stress_slot slots[SLOTS];
static atomic_bool is_over;
static uint64_t seed;

static void *allocate_until_over(void *argument)
{
    size_t self = (size_t)(uintptr_t)argument;
    uint64_t random = stress_thread_random(seed, self);
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10); /* so that the forks do not wait for a CPU */
    for (uint64_t step = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); step++) {
        struct stress_block block = stress_allocate(stress_size(&random), self << 32 | step);
        struct stress_block before = stress_exchange(&slots[test_random(&random) % SLOTS], block);
        stress_free(&before);
        if (step % 5000 == 0 && self == 0) {
            mw_collect(step % 10000 == 0);
        }
    }
    return NULL;
}

static void *work_in_child(void *argument)
{
    struct stress_block *kept = argument;
    for (size_t i = KEPT / 2; i < KEPT; i++) {
        stress_free(&kept[i]);
    }
    for (uint64_t i = 0; i < 200; i++) {
        struct stress_block block = stress_allocate(i * 37, i);
        stress_free(&block);
    }
    return NULL;
}

/* Blocks of all sizes, which fill what the threads of the parent left; then all that was there
 * before must be as it was, and so must they. */
static void fill_what_is_left(struct stress_block *kept, uint64_t random)
{
    static struct stress_block fresh[FRESH];
    for (size_t i = 0; i < FRESH; i++) {
        fresh[i] = stress_allocate(stress_size(&random), i);
    }
    for (size_t i = 0; i < KEPT; i++) {
        pattern_check(kept[i].bytes, kept[i].size, kept[i].owner);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        struct stress_block *block = &slots[i].block;
        if (!atomic_load(&slots[i].is_taken) && block->bytes != NULL) {
            pattern_check(block->bytes, block->size, block->owner);
        }
    }
    for (size_t i = 0; i < FRESH; i++) {
        stress_free(&fresh[i]);
    }
}

static void child(struct stress_block *kept, bool may_fork)
{
    alarm(CHILD_LIMIT_S); /* a child that hangs ends by SIGALRM, which the parent reports */
    fill_what_is_left(kept, (uint64_t)getpid());
    for (uint64_t i = 0; i < 200; i++) {
        struct stress_block block = stress_allocate(i * i % 50000, i);
        stress_free(&block);
    }
    for (size_t i = 0; i < KEPT / 2; i++) {
        stress_free(&kept[i]);
    }
    /* A slot that another thread held at the moment of the fork is in an unknown state. */
    for (size_t i = 0; i < SLOTS; i++) {
        if (!atomic_load(&slots[i].is_taken)) {
            stress_free(&slots[i].block);
        }
    }
    stress_join(stress_start(work_in_child, kept));
    if (may_fork) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            void *block = t_malloc(100);
            CHECK(block != NULL);
            t_free(block);
            _exit(0);
        }
        int status = -1;
        CHECK_EQ(waitpid(grandchild, &status, 0), grandchild);
        CHECK_EQ(status, 0);
    }
    CHECK(mw_heap_is_valid());
    _exit(0);
}

TEST(fork_from_allocating_threads)
{
    enum { SHORT_FORKS = 100 / STRESS_DIVISOR };
    seed = stress_seed("fork_from_allocating_threads");
    uint64_t random = stress_thread_random(seed, 99);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        threads[i] = stress_start(allocate_until_over, (void *)i);
    }
    struct stress_block kept[KEPT] = {0};
    int64_t start = stress_now_ms();
    for (int done = 0; stress_goes_on(start, done, SHORT_FORKS); done++) {
        for (size_t i = 0; i < KEPT; i++) {
            stress_free(&kept[i]);
            kept[i] = stress_allocate(stress_size(&random), i);
        }
        pid_t pid = fork();
        CHECK_MSG(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) {
            child(kept, done % 8 == 0);
        }
        int status = -1;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK_MSG(status == 0, "child %d: signal %d, exit code %d", done, WTERMSIG(status),
                  WEXITSTATUS(status));
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < THREADS; i++) {
        stress_join(threads[i]);
    }
    for (size_t i = 0; i < KEPT; i++) {
        stress_free(&kept[i]);
    }
    CHECK(mw_heap_is_valid());
}
