/* SPDX-License-Identifier: MIT
 *
 * glibc's large blocks in mappings that the kernel has split and joined: with huge pages and
 * protected pages inside, aligned, behind memory that the program mapped itself. Prints what glibc
 * counts, and how much memory it mapped itself, and rests.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t own;

static void *mapped(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 7, size);
    own += size;
    return memory;
}

static char *block(size_t size)
{
    char *memory = malloc(size);
    memset(memory, 1, size);
    return memory;
}

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    for (int i = 0; i < 8; i++) {
        mapped(1 << 20); /* joined with what comes next */
        char *large = block(6 << 20);
        madvise((void *)(((size_t)large + (2 << 20)) & ~((size_t)(2 << 20) - 1)), 2 << 20,
                i % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        char *guarded = block(1 << 20);
        mprotect((void *)(((size_t)guarded + (1 << 19)) & ~(page - 1)), page, PROT_NONE);
        block(200 << 10);
    }
    for (size_t alignment = 64; alignment <= 4 << 20; alignment *= 4) {
        void *aligned = NULL;
        if (posix_memalign(&aligned, alignment, 300 << 10)) return 1;
        memset(aligned, 1, 300 << 10);
        mapped(256 << 10);
    }
    struct mallinfo2 info = mallinfo2();
    printf("{\"mapped\": %zu, \"blocks\": %zu, \"used\": %zu, \"own\": %zu}\n", info.hblkhd,
           info.hblks, info.uordblks + info.hblkhd, own);
    fflush(stdout);
    pause();
    return 0;
}
