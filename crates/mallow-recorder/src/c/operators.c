/* SPDX-License-Identifier: MIT
 *
 * operator new and delete, in the manner of entry.c.
 */
#include "thread.h"

#include <dlfcn.h>

/* --- Left by an exception --------------------------------------------------------------------- */

/* Of the C++ ABI: the frames are being left, after a first look at all of them; and what that is answered. */
#define UNWIND_CLEANUP 2
#define UNWIND_GO_ON 8

/* Asked by the unwinder about the frames of EXCEPTION_TELLS: none of them handles anything, but the call under way is
 * over, and what the program calls from now on is its own, however deep it lies. So is the memory of the exception,
 * which it will free. Not static: the name stands in assembly. */
__attribute__((used)) int new_left(int version, int actions, uint64_t language,
                                   const void *exception, void *context)
{
    (void)version, (void)language, (void)context;
    struct thread *thread = self;
    if ((actions & UNWIND_CLEANUP) != 0 && thread != NULL && thread->leaving_op != 0) {
        record_left(thread);
        uintptr_t block = (uintptr_t)thread->within;
        if ((uintptr_t)exception - block < thread->within_size) {
            record(thread, now(), OP_MALLOC, block, thread->within_size, NULL, 0);
        }
        thread->within_size = 0;
        leave();
    }
    return UNWIND_GO_ON;
}

/* Beside a call that may throw: gives the function `new_left` as its personality (0x1b: as a signed distance of four
 * bytes), at no cost while nothing is thrown. At the call, since a compiler may move that into a part of its own. */
#define EXCEPTION_TELLS __asm__ volatile(".cfi_personality 0x1b, new_left")

/* A C++ library that was loaded later, for itself, is not among the next ones. Then the standard's
 * own definition is followed: malloc, the new-handler, bad_alloc. */
static COLD void *new_without_library(size_t size, size_t alignment, bool may_throw)
{
    EXCEPTION_TELLS;
    for (;;) {
        void *block = alignment != 0 ? next.aligned_alloc(alignment, align_up(size, alignment))
                                     : next.malloc(size != 0 ? size : 1);
        if (block != NULL) {
            return block;
        }
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        void (*(*get_handler)(void))(void) = NULL;
        void (*throw_bad_alloc)(void) = NULL;
        if (library != NULL) {
            *(void **)&get_handler = dlsym(library, "_ZSt15get_new_handlerv");
            *(void **)&throw_bad_alloc = dlsym(library, "_ZSt17__throw_bad_allocv");
        }
        void (*handler)(void) = get_handler != NULL ? get_handler() : NULL;
        if (handler != NULL) {
            handler();
        } else if (may_throw && throw_bad_alloc != NULL) {
            throw_bad_alloc();
        } else if (may_throw) {
            __builtin_trap();
        } else {
            return NULL;
        }
    }
}

/* What is recorded if the call does not come back. The forms that do not throw may call one that does, and catch it. */
ALWAYS_INLINE void note_leaving(struct thread *thread, enum message op, size_t size,
                                size_t alignment, bool may_throw)
{
    if (may_throw && likely(thread != NULL)) {
        thread->leaving_op = op;
        thread->leaving_size = size;
        thread->leaving_alignment = alignment;
    }
}

#define NEW(op, size, alignment, may_throw, extra, extra_count, call)     \
    struct thread *thread = enter(FRAME);                                 \
    note_leaving(thread, op, size, alignment, may_throw);                 \
    void *block = call;                                                   \
    if (likely(thread != NULL)) {                                         \
        thread->leaving_op = 0;                                           \
        record_block(thread, op, block, size, extra, extra_count, FRAME); \
        leave();                                                          \
    }                                                                     \
    return block

#define NEW_NEXT(function, ...)     \
    ({                              \
        EXCEPTION_TELLS;            \
        next.function(__VA_ARGS__); \
    })

#define NEW_PLAIN(op, size, may_throw, function, ...)           \
    NEW(op, size, 0, may_throw, NULL, 0,                        \
        next.function != NULL ? NEW_NEXT(function, __VA_ARGS__) \
                              : new_without_library(size, 0, may_throw))

