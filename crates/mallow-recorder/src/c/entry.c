/* SPDX-License-Identifier: MIT
 *
 * The entry points. Each finds its thread, calls the next allocator, and writes one message:
 * allocations after the call, frees before it, so that the collector sees a block freed before its
 * address is given out again. Those of C++ are in operators.c.
 *
 *   malloc -> enter -> next.malloc -> record_block -> leave
 */
#include "thread.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#define EXPORT __attribute__((visibility("default")))

/* --- Entering and leaving --------------------------------------------------------------------- */

#define FRAME ((uintptr_t)__builtin_frame_address(0))

static void record_left(struct thread *thread);

/* The rare ways to begin: a new thread, a call within a call, a call after one that was left by a
 * longjmp. NULL: not to be recorded. */
static COLD struct thread *enter_slow(struct thread *thread, uintptr_t frame)
{
    next_need();
    if (next.malloc == NULL) {
        return NULL;
    }
    if (thread == NULL) {
        int error = errno;
        thread = thread_start();
        errno = error;
        if (thread == NULL) {
            return NULL;
        }
    } else if (frame < thread->inside) {
        return NULL;
    } else {
        record_left(thread);
    }
    thread->inside = frame;
    return thread;
}

ALWAYS_INLINE struct thread *enter(uintptr_t frame)
{
    struct thread *thread = self;
    if (unlikely(thread == NULL || thread->inside != 0)) {
        return enter_slow(thread, frame);
    }
    thread->inside = frame;
    return thread;
}

ALWAYS_INLINE void leave(void)
{
    struct thread *thread = self; /* not the one that entered: a forked child has another */
    if (likely(thread != &unrecorded)) {
        thread->inside = 0;
    }
}

/* --- The time of a call ----------------------------------------------------------------------- */

/* To read the clock is most of what recording a call costs. So a thread that is alone in its process and calls in
 * quick succession reads it with one call in STAMP_CALLS; those that follow have the same time. Two things end this
 * early. After a pause the time would be wrong: the collector's beat tells, which changes every few milliseconds. And
 * when a second thread begins, times have to say whose call was first: a block that it frees can only come to us
 * together with the knowledge that it is there, and from then on each call has its own time. */
#define STAMP_CALLS 8

ALWAYS_INLINE bool is_alone(void)
{
    return !atomic_load_explicit(&image->is_shared, memory_order_relaxed);
}

static NOINLINE uint64_t thread_stamp_slow(struct thread *thread, uint32_t beat)
{
    uint64_t time = now();
    bool is_quick = is_alone() && time - thread->stamp < QUICK_TICKS;
    thread->stamps_left = is_quick ? STAMP_CALLS - 1 : 0;
    thread->stamp = time;
    thread->beat = beat;
    return time;
}

ALWAYS_INLINE uint64_t thread_stamp(struct thread *thread)
{
    uint32_t beat = atomic_load_explicit(&control->beat, memory_order_relaxed);
    uint32_t left = thread->stamps_left;
    if (unlikely(left == 0 || thread->beat != beat || !is_alone())) {
        return thread_stamp_slow(thread, beat);
    }
    thread->stamps_left = left - 1; /* as read: a signal handler may have come between */
    return thread->stamp;
}

/* --- Recording -------------------------------------------------------------------------------- */

#define ADDRESS_LIMIT ((uintptr_t)1 << 48)

/* Writes the call of this time and up to three more words; `extra_count` of those are given. */
ALWAYS_INLINE void record(struct thread *thread, uint64_t stamp, enum message op, uintptr_t address,
                          size_t size, const uint64_t *extra, uint64_t extra_count)
{
    thread = thread_room(thread, 3 + extra_count);
    if (unlikely(thread == NULL)) {
        return;
    }
    /* Read once: for all that the compiler knows the stores below may change them. */
    uint64_t *words = thread->words, mask = thread->mask, head = thread->head;
    uint64_t count = 2;
    words[head & mask] = stamp << 8 | (uint64_t)op;
    if (likely(size < SIZE_FOLLOWS)) {
        words[(head + 1) & mask] = (uint64_t)address << 16 | size;
    } else {
        words[(head + 1) & mask] = (uint64_t)address << 16 | SIZE_FOLLOWS;
        words[(head + count++) & mask] = size;
    }
    for (uint64_t i = 0; i < extra_count; i++) {
        words[(head + count++) & mask] = extra[i];
    }
    thread_publish(thread, count);
}

/* An allocation; the extra words are the alignment, or what belongs to a realloc. */
ALWAYS_INLINE void record_block_at(uint64_t stamp, struct thread *thread, enum message op,
                                   const void *block, size_t size, const uint64_t *extra,
                                   uint64_t extra_count, uintptr_t frame)
{
    if (unlikely(stack_is_due(thread, size))) {
        thread = stack_send(thread, frame);
        if (thread == NULL) {
            return;
        }
    }
    record(thread, stamp, op, (uintptr_t)block, size, extra, extra_count);
}

