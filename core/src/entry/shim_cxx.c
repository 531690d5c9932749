/* SPDX-License-Identifier: MIT
 *
 * C++'s operator new and delete, by their mangled names (Itanium ABI), without libstdc++. The
 * throwing forms call the program's new-handler and throw std::bad_alloc through the C++ library
 * that the program itself brought.
 *
 * In the shared object that library may be there from the start, or come with dlopen, or never; it
 * is looked for when it is needed. In an archive this file is a member of its own, so that the
 * linker takes it, and with it the C++ library's functions, into programs that use operator new and
 * into no others.
 */
#if MW_SHARED_OBJECT
#include "../insight/report.h"
#else
#include "../../include/mallow.h"
#include "../base/base.h"
#endif

typedef void (*new_handler)(void);

/* What a form of operator new was asked for when there was no memory, and by whom. */
struct request {
    size_t size;
    size_t alignment; /* 0: malloc's own */
    const void *caller;
};

/* Of a form of operator new: not of a function that it calls. */
#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

#if MW_SHARED_OBJECT

/* std::get_new_handler() and std::__throw_bad_alloc(), in libstdc++ and in libc++. */
__attribute__((weak)) new_handler _ZSt15get_new_handlerv(void);
__attribute__((weak)) void _ZSt17__throw_bad_allocv(void);

static COLD new_handler request_handler(const struct request *request)
{
    new_handler (*get)(void) = _ZSt15get_new_handlerv;
    if (get == NULL) {
        get = (new_handler(*)(void))libc_symbol_near(request->caller, "_ZSt15get_new_handlerv");
    }
    return get != NULL ? get() : NULL;
}

_Noreturn static COLD void request_throw(const struct request *request)
{
    void (*throw)(void) = _ZSt17__throw_bad_allocv;
    if (throw == NULL) {
        throw = (void (*)(void))libc_symbol_near(request->caller, "_ZSt17__throw_bad_allocv");
    }
    if (throw != NULL) {
        throw();
    }
    log_fatal("operator new: out of memory (%zu bytes), and no C++ library to throw",
              request->size);
}

#else

new_handler _ZSt15get_new_handlerv(void);
_Noreturn void _ZSt17__throw_bad_allocv(void);

static COLD new_handler request_handler(const struct request *request)
{
    (void)request;
    return _ZSt15get_new_handlerv();
}

_Noreturn static COLD void request_throw(const struct request *request)
{
    (void)request;
    _ZSt17__throw_bad_allocv();
}

static void *alloc_aligned(size_t alignment, size_t size)
{
    return mw_aligned_alloc(alignment, size);
}

#endif

static void *request_try(const struct request *request)
{
    return request->alignment != 0 ? alloc_aligned(request->alignment, request->size)
                                   : mw_malloc(request->size);
}

/* The handler may free memory or throw. */
static COLD void *new_slow(size_t size, size_t alignment, const void *caller)
{
    const struct request *request = &(struct request){size, alignment, caller};
    for (;;) {
        void *block = request_try(request);
        if (block != NULL) {
            return block;
        }
        new_handler handler = request_handler(request);
        if (handler == NULL) {
            request_throw(request);
        }
        handler();
    }
}

/* No handler can help. */
_Noreturn static COLD void new_misaligned(size_t size, size_t alignment, const void *caller)
{
    request_throw(&(struct request){size, alignment, caller});
}

/* new, new[] (n: size_t, a: array), nothrow (RKSt9nothrow_t), aligned (St11align_val_t) */
MW_PUBLIC void *_Znwm(size_t size)
{
    void *block = mw_malloc(size);
    return likely(block != NULL) ? block : new_slow(size, 0, CALLER);
}

MW_PUBLIC void *_ZnwmSt11align_val_t(size_t size, size_t alignment)
{
    if (unlikely(!is_power_of_two(alignment))) {
        new_misaligned(size, alignment, CALLER);
    }
    void *block = alloc_aligned(alignment, size);
    return likely(block != NULL) ? block : new_slow(size, alignment, CALLER);
}

#define CXX_ALIAS(target) CXX_ALIAS_OF(target)
#define CXX_ALIAS_OF(target) __attribute__((alias(#target), visibility("default")))

void *_Znam(size_t size) CXX_ALIAS(_Znwm);
void *_ZnamSt11align_val_t(size_t size, size_t alignment) CXX_ALIAS(_ZnwmSt11align_val_t);

/* The nothrow forms answer NULL if the new-handler throws, and only C++ can catch what it throws:
 * with a handler the C++ library's own form takes over, which calls the throwing form above. In an
 * archive that one is all there is. */
#if MW_SHARED_OBJECT

/* The definition behind ours, or the one that the caller's C++ library brought. */
static COLD void *next_form(const char *name, const void *own, const struct request *request)
{
    void *next = libc_next_symbol(name);
    if (next == NULL || next == own) {
        next = libc_symbol_near(request->caller, name);
    }
    return next != own ? next : NULL;
}

MW_PUBLIC void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag);
MW_PUBLIC void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag);

static COLD void *new_nothrow_slow(size_t size, const void *tag, const void *caller)
{
    const struct request *request = &(struct request){size, 0, caller};
    if (request_handler(request) == NULL) {
        return NULL;
    }
    void *(*plain)(size_t, const void *) = (void *(*)(size_t, const void *))next_form(
        "_ZnwmRKSt9nothrow_t", (void *)_ZnwmRKSt9nothrow_t, request);
    return plain != NULL ? plain(size, tag) : NULL;
}

static COLD void *new_aligned_nothrow_slow(size_t size, size_t alignment, const void *tag,
                                           const void *caller)
{
    const struct request *request = &(struct request){size, alignment, caller};
    if (!is_power_of_two(alignment) || request_handler(request) == NULL) {
        return NULL;
    }
    void *(*aligned)(size_t, size_t, const void *) =
        (void *(*)(size_t, size_t, const void *))next_form(
            "_ZnwmSt11align_val_tRKSt9nothrow_t", (void *)_ZnwmSt11align_val_tRKSt9nothrow_t,
            request);
    return aligned != NULL ? aligned(size, alignment, tag) : NULL;
}

void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
    void *block = mw_malloc(size);
    return likely(block != NULL) ? block : new_nothrow_slow(size, tag, CALLER);
}

void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    void *block = is_power_of_two(alignment) ? alloc_aligned(alignment, size) : NULL;
    return likely(block != NULL) ? block : new_aligned_nothrow_slow(size, alignment, tag, CALLER);
}

void *_ZnamRKSt9nothrow_t(size_t size, const void *tag) CXX_ALIAS(_ZnwmRKSt9nothrow_t);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
    CXX_ALIAS(_ZnwmSt11align_val_tRKSt9nothrow_t);

#endif

/* delete takes no more than the pointer; the forms with a size check it where free_sized does. An
 * alias needs its target in the same object. */
#if MW_SHARED_OBJECT
#define delete_plain mw_free
#define delete_sized mw_free_sized
#else
static void delete_plain(void *block)
{
    mw_free(block);
}

static void delete_sized(void *block, size_t size)
{
    mw_free_sized(block, size);
}
#endif

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

void _ZdlPv(void *block) CXX_ALIAS(delete_plain);
void _ZdaPv(void *block) CXX_ALIAS(delete_plain);
void _ZdlPvm(void *block, size_t size) CXX_ALIAS(delete_sized);
void _ZdaPvm(void *block, size_t size) CXX_ALIAS(delete_sized);
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
