/* SPDX-License-Identifier: MIT
 *
 * The library that dlopen.c loads and unloads.
 */
#include <stdlib.h>

int module_sum(void);

static int *numbers;
static _Thread_local int *copy;

__attribute__((constructor)) static void load(void)
{
    numbers = malloc(100 * sizeof *numbers);
    for (int i = 0; i < 100; i++) {
        numbers[i] = i;
    }
}

__attribute__((destructor)) static void unload(void)
{
    free(numbers);
}

int module_sum(void)
{
    int sum = 0;
    copy = calloc(100, sizeof *copy);
    for (int i = 0; i < 100; i++) {
        copy[i] += numbers[i];
        sum += copy[i];
    }
    free(copy);
    return sum;
}
