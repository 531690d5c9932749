/* SPDX-License-Identifier: MIT
 *
 * Programs that are large, or seem so: each prints what it holds and rests, or grows for ever.
 *
 *   huge reserved | shadow | blocks | mappings | grows
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TIB ((size_t)1 << 40)
#define MIB ((size_t)1 << 20)

static char *map(size_t size, int access)
{
    char *start = mmap(NULL, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        perror("mmap");
        exit(77);
    }
    return start;
}

static size_t hold(size_t size)
{
    void *block = malloc(size);
    memset(block, 1, size < 4096 ? size : 16);
    return malloc_usable_size(block) + 8;
}

/* Address space without access, as databases and the Java machine reserve it. */
static size_t reserved(void)
{
    map(8 * TIB, PROT_NONE);
    map(20 * TIB, PROT_NONE);
    size_t used = 0;
    for (int i = 0; i < 100000; i++) {
        used += hold(100);
    }
    return used;
}

/* Writable address space of which a page here and there is touched, as sanitizers have it. */
static size_t shadow(void)
{
    char *start = map(8 * TIB, PROT_READ | PROT_WRITE);
    for (size_t at = 0; at < 8 * TIB; at += 64 * 1024 * MIB) {
        start[at] = 1;
    }
    size_t used = 0;
    for (int i = 0; i < 100000; i++) {
        used += hold(100);
    }
    return used;
}

/* 4 GiB of heap, a third of it free; only the first bytes of each block are touched. */
static size_t blocks(void)
{
    enum { COUNT = 60000 };
    static void *all[COUNT];
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    size_t used = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = 20000 + i * 7919 % 100000;
        all[i] = malloc(size);
        memset(all[i], 1, 16);
        used += malloc_usable_size(all[i]) + 8;
    }
    for (size_t i = 0; i < COUNT; i += 3) {
        used -= malloc_usable_size(all[i]) + 8;
        free(all[i]);
    }
    return used;
}

/* Every second page has another access, so each is a mapping of its own. */
static size_t mappings(void)
{
    enum { COUNT = 20000 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = map(COUNT * page, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < COUNT; i += 2) {
        if (mprotect(start + i * page, page, PROT_READ) != 0) {
            perror("mprotect");
            exit(77);
        }
    }
    return 0;
}

/* A heap that grows to 512 MiB within a second, again and again. The peak is that of the time since
 * the last start, so that it is never much above what is resident. */
static void *grow(void *argument)
{
    enum { COUNT = 8192, SIZE = 65536 };
    static void *all[COUNT];
    for (;;) {
        for (size_t i = 0; i < COUNT; i++) {
            all[i] = malloc(SIZE);
            memset(all[i], 1, SIZE);
            if (i % 8 == 0) {
                usleep(500);
            }
        }
        for (size_t i = 0; i < COUNT; i++) {
            free(all[i]);
        }
        malloc_trim(0);
        FILE *peak = fopen("/proc/self/clear_refs", "w");
        if (peak != NULL) {
            fputs("5", peak);
            fclose(peak);
        }
    }
    return argument;
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    size_t used = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (strcmp(which, "reserved") == 0) {
        used = reserved();
    } else if (strcmp(which, "shadow") == 0) {
        used = shadow();
    } else if (strcmp(which, "blocks") == 0) {
        used = blocks();
    } else if (strcmp(which, "mappings") == 0) {
        used = mappings();
    } else if (strcmp(which, "grows") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, grow, NULL);
    } else {
        return 2;
    }
    printf("{\"bytes\":%zu}\n", used);
    for (;;) {
        pause();
    }
}
