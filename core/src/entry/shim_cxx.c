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
#include "../base/config.h"
#include "../slots/made.h"
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

/* What a block keeps of it. */
#define KEPT_CALLER (MW_FAMILIES ? (uintptr_t)CALLER : 0)

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

static void *alloc_new(enum made made, size_t alignment, size_t size, uintptr_t caller)
{
    (void)made, (void)caller;
    return alignment != 0 ? mw_aligned_alloc(alignment, size) : mw_malloc(size);
}

#endif

/* The handler may free memory or throw. */
static COLD void *new_slow(enum made made, size_t size, size_t alignment, const void *caller)
{
    const struct request *request = &(struct request){size, alignment, caller};
    for (;;) {
        void *block = alloc_new(made, alignment, size, (uintptr_t)caller);
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

/* --- new -------------------------------------------------------------------------------------- */

#define CXX_ALIAS(target) CXX_ALIAS_OF(target)
#define CXX_ALIAS_OF(target) __attribute__((alias(#target), visibility("default")))

/* Public, and what the program calls by that name may be another's: its address tells. */
#define CXX_PUBLIC __attribute__((visibility("default")))

/* new, new[] (n: size_t, a: array), nothrow (RKSt9nothrow_t), aligned (St11align_val_t) */
#define NEW_FORM(name, made)                                                    \
    CXX_PUBLIC void *name(size_t size)                                          \
    {                                                                           \
        void *block = alloc_new(made, 0, size, KEPT_CALLER);                    \
        return likely(block != NULL) ? block : new_slow(made, size, 0, CALLER); \
    }

#define ALIGNED_NEW_FORM(name, made)                                                    \
    CXX_PUBLIC void *name(size_t size, size_t alignment)                                \
    {                                                                                   \
        if (unlikely(!is_power_of_two(alignment))) {                                    \
            new_misaligned(size, alignment, CALLER);                                    \
        }                                                                               \
        void *block = alloc_new(made, alignment, size, KEPT_CALLER);                    \
        return likely(block != NULL) ? block : new_slow(made, size, alignment, CALLER); \
    }

NEW_FORM(_Znwm, MADE_BY_NEW)
ALIGNED_NEW_FORM(_ZnwmSt11align_val_t, MADE_BY_NEW)

#if MW_FAMILIES
NEW_FORM(_Znam, MADE_BY_NEW_ARRAY)
ALIGNED_NEW_FORM(_ZnamSt11align_val_t, MADE_BY_NEW_ARRAY)
#else
void *_Znam(size_t size) CXX_ALIAS(_Znwm);
void *_ZnamSt11align_val_t(size_t size, size_t alignment) CXX_ALIAS(_ZnwmSt11align_val_t);
#endif

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

static COLD void *new_nothrow_slow(size_t size, const void *tag, const void *caller,
                                   const char *name, const void *own)
{
    const struct request *request = &(struct request){size, 0, caller};
    if (request_handler(request) == NULL) {
        return NULL;
    }
    void *(*plain)(size_t, const void *) =
        (void *(*)(size_t, const void *))next_form(name, own, request);
    return plain != NULL ? plain(size, tag) : NULL;
}

static COLD void *new_aligned_nothrow_slow(size_t size, size_t alignment, const void *tag,
                                           const void *caller, const char *name, const void *own)
{
    const struct request *request = &(struct request){size, alignment, caller};
    if (!is_power_of_two(alignment) || request_handler(request) == NULL) {
        return NULL;
    }
    void *(*aligned)(size_t, size_t, const void *) =
        (void *(*)(size_t, size_t, const void *))next_form(name, own, request);
    return aligned != NULL ? aligned(size, alignment, tag) : NULL;
}

#define NOTHROW_FORM(name, made)                                                                   \
    MW_PUBLIC void *name(size_t size, const void *tag)                                             \
    {                                                                                              \
        void *block = alloc_new(made, 0, size, KEPT_CALLER);                                       \
        return likely(block != NULL) ? block                                                       \
                                     : new_nothrow_slow(size, tag, CALLER, #name, (void *)(name)); \
    }

#define ALIGNED_NOTHROW_FORM(name, made)                                                       \
    MW_PUBLIC void *name(size_t size, size_t alignment, const void *tag)                       \
    {                                                                                          \
        void *block =                                                                          \
            is_power_of_two(alignment) ? alloc_new(made, alignment, size, KEPT_CALLER) : NULL; \
        return likely(block != NULL) ? block                                                   \
                                     : new_aligned_nothrow_slow(size, alignment, tag, CALLER,  \
                                                                #name, (void *)(name));        \
    }

MW_PUBLIC void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag);
MW_PUBLIC void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag);
NOTHROW_FORM(_ZnwmRKSt9nothrow_t, MADE_BY_NEW)
ALIGNED_NOTHROW_FORM(_ZnwmSt11align_val_tRKSt9nothrow_t, MADE_BY_NEW)

#if MW_FAMILIES
MW_PUBLIC void *_ZnamRKSt9nothrow_t(size_t size, const void *tag);
MW_PUBLIC void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag);
NOTHROW_FORM(_ZnamRKSt9nothrow_t, MADE_BY_NEW_ARRAY)
ALIGNED_NOTHROW_FORM(_ZnamSt11align_val_tRKSt9nothrow_t, MADE_BY_NEW_ARRAY)
#else
void *_ZnamRKSt9nothrow_t(size_t size, const void *tag) CXX_ALIAS(_ZnwmRKSt9nothrow_t);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
    CXX_ALIAS(_ZnwmSt11align_val_tRKSt9nothrow_t);
#endif

#endif

/* --- delete ----------------------------------------------------------------------------------- */

/* Where the family is kept, each form is a function of its own that says what it is for. */
#if MW_SHARED_OBJECT && MW_FAMILIES

#define DELETE(call, size, alignment, made) \
    free_made(block, &(struct track_return){call, size, alignment, PROGRAM_PC, made})
#define DELETE_FORMS(suffix, call, made)                                                        \
    CXX_PUBLIC void _Zd##suffix##Pv(void *block)                                                \
    {                                                                                           \
        DELETE(call, SIZE_MAX, 0, made);                                                        \
    }                                                                                           \
    CXX_PUBLIC void _Zd##suffix##Pvm(void *block, size_t size)                                  \
    {                                                                                           \
        DELETE(call, size, 0, made);                                                            \
    }                                                                                           \
    CXX_PUBLIC void _Zd##suffix##PvRKSt9nothrow_t(void *block, const void *tag)                 \
    {                                                                                           \
        (void)tag;                                                                              \
        DELETE(call, SIZE_MAX, 0, made);                                                        \
    }                                                                                           \
    CXX_PUBLIC void _Zd##suffix##PvSt11align_val_t(void *block, size_t alignment)               \
    {                                                                                           \
        DELETE(call, SIZE_MAX, alignment, made);                                                \
    }                                                                                           \
    CXX_PUBLIC void _Zd##suffix##PvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, \
                                                                 const void *tag)               \
    {                                                                                           \
        (void)tag;                                                                              \
        DELETE(call, SIZE_MAX, alignment, made);                                                \
    }                                                                                           \
    CXX_PUBLIC void _Zd##suffix##PvmSt11align_val_t(void *block, size_t size, size_t alignment) \
    {                                                                                           \
        DELETE(call, size, alignment, made);                                                    \
    }

