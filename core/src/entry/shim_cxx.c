/* SPDX-License-Identifier: MIT
 *
 * C++'s operator new and delete, by their mangled names (Itanium ABI), without libstdc++. The
 * throwing forms call the program's new-handler and throw std::bad_alloc through the C++ library
 * that the program itself brought.
 *
 * A program may replace some of the forms and leave the others, which by the standard are done by those then:
 *
 *      new[] by new          delete[] by delete          nothrow, and with a size, by the one without
 *
 * and so with an alignment. So each form looks whether what it is to be done by is Mallow's, or the program's.
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

/* --- Forms ------------------------------------------------------------------------------------ */

/* What secure and debug keep of a block, see slots/made.h; who has the archive knows nothing of it. */
#define KEEPS_FAMILIES (MW_SHARED_OBJECT && MW_FAMILIES)

/* The fast build does the same in all forms of delete. */
#define DELETES_ALIKE (MW_MODE == MW_FAST)

/* The name is public, and what the program calls by it may be another's. In the archive it is weak, so that the
 * program may define it beside ours. */
#if MW_SHARED_OBJECT
#define CXX_ALIAS(target) CXX_ALIAS_OF(target)
#define CXX_ALIAS_OF(target) __attribute__((alias(#target), visibility("default")))
#else
#define CXX_ALIAS(target) __attribute__((alias(#target), visibility("default"), weak))
#endif

/* What the program calls by a name: its address, which the compiler must not know. */
ALWAYS_INLINE void *form_called(const void *form)
{
    __asm__("" : "+r"(form));
    return (void *)(uintptr_t)form;
}

#define FORM(name) ((__typeof__(&(name)))form_called((const void *)(name)))

#define IS_OURS(name, own) (form_called((const void *)(name)) == (const void *)(own))

/* --- new -------------------------------------------------------------------------------------- */

/* new, new[] (n: size_t, a: array), nothrow (RKSt9nothrow_t), aligned (St11align_val_t) */
#define NEW_FUNCTION(name, made, instead)                                       \
    static void *name(size_t size)                                              \
    {                                                                           \
        instead;                                                                \
        void *block = alloc_new(made, 0, size, KEPT_CALLER);                    \
        return likely(block != NULL) ? block : new_slow(made, size, 0, CALLER); \
    }

#define ALIGNED_NEW_FUNCTION(name, made, instead)                                       \
    static void *name(size_t size, size_t alignment)                                    \
    {                                                                                   \
        instead;                                                                        \
        if (unlikely(!is_power_of_two(alignment))) {                                    \
            new_misaligned(size, alignment, CALLER);                                    \
        }                                                                               \
        void *block = alloc_new(made, alignment, size, KEPT_CALLER);                    \
        return likely(block != NULL) ? block : new_slow(made, size, alignment, CALLER); \
    }

NEW_FUNCTION(new_plain, MADE_BY_NEW, )
ALIGNED_NEW_FUNCTION(new_aligned, MADE_BY_NEW, )
void *_Znwm(size_t size) CXX_ALIAS(new_plain);
void *_ZnwmSt11align_val_t(size_t size, size_t alignment) CXX_ALIAS(new_aligned);

#if KEEPS_FAMILIES
#define NEW_IS_OURS IS_OURS(_Znwm, new_plain)
#define ALIGNED_NEW_IS_OURS IS_OURS(_ZnwmSt11align_val_t, new_aligned)
NEW_FUNCTION(new_array, MADE_BY_NEW_ARRAY, if (unlikely(!NEW_IS_OURS)) return FORM(_Znwm)(size))
ALIGNED_NEW_FUNCTION(
    new_aligned_array, MADE_BY_NEW_ARRAY,
    if (unlikely(!ALIGNED_NEW_IS_OURS)) return FORM(_ZnwmSt11align_val_t)(size, alignment))
#else
static void *new_array(size_t size)
{
    return FORM(_Znwm)(size);
}

static void *new_aligned_array(size_t size, size_t alignment)
{
    return FORM(_ZnwmSt11align_val_t)(size, alignment);
}
#endif
void *_Znam(size_t size) CXX_ALIAS(new_array);
void *_ZnamSt11align_val_t(size_t size, size_t alignment) CXX_ALIAS(new_aligned_array);

/* The nothrow forms answer NULL if the new-handler, or the program's new, throws, and only C++ can catch what they
 * throw: then the C++ library's own form takes over, which calls the throwing form. In an archive that one is all
 * there is. */
#if MW_SHARED_OBJECT

/* A nothrow form of this file. */
struct form {
    const char *name;
    const void *own;
    const void
        *called; /* what the program calls by the name: it may be in front of ours, and call it */
    const void *base; /* what ours is done by if that is not Mallow's; else NULL */
};

/* The definition behind ours, or the one that the caller's C++ library brought; NULL if there is none. */
static COLD void *next_form(const struct form *form, const void *caller)
{
    void *next = libc_next_symbol(form->name);
    if (next == NULL || next == form->own) {
        next = libc_symbol_near(caller, form->name);
    }
    return next != form->own && next != form->called ? next : NULL;
}

