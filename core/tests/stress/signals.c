/* SPDX-License-Identifier: MIT
 *
 * Signals arrive in the middle of malloc and free. A handler may not allocate, but it may change
 * errno-free state, use much stack, and end a system call early.
 */
#include <errno.h>
#include <signal.h>

#include "stress.h"

enum { THREADS = 4, STEPS = 40000 / STRESS_DIVISOR };

static atomic_uint_fast64_t handled;
static atomic_int running;
static uint64_t seed;

static void on_signal(int number)
{
    volatile char stack[2000];
    memset((char *)stack, number, sizeof stack);
    atomic_fetch_add(&handled, 1);
}

static void *allocate(void *argument)
{
    size_t self = (size_t)(uintptr_t)argument;
    uint64_t random = stress_thread_random(seed, self);
    struct stress_block blocks[200] = {0};
    for (uint64_t step = 0; step < STEPS; step++) {
        struct stress_block *block = &blocks[test_random(&random) % 200];
        stress_free(block);
        *block = stress_allocate(stress_size(&random), self << 32 | step);
        if (step % 1000 == 0) {
            mw_collect(true); /* long system calls for the signals to meet */
        }
    }
    for (size_t i = 0; i < 200; i++) {
        stress_free(&blocks[i]);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void run(int flags)
{
    seed = stress_seed("signals_during_malloc");
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    int64_t start = stress_now_ms();
    for (int round = 0; stress_goes_on(start, round, 1); round++) {
        pthread_t threads[THREADS];
        atomic_store(&running, THREADS);
        for (size_t i = 0; i < THREADS; i++) {
            threads[i] = stress_start(allocate, (void *)i);
        }
        for (size_t i = 0; atomic_load(&running) > 0; i++) {
            if (atomic_load(&running) ==
                THREADS) { /* all handles are still valid: none has ended */
                pthread_kill(threads[i % THREADS], SIGUSR1);
            }
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
        for (size_t i = 0; i < THREADS; i++) {
            stress_join(threads[i]);
        }
    }
    CHECK(atomic_load(&handled) > 0);
    CHECK(mw_heap_is_valid());
}

TEST(signals_during_malloc)
{
    run(0);
}

TEST(signals_with_restart_during_malloc)
{
    run(SA_RESTART);
}