DELETE_FORMS(l, "operator delete", MADE_BY_NEW)
DELETE_FORMS(a, "operator delete[]", MADE_BY_NEW_ARRAY)

/* Compared where the linker has put what the program calls: the compiler must not know. */
static bool is_form(const void *own, const void *called)
{
    __asm__("" : "+r"(own), "+r"(called));
    return own == called;
}

#define OWN_FORM(name, ...)                         \
    __extension__ extern __typeof__(name) own##name \
        __attribute__((alias(#name), visibility("hidden")))
OWN_FORM(_Znwm);
OWN_FORM(_Znam);
OWN_FORM(_ZdlPv);
OWN_FORM(_ZdaPv);
OWN_FORM(_ZdlPvm);
OWN_FORM(_ZdaPvm);

static bool cxx_is_ours(void)
{
    return is_form((void *)own_Znwm, (void *)_Znwm) && is_form((void *)own_Znam, (void *)_Znam) &&
           is_form((void *)own_ZdlPv, (void *)_ZdlPv) &&
           is_form((void *)own_ZdaPv, (void *)_ZdaPv) &&
           is_form((void *)own_ZdlPvm, (void *)_ZdlPvm) &&
           is_form((void *)own_ZdaPvm, (void *)_ZdaPvm);
}

static bool (*const operators_are_ours)(void) = cxx_is_ours;

#else

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

#endif
