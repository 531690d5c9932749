/* SPDX-License-Identifier: MIT
 *
 * C++'s operator new and delete, by their mangled names (Itanium ABI), without libstdc++. The
 * throwing forms call the program's new-handler and throw std::bad_alloc through the C++ library
 * that the program itself brought; without one there is nobody who could throw, and the program
 * ends.
 */
#include "../insight/report.h"

typedef void (*new_handler)(void);

/* std::get_new_handler() and std::__throw_bad_alloc() of libstdc++; libc++ has the first. */
__attribute__((weak)) new_handler _ZSt15get_new_handlerv(void);
__attribute__((weak)) void _ZSt17__throw_bad_allocv(void);

/* Calls the new-handler, which may free memory or throw. False if there is none. */
static bool run_new_handler(void)
{
    new_handler handler = _ZSt15get_new_handlerv != NULL ? _ZSt15get_new_handlerv() : NULL;
    if (handler == NULL) {
        return false;
    }
    handler();
    return true;
}

static COLD void *new_failed(size_t size, bool may_throw)
{
    if (may_throw) {
        if (_ZSt17__throw_bad_allocv != NULL) {
            _ZSt17__throw_bad_allocv();
        }
        log_fatal("operator new: out of memory (%zu bytes), and no C++ library to throw", size);
    }
    return NULL;
}

/* alignment 0: malloc's own. */
static COLD void *new_slow(size_t size, size_t alignment, bool may_throw)
{
    for (;;) {
        void *block = alignment != 0 ? alloc_aligned(alignment, size) : mw_malloc(size);
        if (block != NULL) {
            return block;
        }
        if (!run_new_handler()) {
            return new_failed(size, may_throw);
        }
    }
}

ALWAYS_INLINE void *new_plain(size_t size, bool may_throw)
{
    void *block = mw_malloc(size);
    return likely(block != NULL) ? block : new_slow(size, 0, may_throw);
}

ALWAYS_INLINE void *new_aligned(size_t size, size_t alignment, bool may_throw)
{
    if (unlikely(!is_power_of_two(alignment))) {
        return new_failed(size, may_throw); /* no handler can help */
    }
    void *block = alloc_aligned(alignment, size);
    return likely(block != NULL) ? block : new_slow(size, alignment, may_throw);
}

/* new, new[] (n: size_t, a: array), nothrow (RKSt9nothrow_t), aligned (St11align_val_t) */
MW_PUBLIC void *_Znwm(size_t size)
{
    return new_plain(size, true);
}

MW_PUBLIC void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
    (void)tag;
    return new_plain(size, false);
}

MW_PUBLIC void *_ZnwmSt11align_val_t(size_t size, size_t alignment)
{
    return new_aligned(size, alignment, true);
}

MW_PUBLIC void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    (void)tag;
    return new_aligned(size, alignment, false);
}

#define CXX_ALIAS(target) __attribute__((alias(#target), visibility("default")))

void *_Znam(size_t size) CXX_ALIAS(_Znwm);
void *_ZnamRKSt9nothrow_t(size_t size, const void *tag) CXX_ALIAS(_ZnwmRKSt9nothrow_t);
void *_ZnamSt11align_val_t(size_t size, size_t alignment) CXX_ALIAS(_ZnwmSt11align_val_t);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
    CXX_ALIAS(_ZnwmSt11align_val_tRKSt9nothrow_t);

/* delete takes no more than the pointer; the forms with a size check it where free_sized does. */
static void delete_nothrow(void *block, const void *tag)
{
    (void)tag;
    mw_free(block);
}

static void delete_aligned(void *block, size_t alignment)
{
    (void)alignment;
    mw_free(block);
}

static void delete_aligned_nothrow(void *block, size_t alignment, const void *tag)
{
    (void)alignment;
    (void)tag;
    mw_free(block);
}

static void delete_sized_aligned(void *block, size_t size, size_t alignment)
{
    mw_free_aligned_sized(block, alignment, size);
}

void _ZdlPv(void *block) CXX_ALIAS(mw_free);
void _ZdaPv(void *block) CXX_ALIAS(mw_free);
void _ZdlPvm(void *block, size_t size) CXX_ALIAS(mw_free_sized);
void _ZdaPvm(void *block, size_t size) CXX_ALIAS(mw_free_sized);
void _ZdlPvRKSt9nothrow_t(void *block, const void *tag) CXX_ALIAS(delete_nothrow);
void _ZdaPvRKSt9nothrow_t(void *block, const void *tag) CXX_ALIAS(delete_nothrow);
void _ZdlPvSt11align_val_t(void *block, size_t alignment) CXX_ALIAS(delete_aligned);
void _ZdaPvSt11align_val_t(void *block, size_t alignment) CXX_ALIAS(delete_aligned);
void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, const void *tag)
    CXX_ALIAS(delete_aligned_nothrow);
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, const void *tag)
    CXX_ALIAS(delete_aligned_nothrow);
void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment)
    CXX_ALIAS(delete_sized_aligned);
void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t alignment)
    CXX_ALIAS(delete_sized_aligned);
