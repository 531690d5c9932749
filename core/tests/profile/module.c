/* SPDX-License-Identifier: MIT
 *
 * An object that is loaded while the program runs, and allocates.
 */
#include <stdlib.h>

void *volatile module_last;

void *module_get(size_t size, int count)
{
    for (int i = 0; i < count; i++) {
        module_last = malloc(size);
    }
    return module_last;
}
