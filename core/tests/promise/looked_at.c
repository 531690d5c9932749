/* SPDX-License-Identifier: MIT
 *
 * mw_heap_is_valid looks at all blocks while another thread is in the middle of calloc and realloc of large ones, of
 * which whole pages change: it takes none of that for an overflow.
 */
#include <stdatomic.h>

#include "promise.h"

static atomic_bool is_over;

static void *change_large_blocks(void *argument)
{
    for (int i = 0; i < promise_rounds(1500, 400000); i++) {
        size_t size = 2 * MIB + (size_t)(i % 7) * 1000;
        char *block = calloc(1, size), *beside = calloc(1, size);
        CHECK(block != NULL && block[size - 1] == 0 && beside != NULL);
        block[0] = 1; /* one page of them: what was used so sparsely is cleared by giving it back */
        for (size_t more = 1; more < 4; more++) { /* in its place, or by moving its pages */
            block = realloc(block, size + more * 1200 * KIB);
            CHECK(block != NULL && block[0] == 1);
        }
        free(block);
        free(beside);
    }
    atomic_store(&is_over, true);
    return argument;
}

int main(void)
{
    bool (*heap_is_valid)(void) = dlsym(RTLD_DEFAULT, "mw_heap_is_valid");
    pthread_t thread;
    int looks = 0;
    CHECK_EQ(pthread_create(&thread, NULL, change_large_blocks, NULL), 0);
    while (!atomic_load(&is_over)) {
        CHECK(heap_is_valid());
        looks++;
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    printf("%d looks\n", looks);
    return 0;
}
