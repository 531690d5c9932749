/* SPDX-License-Identifier: MIT
 *
 * The purge thread sleeps until somebody tells it that memory became free, which a thread in the strict mode of seccomp
 * cannot: what that one frees goes back to the kernel all the same, and so does what others free later. Nor is it woken
 * a hundred times a second from then on.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "promise.h"

enum { BLOCKS = 400, SIZE = 100000, WAIT_S = 30, MOST_WAKES = 60 };

static char *of_strict[BLOCKS], *of_main[BLOCKS];
static _Atomic bool goes_on;

static void *free_strictly(void *unused)
{
    free(malloc(10)); /* it has a heap */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        printf("skipped: no strict mode here (%s)\n", strerror(errno));
        exit(0);
    }
    for (int i = 0; i < BLOCKS; i++) {
        while (i == BLOCKS / 2 && !goes_on) { /* it may not sleep */
        }
        free(of_strict[i]);
    }
    syscall(SYS_exit, 0); /* not that of the group */
    return unused;
}

/* Whether no more than so much is resident within the time. */
static bool becomes(size_t most)
{
    for (int i = 0; i < WAIT_S * 100; i++) {
        if (promise_field("status", "VmRSS:") <= most) {
            return true;
        }
        usleep(10000);
    }
    return false;
}

/* The purge thread, which is the only other one as yet. */
static long other_thread(void)
{
    long other = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        long thread = atol(task->d_name); /* 0 of . and .. */
        other = thread != 0 && thread != getpid() ? thread : other;
    }
    closedir(tasks);
    CHECK_MSG(other != 0, "no purge thread");
    return other;
}

/* How often a thread has gone to sleep. */
static size_t wakes(long thread)
{
    static char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", thread);
    promise_read(path, text, sizeof text);
    const char *at = strstr(text, "\nvoluntary_ctxt_switches:");
    CHECK(at != NULL);
    return strtoull(strchr(at, ':') + 1, NULL, 10);
}

int main(void)
{
    size_t before = promise_field("status", "VmRSS:");
    for (int i = 0; i < BLOCKS; i++) {
        of_strict[i] = memset(malloc(SIZE), 1, SIZE);
        of_main[i] = memset(malloc(SIZE), 1, SIZE);
    }
    free(malloc(SIZE)); /* a bit that is free, so that the thread looks and then sleeps */
    sleep(3);
    long purge_thread = other_thread();
    pthread_t strict;
    CHECK_EQ(pthread_create(&strict, NULL, free_strictly, NULL), 0);
    CHECK(becomes(before + BLOCKS * SIZE + BLOCKS * SIZE * 3 / 4));
    sleep(2);
    goes_on = true;
    pthread_join(strict, NULL);
    CHECK(becomes(before + BLOCKS * SIZE + BLOCKS * SIZE / 4));
    for (int i = 0; i < BLOCKS; i++) {
        free(of_main[i]);
    }
    CHECK(becomes(before + BLOCKS * SIZE / 4));
    sleep(2); /* until nothing is left to do */
    size_t wakes_before = wakes(purge_thread);
    sleep(2);
    CHECK_LE(wakes(purge_thread) - wakes_before, MOST_WAKES);
    return 0;
}
