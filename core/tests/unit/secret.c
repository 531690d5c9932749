/* SPDX-License-Identifier: MIT
 *
 * Random numbers: nobody draws what another one drew, and each bit is as often 0 as 1.
 */
#include "unit.h"

enum { OWNERS = 4, DRAWS = 4096 };

static int compare(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

TEST(secret_numbers_of_several_owners_are_all_different)
{
    static uint64_t drawn[(OWNERS + 1) * DRAWS];
    uint64_t own[OWNERS] = {0};
    size_t count = 0;
    process_init();
    for (unsigned i = 0; i < DRAWS; i++) {
        for (unsigned owner = 0; owner < OWNERS; owner++) {
            drawn[count++] = random_next(&own[owner]);
        }
        drawn[count++] = random_bits();
    }
    qsort(drawn, count, sizeof *drawn, compare);
    for (size_t i = 1; i < count; i++) {
        CHECK(drawn[i] != drawn[i - 1]);
    }
}

TEST(secret_bits_are_as_often_0_as_1)
{
    unsigned ones[64] = {0};
    uint64_t own = 0;
    process_init();
    for (unsigned i = 0; i < DRAWS; i++) {
        uint64_t bits = random_next(&own);
        for (unsigned bit = 0; bit < 64; bit++) {
            ones[bit] += bits >> bit & 1;
        }
    }
    for (unsigned bit = 0; bit < 64; bit++) { /* 6 standard deviations are 192 */
        CHECK_GE(ones[bit], DRAWS / 2 - 192);
        CHECK_LE(ones[bit], DRAWS / 2 + 192);
    }
}

TEST(secret_padding_is_no_text)
{
    bool is_seen[256] = {false};
    for (uint64_t bits = 0; bits < 256; bits++) {
        uint64_t padding = padding_of(bits);
        is_seen[padding & 0xff] = true;
        CHECK_EQ(padding, (padding & 0xff) * 0x0101010101010101u);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        CHECK_EQ(is_seen[byte], byte >= 0x80 && byte != 0xff);
    }
}
