/* SPDX-License-Identifier: MIT
 *
 * New blocks beside a free one that is too large for them do not make the process grow.
 */
#include "promise.h"

enum { LARGE = 256 * MIB, BLOCKS = 16, SIZE = 8 * MIB };

/* The secure build gives some large blocks back at once, as long as its account for that lasts. */
static void use_up_the_account(void)
{
    for (unsigned i = 0; i < 100; i++) {
        char *volatile block = malloc(LARGE);
        CHECK(block != NULL);
        free(block);
    }
}

int main(void)
{
    use_up_the_account();
    char *volatile large = malloc(LARGE); /* or the compiler leaves it out */
    CHECK(large != NULL);
    memset(large, 1, LARGE);
    free(large);
    char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
    size_t peak = promise_field("status", "VmHWM:") / MIB;
    promise_at_most("the most that was resident", peak, LARGE / MIB + 2 * SIZE / MIB, "MiB");
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return 0;
}