/* Without a C++ library nothing is thrown. */
static COLD void *new_nothrow_next(size_t size, const void *tag, const void *caller,
                                   const struct form *form)
{
    void *(*next)(size_t, const void *) = (void *(*)(size_t, const void *))next_form(form, caller);
    void *(*base)(size_t) = (void *(*)(size_t))(uintptr_t)form->base;
    return next != NULL ? next(size, tag) : base != NULL ? base(size) : NULL;
}

static COLD void *new_aligned_nothrow_next(size_t size, size_t alignment, const void *tag,
                                           const void *caller, const struct form *form)
{
    void *(*next)(size_t, size_t, const void *) =
        (void *(*)(size_t, size_t, const void *))next_form(form, caller);
    void *(*base)(size_t, size_t) = (void *(*)(size_t, size_t))(uintptr_t)form->base;
    return next != NULL ? next(size, alignment, tag) : base != NULL ? base(size, alignment) : NULL;
}

static COLD bool has_handler(const void *caller)
{
    return request_handler(&(struct request){0, 0, caller}) != NULL;
}

#define FORM_OF(function, name, base)                            \
    &(struct form)                                               \
    {                                                            \
#name, (const void *)(function), form_called(name), base \
    }

/* `stands_on_ours`: what the form is done by, which is `base`, is Mallow's. */
#define NOTHROW_FORM(function, name, made, base, stands_on_ours)                             \
    void *name(size_t size, const void *tag);                                                \
    static void *function(size_t size, const void *tag)                                      \
    {                                                                                        \
        if (unlikely(!(stands_on_ours))) {                                                   \
            return new_nothrow_next(size, tag, CALLER, FORM_OF(function, name, FORM(base))); \
        }                                                                                    \
        void *block = alloc_new(made, 0, size, KEPT_CALLER);                                 \
        return likely(block != NULL) || !has_handler(CALLER)                                 \
                   ? block                                                                   \
                   : new_nothrow_next(size, tag, CALLER, FORM_OF(function, name, NULL));     \
    }                                                                                        \
    void *name(size_t size, const void *tag) CXX_ALIAS(function);

#define ALIGNED_NOTHROW_FORM(function, name, made, base, stands_on_ours)          \
    void *name(size_t size, size_t alignment, const void *tag);                   \
    static void *function(size_t size, size_t alignment, const void *tag)         \
    {                                                                             \
        if (unlikely(!(stands_on_ours))) {                                        \
            return new_aligned_nothrow_next(size, alignment, tag, CALLER,         \
                                            FORM_OF(function, name, FORM(base))); \
        }                                                                         \
        if (unlikely(!is_power_of_two(alignment))) {                              \
            return NULL;                                                          \
        }                                                                         \
        void *block = alloc_new(made, alignment, size, KEPT_CALLER);              \
        return likely(block != NULL) || !has_handler(CALLER)                      \
                   ? block                                                        \
                   : new_aligned_nothrow_next(size, alignment, tag, CALLER,       \
                                              FORM_OF(function, name, NULL));     \
    }                                                                             \
    void *name(size_t size, size_t alignment, const void *tag) CXX_ALIAS(function);

#define ARRAY_NEW_STANDS (IS_OURS(_Znam, new_array) && IS_OURS(_Znwm, new_plain))
#define ALIGNED_ARRAY_NEW_STANDS \
    (IS_OURS(_ZnamSt11align_val_t, new_aligned_array) && IS_OURS(_ZnwmSt11align_val_t, new_aligned))

NOTHROW_FORM(new_nothrow, _ZnwmRKSt9nothrow_t, MADE_BY_NEW, _Znwm, IS_OURS(_Znwm, new_plain))
NOTHROW_FORM(new_array_nothrow, _ZnamRKSt9nothrow_t, MADE_BY_NEW_ARRAY, _Znam, ARRAY_NEW_STANDS)
ALIGNED_NOTHROW_FORM(new_aligned_nothrow, _ZnwmSt11align_val_tRKSt9nothrow_t, MADE_BY_NEW,
                     _ZnwmSt11align_val_t, IS_OURS(_ZnwmSt11align_val_t, new_aligned))
ALIGNED_NOTHROW_FORM(new_aligned_array_nothrow, _ZnamSt11align_val_tRKSt9nothrow_t,
                     MADE_BY_NEW_ARRAY, _ZnamSt11align_val_t, ALIGNED_ARRAY_NEW_STANDS)

#endif

/* --- delete ----------------------------------------------------------------------------------- */

#if KEEPS_FAMILIES
#define DELETE(call, size, alignment, made) \
    free_made(block, &(struct track_return){call, size, alignment, PROGRAM_PC, made})
#else
#define DELETE(call, size, alignment, made) delete_any(block, size, alignment)

/* size SIZE_MAX, alignment 0: none was given */
UNUSED ALWAYS_INLINE void delete_any(void *block, size_t size, size_t alignment)
{
    if (DELETES_ALIKE || size == SIZE_MAX) {
        mw_free(block);
    } else if (alignment == 0) {
        mw_free_sized(block, size);
    } else {
        mw_free_aligned_sized(block, alignment, size);
    }
}
#endif

