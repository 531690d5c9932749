/* SPDX-License-Identifier: MIT
 *
 * The module of the test `deepbind`: an extension as PHP loads it. Its first block it takes while it is
 * being loaded.
 */
#include <stdlib.h>

static void *early;

__attribute__((constructor)) static void module_loaded(void)
{
    early = malloc(100);
}

void *module_early(void)
{
    return early;
}

void *module_malloc(size_t size)
{
    return malloc(size);
}

void *module_realloc(void *block, size_t size)
{
    return realloc(block, size);
}

void module_free(void *block)
{
    free(block);
}

/* By the name under which the libc calls itself. */
void *module_libc_malloc(size_t size)
{
    extern void *__libc_malloc(size_t);
    return __libc_malloc(size);
}
