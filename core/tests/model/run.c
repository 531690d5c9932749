/* SPDX-License-Identifier: MIT
 *
 * The executor. Every live block lies in a slot (pointer, size, what is written in it) and in the
 * shadow map (the address ranges of all live blocks, in order). What must hold:
 *
 *   a new range overlaps none in the map         no two live blocks share a byte
 *   a block's pattern is whole when looked at     nobody wrote into it, realloc kept it
 *   usable size >= size, alignment as asked, calloc zero
 *
 * A slot is locked through a whole operation, the map only for a moment: the same code serves the
 * deterministic order (one thread at a time, in list order) and the concurrent one.
 */
#include "run.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../allocator.h"
#include "../pattern.h"

enum { WHOLE_LIMIT = 256 << 10, PIECE = 4096, PRINTED_OPS = 40 };

struct slot {
    atomic_bool is_taken;
    unsigned char *bytes; /* lock: is_taken, as all below */
    size_t size;
    size_t alignment; /* 0: not from an aligned function */
    uint64_t serial;
};

struct range {
    uintptr_t start, end;
};

static struct slot slots[SLOTS];
static struct range map[SLOTS + MODEL_THREADS]; /* sorted by start; lock: map_lock */
static size_t map_count;
static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct op *ops;
static size_t op_count;
static const struct model_options *options;
static _Thread_local size_t current;

#define REQUIRE(condition, ...)                  \
    do {                                         \
        if (!(condition)) {                      \
            model_fail(#condition, __VA_ARGS__); \
        }                                        \
    } while (0)

__attribute__((format(printf, 2, 3), noreturn)) static void model_fail(const char *what,
                                                                       const char *format, ...)
{
    flockfile(stderr); /* one failure is enough: others wait here until the abort */
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "model: operation %zu: failed: %s: ", current, what);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nthe operations up to it:\n");
    for (size_t i = current < PRINTED_OPS ? 0 : current - PRINTED_OPS; i <= current && i < op_count;
         i++) {
        ops_print_one(stderr, i, &ops[i]);
    }
    abort();
}

/* --- The shadow map ---------------------------------------------------------------------------*/

/* The index of the first range that starts after `address`. */
static size_t map_find(uintptr_t address)
{
    size_t low = 0, high = map_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map[middle].start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void map_insert(const void *bytes, size_t usable)
{
    struct range range = {(uintptr_t)bytes, (uintptr_t)bytes + (usable ? usable : 1)};
    pthread_mutex_lock(&map_lock);
    size_t at = map_find(range.start);
    if (at > 0) {
        REQUIRE(map[at - 1].end <= range.start, "%p of %zu bytes overlaps %p", bytes, usable,
                (void *)map[at - 1].start);
    }
    if (at < map_count) {
        REQUIRE(range.end <= map[at].start, "%p of %zu bytes overlaps %p", bytes, usable,
                (void *)map[at].start);
    }
    memmove(&map[at + 1], &map[at], (map_count - at) * sizeof map[0]);
    map[at] = range;
    map_count++;
    pthread_mutex_unlock(&map_lock);
}

static void map_remove(const void *bytes)
{
    pthread_mutex_lock(&map_lock);
    size_t at = map_find((uintptr_t)bytes);
    REQUIRE(at > 0 && map[at - 1].start == (uintptr_t)bytes, "%p is not in the shadow map", bytes);
    memmove(&map[at - 1], &map[at], (map_count - at) * sizeof map[0]);
    map_count--;
    pthread_mutex_unlock(&map_lock);
}

/* --- What lies in a block ---------------------------------------------------------------------*/

/* Small blocks are written whole, large ones at the start, in the middle and at the end. Returns
 * false after the last piece; offsets are multiples of 8. */
static bool next_piece(size_t size, int *number, size_t *from, size_t *to)
{
    if (size <= WHOLE_LIMIT) {
        *from = 0;
        *to = size;
        return (*number)++ == 0;
    }
    *from = (size - PIECE) / 2 * (size_t)*number / 8 * 8;
    *to = *number == 2 ? size : *from + PIECE;
    return (*number)++ < 3;
}

static void block_write(struct slot *slot)
{
    size_t from, to;
    for (int number = 0; next_piece(slot->size, &number, &from, &to);) {
        for (size_t at = from; at < to; at += 8) {
            uint64_t word = pattern_word(slot->bytes, slot->size, slot->serial, at / 8);
            memcpy(slot->bytes + at, &word, to - at < 8 ? to - at : 8);
        }
    }
}

/* Compares what lies at `bytes` with what was written into the block, as far as `length`. */
static void block_check(const struct slot *slot, const unsigned char *bytes, size_t length)
{
    size_t from, to;
    for (int number = 0; next_piece(slot->size, &number, &from, &to);) {
        to = to < length ? to : length;
        for (size_t at = from; at < to; at += 8) {
            uint64_t word = pattern_word(slot->bytes, slot->size, slot->serial, at / 8),
                     found = word;
            memcpy(&found, bytes + at, to - at < 8 ? to - at : 8);
            REQUIRE(found == word,
                    "slot %zu, block %p of %zu bytes, now at %p: offset %zu is %#" PRIx64
                    ", not %#" PRIx64,
                    (size_t)(slot - slots), (void *)slot->bytes, slot->size, (const void *)bytes,
                    at, found, word);
        }
    }
}

static void check_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        REQUIRE(bytes[i] == 0, "%p of %zu bytes: byte %zu is %#x", (const void *)bytes, size, i,
                bytes[i]);
    }
}

