/* SPDX-License-Identifier: MIT
 *
 * An allocator of four functions for the test `behind`: blocks are cut from an array, each behind its
 * size, and never reused. A pointer that is not its own ends the program.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Alignas(16) char memory[16 << 20];
static size_t used;

void *malloc(size_t size)
{
    size_t at = __atomic_fetch_add(&used, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED);
    if (at + size + 16 > sizeof memory) {
        return NULL;
    }
    memcpy(memory + at, &size, sizeof size);
    return memory + at + 16;
}

void free(void *block)
{
    static const char message[] = "front: free of a block that is not mine\n";
    if (block != NULL && (uintptr_t)block - (uintptr_t)memory >= sizeof memory) {
        _exit(write(2, message, sizeof message - 1) > 0 ? 9 : 8);
    }
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* the array is zero, and no part of it is used twice */
}

void *realloc(void *block, size_t size)
{
    void *moved = malloc(size);
    if (moved != NULL && block != NULL) {
        size_t old;
        free(block);
        memcpy(&old, (char *)block - 16, sizeof old);
        memcpy(moved, block, old < size ? old : size);
    }
    return moved;
}
