/* SPDX-License-Identifier: MIT
 *
 * Misuse where it is hard to say so: `places PLACE`. Each place ends by a free of a block that is free
 * already, or of memory that is none of the heap's: every build notices both at once. Whatever the program was doing, and whatever it does
 * when it is told to abort, one sentence must come out and the process must end.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../include/mallow.h"

enum { THREADS = 4, FORKS = 20, DIED_OTHERWISE = 3 };

static void *opaque(void *pointer)
{
    void *volatile hidden = pointer;
    return hidden;
}

static void misuse(void)
{
    void *block = opaque(malloc(48));
    free(opaque(block));
    free(opaque(block));
}

static void in_main(void)
{
    misuse();
}

static void *misuse_in_thread(void *unused)
{
    misuse();
    return unused;
}

static void in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, misuse_in_thread, NULL);
    pthread_join(thread, NULL);
}

/* Allocates until the process ends. */
static void *keep_busy(void *unused)
{
    void *blocks[64] = {NULL};
    for (unsigned i = 0;; i++) {
        free(blocks[i % 64]);
        blocks[i % 64] = opaque(malloc(1 + i * 97 % 20000));
    }
    return unused;
}

static void start_busy_threads(void)
{
    pthread_t thread;
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread, NULL, keep_busy, NULL);
    }
    usleep(20000);
}

static void on_signal_free(int number)
{
    static char memory[64];
    (void)number;
    free(opaque(memory));
}

/* The signal comes while malloc or free is at work, somewhere within it, each time elsewhere. */
static void in_signal_handler(void)
{
    struct itimerval soon = {{0, 0}, {0, 5000 + getpid() % 97 * 101}};
    signal(SIGALRM, on_signal_free);
    setitimer(ITIMER_REAL, &soon, NULL);
    keep_busy(NULL);
}

static void on_small_stack(void)
{
    static char stack[32768];
    stack_t small = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_signal_free, .sa_flags = SA_ONSTACK};
    sigaltstack(&small, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

/* Each child must die by SIGABRT; then the parent does the same. */
static void in_child_of_threads(void)
{
    start_busy_threads();
    for (int i = 0; i < FORKS; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            misuse();
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) {
            _exit(DIED_OTHERWISE);
        }
    }
    misuse();
}

static void among_threads(void)
{
    start_busy_threads();
    misuse();
}

/* Several threads come to it at the same time. */
static void by_many_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, misuse_in_thread, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void in_exit_handler(void)
{
    atexit(misuse);
    exit(0);
}

static void misuse_key(void *unused)
{
    (void)unused;
    misuse();
}

static void *set_key(void *unused)
{
    pthread_key_t key;
    pthread_key_create(&key, misuse_key);
    pthread_setspecific(key, "ends with the thread");
    return unused;
}

static void in_key_destructor(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, set_key, NULL);
    pthread_join(thread, NULL);
}

/* What crash reporters do: they allocate in their handler of SIGABRT. */
static void allocate_on_abort(int number)
{
    (void)number;
    for (int i = 0; i < 1000; i++) {
        free(opaque(malloc(1 + (size_t)i * 61)));
    }
}

static void with_abort_handler(void)
{
    signal(SIGABRT, allocate_on_abort);
    misuse();
}

static void with_abort_handler_among_threads(void)
{
    start_busy_threads();
    with_abort_handler();
}

static void with_abort_ignored(void)
{
    signal(SIGABRT, SIG_IGN);
    misuse();
}

static void with_abort_blocked(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    misuse();
}

/* Not every build of the program is linked with Mallow: then the library is preloaded. */
__attribute__((weak)) mw_misuse_handler mw_set_misuse_handler(mw_misuse_handler handler);

static volatile int told;

static void allocate_when_told(const struct mw_misuse *misuse)
{
    told = misuse->sentence != NULL && misuse->pointer != NULL && !misuse->goes_on;
    for (int i = 0; i < 1000; i++) {
        free(opaque(malloc(1 + (size_t)i * 61)));
    }
}

/* The last thing that the process does of its own will. */
static void must_have_been_told(int number)
{
    (void)number;
    if (!told) {
        _exit(DIED_OTHERWISE);
    }
}

static void set_handler(mw_misuse_handler handler)
{
    signal(SIGABRT, must_have_been_told);
    if (mw_set_misuse_handler == NULL || mw_set_misuse_handler(handler) != NULL) {
        _exit(DIED_OTHERWISE);
    }
}

static void with_handler(void)
{
    set_handler(allocate_when_told);
    misuse();
}

static void with_handler_in_signal_handler(void)
{
    set_handler(allocate_when_told);
    in_signal_handler();
}

static void with_handler_in_child_of_threads(void)
{
    set_handler(allocate_when_told);
    in_child_of_threads();
}

static void misuse_when_told(const struct mw_misuse *ignored)
{
    told = ignored->goes_on ? 0 : 1;
    misuse();
}

static void with_handler_that_misuses(void)
{
    set_handler(misuse_when_told);
    misuse();
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } places[] = {
        {"main", in_main},
        {"thread", in_thread},
        {"signal-handler", in_signal_handler},
        {"small-stack", on_small_stack},
        {"child-of-threads", in_child_of_threads},
        {"among-threads", among_threads},
        {"many-threads", by_many_threads},
        {"exit-handler", in_exit_handler},
        {"key-destructor", in_key_destructor},
        {"abort-handler", with_abort_handler},
        {"abort-handler-among-threads", with_abort_handler_among_threads},
        {"abort-ignored", with_abort_ignored},
        {"abort-blocked", with_abort_blocked},
        {"misuse-handler", with_handler},
        {"misuse-handler-in-signal-handler", with_handler_in_signal_handler},
        {"misuse-handler-in-child-of-threads", with_handler_in_child_of_threads},
        {"misuse-handler-that-misuses", with_handler_that_misuses},
    };
    for (size_t i = 0; count == 2 && i < sizeof(places) / sizeof(*places); i++) {
        if (strcmp(words[1], "--list") == 0) {
            puts(places[i].name);
        } else if (strcmp(words[1], places[i].name) == 0) {
            places[i].run();
            return 0;
        }
    }
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        return 0;
    }
    fprintf(stderr, "usage: places PLACE | --list\n");
    return 2;
}
