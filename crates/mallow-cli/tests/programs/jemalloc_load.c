/* SPDX-License-Identifier: MIT
 *
 * A load of a known kind, and jemalloc's own statistics of it while all threads are alive:
 *
 *   jemalloc_load KIND THREADS ROUNDS [OPTIONS]
 *
 *   arenas    more blocks at once than a thread's cache holds, so that arenas are needed often
 *   bins      the same with 512 to 4,096 bytes, whose slabs have few blocks
 *   pages     blocks that no cache holds, freed at once
 *   retained  larger ones, many at once, of which nothing is written
 *   healthy   few blocks at once, as most programs have
 *
 * OPTIONS are those of malloc_stats_print. Without jemalloc nothing is printed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) void malloc_stats_print(void (*)(void *, const char *), void *, const char *);

enum { MOST_THREADS = 512, MOST_BLOCKS = 400, STACK = 256 << 10 };

static const struct kind {
    const char *name;
    size_t smallest, largest;
    int blocks;
    int is_untouched;
} KINDS[] = {
    {"arenas", 16, 256, 400, 0},
    {"bins", 512, 4096, 400, 0},
    {"pages", 40 << 10, 320 << 10, 8, 0},
    {"retained", 64 << 10, 1 << 20, 64, 1},
    {"healthy", 16, 128, 20, 0},
};

static const struct kind *kind;
static int rounds;
static pthread_barrier_t begun, worked, printed;

static void round_of_blocks(void)
{
    char *blocks[MOST_BLOCKS];
    size_t size = kind->smallest;
    for (int i = 0; i < kind->blocks; i++) {
        blocks[i] = malloc(size);
        if (!blocks[i])
            exit(1);
        if (!kind->is_untouched)
            blocks[i][0] = 1;
        size = 2 * size > kind->largest ? kind->smallest : 2 * size;
    }
    for (int i = 0; i < kind->blocks; i++)
        free(blocks[i]);
}

static void *work(void *unused)
{
    pthread_barrier_wait(&begun);
    for (int i = 0; i < rounds; i++)
        round_of_blocks();
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&printed);
    return unused;
}

static void print(void *unused, const char *text)
{
    (void)unused;
    fputs(text, stdout);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (!strcmp(KINDS[i].name, argv[1]))
            kind = &KINDS[i];
    unsigned threads = (unsigned)atoi(argv[2]);
    rounds = atoi(argv[3]);
    if (!kind || threads < 1 || threads > MOST_THREADS)
        return 2;
    pthread_barrier_init(&begun, NULL, threads);
    pthread_barrier_init(&worked, NULL, threads + 1);
    pthread_barrier_init(&printed, NULL, threads + 1);
    pthread_t all[MOST_THREADS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&all[i], &small, work, NULL))
            return 1;
    pthread_barrier_wait(&worked);
    if (malloc_stats_print)
        malloc_stats_print(print, NULL, argc > 4 ? argv[4] : "Jaeh");
    fflush(stdout);
    pthread_barrier_wait(&printed);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    return 0;
}
