/* SPDX-License-Identifier: MIT
 *
 * A chain of forks from parents with threads that allocate: 100 generations, each the child of the
 * one before. The threads of the parent do not exist in the child, which frees the blocks that they
 * held, and must be able to use what they left free. So no generation is larger than the one before
 * by more than the few blocks that were in the threads' hands.
 */
#include "promise.h"

#include <stdatomic.h>
#include <sys/wait.h>

#include "../pattern.h"

enum { THREADS = 4, BLOCKS = 64, STEPS = 1500, GENERATIONS = 100, WARM = 10, EACH_KIB = 400 };

struct block {
    size_t size; /* of the bytes */
    unsigned char bytes[];
};

/* Where the threads keep their blocks, for the child to find. */
static _Atomic(struct block *) places[THREADS][BLOCKS];
static atomic_size_t steps_done[THREADS];
static atomic_bool is_over;

static size_t some_size(uint64_t *random)
{
    uint64_t choice = test_random(random) >> 16;
    size_t limit = choice % 64 < 48 ? 300 : choice % 64 < 62 ? 8000 : 100000;
    return (size_t)(choice >> 8) % limit;
}

static struct block *make(uint64_t *random, size_t owner)
{
    size_t size = some_size(random);
    struct block *block = malloc(sizeof *block + size);
    CHECK(block != NULL);
    block->size = size;
    pattern_write(block->bytes, size, owner);
    return block;
}

static void release(struct block *block, size_t owner)
{
    if (block != NULL) {
        pattern_check(block->bytes, block->size, owner);
        free(block);
    }
}

static void *replace_blocks(void *argument)
{
    size_t self = (uintptr_t)argument;
    uint64_t random = self * 7919 + (uint64_t)getpid();
    for (size_t step = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); step++) {
        /* Now and then a neighbour's block goes, so that slots also travel between threads. */
        size_t owner = step % 8 == 0 ? (self + 1) % THREADS : self;
        struct block *block = owner == self ? make(&random, owner) : NULL;
        release(atomic_exchange(&places[owner][test_random(&random) % BLOCKS], block), owner);
        atomic_store_explicit(&steps_done[self], step, memory_order_relaxed);
    }
    return NULL;
}

/* Starts the threads, and returns when each of them has done its share. */
static void work(pthread_t *threads)
{
    for (size_t i = 0; i < THREADS; i++) {
        atomic_store(&steps_done[i], 0);
        CHECK_EQ(pthread_create(&threads[i], NULL, replace_blocks, (void *)i), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        while (atomic_load(&steps_done[i]) < STEPS) {
            promise_sleep_ms(1);
        }
    }
}

static void release_all(void)
{
    for (size_t i = 0; i < THREADS; i++) {
        for (size_t j = 0; j < BLOCKS; j++) {
            release(atomic_exchange(&places[i][j], NULL), i);
        }
    }
}

int main(void)
{
    size_t first_kib = 0;
    for (int generation = 0; generation < GENERATIONS; generation++) {
        pthread_t threads[THREADS];
        work(threads);
        fflush(stdout);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid != 0) {
            atomic_store(&is_over, true);
            for (size_t i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
            }
            int status = -1;
            CHECK_EQ(waitpid(pid, &status, 0), pid);
            CHECK_MSG(WIFEXITED(status), "generation %d: signal %d", generation, WTERMSIG(status));
            return WEXITSTATUS(status); /* what failed has been said */
        }
        alarm(600);
        release_all();
        if (generation == WARM) {
            first_kib = promise_field("status", "VmRSS:") / KIB;
        }
    }
    size_t now_kib = promise_field("status", "VmRSS:") / KIB;
    printf("%zu KiB after %d generations, %zu KiB after %d\n", first_kib, WARM, now_kib,
           GENERATIONS);
    size_t grown_kib = now_kib > first_kib ? now_kib - first_kib : 0;
    promise_at_most("growth in each generation", grown_kib / (GENERATIONS - WARM), EACH_KIB, "KiB");
    return 0;
}
