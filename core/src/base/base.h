/* SPDX-License-Identifier: MIT
 *
 * Words that every file uses: compiler attributes and units. The only place that names compiler
 * extensions.
 */
#ifndef MALLOW_BASE_H
#define MALLOW_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Hides from the compiler where a value comes from, so that it does not regroup a sum. */
#define opaque(x) __asm__("" : "+r"(x))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((cold, noinline))
#define UNUSED __attribute__((unused))
/* Not of a pointer to a function: gcc 16 warns of calls through one whose value it knows. */
#define NO_RETURN __attribute__((noreturn))
/* Behind a call through a pointer that does not return. */
#define not_reached() __builtin_unreachable()
#define PRINTF_LIKE(format_at, first) __attribute__((format(printf, format_at, first)))
#define ALIAS(target) __attribute__((alias(target), visibility("default"), used))
/* A variable of the program's interface that the program may define itself. */
#define REPLACEABLE __attribute__((weak, visibility("default")))
/* Before the constructors and behind the destructors of what it is linked with. */
#define CONSTRUCTOR __attribute__((constructor(101)))
#define DESTRUCTOR __attribute__((destructor(101)))

/* A symbol of the C library that may be missing. In the shared object the reference is weak, so
 * that one object loads into every libc; an archive needs a strong one to pull the member in. The
 * two are told apart by -fPIC and -fPIE; who compiles an archive with -fPIC says so. */
#ifndef MW_SHARED_OBJECT
#if defined(__PIC__) && !defined(__PIE__)
#define MW_SHARED_OBJECT 1
#else
#define MW_SHARED_OBJECT 0
#endif
#endif
#if MW_SHARED_OBJECT
#define MAY_BE_MISSING __attribute__((weak))
#define is_present(function) ((function) != NULL)
#else
#define MAY_BE_MISSING
#define is_present(function) true
#endif

/* Thread-local data at a fixed offset from the thread pointer: one load, no call. */
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* Inside musl the loader cannot serve such data, since it is what serves them. There the structure of a
 * thread has two words for the allocator (packaging/musl), at this distance from the thread pointer. */
#if defined(__x86_64__)
#define THREAD_WORDS 48
#define THREAD_WORD(type, index) \
    (*(type __seg_fs *)(uintptr_t)(THREAD_WORDS + (index) * sizeof(void *)))
#else
#define THREAD_WORDS (-32)
#define THREAD_WORD(type, index) \
    (*(type *)((char *)__builtin_thread_pointer() + THREAD_WORDS + (index) * (int)sizeof(void *)))
#endif

/* For a large object of zeros: in a section of its own it lies behind the small ones, which so
 * share a page with each other and with initialised data. */
#define IN_SECTION(name) __attribute__((section(".bss." #name)))

/* For a variable that is written before the library's constants of addresses are made read-only, see os/seal.c. */
#define IN_RELRO __attribute__((section(".data.rel.ro.sealed")))

/* Two threads that write to one line of this size slow each other down. */
#define CACHE_LINE 64

/* Where a function of some thirty instructions begins is worth 4 % of its time. */
#define HIT_PATH __attribute__((aligned(CACHE_LINE)))

#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)

#define array_count(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* memcpy of what may be large. Of glibc's two functions of that name a library that is linked without libc gets
 * the one for old programs, which knows no register wider than SSE2's; memmove there is but one. */
ALWAYS_INLINE void bytes_copy(void *to, const void *from, size_t size)
{
    memmove(to, from, size);
}

ALWAYS_INLINE size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

ALWAYS_INLINE size_t size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Eight bytes at any address, of memory of any type. */
struct unaligned64 {
    uint64_t value;
} __attribute__((packed, may_alias));

ALWAYS_INLINE uint64_t load_unaligned(const char *at)
{
    return ((const struct unaligned64 *)at)->value;
}

ALWAYS_INLINE void store_unaligned(char *at, uint64_t value)
{
    ((struct unaligned64 *)at)->value = value;
}

/* Sets or clears a bit of *word, by the low six bits of `index`. Returns whether it was set. x86 does both in
 * one instruction, which compilers do not make of it. */
ALWAYS_INLINE bool word_has_bit(uint64_t word, uint64_t index)
{
#if defined(__x86_64__)
    bool bit;
    __asm__("bt %2, %1" : "=@ccc"(bit) : "r"(word), "r"(index));
    return bit;
#else
    return (word >> (index % 64) & 1) != 0;
#endif
}

ALWAYS_INLINE bool word_set_bit(uint64_t *word, uint64_t index, bool value)
{
#if defined(__x86_64__)
    bool before;
    if (value) {
        __asm__("bts %2, %1" : "=@ccc"(before), "+r"(*word) : "r"(index));
    } else {
        __asm__("btr %2, %1" : "=@ccc"(before), "+r"(*word) : "r"(index));
    }
    return before;
#else
    uint64_t bit = (uint64_t)1 << (index % 64);
    bool before = (*word & bit) != 0;
    *word = value ? *word | bit : *word & ~bit;
    return before;
#endif
}

/* `alignment` is a power of two. */
ALWAYS_INLINE size_t align_up(size_t value, size_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

ALWAYS_INLINE bool is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Position of the highest set bit; `value` is not 0. */
ALWAYS_INLINE unsigned floor_log2(size_t value)
{
    return 63u ^ (unsigned)__builtin_clzl(value); /* as x86 has it; a subtraction costs more */
}

static_assert(sizeof(size_t) == 8 && sizeof(long) == 8, "Mallow is for 64-bit systems");

/* Whether two texts are equal. The libraries take as few names from the libc as can be, and not strcmp. */
ALWAYS_INLINE bool text_is(const char *text, const char *other)
{
    while (*text != 0 && *text == *other) {
        text++;
        other++;
    }
    return *text == *other;
}

/* Kept by the linker although nothing in the program refers to it. */
#if defined(__has_attribute)
#if __has_attribute(retain)
#define KEEP_SYMBOL __attribute__((used, retain))
#endif
#endif
#ifndef KEEP_SYMBOL
#define KEEP_SYMBOL __attribute__((used))
#endif

#endif
