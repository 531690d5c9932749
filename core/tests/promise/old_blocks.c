/* SPDX-License-Identifier: MIT
 *
 * What a busy thread freed and does not use again goes back to the kernel, though blocks of the same sizes come and go
 * all the time in lists that no other thread can reach; what it does use stays.
 * dirty_decay_ms is 100.
 */
#include <string.h>

#include "promise.h"

enum { LIVE = 96, SIZES = 6, EACH = 30, ROUND = 4096, ROUNDS_MS = 2500, LEFT_KIB = 2048 };

static char *written(size_t size)
{
    char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size);
    return block;
}

static size_t size_of(unsigned class)
{
    return 40 * KIB << class % 2 << class / 2 / 2;
}

/* Takes and frees two blocks of each size. */
static void be_busy(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        char *one = malloc(size_of(i % SIZES)), *other = malloc(size_of(i % SIZES));
        *one = *other = 1;
        free(one);
        free(other);
    }
}

static void free_many(void)
{
    static char *blocks[SIZES][EACH];
    for (unsigned i = 0; i < SIZES * EACH; i++) {
        blocks[i % SIZES][i / SIZES] = written(size_of(i % SIZES));
    }
    for (unsigned i = 0; i < SIZES * EACH; i++) {
        free(blocks[i % SIZES][i / SIZES]);
        be_busy(16);
    }
}

/* What is resident beyond that. */
static size_t left_kib(size_t before)
{
    return promise_growth(before, promise_field("status", "VmRSS:")) / KIB;
}

int main(void)
{
    static char *live[LIVE];
    for (unsigned i = 0; i < LIVE; i++) {
        live[i] = written(MIB); /* so that the thread may hold much */
    }
    be_busy(16 * ROUND);
    size_t before = promise_field("status", "VmRSS:");
    free_many();
    size_t after = promise_field("status", "VmRSS:");
    printf("resident: %zu KiB, after the burst %zu KiB\n", before / KIB, after / KIB);
    long start = promise_now_ms(), waited = 0;
    while (waited < ROUNDS_MS || (left_kib(before) > LEFT_KIB && waited < PROMISE_PATIENCE_MS)) {
        be_busy(ROUND);
        waited = promise_now_ms() - start;
    }
    printf("rounds for %ld ms\n", waited);
    promise_at_most("resident beyond that", left_kib(before), LEFT_KIB, "KiB");
    for (unsigned i = 0; i < LIVE; i++) {
        free(live[i]);
    }
    return 0;
}
