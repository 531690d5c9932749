/* SPDX-License-Identifier: MIT
 *
 * A program that frees all it has and gives it back, over and over, needs no more memory and no more address space with
 * each round: its regions come back to places where regions have been.
 */
#include "promise.h"

#include <malloc.h>

/* Where places are chosen by chance a number of them waits before one is used again. */
enum { ROUNDS = 60, SETTLED = 24, BLOCKS = 32000, BLOCK = 1000 };

static char *blocks[BLOCKS];

/* The most that a round left, of resident memory and of address space. */
struct left {
    size_t resident, size;
};

static void run(int rounds, struct left *most)
{
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(BLOCK);
            CHECK(blocks[i] != NULL);
            blocks[i][0] = 1;
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
        malloc_trim(0);
        size_t resident = promise_field("status", "VmRSS:");
        size_t size = promise_field("status", "VmSize:");
        most->resident = resident > most->resident ? resident : most->resident;
        most->size = size > most->size ? size : most->size;
    }
}

int main(void)
{
    struct left first = {0}, later = {0};
    run(SETTLED, &first);
    run(ROUNDS - SETTLED, &later);
    promise_at_most("resident memory", later.resident / KIB, first.resident / KIB + 512, "KiB");
    promise_at_most("address space", later.size / MIB, first.size / MIB + 6, "MiB");
    return 0;
}
