/* SPDX-License-Identifier: MIT
 *
 * Short names for C11 atomics. The plain verbs are relaxed; every other order is in the name, and
 * its use names the partner that it pairs with.
 */
#ifndef MALLOW_ATOMIC_H
#define MALLOW_ATOMIC_H

#include <stdatomic.h>

#define atomic_get(p) atomic_load_explicit(p, memory_order_relaxed)
#define atomic_get_acquire(p) atomic_load_explicit(p, memory_order_acquire)
#define atomic_get_ordered(p) atomic_load_explicit(p, memory_order_seq_cst)

#define atomic_set(p, v) atomic_store_explicit(p, v, memory_order_relaxed)
#define atomic_set_release(p, v) atomic_store_explicit(p, v, memory_order_release)
#define atomic_set_ordered(p, v) atomic_store_explicit(p, v, memory_order_seq_cst)

#define atomic_add(p, v) atomic_fetch_add_explicit(p, v, memory_order_relaxed)
#define atomic_add_ordered(p, v) atomic_fetch_add_explicit(p, v, memory_order_seq_cst)
#define atomic_sub(p, v) atomic_fetch_sub_explicit(p, v, memory_order_relaxed)

/* What another thread may be writing to a plain variable of its own: the value of some moment. */
#define atomic_peek(p) __atomic_load_n(p, __ATOMIC_RELAXED)

/* Whether an atomic pointer is another one than `value`; relaxed. x86 compares with memory in one
 * instruction, which compilers do not make of a load that is atomic. */
#if defined(__x86_64__)
#define atomic_differs(p, value)                                                           \
    __extension__({                                                                        \
        bool differs_;                                                                     \
        __asm__("cmp %2, %1" : "=@ccne"(differs_) : "m"(*(void *const *)(p)), "r"(value)); \
        differs_;                                                                          \
    })
#else
#define atomic_differs(p, value) (atomic_get(p) != (value))
#endif

/* Replaces the value and returns the old one. */
#define atomic_swap(p, v) atomic_exchange_explicit(p, v, memory_order_acq_rel)

/* Replaces *p by `new` if it is *expected; on failure *expected is what was found. */
#define atomic_replace(p, expected, new)                                            \
    atomic_compare_exchange_strong_explicit(p, expected, new, memory_order_seq_cst, \
                                            memory_order_acquire)

/* The compiler moves no store across: who sees only what this thread had stored up to some moment, as
 * a child of fork does, sees what stands before this before what stands behind. No instruction. */
#define order_stores() atomic_signal_fence(memory_order_release)

#if defined(__x86_64__)
#define cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ volatile("isb" ::: "memory")
#else
#define cpu_relax() ((void)0)
#endif

#endif
