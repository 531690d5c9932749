// expect: secure=ok fast=any debug=any
/* SPDX-License-Identifier: MIT
 * Known bytes at the end of a large block's pages cost no page that would not be there without them. Where pages are
 * larger, blocks with a page more than they need are so large that they have guards behind what they need. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SIZE = 66000, PAGE = 4096, NEEDED = 17 * PAGE, BLOCKS = 8 };

int main(void)
{
    char *blocks[BLOCKS];
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a huge page would be there as a whole */
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        memset(blocks[i], 1, SIZE);
    }
    if (sysconf(_SC_PAGESIZE) != PAGE) {
        return 0;
    }
    /* Of these blocks each has a page more than it needs. */
    if (labs(blocks[1] - blocks[0]) != NEEDED + PAGE) {
        return 2;
    }
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char page = 0;
        if (mincore(blocks[i] + NEEDED, PAGE, &page) != 0 || (page & 1) != 0) {
            return 1;
        }
    }
    return 0;
}