/* --- The operations ---------------------------------------------------------------------------*/

static void slot_store(struct slot *slot, void *bytes, size_t size, size_t alignment)
{
    static atomic_uint_fast64_t serial;
    REQUIRE(bytes != NULL, "no memory for %zu bytes, alignment %zu", size, alignment);
    size_t least = size <= 8 ? 8 : 16;
    least = alignment > least ? alignment : least;
    REQUIRE((uintptr_t)bytes % least == 0, "%p of %zu bytes is not aligned to %zu", bytes, size,
            least);
    size_t usable = t_malloc_usable_size(bytes);
    REQUIRE(usable >= size, "%p: %zu usable of %zu bytes", bytes, usable, size);
    map_insert(bytes, usable);
    slot->bytes = bytes;
    slot->size = size;
    slot->alignment = alignment;
    slot->serial = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
    block_write(slot);
}

static void slot_free(struct slot *slot, bool is_sized)
{
    if (!slot->bytes) {
        return;
    }
    block_check(slot, slot->bytes, slot->size);
    map_remove(slot->bytes);
    errno = 4242;
    if (!is_sized) {
        t_free(slot->bytes);
    } else if (slot->alignment) {
        t_free_aligned_sized(slot->bytes, slot->alignment, slot->size);
    } else {
        t_free_sized(slot->bytes, slot->size);
    }
    REQUIRE(errno == 4242, "free changed errno to %d", errno);
    slot->bytes = NULL;
}

static void slot_realloc(struct slot *slot, const struct op *op)
{
    size_t size = op->size * op->count;
    unsigned char *old = slot->bytes;
    if (old) {
        block_check(slot, old, slot->size);
        map_remove(old);
    }
    unsigned char *bytes =
        op->kind == OP_REALLOC ? t_realloc(old, size) : t_reallocarray(old, op->count, op->size);
    if (old && size == 0) {
        REQUIRE(bytes == NULL, "realloc to 0 gave %p", (void *)bytes);
        slot->bytes = NULL;
        return;
    }
    REQUIRE(bytes != NULL, "no memory for realloc to %zu bytes", size);
    if (old) {
        block_check(slot, bytes, size < slot->size ? size : slot->size);
    }
    slot_store(slot, bytes, size, 0);
}

