// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * Large blocks in pages that were given MADV_FREE, of which the kernel takes those that nobody has written to since,
 * behind the blocks' ends. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 64, ROUNDS = 4, PAGE = 4096 };

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21 /* since Linux 5.4 */
#endif

static char *blocks[BLOCKS];

static void fill(size_t size, size_t written)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        memset(blocks[i], 'a', written);
    }
}

static void release(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

int main(int argc, char **argv)
{
    if (getenv("MALLOW_CONF") == NULL) {
        setenv("MALLOW_CONF", "dirty_decay_ms:20,muzzy_decay_ms:-1,guard_sample:0", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        fill(73000, 73000);
        release();
        for (int i = 0; i < 40; i++) {
            free(malloc(5000000));
            usleep(2000);
        }
        fill(66000, 1);
        for (int i = 0; i < BLOCKS; i++) {
            uintptr_t page = ((uintptr_t)blocks[i] + 66000 + PAGE - 1) / PAGE * PAGE;
            madvise((void *)page, PAGE, MADV_PAGEOUT);
        }
        release();
    }
    return 0;
}