/* An alias needs its target in the same object. */
#if MW_SHARED_OBJECT && DELETES_ALIKE
#define delete_plain mw_free
#else
static void delete_plain(void *block)
{
    DELETE("operator delete", SIZE_MAX, 0, MADE_BY_NEW);
}
#endif

static void delete_aligned(void *block, size_t alignment)
{
    (void)alignment;
    DELETE("operator delete", SIZE_MAX, alignment, MADE_BY_NEW);
}

void _ZdlPv(void *block) CXX_ALIAS(delete_plain);
void _ZdlPvSt11align_val_t(void *block, size_t alignment) CXX_ALIAS(delete_aligned);

/* The function is called unless what it is done by, another form, is Mallow's. */
#define DELETE_INSTEAD(is_ours, form, ...)       \
    if (DELETES_ALIKE || unlikely(!(is_ours))) { \
        FORM(form)(__VA_ARGS__);                 \
        return;                                  \
    }

#define DELETE_IS_OURS IS_OURS(_ZdlPv, delete_plain)
#define ALIGNED_DELETE_IS_OURS IS_OURS(_ZdlPvSt11align_val_t, delete_aligned)

static void delete_array(void *block)
{
    DELETE_INSTEAD(DELETE_IS_OURS, _ZdlPv, block)
    DELETE("operator delete[]", SIZE_MAX, 0, MADE_BY_NEW_ARRAY);
}

static void delete_aligned_array(void *block, size_t alignment)
{
    DELETE_INSTEAD(ALIGNED_DELETE_IS_OURS, _ZdlPvSt11align_val_t, block, alignment)
    DELETE("operator delete[]", SIZE_MAX, alignment, MADE_BY_NEW_ARRAY);
}

void _ZdaPv(void *block) CXX_ALIAS(delete_array);
void _ZdaPvSt11align_val_t(void *block, size_t alignment) CXX_ALIAS(delete_aligned_array);

#define ARRAY_DELETE_IS_OURS (DELETE_IS_OURS && IS_OURS(_ZdaPv, delete_array))
#define ALIGNED_ARRAY_DELETE_IS_OURS \
    (ALIGNED_DELETE_IS_OURS && IS_OURS(_ZdaPvSt11align_val_t, delete_aligned_array))

/* Those of delete (l) or delete[] (a) with a size, and nothrow. */
#define DELETE_FORMS(suffix, call, made, is_ours, aligned_is_ours)                              \
    static void delete_sized_##suffix(void *block, size_t size)                                 \
    {                                                                                           \
        (void)size;                                                                             \
        DELETE_INSTEAD(is_ours, _Zd##suffix##Pv, block)                                         \
        DELETE(call, size, 0, made);                                                            \
    }                                                                                           \
    static void delete_sized_aligned_##suffix(void *block, size_t size, size_t alignment)       \
    {                                                                                           \
        (void)size;                                                                             \
        DELETE_INSTEAD(aligned_is_ours, _Zd##suffix##PvSt11align_val_t, block, alignment)       \
        DELETE(call, size, alignment, made);                                                    \
    }                                                                                           \
    static void delete_nothrow_##suffix(void *block, const void *tag)                           \
    {                                                                                           \
        (void)tag;                                                                              \
        FORM(_Zd##suffix##Pv)(block);                                                           \
    }                                                                                           \
    static void delete_aligned_nothrow_##suffix(void *block, size_t alignment, const void *tag) \
    {                                                                                           \
        (void)tag;                                                                              \
        FORM(_Zd##suffix##PvSt11align_val_t)(block, alignment);                                 \
    }                                                                                           \
    void _Zd##suffix##Pvm(void *block, size_t size) CXX_ALIAS(delete_sized_##suffix);           \
    void _Zd##suffix##PvmSt11align_val_t(void *block, size_t size, size_t alignment)            \
        CXX_ALIAS(delete_sized_aligned_##suffix);                                               \
    void _Zd##suffix##PvRKSt9nothrow_t(void *block, const void *tag)                            \
        CXX_ALIAS(delete_nothrow_##suffix);                                                     \
    void _Zd##suffix##PvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment,            \
                                                      const void *tag)                          \
        CXX_ALIAS(delete_aligned_nothrow_##suffix);

DELETE_FORMS(l, "operator delete", MADE_BY_NEW, DELETE_IS_OURS, ALIGNED_DELETE_IS_OURS)
DELETE_FORMS(a, "operator delete[]", MADE_BY_NEW_ARRAY, ARRAY_DELETE_IS_OURS,
             ALIGNED_ARRAY_DELETE_IS_OURS)

#if KEEPS_FAMILIES
static bool cxx_is_ours(void)
{
    return IS_OURS(_Znwm, new_plain) && IS_OURS(_Znam, new_array) && ARRAY_DELETE_IS_OURS &&
           IS_OURS(_ZdlPvm, delete_sized_l) && IS_OURS(_ZdaPvm, delete_sized_a);
}

static bool (*const operators_are_ours)(void) = cxx_is_ours;
#endif
