/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "lane.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

/* As in the kernel's linux/futex.h, which a C compiler for musl comes without in most systems. */
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

enum {
    STACK_SIZE = 256 << 10,
    SPINS = 50,
    YIELDS = 20,         /* other threads may need this processor to get there */
    NAP_NS = 200 * 1000, /* see lane_publish() */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *timeout)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits a little longer each time; false when it is time to sleep. */
static inline bool wait_awake(uint32_t round)
{
    if (round < SPINS) {
        pause_briefly();
    } else if (round < SPINS + YIELDS) {
        sched_yield();
    } else {
        return false;
    }
    return true;
}

/* ---- calls ------------------------------------------------------------------------------- */

/*
 * Writes to what a program is assumed to write to: the first byte of the range and of each page
 * that begins in it, or all of it.
 */
static inline void touch(char *address, uint64_t from, uint64_t to)
{
    if (address == NULL || from >= to || player.touch == TOUCH_NONE) {
        return;
    }
    if (player.touch == TOUCH_ALL) {
        memset(address + from, 0x5a, to - from);
        return;
    }
    volatile char *byte = address + from;
    char *end = address + to;
    uint64_t page = player.page_size;
    do {
        *byte = 0x5a;
        byte = (char *)(((uintptr_t)byte & ~(page - 1)) + page);
    } while ((char *)byte < end);
}

static void *call_aligned(const struct plan_op *op)
{
    size_t alignment = (size_t)1 << op->align_log2;
    void *block = NULL;
    switch (op->kind) {
    case OP_POSIX_MEMALIGN:
        return posix_memalign(&block, alignment, op->value) == 0 ? block : NULL;
    case OP_ALIGNED_ALLOC:
        return aligned_alloc(alignment, op->value);
    default:
        return memalign(alignment, op->value);
    }
}

/* The call itself, and nothing else: it may be timed. Returns what the slot then holds. */
static inline void *call(const struct plan_op *op, void *old)
{
    switch (op->kind) {
    case OP_MALLOC:
        return malloc(op->value);
    case OP_FREE:
        free(old);
        return NULL;
    case OP_REALLOC:
        return realloc(old, op->value);
    case OP_CALLOC:
        return calloc(1, op->value);
    default:
        return call_aligned(op);
    }
}

static inline bool is_call(const struct plan_op *op)
{
    return op->kind < OP_WAIT;
}

/* After the call: what the slot holds, what the program would have written. */
static inline void settle(struct lane *lane, struct object *object, const struct plan_op *op,
                          char *block)
{
    lane->calls++;
    if (op->kind == OP_FREE) {
        object->address = NULL;
        object->size = 0;
        return;
    }
    if (block == NULL && op->value > 0) {
        /* A realloc that failed leaves the old block, and all others leave none. */
        lane->failed++;
        return;
    }
    touch(block, op->kind == OP_REALLOC ? object->size : 0, op->value);
    object->address = block;
    object->size = op->value;
}

/* The slot of a call; free(NULL) has none. */
static inline struct object *slot_of(const struct plan_op *op, struct object *none)
{
    return op->slot == PLAN_NO_SLOT ? none : &player.objects[op->slot];
}

/* ---- operations -------------------------------------------------------------------------- */

static void load_chunk(struct lane *lane)
{
    uint64_t index = lane->next / PLAN_CHUNK_OPS;
    uint64_t count = lane->op_count - lane->next;
    size_t size = (size_t)(count < PLAN_CHUNK_OPS ? count : PLAN_CHUNK_OPS) * sizeof *lane->ops;
    for (size_t done = 0; done < size;) {
        ssize_t length = pread(player.plan_file, (char *)lane->ops + done, size - done,
                               (off_t)(lane->chunks[index] + done));
        if (length <= 0) {
            player_fail("the plan cannot be read", length < 0 ? strerror(errno) : "it is cut off");
        }
        done += (size_t)length;
    }
}

