/* SPDX-License-Identifier: MIT
 *
 * The program uses an object after its free; meanwhile the attacker has had its memory.
 */
#include "probes.h"

#include <stdlib.h>
#include <string.h>

enum { SPRAY = 1000, SECRET = 'S' };

/* The attacker allocates, and fills what he gets; the program calls its old object. */
static void take_over(char *object, size_t object_size, size_t size, int count)
{
    for (int i = 0; i < count; i++) {
        fill_with_win(take(size), size);
    }
    call(object, object_size);
}

static char *freed_object(size_t size)
{
    char *object = take(size);
    set_up(object, size);
    give(object);
    return object;
}

static void same_class(void)
{
    take_over(freed_object(SMALL), SMALL, SMALL, 1);
}

static void same_class_sprayed(void)
{
    take_over(freed_object(SMALL), SMALL, SMALL, SPRAY);
}

/* What waits is bounded by bytes: many larger blocks are freed first. */
static void same_class_flushed(void)
{
    enum { BLOCKS = 64, ROUNDS = 4, SIZE = 31000 };
    char *object = freed_object(SMALL);
    for (int round = 0; round < ROUNDS; round++) {
        char *blocks[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = take(SIZE);
        }
        for (int i = 0; i < BLOCKS; i++) {
            give(blocks[i]);
        }
    }
    take_over(object, SMALL, SMALL, 2 * SPRAY);
}

static void same_page(void)
{
    take_over(freed_object(PAGE_SIZED), PAGE_SIZED, PAGE_SIZED, 1);
}

static void same_page_sprayed(void)
{
    take_over(freed_object(PAGE_SIZED), PAGE_SIZED, PAGE_SIZED, SPRAY);
}

static void same_large(void)
{
    take_over(freed_object(LARGE), LARGE, LARGE, 2);
}

/* Too small for pages of its own that could lose their access, too large for a slot. */
static void same_pages_sprayed(void)
{
    take_over(freed_object(PAGES_SIZED), PAGES_SIZED, PAGES_SIZED, SPRAY);
}

/* Whole slabs of one class are freed, and the pages go to another. */
static void other_class(void)
{
    enum { COUNT = 20000 };
    static char *objects[COUNT];
    for (int i = 0; i < COUNT; i++) {
        objects[i] = take(SMALL);
        set_up(objects[i], SMALL);
    }
    for (int i = 0; i < COUNT; i++) {
        give(objects[i]);
    }
    for (int i = 0; i < COUNT / 10; i++) {
        fill_with_win(take(640), 640);
    }
    for (int i = 0; i < COUNT; i += 100) {
        call(objects[i], SMALL);
    }
}

/* A block's pages become slabs of small ones. */
static void to_small(size_t size)
{
    char *object = freed_object(size);
    for (int i = 0; i < 40000; i++) {
        fill_with_win(take(SMALL), SMALL);
    }
    call(object, size);
}

static void large_to_small(void)
{
    to_small(LARGE);
}

static void pages_to_small(void)
{
    to_small(PAGES_SIZED);
}

static void *spray(void *unused)
{
    for (int i = 0; i < SPRAY; i++) {
        fill_with_win(take(SMALL), SMALL);
    }
    return unused;
}

static void *give_object(void *object)
{
    give(object);
    return NULL;
}

static void by_other_thread(void)
{
    char *object = freed_object(SMALL);
    in_thread(spray, NULL);
    call(object, SMALL);
}

static void freed_by_other_thread(void)
{
    char *object = take(SMALL);
    set_up(object, SMALL);
    in_thread(give_object, object);
    take_over(object, SMALL, SMALL, SPRAY);
}

static void *allocate_object(void *unused)
{
    char *object = take(SMALL);
    set_up(object, SMALL);
    (void)unused;
    return object;
}

static void *keep_object(void *place)
{
    *(void **)place = allocate_object(NULL);
    return NULL;
}

static void of_dead_thread(void)
{
    char *object = NULL;
    in_thread(keep_object, &object);
    give(object);
    take_over(object, SMALL, SMALL, SPRAY);
}

static void moved(void)
{
    char *object = take(SMALL);
    set_up(object, SMALL);
    void *now = opaque(realloc(opaque(object), 3000));
    take_over(object, SMALL, SMALL, SPRAY);
    give(now);
}

/* The program writes through its old pointer into what is now the attacked object's. */
static void write_to_new_owner(void)
{
    char *buffer = take(SMALL);
    give(buffer);
    char *owners[64];
    for (int i = 0; i < 64; i++) {
        owners[i] = take(SMALL);
        set_up(owners[i], SMALL);
    }
    fill_with_win(opaque(buffer), SMALL);
    for (int i = 0; i < 64; i++) {
        call(owners[i], SMALL);
    }
}

static void find_secret(const volatile char *memory, size_t size)
{
    size_t run = 0;
    for (size_t i = 0; i < size; i++) {
        run = memory[i] == SECRET ? run + 1 : 0;
        if (run == 16) {
            reach("a secret was read");
        }
    }
}

static void read_freed(void)
{
    char *secret = take(SMALL);
    memset(secret, SECRET, SMALL);
    give(secret);
    find_secret(opaque(secret), SMALL);
}

static void read_freed_large(void)
{
    char *secret = take(LARGE);
    memset(secret, SECRET, LARGE);
    give(secret);
    find_secret(opaque(secret), LARGE);
}

/* No fault but that nobody clears: a new block shows what the last owner left there. */
static void read_new(void)
{
    char *secrets[16];
    for (int i = 0; i < 16; i++) {
        secrets[i] = take(SMALL);
        memset(secrets[i], SECRET, SMALL);
    }
    for (int i = 0; i < 16; i++) {
        give(secrets[i]);
    }
    for (int i = 0; i < SPRAY; i++) {
        find_secret(take(SMALL), SMALL);
    }
}

const struct probe reuse_probes[] = {
    {"reuse-same-class", same_class},
    {"reuse-same-class-sprayed", same_class_sprayed},
    {"reuse-same-class-flushed", same_class_flushed},
    {"reuse-page", same_page},
    {"reuse-page-sprayed", same_page_sprayed},
    {"reuse-pages-sprayed", same_pages_sprayed},
    {"reuse-large", same_large},
    {"reuse-other-class", other_class},
    {"reuse-large-as-small", large_to_small},
    {"reuse-pages-as-small", pages_to_small},
    {"reuse-by-other-thread", by_other_thread},
    {"reuse-freed-by-thread", freed_by_other_thread},
    {"reuse-of-dead-thread", of_dead_thread},
    {"reuse-after-realloc", moved},
    {"reuse-write", write_to_new_owner},
    {"read-freed-small", read_freed},
    {"read-freed-large", read_freed_large},
    {"read-new", read_new},
    {NULL, NULL},
};
