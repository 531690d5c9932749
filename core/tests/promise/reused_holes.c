/* SPDX-License-Identifier: MIT
 *
 * Blocks of many sizes lie in the holes that small ones have left, and in those that other such blocks left: at each
 * level of security no write of the program's own is taken for one after free.
 */
#include "promise.h"

enum { SMALL = 20000, KEPT_EVERY = 23, LARGER = 200, TURNS = 60000 };

static void *small[SMALL];
static void *larger[LARGER];

static void *filled(size_t size)
{
    void *block = malloc(size);
    CHECK(block != NULL);
    return memset(block, 1, size);
}

static void use_holes(size_t small_size, size_t least, size_t most)
{
    uint64_t seed = small_size;
    for (unsigned i = 0; i < SMALL; i++) {
        small[i] = filled(small_size);
    }
    for (unsigned i = 0; i < SMALL; i++) {
        if (i % KEPT_EVERY != 0) {
            free(small[i]);
            small[i] = NULL;
        }
    }
    for (unsigned turn = 0; turn < TURNS; turn++) {
        uint64_t random = test_random(&seed);
        unsigned at = random % LARGER;
        free(larger[at]);
        larger[at] = filled(least + (random >> 16) % (most - least));
    }
    for (unsigned i = 0; i < SMALL; i++) {
        free(small[i]);
    }
}

int main(void)
{
    use_holes(100, 1100, 1600);
    use_holes(300, 1100, 4800);
    use_holes(600, 1100, 9000);
    use_holes(1000, 6000, 16000);
    return 0;
}
