// expect: secure=abort "which mallow did not allocate" fast=abort "which mallow did not allocate" debug=abort "which mallow did not allocate"
/* SPDX-License-Identifier: MIT
 * Where a block was somebody else has mapped memory: that is no double free. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
    char *block = malloc((size_t)200 << 20);
    free(block);
    malloc_trim(0);
    char *mapping = mmap(block, 4096, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    free(mapping);
    return 0;
}