/* The next operation; NULL at the end. */
static inline const struct plan_op *next_op(struct lane *lane)
{
    if (lane->next == lane->op_count) {
        return NULL;
    }
    uint64_t place = lane->next % PLAN_CHUNK_OPS;
    if (place == 0) {
        load_chunk(lane);
    }
    lane->next++;
    return &lane->ops[place];
}

static void *run_thread(void *argument)
{
    struct lane *lane = argument;
    lane_run(lane);
    return NULL;
}

/*
 * In lockstep threads are joined in their recorded order, and their stacks are used again, so that
 * the same memory is touched each time. In free mode nobody waits for them.
 */
static void spawn(uint32_t number)
{
    struct lane *lane = &player.lanes[number];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (player.lockstep) {
        void *stack = player.free_stacks;
        if (stack != NULL) {
            player.free_stacks = *(void **)stack;
        } else {
            stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
        }
        if (stack == MAP_FAILED) {
            player_fail("there is no memory for another thread", strerror(errno));
        }
        lane->stack = stack;
        pthread_attr_setstack(&attributes, stack, STACK_SIZE);
    } else {
        atomic_fetch_add_explicit(&player.unfinished, 1, memory_order_relaxed);
        pthread_attr_setstacksize(&attributes, STACK_SIZE);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    }
    int error = pthread_create(&lane->thread, &attributes, run_thread, lane);
    if (error != 0) {
        player_fail("a thread cannot be started", strerror(error));
    }
    pthread_attr_destroy(&attributes);
}

/* A thread that ended before the process did: its stack serves the next one. */
static void join(uint32_t number)
{
    struct lane *lane = &player.lanes[number];
    pthread_join(lane->thread, NULL);
    madvise(lane->stack, STACK_SIZE, MADV_DONTNEED);
    *(void **)lane->stack = player.free_stacks;
    player.free_stacks = lane->stack;
}

/* ---- lockstep ---------------------------------------------------------------------------- */

static void wait_for_turn(struct lane *lane)
{
    for (uint32_t round = 0;; round++) {
        if (atomic_load_explicit(&lane->turn, memory_order_acquire) != 0) { /* pairs with pass */
            atomic_store_explicit(&lane->turn, 0, memory_order_relaxed);
            return;
        }
        if (!wait_awake(round)) {
            futex_wait(&lane->turn, 0, NULL);
        }
    }
}

static void pass(uint32_t number)
{
    struct lane *lane = &player.lanes[number];
    atomic_store_explicit(&lane->turn, 1, memory_order_release); /* pairs with wait_for_turn */
    futex_wake(&lane->turn);
}

static void take_sample(void)
{
    struct memory_sample *sample = &player.samples[player.sample_count++];
    sample->time_ns = player.recorded_ns;
    memory_take(sample);
}

static void lockstep_call(struct lane *lane, const struct plan_op *op)
{
    struct object none = {NULL, 0};
    struct object *object = slot_of(op, &none);
    uint64_t before = object->size;
    settle(lane, object, op, call(op, object->address));
    player.live_bytes += object->size - before;
    if (player.live_bytes > player.peak_live_bytes) {
        player.peak_live_bytes = player.live_bytes;
        memory_note_peak(player.live_bytes);
    }
    player.order_hash = order_hash(player.order_hash, lane->number, op);
}

static void lockstep_control(const struct plan_op *op)
{
    switch (op->kind) {
    case OP_SPAWN:
        spawn(op->slot);
        break;
    case OP_JOIN:
        join(op->slot);
        break;
    case OP_CLOCK:
        player.recorded_ns = op->value;
        clock_set_recorded(op->value);
        break;
    case OP_SAMPLE:
        take_sample();
        break;
    default: /* OP_END; OP_WAIT, for the order is kept anyway */
        break;
    }
}

