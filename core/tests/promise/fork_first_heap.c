/* SPDX-License-Identifier: MIT
 *
 * Forks while other threads make their first call of malloc under the lock of a stream, beside one that
 * flushes all streams. When such a fork begins there is one heap, as in a process of one thread. Each
 * attempt is a process of its own, since a thread gets its heap once.
 */
#include <stdatomic.h>
#include <sys/wait.h>

#include "promise.h"

enum { READERS = 3, FORKS = 4, FLUSHES = 200 };

static FILE *files[READERS];
static pthread_barrier_t start;

static void *flush_all(void *unused)
{
    pthread_barrier_wait(&start);
    for (int i = 0; i < FLUSHES; i++) {
        fflush(NULL);
    }
    return unused;
}

static void *read_line(void *file)
{
    char *line = NULL;
    size_t size = 0;
    pthread_barrier_wait(&start);
    CHECK(getline(&line, &size, file) > 0);
    free(line);
    return NULL;
}

static void fork_and_wait(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static int attempt(void)
{
    pthread_t threads[READERS + 1];
    alarm(60); /* a hang ends the program */
    CHECK_EQ(pthread_barrier_init(&start, NULL, READERS + 2), 0);
    CHECK_EQ(pthread_create(&threads[READERS], NULL, flush_all, NULL), 0);
    for (int i = 0; i < READERS; i++) {
        files[i] = fopen("/proc/self/maps", "r");
        CHECK(files[i] != NULL);
        CHECK_EQ(pthread_create(&threads[i], NULL, read_line, files[i]), 0);
    }
    pthread_barrier_wait(&start);
    for (int i = 0; i < FORKS; i++) {
        fork_and_wait();
    }
    for (int i = 0; i <= READERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return attempt();
    }
    int attempts = promise_rounds(200, 5000);
    for (int i = 0; i < attempts; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            execl("/proc/self/exe", argv[0], "attempt", NULL);
            _exit(127);
        }
        int status = -1;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    printf("%d processes forked beside first calls\n", attempts);
    return 0;
}
