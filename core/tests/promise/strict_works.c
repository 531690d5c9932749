/* SPDX-License-Identifier: MIT
 *
 * A thread in the strict mode of seccomp goes on with memory that is there: the kernel ends it if it reads the time
 * stamp of the CPU, sleeps until a lock is free or wakes who waits for one. Others work beside it, and each frees what
 * another one allocated.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "promise.h"

enum { ROUNDS = 1000000, SLOTS = 64, OTHERS = 4, SMALL = 1000, LARGE = 100000, LARGE_EACH = 4 };

static _Atomic(char *) slots[SLOTS];
static _Atomic int strict_is; /* 1: it works, 2: it has ended its work */

static void turn_over(unsigned round)
{
    char *block = malloc(round * 7919u % (round % LARGE_EACH == 0 ? LARGE : SMALL) + 1);
    if (block != NULL) {
        *block = (char)round;
    }
    free(atomic_exchange(&slots[round % SLOTS], block));
}

static void *work_strictly(void *unused)
{
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        printf("skipped: no strict mode here (%s)\n", strerror(errno));
        exit(0);
    }
    strict_is = 1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        turn_over(round);
    }
    strict_is = 2;
    syscall(SYS_exit, 0); /* not that of the group */
    return unused;
}

static void *work(void *unused)
{
    for (unsigned round = 0; strict_is < 2; round++) {
        turn_over(round);
    }
    return unused;
}

int main(void)
{
    for (unsigned round = 0; round < ROUNDS / 10; round++) {
        turn_over(round);
    }
    pthread_t strict, others[OTHERS];
    CHECK_EQ(pthread_create(&strict, NULL, work_strictly, NULL), 0);
    for (int i = 0; i < OTHERS; i++) {
        CHECK_EQ(pthread_create(&others[i], NULL, work, NULL), 0);
    }
    pthread_join(strict, NULL);
    CHECK(strict_is == 2);
    for (int i = 0; i < OTHERS; i++) {
        pthread_join(others[i], NULL);
    }
    return 0;
}