static void run_lockstep(struct lane *lane)
{
    bool waiting = lane->number != 0;
    const struct plan_op *op;
    while ((op = next_op(lane)) != NULL) {
        if (waiting) {
            wait_for_turn(lane);
            waiting = false;
        }
        if (is_call(op)) {
            lockstep_call(lane, op);
        } else if (op->kind == OP_PASS) {
            pass(op->slot);
            waiting = true;
        } else {
            lockstep_control(op);
        }
    }
}

/* ---- free mode --------------------------------------------------------------------------- */

/*
 * Says that one more operation is finished. A waiter that announces itself just now may not be seen
 * here: the fence that would make that sure costs more than most calls, so waiters sleep for
 * NAP_NS at most.
 */
static inline void publish(struct lane *lane)
{
    atomic_store_explicit(&lane->done, lane->next, memory_order_release); /* pairs with wait_for */
    if (__builtin_expect(atomic_load_explicit(&lane->wanted, memory_order_relaxed) != 0, 0)) {
        atomic_store_explicit(&lane->wanted, 0, memory_order_relaxed);
        futex_wake(&lane->wanted);
    }
}

static void wait_for(const struct plan_op *op)
{
    struct lane *other = &player.lanes[op->slot];
    static const struct timespec nap = {0, NAP_NS};
    for (uint32_t round = 0;; round++) {
        if (atomic_load_explicit(&other->done, memory_order_acquire) >= op->value) {
            return;
        }
        if (wait_awake(round)) {
            continue;
        }
        atomic_store(&other->wanted, 1);
        if (atomic_load(&other->done) < op->value) {
            futex_wait(&other->wanted, 1, &nap);
        }
    }
}

/* Random, so that no pattern of the program is hit again and again; the same in every run. */
static uint32_t next_distance(struct lane *lane)
{
    lane->random = lane->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return 1 + (uint32_t)(lane->random >> 33) % (2 * TIME_ONE_IN - 1);
}

static void *timed_call(struct lane *lane, const struct plan_op *op, void *old)
{
    uint64_t start = clock_ticks();
    void *block = call(op, old);
    uint64_t ticks = clock_ticks() - start;
    bool is_free = op->kind == OP_FREE;
    histogram_add(is_free ? &lane->times->frees : &lane->times->allocations, ticks);
    lane->until_timed = next_distance(lane);
    return block;
}

static inline void free_call(struct lane *lane, const struct plan_op *op)
{
    struct object none = {NULL, 0};
    struct object *object = slot_of(op, &none);
    bool timed = --lane->until_timed == 0;
    char *block = timed ? timed_call(lane, op, object->address) : call(op, object->address);
    settle(lane, object, op, block);
}

static void run_free(struct lane *lane)
{
    lane->random = lane->number;
    lane->until_timed = next_distance(lane);
    const struct plan_op *op;
    while ((op = next_op(lane)) != NULL) {
        if (is_call(op)) {
            free_call(lane, op);
        } else if (op->kind == OP_WAIT) {
            wait_for(op);
        } else if (op->kind == OP_SPAWN) {
            spawn(op->slot);
        }
        publish(lane);
    }
}

/* ---- begin and end ----------------------------------------------------------------------- */

void lane_run(struct lane *lane)
{
    if (player.lockstep) {
        run_lockstep(lane);
    } else {
        run_free(lane);
        if (lane->number != 0 &&
            atomic_fetch_sub(&player.unfinished, 1) == 1) { /* pairs with lane_wait_for_others */
            futex_wake(&player.unfinished);
        }
    }
    /* The thread of a lane that did not end is there until the process ends. */
    while (lane->number != 0 && (lane->flags & LANE_ENDS) == 0) {
        pause();
    }
}

void lane_wait_for_others(void)
{
    uint32_t left;
    while ((left = atomic_load(&player.unfinished)) != 0) {
        futex_wait(&player.unfinished, left, NULL);
    }
}