ALWAYS_INLINE void record_block(struct thread *thread, enum message op, const void *block,
                                size_t size, const uint64_t *extra, uint64_t extra_count,
                                uintptr_t frame)
{
    record_block_at(thread_stamp(thread), thread, op, block, size, extra, extra_count, frame);
}

/* When a realloc begins, where it matters: other threads may be given the old block before the call is recorded. */
ALWAYS_INLINE uint64_t realloc_begin(void)
{
    return is_alone() ? 0 : now();
}

ALWAYS_INLINE void record_realloc(struct thread *thread, enum message op, const void *old,
                                  uint64_t begin, const void *block, size_t size, uintptr_t frame)
{
    uint64_t last = thread->stamp, end = thread_stamp(thread);
    if (begin == 0 && !is_alone()) { /* the second thread came within the call */
        begin = last;
    }
    uint64_t extra[] = {(uintptr_t)old, begin != 0 ? end - begin : 0};
    record_block_at(end, thread, op, block, size, extra, 2, frame);
}

/* An operator new that did not come back gave no block. */
static COLD void record_left(struct thread *thread)
{
    if (thread->leaving_op != 0) {
        enum message op = (enum message)thread->leaving_op;
        bool is_aligned = op == OP_NEW_ALIGNED || op == OP_NEW_ARRAY_ALIGNED;
        record(thread, now(), op, 0, thread->leaving_size, &thread->leaving_alignment, is_aligned);
        thread->leaving_op = 0;
    }
}

static size_t times(size_t count, size_t size)
{
    size_t product;
    return __builtin_mul_overflow(count, size, &product) ? SIZE_MAX : product;
}

/* --- malloc and its kin ----------------------------------------------------------------------- */

/* Not recorded. Within an operator new it may be the memory of the exception that leaves it. */
static NOINLINE void *malloc_within(size_t size)
{
    void *block = next.malloc(size);
    struct thread *thread = self;
    if (thread != NULL && thread->leaving_op != 0) {
        thread->within = block;
        thread->within_size = block != NULL ? size : 0;
    }
    return block;
}

EXPORT void *malloc(size_t size)
{
    struct thread *thread = enter(FRAME);
    if (unlikely(thread == NULL)) {
        return next.malloc != NULL ? malloc_within(size) : early_malloc(size);
    }
    void *block = next.malloc(size);
    record_block(thread, OP_MALLOC, block, size, NULL, 0, FRAME);
    leave();
    return block;
}

EXPORT void *calloc(size_t count, size_t size)
{
    struct thread *thread = enter(FRAME);
    if (unlikely(thread == NULL)) {
        /* Early memory is zeroed and never used twice. */
        return next.calloc != NULL ? next.calloc(count, size) : early_malloc(times(count, size));
    }
    void *block = next.calloc(count, size);
    record_block(thread, OP_CALLOC, block, times(count, size), NULL, 0, FRAME);
    leave();
    return block;
}

/* A block from before the next allocator was known moves out. */
static COLD void *early_realloc(void *block, size_t size)
{
    void *moved = malloc(size);
    if (moved != NULL) {
        memcpy(moved, block, size_min(size, early_size(block)));
    }
    return moved;
}

EXPORT void *realloc(void *old, size_t size)
{
    if (is_early(old)) {
        return early_realloc(old, size);
    }
    struct thread *thread = enter(FRAME);
    if (unlikely(thread == NULL)) {
        return next.realloc != NULL ? next.realloc(old, size) : early_malloc(size);
    }
    uint64_t begin = realloc_begin();
    void *block = next.realloc(old, size);
    record_realloc(thread, OP_REALLOC, old, begin, block, size, FRAME);
    leave();
    return block;
}

EXPORT void *reallocarray(void *old, size_t count, size_t size)
{
    if (is_early(old)) {
        return early_realloc(old, times(count, size));
    }
    struct thread *thread = enter(FRAME);
    if (unlikely(thread == NULL)) {
        return next.reallocarray != NULL ? next.reallocarray(old, count, size)
                                         : next.realloc(old, times(count, size));
    }
    uint64_t begin = realloc_begin();
    void *block = next.reallocarray != NULL ? next.reallocarray(old, count, size)
                                            : next.realloc(old, times(count, size));
    record_realloc(thread, OP_REALLOCARRAY, old, begin, block, times(count, size), FRAME);
    leave();
    return block;
}

