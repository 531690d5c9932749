/* SPDX-License-Identifier: MIT
 *
 * Under a limit on data (ulimit -d) a program takes all that it gets in small blocks, frees them, and gets as much again,
 * round after round. In the debug build some of the blocks lie on pages of their own, and what is noted of blocks is
 * used again.
 */
#include "promise.h"

enum { LIMIT_KIB = 100000, SIZE = 32, ROUNDS = 6 };

/* How many blocks there are. */
static size_t fill_and_free(void)
{
    void **list = NULL;
    size_t count = 0;
    for (void **block; (block = malloc(SIZE)) != NULL; count++) {
        *block = list;
        list = block;
    }
    while (list != NULL) {
        void **next = *list;
        free(list);
        list = next;
    }
    return count;
}

int main(void)
{
    struct rlimit limit = {LIMIT_KIB * (rlim_t)KIB, LIMIT_KIB * (rlim_t)KIB};
    CHECK_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    size_t counts[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        counts[round] = fill_and_free();
    }
    for (int round = 0; round < ROUNDS; round++) {
        printf("round %d: %zu KiB\n", round, counts[round] * SIZE / KIB);
    }
    fflush(stdout);
    CHECK_MSG(counts[ROUNDS - 1] >= counts[0] / 4 * 3, "%zu blocks, and %zu at first",
              counts[ROUNDS - 1], counts[0]);
    return 0;
}
