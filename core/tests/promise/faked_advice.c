/* SPDX-License-Identifier: MIT
 *
 * A program sets itself a seccomp filter that answers madvise with success and does nothing, when memory was given back and
 * guards were made before. It goes on to get memory that it can write to, and that reads as zero from calloc.
 */
#include <malloc.h>

#include "promise.h"
#include "refused.h"

enum { BLOCKS = 8, ROUNDS = 3 };

static bool is_zero(const unsigned char *block, size_t size)
{
    return block[0] == 0 && memcmp(block, block + 1, size - 1) == 0;
}

/* What is freed last waits, perhaps without access, for the next time. */
static void work(void)
{
    static const size_t sizes[] = {3000, 40000, 300000, 1 * MIB, 3 * MIB};
    static unsigned char
        *held[sizeof sizes / sizeof sizes[0]]; /* what lies around is given back, not unmapped */
    unsigned char *blocks[BLOCKS];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        malloc_trim(0);
        for (int at = 0; at < BLOCKS; at++) {
            blocks[at] = calloc(1, size);
            CHECK(blocks[at] != NULL);
            CHECK_MSG(is_zero(blocks[at], size), "calloc of %zu bytes", size);
            memset(blocks[at], 0x77, size);
        }
        for (int at = 0; at < BLOCKS - 1; at++) {
            free(blocks[at]);
        }
        if (held[i] == NULL) {
            held[i] = blocks[BLOCKS - 1];
        } else {
            free(blocks[BLOCKS - 1]);
        }
    }
}

int main(void)
{
    work();
    if (!answer_call(SYS_madvise, 0)) {
        printf("skipped: no seccomp filters here (%s)\n", strerror(errno));
        return 0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        work();
    }
    return 0;
}
