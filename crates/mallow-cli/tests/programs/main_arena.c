/* SPDX-License-Identifier: MIT
 *
 * Programs whose main arena does not grow by the break alone: each makes the blocks of its case, prints
 * what it holds, and rests.
 *
 *   main_arena wall | apart | again | foreign | copy
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEADER 8

static size_t own_bytes, own_blocks, other_bytes;

static void *count(void *block, size_t size)
{
    memset(block, 1, size);
    own_bytes += malloc_usable_size(block) + HEADER;
    own_blocks++;
    return block;
}

static void hold(int blocks)
{
    for (int i = 0; i < blocks; i++) {
        count(malloc(1000), 1000);
    }
}

static void map(void *at, size_t size, int access, int flags)
{
    if (mmap(at, size, access, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0) == MAP_FAILED) {
        exit(3);
    }
}

/* Something is mapped right behind the break, so that it cannot grow. */
static void *build_a_wall(void)
{
    free(malloc(100));
    uintptr_t end = ((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095;
    map((void *)end, 4096, PROT_NONE, MAP_FIXED_NOREPLACE);
    return (void *)end;
}

/* It is gone again, and the break grows on. */
static void hold_again(void *wall)
{
    hold(20000);
    munmap(wall, 4096);
    hold(30000);
}

/* The program's own memory and large blocks lie between the pieces. */
static void hold_apart(void)
{
    for (int i = 0; i < 30; i++) {
        hold(2000);
        map(NULL, 1 << 20, i % 2 != 0 ? PROT_NONE : PROT_READ | PROT_WRITE, 0);
        other_bytes += 1 << 20;
        count(malloc(1 << 20), 1 << 20);
    }
}

/* Others take from the break too, more than malloc at a time. */
static void share_the_break(void)
{
    for (int i = 0; i < 5; i++) {
        hold(10000);
        memset(sbrk(24 << 20), 'x', 24 << 20);
        other_bytes += 24 << 20;
    }
    hold(10000);
}

static void load_a_copy(void)
{
    hold(20000);
    void *copy = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    void *(*allocate)(size_t) = copy != NULL ? dlsym(copy, "malloc") : NULL;
    for (int i = 0; i < 20000; i++) {
        count(allocate(1000), 1000);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0); /* allocates nothing after the count */
    const char *which = argc > 1 ? argv[1] : "";
    if (strcmp(which, "wall") == 0) {
        build_a_wall();
        hold(100000);
    } else if (strcmp(which, "apart") == 0) {
        build_a_wall();
        hold_apart();
    } else if (strcmp(which, "again") == 0) {
        hold_again(build_a_wall());
    } else if (strcmp(which, "foreign") == 0) {
        share_the_break();
    } else if (strcmp(which, "copy") == 0) {
        load_a_copy();
    } else {
        return 2;
    }
    printf("{\"bytes\": %zu, \"blocks\": %zu, \"other\": %zu}\n", own_bytes, own_blocks, other_bytes);
    pause();
}
