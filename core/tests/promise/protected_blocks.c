/* SPDX-License-Identifier: MIT
 *
 * A program takes the access to blocks of its own away, as guard pages do, and gives it back before it frees them.
 * Statistics that another thread reads meanwhile count what lies free in lists, but look at none of these blocks.
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "promise.h"

enum { BLOCKS = 8, SIZE = 64 * KIB };

static atomic_bool is_over;

static void *protect_blocks(void *argument)
{
    static char *blocks[BLOCKS];
    while (!atomic_load(&is_over)) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(SIZE);
            CHECK(blocks[i] != NULL && (uintptr_t)blocks[i] % (4 * KIB) == 0);
            CHECK_EQ(mprotect(blocks[i], SIZE, PROT_NONE), 0);
        }
        for (int i = 0; i < BLOCKS; i++) {
            CHECK_EQ(mprotect(blocks[i], SIZE, PROT_READ | PROT_WRITE), 0);
            free(blocks[i]);
        }
    }
    return argument;
}

int main(void)
{
    bool (*read_figure)(const char *, uint64_t *) = dlsym(RTLD_DEFAULT, "mw_stats_read");
    CHECK(read_figure != NULL);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, protect_blocks, NULL), 0);
    int reads = promise_rounds(5000, 1000000);
    for (int i = 0; i < reads; i++) {
        uint64_t bytes;
        CHECK(read_figure("all.large_bytes", &bytes));
        CHECK_MSG(bytes <= 64 * (size_t)SIZE, "%llu bytes in use", (unsigned long long)bytes);
    }
    atomic_store(&is_over, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    printf("%d reads\n", reads);
    return 0;
}
