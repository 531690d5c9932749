/* SPDX-License-Identifier: MIT
 *
 * A program behind a seccomp filter that refuses mprotect, as memory-hardened services have it, gets its memory all the
 * same: without a guard where the kernel has no other way to make one.
 */
#include "promise.h"
#include "refused.h"

int main(void)
{
    static const size_t sizes[] = {0, 16, 1000, 30000, 40000, 300000, 9000000};
    static char *blocks[400];
    if (!refuse_call(SYS_mprotect)) {
        printf("skipped: no seccomp filters here (%s)\n", strerror(errno));
        return 0;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t count = sizes[i] > 100000 ? 8 : sizeof blocks / sizeof blocks[0];
        for (size_t at = 0; at < count; at++) {
            blocks[at] = malloc(sizes[i]);
            CHECK_MSG(blocks[at] != NULL, "%zu blocks of %zu bytes", at, sizes[i]);
            memset(blocks[at], 1, sizes[i]);
        }
        for (size_t at = 0; at < count; at++) {
            free(blocks[at]);
        }
    }
    return 0;
}
