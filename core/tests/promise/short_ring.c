/* SPDX-License-Identifier: MIT
 *
 * What the debug build remembers of the blocks that wait in its quarantine takes memory by how many they are at most,
 * and not by how many have been there. None is forgotten when they become more.
 */
#include <malloc.h>

#include "promise.h"

enum {
    SIZE = 3000,
    SETTLES = 8000,
    SMALL = 16,
    SMALLS = 60000,
    BLOCKS = 270000,
    HELD_MOST = MIB,
    GROWS_MOST = MIB / 2
};

static void free_many(size_t size, int count)
{
    for (int i = 0; i < count; i++) {
        char *volatile block = malloc(size);
        free(block);
    }
}

int main(void)
{
    free_many(SIZE, SETTLES); /* the quarantine is full */
    size_t before = promise_field("smaps_rollup", "Rss:");
    free_many(SIZE, BLOCKS);
    size_t now = promise_field("smaps_rollup", "Rss:");
    promise_at_most("growth by blocks that have left", now > before ? now - before : 0, GROWS_MOST,
                    "bytes");
    /* Of small ones more wait: the places become more while the oldest does not lie in the first. */
    free_many(SMALL, SMALLS);
    malloc_trim(0);
    promise_at_most("waits after malloc_trim", promise_stat("allocated"), HELD_MOST, "bytes");
    return 0;
}
