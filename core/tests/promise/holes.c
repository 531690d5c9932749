/* SPDX-License-Identifier: MIT
 *
 * New data goes into the holes that the old has left: a million blocks of 16 to 255 bytes, 90 % of
 * them freed at random, then 100,000 blocks of 300 to 1,000 bytes. glibc, which merges neighbours,
 * has 145 MiB in the end; allocators with size classes 200 and more.
 */
#include "promise.h"

enum { OLD = 1000000, NEW = 100000 };

static unsigned char *old_blocks[OLD], *new_blocks[NEW];
static uint16_t old_sizes[OLD], new_sizes[NEW];

static size_t size_between(uint64_t *random, size_t low, size_t high)
{
    return low + test_random(random) % (high - low + 1);
}

static unsigned char *written(size_t size, size_t number)
{
    unsigned char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, (int)(number % 251), size);
    return block;
}

static void check_written(const unsigned char *block, size_t size, size_t number)
{
    CHECK(block[0] == number % 251 && block[size - 1] == number % 251 &&
          block[size / 2] == number % 251);
}

int main(void)
{
    uint64_t random = 12345;
    memset(old_blocks, 1, sizeof old_blocks);
    memset(new_blocks, 1, sizeof new_blocks);
    memset(old_sizes, 1, sizeof old_sizes);
    memset(new_sizes, 1, sizeof new_sizes);
    size_t before = promise_field("status", "RssAnon:");
    for (size_t i = 0; i < OLD; i++) {
        old_sizes[i] = (uint16_t)size_between(&random, 16, 255);
        old_blocks[i] = written(old_sizes[i], i);
    }
    for (size_t i = 0; i < OLD; i++) {
        if (test_random(&random) % 10 != 0) {
            free(old_blocks[i]);
            old_blocks[i] = NULL;
        }
    }
    for (size_t i = 0; i < NEW; i++) {
        new_sizes[i] = (uint16_t)size_between(&random, 300, 1000);
        new_blocks[i] = written(new_sizes[i], i);
    }
    promise_at_most("resident", (promise_field("status", "RssAnon:") - before) / MIB, 150, "MiB");
    for (size_t i = 0; i < NEW; i++) {
        check_written(new_blocks[i], new_sizes[i], i);
        free(new_blocks[i]);
    }
    for (size_t i = 0; i < OLD; i++) {
        if (old_blocks[i] != NULL) {
            check_written(old_blocks[i], old_sizes[i], i);
            free(old_blocks[i]);
        }
    }
    return 0;
}
