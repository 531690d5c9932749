/* SPDX-License-Identifier: MIT
 *
 * A cache in memory: two threads, each with a thousand entries of 0.5 to 64 KiB, that replace a random
 * entry by one of another size, over and over, and read what they put in. What a server does that keeps
 * pages, answers or documents. `make run` compares the allocators on it.
 *
 *     cc -O2 -pthread examples/cache.c -o cache && mallow compare -- ./cache
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, ENTRIES = 1000, REPLACED = 1000000 };

struct entry {
    unsigned char *bytes;
    size_t size;
};

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* As many entries of 1 to 2 KiB as of 16 to 32. */
static size_t some_size(uint32_t *seed)
{
    size_t octave = (size_t)512 << next(seed) % 7;
    return octave + next(seed) % octave;
}

static void fill(struct entry *entry, uint32_t *seed)
{
    entry->size = some_size(seed);
    entry->bytes = malloc(entry->size);
    if (!entry->bytes)
        abort();
    /* Its head, as of a record whose rest is read from a file later. */
    memset(entry->bytes, (int)(entry->size & 0xff), 64);
}

static void *serve(void *argument)
{
    uint32_t seed = 2463534242U + (uint32_t)(uintptr_t)argument;
    struct entry *entries = calloc(ENTRIES, sizeof *entries);
    if (!entries)
        abort();
    for (size_t i = 0; i < ENTRIES; i++)
        fill(&entries[i], &seed);
    for (size_t i = 0; i < REPLACED; i++) {
        struct entry *entry = &entries[next(&seed) % ENTRIES];
        if (entry->bytes[63] != (unsigned char)(entry->size & 0xff))
            abort();
        free(entry->bytes);
        fill(entry, &seed);
    }
    for (size_t i = 0; i < ENTRIES; i++)
        free(entries[i].bytes);
    free(entries);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, serve, (void *)(i + 1)) != 0)
            return 1;
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d entries replaced by each of %d threads\n", REPLACED, THREADS);
    return 0;
}
