// expect: secure=ok fast=any debug=any
/* SPDX-License-Identifier: MIT
 * Pages of an arena that the program made, where slots lay before, hold no link of a list of these. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) int mallctl(const char *name, void *old_value, size_t *old_size,
                                  void *new_value, size_t new_size);
__attribute__((weak)) void *mallocx(size_t size, int flags);
__attribute__((weak)) void dallocx(void *block, int flags);

enum { SLOTS = 3000, SLOT_SIZE = 250, LARGE = 100000, LARGES = 8, MARK = 's', TCACHE_NONE = 0x100 };

/* Own bytes, zeros, or runs of the known byte. */
static int holds_no_word(const unsigned char *bytes)
{
    for (size_t i = 0; i < LARGE; i += 8) {
        int is_run = 1;
        for (size_t k = 1; k < 8; k++) {
            is_run &= bytes[i + k] == bytes[i] || bytes[i + k] == 0 || bytes[i + k] == MARK;
        }
        if (!is_run) {
            return 0;
        }
    }
    return 1;
}

int main(void)
{
    static void *blocks[SLOTS];
    unsigned arena = 0;
    size_t size = sizeof arena;
    if (mallctl("arenas.create", &arena, &size, NULL, 0) != 0) {
        return 2;
    }
    int flags = TCACHE_NONE | (int)((arena + 1) << 20);
    for (int i = 0; i < SLOTS; i++) {
        blocks[i] = mallocx(SLOT_SIZE, flags);
        memset(blocks[i], MARK, SLOT_SIZE);
    }
    for (int i = 0; i < SLOTS; i++) {
        dallocx(blocks[i], flags);
    }
    for (int i = 0; i < LARGES; i++) {
        unsigned char *large = mallocx(LARGE, flags);
        if (!holds_no_word(large)) {
            return 1;
        }
    }
    return 0;
}
