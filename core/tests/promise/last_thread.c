/* SPDX-License-Identifier: MIT
 *
 * With purge_thread:true a process ends with the last thread of the program, by exit(): main leaves first, alone, before a
 * thread that it has started, or in the child of a fork; and the thread is there again for who allocates after that.
 */
#include "promise.h"

enum { BY_HANDLER = 7, BY_HANDLER_DEAF = 8 };

/* It takes signals, as it would in a thread of the program, and so does what it starts. */
static void end_by_handler(void)
{
    sigset_t blocked;
    CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &blocked), 0);
    _exit(sigismember(&blocked, SIGTERM) ? BY_HANDLER_DEAF : BY_HANDLER);
}

static void *allocate_later(void *unused)
{
    promise_sleep_ms(200);
    free(malloc(100000));
    return unused;
}

static void *allocate_and_wait(void *unused)
{
    free(malloc(100));
    promise_sleep_ms(200); /* main has left, and the purge thread with it or not */
    free(malloc(100));
    return unused;
}

_Noreturn static void leave(const char *way)
{
    CHECK_EQ(atexit(end_by_handler), 0);
    free(malloc(1000));
    pthread_t thread;
    if (strcmp(way, "before-one-that-begins") == 0) {
        CHECK_EQ(pthread_create(&thread, NULL, allocate_later, NULL), 0);
    } else if (strcmp(way, "before-one-that-is-there") == 0) {
        CHECK_EQ(pthread_create(&thread, NULL, allocate_and_wait, NULL), 0);
    }
    pthread_exit(NULL);
}

static void check_ends(const char *way)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (strcmp(way, "in-a-child") == 0) {
            leave(way);
        }
        execl("/proc/self/exe", "last_thread", way, (char *)NULL);
        _exit(1);
    }
    long end_ms = promise_now_ms() + PROMISE_PATIENCE_MS;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (promise_now_ms() > end_ms) {
            kill(child, SIGKILL);
        }
        promise_sleep_ms(5);
    }
    printf("%s: status %#x\n", way, (unsigned)status);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == BY_HANDLER);
}

int main(int count, char **words)
{
    if (count > 1) {
        leave(words[1]);
    }
    const char *const ways[] = {"alone", "before-one-that-begins", "before-one-that-is-there",
                                "in-a-child"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        for (int round = 0; round < 5; round++) {
            check_ends(ways[i]);
        }
    }
    return 0;
}
