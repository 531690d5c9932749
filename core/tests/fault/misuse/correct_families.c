// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * Every form of new with its own form of delete; sizes can be asked for. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <malloc.h>

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void *_Znam(size_t size);
__attribute__((weak)) void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
__attribute__((weak)) void *_ZnamRKSt9nothrow_t(size_t size, const void *tag);
__attribute__((weak)) void _ZdlPv(void *block);
__attribute__((weak)) void _ZdaPv(void *block);
__attribute__((weak)) void _ZdaPvm(void *block, size_t size);
__attribute__((weak)) void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment);

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) { /* secure does not check this unless it is told to */
        setenv("MALLOW_CONF", "check_mixes:true", 1);
        execv("/proc/self/exe", words);
    }
    for (size_t size = 0; size < 3000000; size = size * 2 + 1) {
        for (int i = 0; i < 50; i++) {
            void *blocks[] = {_Znwm(size),
                              _Znam(size),
                              _ZnwmSt11align_val_t(size, 128),
                              _ZnamRKSt9nothrow_t(size, ""),
                              malloc(size),
                              aligned_alloc(64, size)};
            for (int k = 0; k < 6; k++) {
                if (malloc_usable_size(blocks[k]) < size) {
                    return 1;
                }
            }
            _ZdlPv(blocks[0]);
            _ZdaPv(blocks[1]);
            _ZdlPvmSt11align_val_t(blocks[2], size, 128);
            _ZdaPvm(blocks[3], size);
            free(realloc(blocks[4], size + 1));
            free(blocks[5]);
        }
    }
    return 0;
}
