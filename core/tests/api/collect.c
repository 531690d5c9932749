/* SPDX-License-Identifier: MIT
 *
 * mw_collect, mw_version and mw_heap_is_valid.
 */
#include "../allocator.h"
#include "../pattern.h"
#include "../test.h"
#include "blocks.h"

TEST(collect_keeps_live_blocks)
{
    enum { BLOCKS = 3000 };
    static unsigned char *blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    uint64_t random = 31;
    for (size_t round = 0; round < t_rounds(40); round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            if (test_random(&random) % 3 == 0) {
                if (blocks[i]) {
                    pattern_check(blocks[i], sizes[i], i);
                    t_free(blocks[i]);
                }
                sizes[i] =
                    (test_random(&random) >> 11) % ((size_t)16 << (test_random(&random) % 12));
                blocks[i] = t_malloc(sizes[i]);
                CHECK(blocks[i] != NULL);
                pattern_write(blocks[i], sizes[i], i);
            }
        }
        mw_collect(round % 2);
        CHECK(mw_heap_is_valid());
    }
}

TEST(forced_collect_gives_memory_back)
{
    make_and_free(8000, 8000);
    mw_collect(true);
    CHECK_LT(t_mallinfo2().keepcost, 2u << 20);
    CHECK(mw_heap_is_valid());
}

TEST(version_names_number_and_mode)
{
    const char *version = mw_version();
    size_t length = strlen(MW_VERSION_STRING);
    CHECK_MSG(strncmp(version, MW_VERSION_STRING " ", length + 1) == 0, "%s", version);
    const char *mode = version + length + 1;
    CHECK_MSG(!strcmp(mode, "fast") || !strcmp(mode, "secure") || !strcmp(mode, "debug"), "%s",
              version);
}
