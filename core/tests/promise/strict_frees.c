/* SPDX-License-Identifier: MIT
 *
 * A thread in the strict mode of seccomp frees more large blocks than may wait without access: the kernel is not to be
 * asked for anything there. They wait, or are lost; none has two owners later. Whether the thread had called malloc before
 * makes no difference.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "promise.h"

enum { BLOCKS = 1200, ROUNDS = 3, SIZE = 300000, STEP = 50000 };

static char *blocks[BLOCKS];
static _Atomic bool is_done;

static void *free_strictly(void *has_allocated)
{
    if (has_allocated != NULL) {
        char *volatile own = malloc(1);
        free(own);
    }
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        printf("skipped: no strict mode here (%s)\n", strerror(errno));
        exit(0);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    is_done = true;
    syscall(SYS_exit, 0); /* not that of the group */
    return NULL;
}

static void allocate(char value)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL);
        for (int at = 0; at < SIZE; at += STEP) {
            blocks[i][at] = value;
        }
        blocks[i][0] = (char)i;
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK_MSG(blocks[i][0] == (char)i && blocks[i][STEP] == value, "block %d is another's", i);
    }
}

int main(void)
{
    char *volatile first = malloc(SIZE); /* there is a list of those that wait, then */
    free(first);
    for (uintptr_t has_allocated = 0; has_allocated < 2; has_allocated++) {
        allocate(0);
        is_done = false;
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, free_strictly, (void *)has_allocated), 0);
        pthread_join(thread, NULL);
        CHECK(is_done);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        allocate((char)round);
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
    }
    return 0;
}
