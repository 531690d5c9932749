// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * The program takes the write access to parts of its own blocks away and handles the trap, as collectors do; a report of
 * faults is asked for, so that the allocator looks at each trap first. */
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 40 };

static volatile uintptr_t page_size;
static volatile int traps;

static void give_back(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    traps++;
    if (mprotect((void *)((uintptr_t)info->si_addr & ~(page_size - 1)), page_size,
                 PROT_READ | PROT_WRITE) != 0) {
        _exit(3);
    }
}

/* Blocks of four pages and more; the first and the third page cannot be written to. */
static void use(size_t pages)
{
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        char *block = blocks[i] = memalign(page_size, pages * page_size);
        for (size_t page = 0; page < 4; page += 2) {
            int before = traps;
            mprotect(block + page * page_size, page_size, PROT_READ);
            *(volatile char *)(block + page * page_size + 100) = 1;
            if (traps != before + 1) {
                _exit(4);
            }
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

int main(int count, char **words)
{
    if (getenv("MALLOW_FAULT_REPORT") == NULL) {
        setenv("MALLOW_FAULT_REPORT", "/dev/null", 1);
        setenv("MALLOW_CONF", "guard_sample:2", 1);
        execv("/proc/self/exe", words);
    }
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_sigaction = give_back, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    /* Blocks that were freed have lost their access: from then on the allocator comes first. */
    for (int round = 0; round < 3; round++) {
        use(5);
        use(7);
        use(30);
        use(3000);
    }
    return 0;
}
