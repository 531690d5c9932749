/* SPDX-License-Identifier: MIT
 *
 * A program whose first allocation is made by pthread_atfork, when the libc's table of handlers grows:
 * the allocator must not need pthread_atfork itself at that moment. Then a fork beside a thread that
 * allocates, which shows that its handlers are in place.
 */
#include <stdatomic.h>
#include <sys/wait.h>

#include "promise.h"

static int calls;
static atomic_bool is_over;

static void count_call(void)
{
    calls++;
}

static void *allocate(void *unused)
{
    for (size_t i = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
        free(malloc(i % 100000));
    }
    return unused;
}

int main(void)
{
    enum { HANDLERS = 200, FORKS = 200 };
    alarm(60); /* a hang ends the program */
    for (int i = 0; i < HANDLERS; i++) {
        CHECK_EQ(pthread_atfork(count_call, NULL, NULL), 0);
    }
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        alarm(60);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            free(malloc(50000));
            _exit(0);
        }
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    CHECK_EQ(calls, HANDLERS * FORKS);
    atomic_store(&is_over, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
