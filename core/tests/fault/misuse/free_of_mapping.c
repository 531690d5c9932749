// expect: secure=abort "which mallow did not allocate" fast=abort "which mallow did not allocate" debug=abort "which mallow did not allocate"
/* SPDX-License-Identifier: MIT
 * Memory that the program mapped itself. */
#include <stdlib.h>
#include <sys/mman.h>

int main(void)
{
    free(malloc(10));
    char *mapping =
        mmap(NULL, 8u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(mapping + 4096);
    return 0;
}
