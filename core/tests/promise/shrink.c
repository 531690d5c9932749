/* SPDX-License-Identifier: MIT
 *
 * realloc to a smaller size succeeds even when there is no memory left at all.
 */
#include <sys/resource.h>

#include "promise.h"

int main(void)
{
    enum { SIZE = 64 * MIB };
    char *block = memset(malloc(SIZE), 7, SIZE);
    CHECK_EQ(setrlimit(RLIMIT_AS, &(struct rlimit){1, 1}), 0);
    while (malloc(100000) != NULL) {
    }
    while (malloc(200) != NULL) {
    }
    const size_t sizes[] = {300000, 5000, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        block = realloc(block, sizes[i]);
        CHECK_MSG(block != NULL && block[sizes[i] - 1] == 7, "shrinking to %zu", sizes[i]);
    }
    return 0;
}
