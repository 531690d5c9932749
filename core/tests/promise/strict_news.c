/* SPDX-License-Identifier: MIT
 *
 * The purge thread sleeps until somebody tells it that memory became free, which a thread in the strict mode of seccomp
 * cannot: what that one frees goes back to the kernel all the same, and so does what others free later. Nor is it woken
 * a hundred times a second from then on.
 */
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

/* How often the other thread, which is the purge thread, has gone to sleep. */
static size_t wakes(void)
{
    static char path[64], text[4096];
    for (pid_t thread = getpid() + 1; thread < getpid() + 1000; thread++) {
        snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
        if (access(path, R_OK) == 0) {
            promise_read(path, text, sizeof text);
            const char *at = strstr(text, "\nvoluntary_ctxt_switches:");
            CHECK(at != NULL);
            return strtoull(strchr(at, ':') + 1, NULL, 10);
        }
    }
    CHECK_MSG(false, "no purge thread");
    return 0;
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
    size_t wakes_before = wakes();
    sleep(2);
    CHECK_LE(wakes() - wakes_before, MOST_WAKES);
    return 0;
}
