/* SPDX-License-Identifier: MIT
 *
 * What was freed is used again: a loop of malloc and free does not grow the process.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "../allocator.h"
#include "../test.h"

/* The process's resident pages, read without stdio. */
/* In a unit of its own: under an emulator the kernel's pages are not the program's. */
static size_t resident_bytes(void)
{
    char text[4096] = {0};
    int file = open("/proc/self/status", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    const char *line = strstr(text, "VmRSS:");
    CHECK(line != NULL);
    return (size_t)strtoul(line + strlen("VmRSS:"), NULL, 10) << 10;
}

static void check_loop(size_t size, size_t rounds)
{
    enum { WINDOW = 8 };
    unsigned char *window[WINDOW] = {0};
    size_t before = 0;
    for (size_t i = 0; i < rounds; i++) {
        t_free(window[i % WINDOW]);
        window[i % WINDOW] = t_malloc(size);
        CHECK(window[i % WINDOW] != NULL);
        memset(window[i % WINDOW], (int)i, size < 64 ? size : 64);
        window[i % WINDOW][size - 1] = 1;
        if (i == rounds / 10) {
            before = resident_bytes();
        }
    }
    size_t after = resident_bytes();
    CHECK_MSG(after < before + (8u << 20) + 16 * size, "size %zu: %zu to %zu resident", size,
              before, after);
    for (int i = 0; i < WINDOW; i++) {
        t_free(window[i]);
    }
}

TEST(small_blocks_are_reused)
{
    for (size_t size = 1; size < 16000; size = size * 2 + 3) {
        check_loop(size, t_rounds(300000));
    }
}

TEST(large_blocks_are_reused)
{
    for (size_t size = 40000; size < 40u << 20; size = size * 2 + 3) {
        check_loop(size, t_rounds(3000));
    }
}

TEST(churn_of_mixed_sizes_stays_bounded)
{
    enum { BLOCKS = 5000 };
    static void *blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    uint64_t random = 4711;
    size_t live = 0, peak = 0;
    for (size_t i = 0; i < t_rounds(2000000); i++) {
        size_t k = test_random(&random) % BLOCKS;
        t_free(blocks[k]);
        live -= sizes[k];
        sizes[k] = 1 + (test_random(&random) >> 12) % ((size_t)32 << (test_random(&random) % 10));
        blocks[k] = t_malloc(sizes[k]);
        CHECK(blocks[k] != NULL);
        *(char *)blocks[k] = 1;
        live += sizes[k];
        peak = live > peak ? live : peak;
    }
    CHECK_MSG(resident_bytes() < peak * 3 + (24u << 20), "%zu resident, %zu live at the peak",
              resident_bytes(), peak);
}
