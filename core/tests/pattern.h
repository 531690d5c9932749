/* SPDX-License-Identifier: MIT
 *
 * A pattern derived from a block's address, size and owner, written over the whole block and
 * checked before it is freed: two live blocks that overlap, or an allocator that writes into live
 * memory, cannot go unseen.
 */
#ifndef TEST_PATTERN_H
#define TEST_PATTERN_H

#include "test.h"

/* Whole words are copied by __builtin_memcpy: tests are compiled with -fno-builtin, and an emulator takes
 * twenty times as long for a call. */
static inline uint64_t pattern_word(const void *block, size_t size, uint64_t owner, size_t index)
{
    uint64_t word = (uintptr_t)block * 0x9E3779B97F4A7C15u + size * 0xD1B54A32D192ED03u;
    word ^= owner * 0x8CB92BA72F3D8DD7u + index * 0xA0761D6478BD642Fu;
    return word ^ word >> 29;
}

static inline void pattern_write(void *block, size_t size, uint64_t owner)
{
    unsigned char *bytes = block;
    size_t words = size / 8;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = pattern_word(block, size, owner, i);
        __builtin_memcpy(bytes + i * 8, &word, 8);
    }
    uint64_t last = pattern_word(block, size, owner, words);
    memcpy(bytes + words * 8, &last, size % 8);
}

/* The word at `index`, of which the block has `length` bytes; what it lacks is taken from `word`. */
static inline void pattern_check_word(const void *block, size_t size, uint64_t owner, size_t index,
                                      uint64_t word, size_t length)
{
    uint64_t found = word;
    if (length == 8) {
        __builtin_memcpy(&found, (const unsigned char *)block + index * 8, 8);
    } else {
        memcpy(&found, (const unsigned char *)block + index * 8, length);
    }
    CHECK_MSG(found == word,
              "block %p of %zu bytes, owner %" PRIu64 ": at offset %zu %#" PRIx64 ", not %#" PRIx64,
              block, size, owner, index * 8, found, word);
}

/* `block` lies where it was written; after a realloc that moved it, pass the old address as `from`
 * and the length that was kept as `length`. */
static inline void pattern_check_moved(const void *block, const void *from, size_t size,
                                       uint64_t owner, size_t length)
{
    size_t words = length / 8;
    for (size_t i = 0; i < words; i++) {
        pattern_check_word(block, size, owner, i, pattern_word(from, size, owner, i), 8);
    }
    pattern_check_word(block, size, owner, words, pattern_word(from, size, owner, words),
                       length % 8);
}

static inline void pattern_check(const void *block, size_t size, uint64_t owner)
{
    pattern_check_moved(block, block, size, owner, size);
}

#endif