static void slot_allocate(struct slot *slot, const struct op *op)
{
    slot_free(slot, op->flag);
    void *bytes = NULL;
    size_t alignment = op->alignment;
    switch (op->kind) {
    case OP_MALLOC:
        slot_store(slot, t_malloc(op->size), op->size, 0);
        return;
    case OP_CALLOC:
        bytes = t_calloc(op->count, op->size);
        REQUIRE(bytes != NULL, "no memory for calloc(%u, %zu)", op->count, op->size);
        check_zero(bytes, op->count * op->size);
        slot_store(slot, bytes, op->count * op->size, 0);
        return;
    case OP_ALIGNED_ALLOC:
        bytes = t_aligned_alloc(alignment, op->size);
        break;
    case OP_MEMALIGN:
        bytes = t_memalign(alignment, op->size);
        break;
    default:
        alignment = alignment < sizeof(void *) ? sizeof(void *) : alignment;
        REQUIRE(t_posix_memalign(&bytes, alignment, op->size) == 0, "alignment %zu, %zu bytes",
                alignment, op->size);
        break;
    }
    slot_store(slot, bytes, op->size, alignment);
}

static void check_impossible(const struct op *op)
{
    size_t size = (size_t)PTRDIFF_MAX + 1 + op->size;
    errno = 0;
    void *bytes = op->flag ? t_malloc(size) : t_calloc(size / 2, 3);
    REQUIRE(bytes == NULL && errno == ENOMEM, "%p, errno %d", bytes, errno);
}

/* The child sees every block as its parent left it, frees half of them and allocates. */
static void fork_and_check(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        for (size_t i = 0; i < SLOTS; i++) {
            if (slots[i].bytes) {
                block_check(&slots[i], slots[i].bytes, slots[i].size);
            }
            if (i % 2) {
                slot_free(&slots[i], false);
            } else if (i % 8 == 0) {
                slot_allocate(&slots[i], &(struct op){.kind = OP_MALLOC, .size = i * 40});
            }
        }
        REQUIRE(mw_heap_is_valid(), "in the child");
        _exit(0);
    }
    int status = -1;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child, "fork");
    REQUIRE(status == 0, "the child ended with status %#x", (unsigned)status);
}

static void run_slot_op(const struct op *op)
{
    struct slot *slot = &slots[op->slot];
    while (atomic_exchange_explicit(&slot->is_taken, true, memory_order_acquire)) {
        sched_yield();
    }
    switch (op->kind) {
    case OP_FREE:
    case OP_FREE_SIZED:
        slot_free(slot, op->kind == OP_FREE_SIZED);
        break;
    case OP_REALLOC:
    case OP_REALLOCARRAY:
        slot_realloc(slot, op);
        break;
    case OP_USABLE_SIZE:
        if (slot->bytes) {
            REQUIRE(t_malloc_usable_size(slot->bytes) >= slot->size, "slot %u", op->slot);
        }
        break;
    case OP_CHECK:
        if (slot->bytes) {
            block_check(slot, slot->bytes, slot->size);
        }
        break;
    default:
        slot_allocate(slot, op);
        break;
    }
    atomic_store_explicit(&slot->is_taken, false, memory_order_release);
}

static void run_op(const struct op *op)
{
    switch (op->kind) {
    case OP_IMPOSSIBLE:
        check_impossible(op);
        break;
    case OP_COLLECT:
        mw_collect(op->flag);
        break;
    case OP_TRIM:
        t_malloc_trim(op->size);
        break;
    case OP_INFO: {
        struct mw_mallinfo2 info = t_mallinfo2();
        REQUIRE(info.uordblks + info.fordblks <= info.arena || options->is_concurrent,
                "%zu in use and %zu free of %zu", info.uordblks, info.fordblks, info.arena);
        break;
    }
    case OP_VALID:
        if (!options->is_concurrent) {
            REQUIRE(mw_heap_is_valid(), "asked for by the list");
        }
        break;
    case OP_FORK:
        if (options->may_fork && !options->is_concurrent) {
            fork_and_check();
        }
        break;
    case OP_HOP:
    case OP_RESTART:
        break;
    default:
        run_slot_op(op);
        break;
    }
    if (!options->is_concurrent && options->valid_every && current % options->valid_every == 0) {
        REQUIRE(mw_heap_is_valid(), "after operation %zu", current);
    }
}

