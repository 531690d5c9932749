// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * Blocks that xallocx makes smaller or larger where they are have the family and the alignment that they had. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void _ZdlPv(void *block);
__attribute__((weak)) void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
__attribute__((weak)) void _ZdlPvSt11align_val_t(void *block, size_t alignment);
__attribute__((weak)) size_t xallocx(void *block, size_t size, size_t extra, int flags);
__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) {
        setenv("MALLOW_CONF", "check_mixes:true", 1);
        execv("/proc/self/exe", words);
    }
    for (size_t size = 60000; size < 12000000; size += size / 3) {
        void *block = _Znwm(size);
        xallocx(block, size - 9000, 0, 0);
        xallocx(block, size - 9000, 9000, 0);
        _ZdlPv(block);
        block = _ZnwmSt11align_val_t(size, 64);
        xallocx(block, size - 9000, 0, 0);
        _ZdlPvSt11align_val_t(block, 64);
        block = aligned_alloc(64, size);
        free_aligned_sized(block, 64, xallocx(block, size - 9000, 0, 0));
    }
    return 0;
}
