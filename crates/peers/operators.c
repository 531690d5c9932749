/* SPDX-License-Identifier: MIT
 *
 * The C++ operators for a peer whose static library lacks them, on its malloc and free. In C, so that
 * the preload does not bring libstdc++ into every program. Without them libstdc++'s own would call
 * malloc just the same, one call deeper.
 */
#include <stdlib.h>

/* libstdc++'s, where the program has it; a program without cannot catch the exception anyway. */
__attribute__((weak)) extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv");

typedef size_t align_val;

#define OPERATOR(name) __attribute__((visibility("default"))) name

static void *or_throw(void *p) {
    if (__builtin_expect(p == NULL, 0)) {
        if (throw_bad_alloc) throw_bad_alloc();
        abort();
    }
    return p;
}

static void *aligned(align_val alignment, size_t size) {
    return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

/* new and new[]: plain, nothrow, aligned, aligned and nothrow. */
#define NEW(kind)                                                                              \
    void *OPERATOR(_Zn##kind##m)(size_t n) { return or_throw(malloc(n)); }                      \
    void *OPERATOR(_Zn##kind##mRKSt9nothrow_t)(size_t n, const void *t) {                       \
        (void)t;                                                                               \
        return malloc(n);                                                                      \
    }                                                                                          \
    void *OPERATOR(_Zn##kind##mSt11align_val_t)(size_t n, align_val a) {                        \
        return or_throw(aligned(a, n));                                                        \
    }                                                                                          \
    void *OPERATOR(_Zn##kind##mSt11align_val_tRKSt9nothrow_t)(size_t n, align_val a,            \
                                                             const void *t) {                  \
        (void)t;                                                                               \
        return aligned(a, n);                                                                  \
    }

/* delete and delete[]: plain, sized, nothrow, aligned, sized and aligned. */
#define DELETE(kind)                                                                           \
    void OPERATOR(_Zd##kind##Pv)(void *p) { free(p); }                                          \
    void OPERATOR(_Zd##kind##Pvm)(void *p, size_t n) {                                          \
        (void)n;                                                                               \
        free(p);                                                                               \
    }                                                                                          \
    void OPERATOR(_Zd##kind##PvRKSt9nothrow_t)(void *p, const void *t) {                        \
        (void)t;                                                                               \
        free(p);                                                                               \
    }                                                                                          \
    void OPERATOR(_Zd##kind##PvSt11align_val_t)(void *p, align_val a) {                         \
        (void)a;                                                                               \
        free(p);                                                                               \
    }                                                                                          \
    void OPERATOR(_Zd##kind##PvmSt11align_val_t)(void *p, size_t n, align_val a) {              \
        (void)n, (void)a;                                                                      \
        free(p);                                                                               \
    }

NEW(w)
NEW(a)
DELETE(l)
DELETE(a)
