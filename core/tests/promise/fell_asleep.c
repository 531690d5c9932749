/* SPDX-License-Identifier: MIT
 *
 * A thread that frees its blocks of pages into lists that nobody else can reach, and makes no call from then on, leaves
 * little there. The purge thread runs, and dirty_decay_ms is 500.
 */
#include <string.h>

#include "promise.h"

enum { CLASSES = 64, PAIRS = 600000, SWINGS = 300, ROUNDS = 10, AT_MOST = 16 };

static char *blocks[CLASSES];

static void take(unsigned count, size_t size)
{
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
}

static void give(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

/* So that the clock is looked at rarely, and the lists are in use. */
static void be_busy(void)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        char *block = malloc(40000 + i % 4 * 8192), *slot = malloc(100);
        *block = *slot = 1;
        free(block);
        free(slot);
    }
}

static void make_pairs(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char *one = malloc(40000), *other = malloc(60000);
        *one = *other = 1;
        free(one);
        free(other);
    }
}

/* A block of each size that lists of blocks have, 36 KiB to 8 MiB, and between them calls enough for each list to be in use. */
static void take_each(void)
{
    for (unsigned i = 0; i < CLASSES; i++) {
        size_t size = (size_t)(9 + i % 8) << (12 + i / 8);
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        make_pairs(300);
        memset(blocks[i], 1, size);
        make_pairs(300);
    }
    make_pairs(9000);
}

static void sleep_and_look(const char *what)
{
    size_t freed = promise_field("status", "VmRSS:"), left = freed;
    for (long end = promise_now_ms() + PROMISE_PATIENCE_MS;
         left / MIB > AT_MOST && promise_now_ms() < end;) {
        promise_sleep_ms(100);
        left = promise_field("status", "VmRSS:");
    }
    printf("resident when all was freed: %zu MiB\n", freed / MIB);
    promise_at_most(what, left / MIB, AT_MOST, "MiB");
}

int main(void)
{
    take(30, MIB);
    be_busy();
    give(30);
    sleep_and_look("resident after 30 MiB were freed once");

    take(20, 2 * MIB);
    be_busy();
    for (unsigned i = 0; i < SWINGS; i++) {
        give(20);
        take(20, 2 * MIB);
    }
    give(20);
    sleep_and_look("resident after 40 MiB were freed over and over");

    for (unsigned i = 0; i < ROUNDS; i++) {
        take_each();
        give(CLASSES);
        make_pairs(600);
    }
    take_each();
    give(CLASSES);
    sleep_and_look("resident after a block of each size was freed");
    return 0;
}
