/* SPDX-License-Identifier: MIT
 *
 * Huge blocks of many sizes, of which the program writes to the first eighth alone, do not fill with what their earlier
 * owners left.
 */
#include "promise.h"

#include <time.h>

enum { BLOCKS = 6, LEAST_MIB = 9, MOST_MIB = 44, ROUNDS = 400 };

static void *blocks[BLOCKS];

int main(void)
{
    uint64_t seed = 1;
    size_t most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t random = test_random(&seed);
        unsigned at = random % BLOCKS;
        size_t size = (LEAST_MIB + (random >> 16) % (MOST_MIB - LEAST_MIB)) * MIB;
        free(blocks[at]);
        blocks[at] = malloc(size);
        CHECK(blocks[at] != NULL);
        memset(blocks[at], 1, size / 8);
        nanosleep(&(struct timespec){0, 3000000}, NULL); /* what a real program does with it */
        size_t resident = promise_field("status", "VmRSS:");
        most = resident > most ? resident : most;
    }
    /* What is written to of a block, and what is left of an earlier one, comes in huge pages then. */
    size_t limit = 110 * MIB + 50 * promise_huge_page();
    promise_at_most("resident memory", most / MIB, limit / MIB, "MiB");
    return 0;
}
