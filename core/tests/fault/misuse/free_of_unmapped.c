// expect: secure=abort "which mallow did not allocate" fast=abort "which mallow did not allocate" debug=abort "which mallow did not allocate"
/* SPDX-License-Identifier: MIT
 * An address that was mapped and is no longer. */
#include <stdlib.h>
#include <sys/mman.h>

int main(void)
{
    char *mapping =
        mmap(NULL, 1u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(mapping, 1u << 20);
    free(mapping);
    return 0;
}