/* A function of an alignment and a size. */
#define ALIGNED(op, alignment, size, call)                      \
    struct thread *thread = enter(FRAME);                       \
    void *block = call;                                         \
    if (likely(thread != NULL)) {                               \
        uint64_t extra[] = {alignment};                         \
        record_block(thread, op, block, size, extra, 1, FRAME); \
        leave();                                                \
    }                                                           \
    return block

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
    struct thread *thread = enter(FRAME);
    int error = next.posix_memalign(out, alignment, size);
    if (likely(thread != NULL)) {
        uint64_t extra[] = {alignment};
        record_block(thread, OP_POSIX_MEMALIGN, error == 0 ? *out : NULL, size, extra, 1, FRAME);
        leave();
    }
    return error;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    ALIGNED(OP_ALIGNED_ALLOC, alignment, size, next.aligned_alloc(alignment, size));
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    ALIGNED(OP_MEMALIGN, alignment, size,
            next.memalign != NULL ? next.memalign(alignment, size)
                                  : next.aligned_alloc(alignment, size));
}

/* musl has neither; what they are asked for is a page. */
EXPORT void *valloc(size_t size)
{
    size_t page = getauxval(AT_PAGESZ);
    ALIGNED(OP_VALLOC, page, size,
            next.valloc != NULL ? next.valloc(size)
                                : next.aligned_alloc(page, align_up(size, page)));
}

EXPORT void *pvalloc(size_t size)
{
    size_t page = getauxval(AT_PAGESZ);
    ALIGNED(OP_PVALLOC, page, size,
            next.pvalloc != NULL ? next.pvalloc(size)
                                 : next.aligned_alloc(page, align_up(size, page)));
}

EXPORT size_t malloc_usable_size(void *block)
{
    if (is_early(block)) {
        return early_size(block);
    }
    next_need();
    return next.malloc_usable_size != NULL ? next.malloc_usable_size(block) : 0;
}

/* --- free and its kin ------------------------------------------------------------------------- */

/* A function that frees `block`. `known_size` is what the caller said, 0 if nothing. */
#define FREE(op, block, known_size, extra, extra_count, call)                           \
    if (is_early(block)) {                                                              \
        return;                                                                         \
    }                                                                                   \
    struct thread *thread = enter(FRAME);                                               \
    if (likely(thread != NULL)) {                                                       \
        record(thread, thread_stamp(thread), op, (uintptr_t)(block), known_size, extra, \
               extra_count);                                                            \
    }                                                                                   \
    call;                                                                               \
    if (likely(thread != NULL)) {                                                       \
        leave();                                                                        \
    }

#define FREE_PLAIN(op, block, known_size, function, ...) \
    FREE(op, block, known_size, NULL, 0,                 \
         next.function != NULL ? next.function(__VA_ARGS__) : next_free(block))

#define FREE_ALIGNED(op, block, known_size, alignment, function, ...) \
    uint64_t extra[] = {alignment};                                   \
    FREE(op, block, known_size, extra, 1,                             \
         next.function != NULL ? next.function(__VA_ARGS__) : next_free(block))

static void next_free(void *block)
{
    if (next.free != NULL) {
        next.free(block);
    }
}

EXPORT void free(void *block)
{
    FREE_PLAIN(OP_FREE, block, 0, free, block);
}

EXPORT void cfree(void *block)
{
    FREE_PLAIN(OP_CFREE, block, 0, cfree, block);
}

EXPORT void free_sized(void *block, size_t size)
{
    FREE_PLAIN(OP_FREE_SIZED, block, size, free_sized, block, size);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    FREE_ALIGNED(OP_FREE_ALIGNED_SIZED, block, size, alignment, free_aligned_sized, block,
                 alignment, size);
}

/* --- Not about memory ------------------------------------------------------------------------- */

EXPORT void mw_trace_marker(const char *text)
{
    struct thread *thread = enter(FRAME);
    if (thread == NULL) {
        return;
    }
    size_t length = size_min(strlen(text), 4096);
    uint64_t words[] = {length};
    thread_send(thread, MESSAGE_MARKER, words, 1, text, length);
    leave();
}

/* A module that is opened with RTLD_DEEPBIND, as PHP's extensions are, asks the libc for malloc before it
 * asks us: it is opened without. The loader must take the caller for the caller, so the last call is a
 * jump, which the compiler makes of it. */
EXPORT void *dlopen(const char *path, int flags)
{
#ifdef RTLD_DEEPBIND /* musl has no such thing */
    flags &= ~RTLD_DEEPBIND;
#endif
    next_need(); /* a library's constructor calls, before this one's */
    return next.dlopen != NULL ? next.dlopen(path, flags) : NULL;
}

/* The collector looks at the map again when it meets an address that it does not know. What was unloaded
 * it cannot see. */
EXPORT int dlclose(void *handle)
{
    next_need();
    int result = next.dlclose != NULL ? next.dlclose(handle) : -1;
    struct thread *thread = self;
    if (control != NULL && control->stacks != STACKS_NONE && thread != NULL &&
        thread->inside == 0) {
        thread_send(thread, MESSAGE_MAPS_CHANGED, NULL, 0, "", 0);
    }
    return result;
}
