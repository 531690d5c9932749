/* SPDX-License-Identifier: MIT */
#include "correct.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

static void *kept_until_the_end;

/* Ends with 1 where the allocator did not do what the standard says. */
static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "correct: %s\n", what);
        _exit(1);
    }
}

/* Some allocators refuse an aligned_alloc whose size is no multiple of the alignment, as C11 did, or
 * an aligned block of no bytes. */
static bool is_served(const struct entry *entry, size_t size)
{
    void *block = opaque(entry->allocate(size));
    must(block != NULL || size == 0 || strcmp(entry->name, "aligned_alloc") == 0, "no memory");
    if (block != NULL) {
        entry->release(block, size);
    }
    return block != NULL;
}

/* The first and the last byte, and what malloc_usable_size allows. */
static void bounds(const struct entry *entry, size_t size)
{
    unsigned char *block = allocate(entry, size);
    fill(block, size, MARK_BLOCK);
    must(is_filled(block, size, MARK_BLOCK), "a block does not hold what was written");
    size_t usable = malloc_usable_size(block);
    must(usable >= size, "malloc_usable_size is smaller than what was asked for");
    fill(block, usable, MARK_NEIGHBOUR);
    must(is_filled(block, usable, MARK_NEIGHBOUR), "a block does not hold what was written");
    entry->release(block, size);
}

/* To larger and back, in place or not: only the new pointer is used. */
static void use(const struct entry *entry, size_t size)
{
    unsigned char *block = allocate(entry, size);
    fill(block, size, MARK_BLOCK);
    if (entry->release == entry_named("malloc")->release) {
        for (size_t to = 2 * size + 1; to > size / 2; to = to * 3 / 4) {
            block = opaque(realloc(block, to));
            must(block != NULL, "no memory");
            must(is_filled(block, size / 2 < 4096 ? size / 2 : 4096, MARK_BLOCK) || size > 131072,
                 "realloc lost what a block held");
            fill(block, to, MARK_BLOCK);
        }
        free(block);
    } else {
        entry->release(block, size);
    }
}

/* In the order of allocation, against it, and NULL. */
static void frees(const struct entry *entry, size_t size)
{
    enum { COUNT = 12 };
    void *blocks[COUNT];
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = allocate(entry, size);
            fill(blocks[i], size, MARK_BLOCK);
        }
        for (int i = 0; i < COUNT; i++) {
            entry->release(blocks[turn == 0 ? i : COUNT - 1 - i], size);
        }
    }
    entry->release(NULL, size);
}

/* Every release that fits, with the size and the alignment that were asked for. */
static void matching(const struct entry *entry, size_t size)
{
    entry->release(allocate(entry, size), size);
    if (strcmp(entry->name, "malloc") == 0) {
        free(opaque(realloc(allocate(entry, size), size + 1)));
        free(opaque(reallocarray(allocate(entry, size), 2, size + 1)));
    }
}

static void requests(const struct entry *entry, size_t size)
{
    unsigned char *block = opaque(calloc(3, size + 1));
    must(block != NULL && is_filled(block, 3 * (size + 1), 0), "calloc did not clear a block");
    free(block);
    void *aligned = NULL;
    must(posix_memalign(&aligned, 4096, size) == 0 && (uintptr_t)aligned % 4096 == 0,
         "posix_memalign did not align");
    free(aligned);
    free(kept_until_the_end);
    kept_until_the_end = opaque(malloc(size)); /* the last one is held at the end: no leak */
    (void)entry;
}

struct errand {
    const struct entry *entry;
    size_t size;
    void *block;
};

static void *allocate_errand(void *argument)
{
    struct errand *errand = argument;
    errand->block = allocate(errand->entry, errand->size);
    fill(errand->block, errand->size, MARK_BLOCK);
    return NULL;
}

static void *release_errand(void *argument)
{
    struct errand *errand = argument;
    errand->entry->release(errand->block, errand->size);
    return NULL;
}

/* A block is freed by another thread, and after its own thread has ended. */
static void threads(const struct entry *entry, size_t size)
{
    struct errand errand = {entry, size, NULL};
    pthread_t thread;
    must(pthread_create(&thread, NULL, allocate_errand, &errand) == 0, "no thread");
    pthread_join(thread, NULL);
    must(is_filled(errand.block, size, MARK_BLOCK), "a block did not outlive its thread");
    release_errand(&errand);
    allocate_errand(&errand);
    must(pthread_create(&thread, NULL, release_errand, &errand) == 0, "no thread");
    pthread_join(thread, NULL);
}

int correct_family(const char *name)
{
    static const struct {
        const char *name;
        void (*run)(const struct entry *entry, size_t size);
    } families[] = {{"bounds", bounds},     {"use", use},           {"frees", frees},
                    {"matching", matching}, {"requests", requests}, {"threads", threads}};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t sizes[] = {0, 1, 16, 61, page - 1, page, page + 1, 300 << 10, 8 << 20};
    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
        if (strcmp(families[i].name, name) != 0) {
            continue;
        }
        for (const struct entry *entry = entries; entry->name != NULL; entry++) {
            for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
                if (is_served(entry, sizes[k])) {
                    families[i].run(entry, sizes[k]);
                }
            }
        }
        return 0;
    }
    fprintf(stderr, "correct: there is no family %s\n", name);
    return 2;
}
