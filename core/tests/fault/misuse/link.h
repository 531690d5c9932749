/* SPDX-License-Identifier: MIT
 *
 * Two free blocks, of which the one that was freed last begins with a link to the other.
 */
#include <stdlib.h>

static char *first;
static void **block;

static void free_two(void)
{
    first = malloc(100);
    block = malloc(100);
    free(first);
    free(block);
}

/* Far more than the two. */
static void allocate_again(void)
{
    for (int i = 0; i < 10000; i++) {
        malloc(100);
    }
}
