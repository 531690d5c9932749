// expect: fast=ok secure=ok debug=ok
/* SPDX-License-Identifier: MIT
 * Every byte of blocks of every kind may be written. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    for (size_t size = 0; size < 100000; size += 1 + size / 7) {
        char *blocks[4] = {malloc(size), calloc(1, size), aligned_alloc(64, size), NULL};
        posix_memalign((void **)&blocks[3], 8192, size);
        for (int i = 0; i < 4; i++) {
            memset(blocks[i], 0xff, size);
            blocks[i] = realloc(blocks[i], size + 100);
            memset(blocks[i], 0xff, size + 100);
            free(blocks[i]);
        }
    }
    return 0;
}
