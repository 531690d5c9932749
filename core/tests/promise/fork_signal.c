/* SPDX-License-Identifier: MIT
 *
 * A signal handler that forks while its thread is in the middle of malloc or free, again and again, in
 * a program with one thread and in one with several: neither the parent nor the child hangs. With one
 * thread the child goes on with the interrupted call, and with its work.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "promise.h"

enum { BLOCKS = 64, THREADS = 2 };

static volatile sig_atomic_t forks, is_child;
static bool child_goes_on;
static atomic_bool is_over;

/* One signal, in so many microseconds of processor time; 0: none. Not again and again by itself: a
 * fork may take longer, and the thread would do nothing but handle the next signal. */
static void signal_in(int us)
{
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {0, us}}, NULL);
}

static void fork_here(int signal)
{
    int saved = errno;
    (void)signal;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        is_child = 1;
        if (!child_goes_on) {
            _exit(0);
        }
        return;
    }
    int status = -1;
    CHECK(child > 0);
    while (waitpid(child, &status, 0) != child) {
        CHECK_EQ(errno, EINTR);
    }
    CHECK_EQ(status, 0);
    forks = forks + 1;
    alarm(60); /* a hang ends the program */
    signal_in(1000);
    errno = saved;
}

/* Sizes that keep the slow paths busy, where the locks are. */
static void work(uint64_t *random, void **blocks)
{
    size_t i = test_random(random) % BLOCKS;
    free(blocks[i]);
    blocks[i] = malloc((size_t)1 << (test_random(random) % 24));
    CHECK(blocks[i] != NULL);
}

static void *work_until_over(void *argument)
{
    uint64_t random = (uintptr_t)argument + 1;
    void *blocks[BLOCKS] = {0};
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        work(&random, blocks);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static void run(int wanted)
{
    static void *blocks[BLOCKS];
    uint64_t random = 1;
    forks = 0;
    signal_in(1000);
    while (forks < wanted && !is_child) {
        work(&random, blocks);
    }
    for (int i = 0; is_child && i < 200; i++) {
        work(&random, blocks);
    }
    if (is_child) {
        _exit(0);
    }
    signal_in(0);
    printf("%d forks in a signal handler\n", (int)forks);
}

int main(void)
{
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGPROF, &action, NULL), 0);
    child_goes_on = true;
    run(promise_rounds(300, 20000));

    child_goes_on = false;
    sigset_t profs;
    sigemptyset(&profs);
    sigaddset(&profs, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &profs, NULL);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, work_until_over, (void *)i), 0);
    }
    pthread_sigmask(SIG_UNBLOCK, &profs, NULL);
    run(promise_rounds(300, 20000));
    atomic_store(&is_over, true);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    return 0;
}
