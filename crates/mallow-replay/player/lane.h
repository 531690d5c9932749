/* SPDX-License-Identifier: MIT */
/*
 * A lane: the work of one recorded thread, and the thread of the player that does it.
 *
 * lane.c carries out operations; player.c reads the plan, starts the first lane and tells the
 * result.
 */
#ifndef MALLOW_PLAYER_LANE_H
#define MALLOW_PLAYER_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "memory.h"
#include "plan.h"

enum touch { TOUCH_PAGES, TOUCH_ALL, TOUCH_NONE };

struct object {
    char *address; /* ordered between lanes by OP_WAIT or OP_PASS */
    uint64_t size;
};

/* Times are taken of one call in this many on average, at random distances. */
enum { TIME_ONE_IN = 8 };

struct times {
    struct histogram allocations;
    struct histogram frees;
};

struct lane {
    _Alignas(128) _Atomic uint64_t done; /* operations finished; written by this lane */
    _Atomic uint32_t wanted;             /* somebody sleeps until `done` grows; a futex */
    _Atomic uint32_t turn;               /* lockstep: 1 when this lane is next; a futex */

    _Alignas(128) uint32_t number; /* const after init, as what follows up to `next` */
    uint32_t flags;
    uint64_t op_count;
    const uint64_t *chunks; /* file offsets */
    struct plan_op *ops;    /* the chunk that is being carried out */
    struct times *times;
    pthread_t thread;

    uint64_t next; /* owner thread, as what follows */
    uint64_t random;
    uint32_t until_timed;
    uint64_t calls;
    uint64_t failed; /* calls that returned no memory */
    void *stack;     /* lockstep: from the stacks that are free */
};

struct player {
    int plan_file;
    bool lockstep;
    enum touch touch;
    uint32_t lane_count;
    uint64_t page_size;
    struct lane *lanes;
    struct object *objects;

    _Atomic uint32_t unfinished; /* free mode: lanes at work; a futex */

    /* Lockstep: owned by the lane whose turn it is. */
    struct memory_sample *samples;
    uint64_t sample_count;
    uint64_t recorded_ns;
    uint64_t order_hash;
    uint64_t live_bytes;
    uint64_t peak_live_bytes;
    void *free_stacks;
};

extern struct player player;

/* Does all the lane's work, in the calling thread. */
void lane_run(struct lane *lane);

/* Waits until all other lanes have done their work. */
void lane_wait_for_others(void);

#endif
