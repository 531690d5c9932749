/* SPDX-License-Identifier: MIT
 *
 * Numbers as DWARF writes them. Each function moves *at behind what it has read.
 */
#ifndef MALLOW_DWARF_H
#define MALLOW_DWARF_H

#include "../base/base.h"

#include <string.h>

ALWAYS_INLINE uint64_t leb_unsigned(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
}

ALWAYS_INLINE int64_t leb_signed(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        uint8_t byte = *(*at)++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        shift += 7;
        if ((byte & 0x80) == 0) {
            bool is_negative = (byte & 0x40) != 0 && shift < 64;
            return (int64_t)(is_negative ? value | ~(uint64_t)0 << shift : value);
        }
    }
}

/* A little-endian number of 1, 2, 4 or 8 bytes. */
ALWAYS_INLINE uint64_t read_fixed(const uint8_t **at, unsigned size)
{
    uint64_t value = 0;
    memcpy(&value, *at, size);
    *at += size;
    return value;
}

ALWAYS_INLINE int64_t read_fixed_signed(const uint8_t **at, unsigned size)
{
    unsigned shift = 64 - 8 * size;
    return (int64_t)(read_fixed(at, size) << shift) >> shift;
}

#endif
