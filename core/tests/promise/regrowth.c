/* SPDX-License-Identifier: MIT
 *
 * Blocks that grow again and again use the memory that the last ones left; and a block that shrinks and grows by turns
 * does not keep that of others which only shrink.
 */
#include <string.h>

#include "promise.h"

enum { ROUNDS = 20, LARGEST = 60 * MIB, STEP = 700000, DOCUMENTS = 100 };

static void at_most(const char *what, size_t mib)
{
    promise_at_most(what, promise_field("status", "VmRSS:") / MIB, mib, "MiB");
}

/* Two buffers that grow together in small steps. */
static void grow_and_free(void)
{
    char *one = NULL, *half = NULL;
    for (size_t size = MIB; size < LARGEST; size += STEP) {
        one = realloc(one, size);
        half = realloc(half, size / 2);
        CHECK(one != NULL && half != NULL);
        memset(one + size - STEP, 1, STEP);
        memset(half + size / 2 - STEP / 2, 1, STEP / 2);
    }
    at_most("resident with buffers of 90 MiB that grew again", 150);
    free(one);
    free(half);
}

static void cut_documents(void)
{
    static char *documents[DOCUMENTS];
    char *scratch = malloc(MIB);
    for (unsigned i = 0; i < DOCUMENTS; i++) {
        if (i % 50 == 0) {
            scratch = realloc(realloc(scratch, MIB / 3), MIB);
            CHECK(scratch != NULL);
            memset(scratch, 1, MIB);
        }
        documents[i] = malloc(8 * MIB);
        CHECK(documents[i] != NULL);
        memset(documents[i], 1, 8 * MIB);
        documents[i] = realloc(documents[i], MIB + MIB / 5);
        CHECK(documents[i] != NULL);
    }
    at_most("resident beside 120 MiB of documents that were cut", 260);
    for (unsigned i = 0; i < DOCUMENTS; i++) {
        free(documents[i]);
    }
    free(scratch);
}

int main(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        grow_and_free();
    }
    cut_documents();
    return 0;
}
