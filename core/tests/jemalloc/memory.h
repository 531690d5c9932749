/* SPDX-License-Identifier: MIT
 *
 * What the kernel says of the memory of this process.
 */
#ifndef TEST_MEMORY_H
#define TEST_MEMORY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../test.h"

static inline size_t resident(void)
{
    char text[128];
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
    fclose(file);
    return (size_t)atol(strchr(text, ' ')) * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
