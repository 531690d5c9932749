/* SPDX-License-Identifier: MIT
 *
 * In the secure build a string that fills its block, and the slot but for the canary, and lacks its zero ends behind one
 * byte more. That byte is no zero, so that a string with its zero, which is one byte too long, changes it.
 */
#include "promise.h"

enum { BLOCKS = 100 };

int main(void)
{
    static const size_t sizes[] = {8, 24, 104, 248, 1016, 2040, 32760};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        for (int count = 0; count < BLOCKS; count++) { /* of several slabs: none is freed */
            unsigned char *volatile block = malloc(size);
            CHECK(block != NULL);
            const volatile unsigned char *behind = block + size;
            CHECK_MSG(behind[0] != 0 && behind[1] == 0, "behind %zu bytes at %p are %#x and %#x",
                      size, (void *)block, behind[0], behind[1]);
        }
    }
    return 0;
}
