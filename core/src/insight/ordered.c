/* SPDX-License-Identifier: MIT */
#include "ordered.h"

#include "../base/check.h"

#include <string.h>

static void swap_elements(char *a, char *b, size_t size)
{
    char kept[64];
    check(size <= sizeof kept);
    memcpy(kept, a, size);
    memcpy(a, b, size);
    memcpy(b, kept, size);
}

static uintptr_t key_at(const char *elements, size_t at, size_t size)
{
    uintptr_t key;
    memcpy(&key, elements + at * size, sizeof key);
    return key;
}

static void sift(char *elements, size_t at, size_t count, size_t size)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        child +=
            child + 1 < count && key_at(elements, child + 1, size) > key_at(elements, child, size);
        if (key_at(elements, at, size) >= key_at(elements, child, size)) {
            return;
        }
        swap_elements(elements + at * size, elements + child * size, size);
        at = child;
    }
}

static void sort_by_first_word(void *array, size_t count, size_t size)
{
    char *elements = array;
    for (size_t at = count / 2; at-- > 0;) {
        sift(elements, at, count, size);
    }
    for (size_t last = count; last-- > 1;) {
        swap_elements(elements, elements + last * size, size);
        sift(elements, 0, last, size);
    }
}

static size_t find_before(const void *array, size_t count, size_t size, uintptr_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (key_at(array, middle, size) <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low != 0 ? low - 1 : count;
}
