/* SPDX-License-Identifier: MIT
 *
 * A program with a malloc of its own that has no more than malloc, free and realloc: musl's rules say
 * that calloc is made of that malloc, and in a shared program that aligned_alloc fails rather than return
 * what the program's free does not know.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Alignas(16) char arena[1 << 20];
static size_t used;

static int is_own(const void *block)
{
    return (const char *)block >= arena && (const char *)block < arena + sizeof arena;
}

static void fail(const char *what)
{
    write(2, what, strlen(what));
    write(2, "\n", 1);
    _exit(1);
}

void *malloc(size_t size)
{
    size_t at = used;
    if (size > sizeof arena - 16 - used) {
        errno = ENOMEM;
        return NULL;
    }
    *(size_t *)(arena + at) = size;
    memset(arena + at + 16, 0xee, size); /* calloc has to clear it */
    used += (size + 31) & -(size_t)16;
    return arena + at + 16;
}

void free(void *block)
{
    if (block != NULL && !is_own(block)) {
        fail("free of a block that is another's");
    }
}

void *realloc(void *block, size_t size)
{
    void *copy = malloc(size);
    if (block != NULL && copy != NULL) {
        free(block);
        size_t old = *(size_t *)((char *)block - 16);
        memcpy(copy, block, old < size ? old : size);
    }
    return copy;
}

int main(void)
{
    char *text = strdup("text"), *zero = calloc(100, 3);
    if (!is_own(text) || !is_own(zero)) {
        fail("the libc does not call the program's malloc");
    }
    for (int i = 0; i < 300; i++) {
        if (zero[i] != 0) {
            fail("calloc did not clear");
        }
    }
    free(text);
    free(zero);
    char *list = reallocarray(NULL, 10, 10);
    if (!is_own(list)) {
        fail("reallocarray is not made of the program's realloc");
    }
    free(list);
#ifdef IS_SHARED
    if (aligned_alloc(64, 64) != NULL || errno != ENOMEM) {
        fail("aligned_alloc returned what the program's free does not know");
    }
#endif
    setenv("A", "b", 1);
    return 0;
}
