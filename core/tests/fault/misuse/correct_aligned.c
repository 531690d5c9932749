// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * Blocks of every alignment, written to their last byte, and each release that fits. */
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);
__attribute__((weak)) void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
__attribute__((weak)) void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment);
__attribute__((weak)) void _ZdlPvSt11align_val_t(void *block, size_t alignment);

enum { KINDS = 6 };

static void try(size_t alignment, size_t size)
{
    char *blocks[KINDS] = {aligned_alloc(alignment, size),
                           aligned_alloc(alignment, size),
                           memalign(alignment, size),
                           NULL,
                           _ZnwmSt11align_val_t(size, alignment),
                           _ZnwmSt11align_val_t(size, alignment)};
    if (posix_memalign((void **)&blocks[3], alignment, size) != 0) {
        abort();
    }
    for (int i = 0; i < KINDS; i++) {
        memset(blocks[i], 0x5a, size);
    }
    free_aligned_sized(blocks[0], alignment, size);
    free(realloc(realloc(blocks[1], size + 1), size));
    free(blocks[2]);
    free_aligned_sized(blocks[3], alignment, size);
    _ZdlPvmSt11align_val_t(blocks[4], size, alignment);
    _ZdlPvSt11align_val_t(blocks[5], alignment);
}

int main(void)
{
    for (size_t size = 0; size < 400000; size += 1 + size / 5) {
        for (size_t alignment = 8; alignment <= 65536; alignment *= 2) {
            try(alignment, size);
        }
    }
    return 0;
}
