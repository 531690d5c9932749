/* SPDX-License-Identifier: MIT
 *
 * Faults beyond the ends of a live block: CWE-122, 124 to 131, 787 and 788.
 */
#include "suite.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What an access of `length` bytes at `offset` from the block does. Offsets are signed: faults
 * stand before a block too. */
static void write_at(struct scene *scene, ptrdiff_t offset, size_t length, int mark)
{
    volatile unsigned char *at = (unsigned char *)opaque(scene->block) + offset;
    for (size_t i = 0; i < length; i++) {
        at[i] = (unsigned char)mark;
    }
}

/* Sixteen bytes of a neighbour in a row are no accident; of one byte each is. */
static void read_at(struct scene *scene, ptrdiff_t offset, size_t length)
{
    const volatile unsigned char *at = (unsigned char *)opaque(scene->block) + offset;
    size_t run = 0, wanted = length < 16 ? length : 16;
    for (size_t i = 0; i < length; i++) {
        run = at[i] == MARK_NEIGHBOUR ? run + 1 : 0;
        scene->is_damaged |= run == wanted;
    }
}

static ptrdiff_t end_of(const struct scene *scene)
{
    return (ptrdiff_t)scene->size;
}

/* An index that was never compared with the length of its array lands in the fourth block on. */
static ptrdiff_t far_of(const struct scene *scene)
{
    ptrdiff_t stride = scene->size < 64 ? 64 : (ptrdiff_t)scene->size;
    return 3 * stride + stride / 2;
}

static void write_1_after(struct scene *scene)
{
    write_at(scene, end_of(scene), 1, MARK_FAULT);
}

static void write_nul_after(struct scene *scene)
{
    write_at(scene, end_of(scene), 1, 0);
}

static void write_8_after(struct scene *scene)
{
    write_at(scene, end_of(scene), 8, MARK_FAULT);
}

static void write_32_after(struct scene *scene)
{
    write_at(scene, end_of(scene), 32, MARK_FAULT);
}

/* The element size was left out of the count: twice as much is written as was asked for. */
static void write_twice_the_size(struct scene *scene)
{
    write_at(scene, 0, 2 * scene->size + 16, MARK_FAULT);
}

/* 32 bits of a product of 64: what was asked for is small, what is written is not. */
static void write_wrapped_count(struct scene *scene)
{
    uint32_t wrapped = (uint32_t)(((uint64_t)1 << 32) + scene->size);
    write_at(scene, (ptrdiff_t)wrapped, 65536, MARK_FAULT);
}

static void write_far_after(struct scene *scene)
{
    write_at(scene, end_of(scene) + far_of(scene), 8, MARK_FAULT);
}

static void write_1_before(struct scene *scene)
{
    write_at(scene, -1, 1, MARK_FAULT);
}

static void write_8_before(struct scene *scene)
{
    write_at(scene, -8, 8, MARK_FAULT);
}

static void write_32_before(struct scene *scene)
{
    write_at(scene, -32, 32, MARK_FAULT);
}

static void write_far_before(struct scene *scene)
{
    write_at(scene, -far_of(scene), 8, MARK_FAULT);
}

static void shrink(struct scene *scene)
{
    scene->size /= 2;
    for (int i = 0; i < NEIGHBOURS; i++) { /* all alike, as the way on expects */
        scene->neighbours[i] = opaque(realloc(scene->neighbours[i], scene->size));
    }
    scene->block = opaque(realloc(scene->block, scene->size));
    for (int i = 0; i < NEIGHBOURS; i++) {
        fill(scene->neighbours[i], scene->size, MARK_NEIGHBOUR);
    }
}

static void write_at_old_end(struct scene *scene)
{
    write_at(scene, 2 * end_of(scene) - 8, 8, MARK_FAULT);
}

static void read_1_after(struct scene *scene)
{
    read_at(scene, end_of(scene), 1);
}

static void read_16_after(struct scene *scene)
{
    read_at(scene, end_of(scene), 16);
}

/* The length that a message declares of itself, 64 KiB, is believed. */
static void read_declared_length(struct scene *scene)
{
    read_at(scene, end_of(scene), 65535);
}

static void read_1_before(struct scene *scene)
{
    read_at(scene, -1, 1);
}

static void read_16_before(struct scene *scene)
{
    read_at(scene, -16, 16);
}

static void read_far_after(struct scene *scene)
{
    read_at(scene, end_of(scene) + far_of(scene), 16);
}

/* The next block is free when it is overwritten. */
static void free_neighbours(struct scene *scene)
{
    for (int i = 0; i < NEIGHBOURS; i++) {
        scene->entry->release(scene->neighbours[i], scene->size);
    }
}

static void write_into_free(struct scene *scene)
{
    write_at(scene, end_of(scene), scene->size + 32, MARK_FAULT);
    for (int i = 0; i < NEIGHBOURS; i++) {
        scene->neighbours[i] = allocate(scene->entry, scene->size);
        fill(scene->neighbours[i], scene->size, MARK_NEIGHBOUR);
    }
}

const struct fault bounds_faults[] = {
    {"write-1-after", NULL, write_1_after, false},
    {"write-nul-after", NULL, write_nul_after, false},
    {"write-8-after", NULL, write_8_after, false},
    {"write-32-after", NULL, write_32_after, false},
    {"write-twice-the-size", NULL, write_twice_the_size, false},
    {"write-wrapped-count", NULL, write_wrapped_count, false},
    {"write-far-after", NULL, write_far_after, false},
    {"write-1-before", NULL, write_1_before, false},
    {"write-8-before", NULL, write_8_before, false},
    {"write-32-before", NULL, write_32_before, false},
    {"write-far-before", NULL, write_far_before, false},
    {"write-at-old-end", shrink, write_at_old_end, false},
    {"write-into-free", free_neighbours, write_into_free, false},
    {"read-1-after", NULL, read_1_after, false},
    {"read-16-after", NULL, read_16_after, false},
    {"read-declared-length", NULL, read_declared_length, false},
    {"read-far-after", NULL, read_far_after, false},
    {"read-1-before", NULL, read_1_before, false},
    {"read-16-before", NULL, read_16_before, false},
    {NULL, NULL, NULL, false},
};
