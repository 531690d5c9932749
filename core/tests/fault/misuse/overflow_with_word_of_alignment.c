// expect: fast=any secure=abort "overflow of " debug=abort "overflow of "
/* SPDX-License-Identifier: MIT
 * What the allocator notes in the slack of an aligned block, and realloc then gives to the program, does not tell what
 * stands behind the block. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, LOG2_ALIGNMENT = 6, SIZE = 96, GROWN = 120 };

static char *volatile block;

int main(void)
{
    block = realloc(aligned_alloc(ALIGNMENT, SIZE), GROWN);
    uint64_t noted;
    memcpy(&noted, block + GROWN - sizeof noted, sizeof noted);
    /* as if it had the key that the canary has */
    uintptr_t end = (uintptr_t)block + GROWN;
    uint64_t key = noted ^ (uint64_t)(LOG2_ALIGNMENT + 1) << 41 ^ (end - sizeof noted) << 12;
    uint64_t forged = key ^ (uint64_t)end << 12;
    memcpy(block + GROWN, &forged, sizeof forged);
    free(block);
    return 0;
}
