/* SPDX-License-Identifier: MIT
 *
 * Promise 5: 300 forks (20,000 in the long form) from a parent in which eight threads allocate; each
 * child allocates, frees and starts a thread. No child hangs or crashes. libc itself uses the allocator
 * here.
 */
#include "promise.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { THREADS = 8 };

static atomic_bool is_over;

static void *allocate_until_over(void *argument)
{
    uint64_t random = (uintptr_t)argument + 1;
    void *blocks[64] = {0};
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10); /* so that the forks do not wait for a CPU */
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        size_t i = test_random(&random) % 64;
        free(blocks[i]);
        blocks[i] = malloc(test_random(&random) % 5000);
    }
    for (size_t i = 0; i < 64; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static void *allocate_some(void *unused)
{
    for (size_t i = 0; i < 200; i++) {
        char *volatile block = malloc(i * 50 + 1);
        block[0] = 1;
        free(block);
    }
    return unused;
}

static void child(void *of_parent)
{
    pthread_t thread;
    alarm(60);
    free(of_parent);
    allocate_some(NULL);
    CHECK_EQ(pthread_create(&thread, NULL, allocate_some, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    char *text = NULL;
    CHECK(asprintf(&text, "%d", getpid()) > 0);
    free(text);
    exit(0); /* with the exit handlers and stdio's buffers */
}

int main(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, allocate_until_over, (void *)i), 0);
    }
    int forks = promise_rounds(300, 20000);
    for (int i = 0; i < forks; i++) {
        void *block = malloc((size_t)i);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            child(block);
        }
        int status = -1;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK_MSG(status == 0, "child %d: signal %d, exit code %d", i, WTERMSIG(status),
                  WEXITSTATUS(status));
        free(block);
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d forks from a parent with %d allocating threads\n", forks, THREADS);
    return 0;
}