/* --- Threads ----------------------------------------------------------------------------------*/

/* Deterministic: a thread runs the operations that follow each other on it and hands the turn on.
 * Concurrent: it skips those of the others. At a restart it starts its successor and ends; the
 * successor waits for that end before it goes on. */
struct worker {
    uint32_t number;
    size_t next; /* the first operation not yet looked at */
    pthread_t thread, predecessor;
    bool has_predecessor;
};

static struct worker workers[MODEL_THREADS];
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static size_t turn;    /* the operation to run next; lock: turn_lock */
static uint32_t ended; /* workers without work left; lock: turn_lock */

/* Both return true when the worker stopped at a restart. */
static bool work_concurrently(struct worker *worker)
{
    while (worker->next < op_count) {
        current = worker->next++;
        if (ops[current].thread != worker->number) {
            continue;
        }
        run_op(&ops[current]);
        if (ops[current].kind == OP_RESTART) {
            return true;
        }
    }
    return false;
}

static void give_turn(size_t next)
{
    pthread_mutex_lock(&turn_lock);
    turn = next;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&turn_lock);
}

static bool work_in_turn(struct worker *worker)
{
    for (;;) {
        pthread_mutex_lock(&turn_lock);
        while (turn < op_count && ops[turn].thread != worker->number) {
            pthread_cond_wait(&turn_changed, &turn_lock);
        }
        current = turn;
        pthread_mutex_unlock(&turn_lock);
        if (current >= op_count) {
            return false;
        }
        while (current < op_count && ops[current].thread == worker->number) {
            run_op(&ops[current]);
            if (ops[current++].kind == OP_RESTART) {
                worker->next = current; /* the turn stays here until the successor gives it on */
                return true;
            }
        }
        give_turn(current);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    if (worker->has_predecessor) {
        REQUIRE(pthread_join(worker->predecessor, NULL) == 0, "thread %u", worker->number);
        if (!options->is_concurrent) {
            give_turn(worker->next);
        }
    }
    bool is_restart = options->is_concurrent ? work_concurrently(worker) : work_in_turn(worker);
    if (is_restart) {
        worker->predecessor = pthread_self();
        worker->has_predecessor = true;
        REQUIRE(pthread_create(&worker->thread, NULL, work, worker) == 0, "thread %u",
                worker->number);
        return NULL;
    }
    pthread_mutex_lock(&turn_lock);
    ended++;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&turn_lock);
    return NULL;
}

void model_run(const struct op *list, size_t count, const struct model_options *given)
{
    ops = list;
    op_count = count;
    options = given;
    turn = 0;
    ended = 0;
    for (uint32_t i = 0; i < MODEL_THREADS; i++) {
        workers[i] = (struct worker){.number = i};
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "thread %u", i);
    }
    pthread_mutex_lock(&turn_lock);
    while (ended < MODEL_THREADS) {
        pthread_cond_wait(&turn_changed, &turn_lock);
    }
    pthread_mutex_unlock(&turn_lock);
    for (uint32_t i = 0; i < MODEL_THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    current = op_count;
    REQUIRE(mw_heap_is_valid(), "after the last operation");
    for (size_t i = 0; i < SLOTS; i++) {
        slot_free(&slots[i], false);
    }
    REQUIRE(map_count == 0, "%zu ranges left", map_count);
    REQUIRE(mw_heap_is_valid(), "after every block was freed");
}
