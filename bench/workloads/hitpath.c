/* SPDX-License-Identifier: MIT
 *
 * hitpath: the program that bench/instructions counts instructions of; nothing is timed here.
 * Arguments: `pair` or `live` (1,000 blocks, first in first out), the size, the number of
 * malloc+free pairs; a fourth argument makes it stop itself before and after them, for rig/steps.c,
 * once it has warmed up. Calls are made from `drive` alone, so that a profile shows the cost of malloc
 * and of free on its call edges.
 */
#include "bench.h"
#include <signal.h>

enum { LIVE = 1000, WARM_UP_PAIRS = 100 * LIVE };

static void *blocks[LIVE];

static __attribute__((noinline)) void drive(size_t live, size_t size, size_t count) {
    for (size_t done = 0; done < count; done += live) {
        for (size_t i = 0; i < live; i++) {
            char *p = malloc(size);
            *p = 1;
            blocks[i] = p;
        }
        for (size_t i = 0; i < live; i++) free(blocks[i]);
    }
}

extern char __executable_start[], etext[];

static void stop_for_tracer(void) {
    char line[160];
    int length = snprintf(line, sizeof line, "addresses %lx %lx %lx %lx\n", (uintptr_t)malloc,
                          (uintptr_t)free, (uintptr_t)__executable_start, (uintptr_t)etext);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(1);
    raise(SIGSTOP);
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) return 2;
    bench_start(1, argv);
    size_t live = strcmp(argv[1], "live") == 0 ? LIVE : 1;
    size_t size = strtoul(argv[2], NULL, 10);
    size_t count = strtoul(argv[3], NULL, 10);
    if (argc == 5) {
        drive(live, size, WARM_UP_PAIRS);
        stop_for_tracer();
    }
    drive(live, size, count);
    if (argc == 5) raise(SIGSTOP);
    return 0;
}
