/* SPDX-License-Identifier: MIT
 *
 * Uses of a block that was freed or moved: CWE-416, 825 and 123.
 */
#include "suite.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { REUSERS = 64 };

static unsigned char target[4096] __attribute__((aligned(4096)));
static unsigned char *reusers[REUSERS];

static void free_block(struct scene *scene)
{
    scene->stale = scene->block;
    scene->block = NULL;
    scene->entry->release(scene->stale, scene->size);
}

static void move_block(struct scene *scene)
{
    scene->stale = scene->block;
    scene->block = NULL;
    free(opaque(realloc(scene->stale, 3 * scene->size + 64)));
}

static void free_long_ago(struct scene *scene)
{
    free_block(scene);
    churn(scene, 200);
}

static void write_stale(struct scene *scene, size_t offset, size_t length)
{
    volatile unsigned char *at = (unsigned char *)opaque(scene->stale) + offset;
    for (size_t i = 0; i < length; i++) {
        at[i] = MARK_FAULT;
    }
}

/* Damaged if half of the secret can still be read. */
static void read_stale(struct scene *scene)
{
    const volatile unsigned char *at = opaque(scene->stale);
    size_t secret = 0;
    for (size_t i = 0; i < scene->size; i++) {
        secret += at[i] == MARK_BLOCK;
    }
    scene->is_damaged |= scene->size > 0 && secret >= (scene->size + 1) / 2;
}

static void write_stale_first(struct scene *scene)
{
    write_stale(scene, 0, scene->size < 8 ? scene->size : 8);
}

static void write_stale_middle(struct scene *scene)
{
    write_stale(scene, scene->size / 2, scene->size < 8 ? 1 : 4);
}

static void write_stale_last(struct scene *scene)
{
    write_stale(scene, scene->size - 1, 1);
}

static void write_stale_all(struct scene *scene)
{
    write_stale(scene, 0, scene->size);
}

static void flip_stale_bit(struct scene *scene)
{
    volatile unsigned char *at = opaque(scene->stale);
    at[scene->size / 3] ^= 4;
}

/* Others of the size are allocated, one of them perhaps where the block was. */
static void reuse(struct scene *scene)
{
    size_t count = scene->size > 65536 ? REUSERS / 16 : REUSERS;
    free_block(scene);
    for (size_t i = 0; i < count; i++) {
        reusers[i] = allocate(scene->entry, scene->size);
        fill(reusers[i], scene->size, MARK_NEIGHBOUR);
    }
}

static void end_reuse(struct scene *scene)
{
    for (size_t i = 0; i < REUSERS && reusers[i] != NULL; i++) {
        scene->is_damaged |= !is_filled(reusers[i], scene->size, MARK_NEIGHBOUR);
        scene->entry->release(reusers[i], scene->size);
    }
}

static void write_reused(struct scene *scene)
{
    write_stale_first(scene);
    end_reuse(scene);
}

static void read_reused(struct scene *scene)
{
    const volatile unsigned char *at = opaque(scene->stale);
    scene->is_damaged = at[scene->size / 2] == MARK_NEIGHBOUR;
    end_reuse(scene);
}

/* The first word of a free block is where a list keeps its link. With the link led elsewhere,
 * malloc returns memory of the attacker's choice. */
static void lead_link(struct scene *scene, void *to)
{
    size_t fits = scene->size > 65536 ? 16 : 2000;
    *(void *volatile *)opaque(scene->stale) = to;
    for (size_t i = 0; i < fits; i++) {
        unsigned char *block = allocate(scene->entry, scene->size);
        if ((uintptr_t)block - (uintptr_t)target < sizeof(target)) {
            end_damaged("malloc returned an address that the fault chose");
        }
        for (int k = 0; k < NEIGHBOURS; k++) {
            if (block == scene->neighbours[k]) {
                end_damaged("malloc returned a block that is in use");
            }
        }
        reusers[i % REUSERS] = block;
        if (i % 2 == 1) {
            scene->entry->release(block, scene->size);
            reusers[i % REUSERS] = NULL;
        }
    }
}

static void lead_link_to_static(struct scene *scene)
{
    lead_link(scene, target + 64);
}

static void lead_link_to_live(struct scene *scene)
{
    lead_link(scene, scene->neighbours[0]);
}

const struct fault use_faults[] = {
    {"read-freed", free_block, read_stale, false},
    {"write-freed-first", free_block, write_stale_first, false},
    {"write-freed-middle", free_block, write_stale_middle, false},
    {"write-freed-last", free_block, write_stale_last, false},
    {"write-freed-all", free_block, write_stale_all, false},
    {"flip-bit-of-freed", free_block, flip_stale_bit, false},
    {"write-freed-long-ago", free_long_ago, write_stale_middle, false},
    {"write-reused", reuse, write_reused, false},
    {"read-reused", reuse, read_reused, false},
    {"read-moved", move_block, read_stale, false},
    {"write-moved", move_block, write_stale_middle, false},
    {"lead-link-to-static", free_block, lead_link_to_static, false},
    {"lead-link-to-live", free_block, lead_link_to_live, false},
    {NULL, NULL, NULL, false},
};
