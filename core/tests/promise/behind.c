/* SPDX-License-Identifier: MIT
 *
 * Another allocator stands in front of the library and lacks reallocarray: its blocks and those of
 * ours must not get mixed up.
 */
#include <errno.h>

#include "promise.h"

int main(void)
{
    volatile size_t half = SIZE_MAX / 2;
    char *volatile block = malloc(10);
    strcpy(block, "abc");
    block = reallocarray(block, 1000, 10);
    CHECK(block != NULL && strcmp(block, "abc") == 0);
    errno = 0;
    CHECK(reallocarray(block, half, 3) == NULL);
    CHECK_EQ(errno, ENOMEM);
    free(block);
    block = reallocarray(NULL, 100, 10);
    CHECK(block != NULL);
    free(block);
    return 0;
}
