/* SPDX-License-Identifier: MIT
 *
 * Classes: the sizes that slots come in. Multiples of 16 up to 128, then four per doubling up to
 * SMALL_MAX and eight up to SLOT_MAX: above 128 bytes a slot is at most 25 %, above SMALL_MAX at
 * most 12.5 % larger than what was asked for.
 *
 *     class   1   2   3  ...   8    9   10   11   12   13 ...   20    21    22 ...    60
 *     size   16  32  48  ... 128  160  192  224  256  320 ... 1024  1152  1280 ... 32768
 *
 * No request is served by class 0, slots of 8 bytes: glibc's loader takes the thread-local
 * variables of a library from malloc and counts on 16-byte alignment, however small they are. In
 * real programs (git, python, perl, g++, node, sqlite) that costs 0 to 1.6 % of what they hold.
 */
#ifndef MALLOW_SIZECLASS_H
#define MALLOW_SIZECLASS_H

#include "../base/check.h"
#include "../os/os.h"

#define CLASSES 61u
#define SLOT_MAX (32 * KiB)

#define SMALL_MAX 1024u
#define CLASS_OF_SMALL_MAX 20u
#define SMALL_CLASSES (CLASS_OF_SMALL_MAX + 1)
#define MEDIUM_CLASSES (CLASSES - SMALL_CLASSES)

#define CLASS_LOG2(x) (63u - (unsigned)__builtin_clzl(x))

/* The class of a size up to SLOT_MAX, as a constant expression for a constant. */
#define CLASS_OF(size)                                                                      \
    ((size) <= 16          ? 1u                                                             \
     : (size) <= 128       ? (unsigned)(((size) + 15) / 16)                                 \
     : (size) <= SMALL_MAX ? 9u + (CLASS_LOG2((size)-1) - 7) * 4 +                          \
                                 (unsigned)((((size)-1) >> (CLASS_LOG2((size)-1) - 2)) & 3) \
                           : SMALL_CLASSES + (CLASS_LOG2((size)-1) - 10) * 8 +              \
                                 (unsigned)((((size)-1) >> (CLASS_LOG2((size)-1) - 3)) & 7))

static_assert(CLASS_OF(128) == 8 && CLASS_OF(129) == 9, "the steps of 16 end with class 8");
static_assert(CLASS_OF(SMALL_MAX) == CLASS_OF_SMALL_MAX && CLASS_OF(SMALL_MAX + 1) == SMALL_CLASSES,
              "medium classes follow the small ones");
static_assert(CLASS_OF(SLOT_MAX) == CLASSES - 1, "the table ends with the last class");

#define ROW1(i) (uint8_t) CLASS_OF((size_t)(i)*16)
#define ROW4(i) ROW1(i), ROW1((i) + 1), ROW1((i) + 2), ROW1((i) + 3)
#define ROW16(i) ROW4(i), ROW4((i) + 4), ROW4((i) + 8), ROW4((i) + 12)
#define ROW64(i) ROW16(i), ROW16((i) + 16), ROW16((i) + 32), ROW16((i) + 48)
#define ROW256(i) ROW64(i), ROW64((i) + 64), ROW64((i) + 128), ROW64((i) + 192)

/* Indexed by the size in units of 16 bytes, rounded up. */
static const uint8_t class_table[SLOT_MAX / 16 + 1] = {ROW256(0),    ROW256(256),  ROW256(512),
                                                       ROW256(768),  ROW256(1024), ROW256(1280),
                                                       ROW256(1536), ROW256(1792), ROW1(2048)};

#undef ROW1
#undef ROW4
#undef ROW16
#undef ROW64
#undef ROW256

/* size <= SLOT_MAX */
ALWAYS_INLINE unsigned class_of_slot(size_t size)
{
    return class_table[(size + 15) / 16];
}

/* The same by arithmetic. SMALL_MAX < size; above SLOT_MAX the block class. */
ALWAYS_INLINE unsigned class_of_medium(size_t size)
{
    unsigned log2 = floor_log2(size - 1);
    unsigned eighth = (unsigned)((size - 1) >> (log2 - 3)); /* 8 to 15 */
    return CLASS_OF_SMALL_MAX + 1 + (log2 - 10) * 8 + eighth - 8;
}

ALWAYS_INLINE unsigned class_of(size_t size)
{
    return size <= SMALL_MAX ? class_of_slot(size) : class_of_medium(size);
}

ALWAYS_INLINE uint32_t class_size(unsigned class)
{
    if (class < 9) {
        return class == 0 ? 8 : 16 * class;
    }
    if (class <= CLASS_OF_SMALL_MAX) {
        return (5 + (class - 9) % 4) << (5 + (class - 9) / 4);
    }
    class -= CLASS_OF_SMALL_MAX + 1;
    return (9 + class % 8) << (7 + class / 8);
}

/* Pages of the slab that a heap, or the depot of an arena, makes when it has made `made` of this
 * class: few at first, so that a thread with a handful of objects costs little, doubling up to what
 * makes the slow path rare. Where slots come in any order they are several from the first slab on. */
static size_t class_slab_pages(unsigned class, unsigned made);

/* Where there is no memory for these: the fewest that hold a slot and waste little. */
static size_t class_least_pages(unsigned class);

/* From now on each slab of a class has so many, or the next number that a slab can have: with one slot at least, and
 * at most this size, and as many slots as can be counted. At the start alone. */
#define SLAB_SET_MOST (256 * KiB)
static void class_set_slab_pages(unsigned class, size_t pages);

#endif
