/* SPDX-License-Identifier: MIT
 *
 * How well the slabs around blocks are used, for programs that move their blocks together: Redis asks
 * je_get_defrag_hint, Valkey experimental.utilization.batch_query.
 */
#ifndef MALLOW_UTILIZATION_H
#define MALLOW_UTILIZATION_H

#include "stats.h"

/* What experimental.utilization.batch_query says of a block. All 0 for what is no block of ours. */
struct utilization {
    size_t free_slots; /* of its slab; a large block is the only one in its extent */
    size_t slots;
    size_t size; /* bytes of the slab or extent */
};

/* And experimental.utilization.query. */
struct utilization_of_bin {
    void *current; /* where this thread's next blocks of the class come from; NULL: not known yet */
    struct utilization block;
    size_t bin_free_slots; /* of all slabs of the class */
    size_t bin_slots;
};

static struct utilization utilization_of(const void *block);

/* A program that asks for many blocks moves them where they lie closer together. */
static void utilization_note_moves(void);

/* Walks over the heap. False if there is no memory for that. */
static bool utilization_query(const void *block, struct utilization_of_bin *result);

#endif
