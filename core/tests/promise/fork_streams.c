/* SPDX-License-Identifier: MIT
 *
 * Forks beside threads that are in stdio: one flushes all streams, one reads lines, which allocates
 * under the lock of its stream, one opens and closes streams. Neither the parent nor a child hangs, and
 * the child can use stdio.
 */
#include <stdatomic.h>
#include <sys/wait.h>

#include "promise.h"

static atomic_bool is_over;

static void *flush_all(void *unused)
{
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        fflush(NULL);
    }
    return unused;
}

static void *read_lines(void *path)
{
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        FILE *file = fopen(path, "r");
        CHECK(file != NULL);
        for (int i = 0; i < 100; i++) {
            char *line = NULL;
            size_t size = 0;
            while (getline(&line, &size, file) >= 0) {
            }
            free(line);
            rewind(file);
        }
        fclose(file);
    }
    return NULL;
}

static void open_and_close_once(const char *path)
{
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    CHECK(fgetc(file) != EOF);
    fclose(file);
}

static void *open_and_close(void *path)
{
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        open_and_close_once(path);
    }
    return NULL;
}

static void write_lines(const char *path)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    for (int length = 1; length < 40000; length *= 3) {
        fprintf(file, "%*d\n", length, length);
    }
    fclose(file);
}

int main(void)
{
    void *(*runs[])(void *) = {flush_all, read_lines, read_lines, open_and_close};
    enum { THREADS = sizeof runs / sizeof runs[0] };
    pthread_t threads[THREADS];
    char path[] = "/tmp/mallow-streams-XXXXXX";
    CHECK(mkstemp(path) >= 0);
    write_lines(path);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, runs[i], path), 0);
    }
    int forks = promise_rounds(500, 20000);
    for (int i = 0; i < forks; i++) {
        alarm(60); /* a hang ends the program */
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            open_and_close_once(path);
            fflush(NULL);
            _exit(0);
        }
        int status = -1;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    unlink(path);
    printf("%d forks beside threads in stdio\n", forks);
    return 0;
}