#define NEW_ALIGNED(op, size, alignment, may_throw, function, ...) \
    uint64_t extra[] = {alignment};                                \
    NEW(op, size, alignment, may_throw, extra, 1,                  \
        next.function != NULL ? NEW_NEXT(function, __VA_ARGS__)    \
                              : new_without_library(size, alignment, may_throw))

EXPORT void *_Znwm(size_t size)
{
    NEW_PLAIN(OP_NEW, size, true, new, size);
}

EXPORT void *_Znam(size_t size)
{
    NEW_PLAIN(OP_NEW_ARRAY, size, true, new_array, size);
}

EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
    NEW_PLAIN(OP_NEW_NOTHROW, size, false, new_nothrow, size, tag);
}

EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const void *tag)
{
    NEW_PLAIN(OP_NEW_ARRAY_NOTHROW, size, false, new_array_nothrow, size, tag);
}

EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment)
{
    NEW_ALIGNED(OP_NEW_ALIGNED, size, alignment, true, new_aligned, size, alignment);
}

EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment)
{
    NEW_ALIGNED(OP_NEW_ARRAY_ALIGNED, size, alignment, true, new_array_aligned, size, alignment);
}

EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    NEW_ALIGNED(OP_NEW_ALIGNED_NOTHROW, size, alignment, false, new_aligned_nothrow, size,
                alignment, tag);
}

EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    NEW_ALIGNED(OP_NEW_ARRAY_ALIGNED_NOTHROW, size, alignment, false, new_array_aligned_nothrow,
                size, alignment, tag);
}

EXPORT void _ZdlPv(void *block)
{
    FREE_PLAIN(OP_DELETE, block, 0, delete, block);
}

EXPORT void _ZdaPv(void *block)
{
    FREE_PLAIN(OP_DELETE_ARRAY, block, 0, delete_array, block);
}

EXPORT void _ZdlPvm(void *block, size_t size)
{
    FREE_PLAIN(OP_DELETE_SIZED, block, size, delete_sized, block, size);
}

EXPORT void _ZdaPvm(void *block, size_t size)
{
    FREE_PLAIN(OP_DELETE_ARRAY_SIZED, block, size, delete_array_sized, block, size);
}

EXPORT void _ZdlPvRKSt9nothrow_t(void *block, const void *tag)
{
    FREE_PLAIN(OP_DELETE_NOTHROW, block, 0, delete_nothrow, block, tag);
}

EXPORT void _ZdaPvRKSt9nothrow_t(void *block, const void *tag)
{
    FREE_PLAIN(OP_DELETE_ARRAY_NOTHROW, block, 0, delete_array_nothrow, block, tag);
}

EXPORT void _ZdlPvSt11align_val_t(void *block, size_t alignment)
{
    FREE_ALIGNED(OP_DELETE_ALIGNED, block, 0, alignment, delete_aligned, block, alignment);
}

EXPORT void _ZdaPvSt11align_val_t(void *block, size_t alignment)
{
    FREE_ALIGNED(OP_DELETE_ARRAY_ALIGNED, block, 0, alignment, delete_array_aligned, block,
                 alignment);
}

EXPORT void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment)
{
    FREE_ALIGNED(OP_DELETE_SIZED_ALIGNED, block, size, alignment, delete_sized_aligned, block, size,
                 alignment);
}

EXPORT void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t alignment)
{
    FREE_ALIGNED(OP_DELETE_ARRAY_SIZED_ALIGNED, block, size, alignment, delete_array_sized_aligned,
                 block, size, alignment);
}

EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, const void *tag)
{
    FREE_ALIGNED(OP_DELETE_ALIGNED_NOTHROW, block, 0, alignment, delete_aligned_nothrow, block,
                 alignment, tag);
}

EXPORT void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, const void *tag)
{
    FREE_ALIGNED(OP_DELETE_ARRAY_ALIGNED_NOTHROW, block, 0, alignment, delete_array_aligned_nothrow,
                 block, alignment, tag);
}
