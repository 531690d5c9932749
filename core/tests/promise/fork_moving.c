/* SPDX-License-Identifier: MIT
 *
 * Forks beside threads that free blocks of 40 KB in batches, of which much goes from their lists to all threads at a
 * time. The child, which frees what it finds, has no more than it had before the threads began, but for the block
 * that each of them had in its hands.
 */
#include "promise.h"

#include <malloc.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 2, BLOCKS = 300, SIZE = 40000, FORKS = 150 };

static _Atomic(void *) places[THREADS][BLOCKS];
static atomic_bool is_over;

static void *work(void *argument)
{
    _Atomic(void *) *own = argument;
    while (!atomic_load(&is_over)) {
        for (size_t i = 0; i < BLOCKS; i++) {
            own[i] = malloc(SIZE);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            free(atomic_exchange(&own[i], NULL));
        }
    }
    return NULL;
}

static size_t active(void)
{
    free(malloc(SIZE)); /* which looks after what the threads left */
    malloc_trim(0);
    return promise_stat("active");
}

/* In a child: bytes that nobody has, and nobody can have. */
static size_t lost(size_t before)
{
    for (size_t i = 0; i < THREADS * BLOCKS; i++) {
        free(places[i / BLOCKS][i % BLOCKS]);
    }
    return promise_growth(before, active());
}

int main(void)
{
    pthread_t threads[THREADS];
    size_t most = 0;
    size_t before = active();
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, work, places[i]), 0);
    }
    for (int i = 0; i < FORKS; i++) {
        int ends[2];
        CHECK_EQ(pipe(ends), 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            size_t bytes = lost(before);
            _exit(write(ends[1], &bytes, sizeof bytes) != sizeof bytes);
        }
        close(ends[1]);
        size_t bytes;
        CHECK_EQ(read(ends[0], &bytes, sizeof bytes), (ssize_t)sizeof bytes);
        most = bytes > most ? bytes : most;
        CHECK_EQ(waitpid(child, NULL, 0), child);
        close(ends[0]);
        promise_sleep_ms(i % 4);
    }
    is_over = true;
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    promise_at_most("lost to a child", most / KIB, 512, "KiB");
    return 0;
}
