/* SPDX-License-Identifier: MIT
 *
 * Metadata: zeroed, aligned, never handed out twice.
 */
#include "unit.h"

TEST(meta_is_zero_aligned_and_distinct)
{
    process_init();
    uint64_t random = 3;
    for (int i = 0; i < 5000; i++) {
        size_t size = 1 + test_random(&random) % 700;
        unsigned char *bytes = meta_alloc(size);
        CHECK(bytes != NULL);
        CHECK_EQ((uintptr_t)bytes % CACHE_LINE, 0);
        for (size_t k = 0; k < size; k++) {
            CHECK_EQ(bytes[k], 0); /* anything else was handed out before */
        }
        memset(bytes, 0xff, size);
    }
}

TEST(meta_serves_large_objects)
{
    process_init();
    size_t before = meta_bytes();
    unsigned char *bytes = meta_alloc(3 * MiB);
    CHECK(bytes != NULL);
    memset(bytes, 1, 3 * MiB);
    CHECK_GE(meta_bytes(), before + 3 * MiB);
}

static void write_before_metadata(void)
{
    process_init();
    char *bytes = meta_alloc(64);
    signal(SIGSEGV, (void (*)(int))(void *)abort);
    for (char *at = bytes; at > bytes - (1 << 20); at -= 512) {
        *(volatile char *)at = *(volatile char *)at;
    }
}

TEST(meta_lies_between_guard_pages)
{
    check_aborts(write_before_metadata, "");
}
