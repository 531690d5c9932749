/* SPDX-License-Identifier: MIT */
/*
 * The plan: what the player carries out. Written by crates/mallow-replay/src/plan.rs, which checks
 * the same sizes and offsets.
 *
 *   header | chunk | chunk | ... | lane table | chunk table
 *
 * A lane is the work of one thread, in recorded order. Its operations lie in chunks of at most
 * PLAN_CHUNK_OPS; the chunk table holds the file offset of each chunk, those of one lane side by
 * side. All numbers are little-endian. Objects are named by slots, dense numbers that are used
 * again after a free; each access to a slot is ordered after the one before it, by the order within
 * a lane or by an OP_WAIT.
 */
#ifndef MALLOW_PLAYER_PLAN_H
#define MALLOW_PLAYER_PLAN_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_MAGIC "MLWPLAN"
enum { PLAN_VERSION = 1, PLAN_CHUNK_OPS = 4096 };

/* free(NULL). */
#define PLAN_NO_SLOT UINT32_MAX

enum op_kind {
    /* The slot gets a block of value bytes. */
    OP_MALLOC = 1,
    OP_CALLOC = 2,
    OP_REALLOC = 3, /* of what the slot holds; an empty slot is realloc(NULL) */
    OP_FREE = 4,
    OP_MEMALIGN = 5,
    OP_POSIX_MEMALIGN = 6,
    OP_ALIGNED_ALLOC = 7,

    OP_WAIT = 16,   /* free mode: until lane `slot` has finished `value` operations */
    OP_PASS = 17,   /* lockstep: lane `slot` is next */
    OP_SPAWN = 18,  /* start the thread of lane `slot` */
    OP_JOIN = 19,   /* lockstep: until the thread of lane `slot` has gone */
    OP_CLOCK = 20,  /* lockstep: the recorded time is now `value` ns */
    OP_SAMPLE = 21, /* lockstep: note the resident memory */
    OP_END = 22,    /* the thread's last moment; nothing to do but to be there */
};

struct plan_op {
    uint8_t kind;
    uint8_t align_log2;
    uint16_t reserved;
    uint32_t slot;
    uint64_t value;
};
static_assert(sizeof(struct plan_op) == 16, "as in plan.rs");
static_assert(offsetof(struct plan_op, slot) == 4, "as in plan.rs");
static_assert(offsetof(struct plan_op, value) == 8, "as in plan.rs");

enum { LANE_ENDS = 1 }; /* the thread ended before the process did */

struct plan_lane {
    uint64_t first_chunk; /* index into the chunk table */
    uint64_t op_count;
    uint32_t flags;
    uint32_t reserved;
};
static_assert(sizeof(struct plan_lane) == 24, "as in plan.rs");

struct plan_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size;
    uint32_t lane_count;
    uint32_t slot_count;
    uint64_t op_count; /* of all lanes */
    uint64_t chunk_count;
    uint64_t sample_count;
    uint64_t lane_table; /* file offsets */
    uint64_t chunk_table;
    uint64_t order_hash; /* of the calls in recorded order; see order_hash() */
};
static_assert(sizeof(struct plan_header) == 72, "as in plan.rs");

/* Folds one call into the hash that proves that lockstep kept the recorded order. */
static inline uint64_t order_hash(uint64_t hash, uint32_t lane, const struct plan_op *op)
{
    uint64_t word = ((uint64_t)lane << 32 | op->slot) ^ (uint64_t)op->kind << 56 ^ op->value << 8;
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

#endif
