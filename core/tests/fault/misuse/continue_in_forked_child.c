// expect: secure=abort " of 0x" fast=any debug=abort " of 0x"
/* SPDX-License-Identifier: MIT
 * With misuse:continue a process forks while another thread tells of a misuse: the child has one of its own, which is told,
 * for it waits for no thread that it does not have, and goes on. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../include/mallow.h"

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) mw_misuse_handler mw_set_misuse_handler(mw_misuse_handler handler);

static atomic_int told, may_go_on, has_ended;

static void tell(const struct mw_misuse *misuse)
{
    (void)misuse;
    atomic_fetch_add(&told, 1);
    while (!atomic_load(&may_go_on)) {
        usleep(1000);
    }
}

static void *release(void *unused)
{
    free(_Znwm(100000));
    atomic_store(&has_ended, 1);
    return unused;
}

/* Of the child: 0 if all is as it should be. */
static int release_in_child(void)
{
    atomic_store(&may_go_on, 1);
    release(NULL);
    return atomic_load(&told) == 2 ? 0 : 1;
}

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) {
        setenv("MALLOW_CONF", "check_mixes:true,misuse:continue", 1);
        execv("/proc/self/exe", words);
    }
    mw_set_misuse_handler(tell);
    pthread_t thread;
    pthread_create(&thread, NULL, release, NULL);
    while (!atomic_load(&told) && !atomic_load(&has_ended)) { /* the fast build tells nothing */
        usleep(1000);
    }
    pid_t child = fork();
    if (child == 0) {
        _exit(release_in_child());
    }
    int status;
    waitpid(child, &status, 0);
    atomic_store(&may_go_on, 1);
    pthread_join(thread, NULL);
    if (status != 0) {
        return 1;
    }
    void *block = malloc(20);
    free(block);
    free(block);
    return 0;
}
