// expect: secure=ok fast=any debug=any
/* SPDX-License-Identifier: MIT
 * What a new block holds is the program's own, zeros, or the known byte behind what was asked for: no link of
 * a list of free blocks that lay there before, from two of which its key and addresses could be computed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, BLOCKS = 300, MARK = 's' };

static int known_byte; /* 0: none was seen yet */

static int is_own(const volatile unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == 0 || bytes[i] == MARK || bytes[i] == known_byte) {
            continue;
        }
        /* The known byte comes in runs of eight, cut off at most by what is the program's. */
        int is_run = i + 1 < size && bytes[i + 1] == bytes[i];
        if (known_byte != 0 || !is_run) {
            return 0;
        }
        known_byte = bytes[i];
    }
    return 1;
}

int main(void)
{
    static const size_t sizes[] = {24, 250, 1000, 2000, 4000, 8000, 16000, 32000, 40000, 100000};
    static unsigned char *blocks[BLOCKS];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < BLOCKS; i++) {
                blocks[i] = malloc(sizes[k]);
                if (!is_own(blocks[i], sizes[k])) {
                    return 1;
                }
                memset(blocks[i], MARK, sizes[k]);
            }
            for (int i = 0; i < BLOCKS; i++) {
                free(blocks[i]);
            }
        }
    }
    return 0;
}
