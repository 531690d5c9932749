/* SPDX-License-Identifier: MIT
 *
 * Runs two or three small threads in every order in which their atomic steps can follow each other,
 * and with every value that a weak memory may let them read.
 *
 * The threads execute the allocator's own functions. The compiler's thread sanitizer puts a call
 * before each access to memory; explorer.c defines these calls instead of the sanitizer's library.
 * So an exchange or a relaxed load in core/src needs no change to be seen here.
 *
 * A step begins at an atomic access to a watched address, or where a thread waits for a lock. Between two
 * steps a thread is not interrupted: what lies between is private, or protected by a lock, or found
 * to be a race.
 *
 * Memory is that of C11 without fences. A location remembers all values that were stored into it. A load
 * may return an old one, unless the thread has seen a newer one, or knows of a store that came
 * after it (an acquire load has read what a release store published). A seq_cst load sees the last
 * seq_cst store at least. An exchange acts on the newest value. Plain accesses that are not ordered
 * by such publication are reported as a race. What this does not model: a load that returns a
 * value that is stored later.
 */
#ifndef TEST_EXPLORER_H
#define TEST_EXPLORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLORER_THREADS = 3 };

struct scenario {
    const char *name;
    void (*setup)(void);                     /* makes the state, before each interleaving */
    void (*threads[EXPLORER_THREADS])(void); /* NULL: none */
    void (*finish)(void);                    /* looks at the state when all threads have ended */
};

/* How strong the memory is. */
enum explorer_memory {
    MEMORY_ORDERED, /* every load returns the newest value */
    MEMORY_X86,     /* stores are delayed, but not past an exchange or a seq_cst store */
    MEMORY_C11,     /* nothing but what the orders in the source promise: aarch64 and weaker */
};

/* Mistakes that the explorer plants into every atomic access, to show that it would find them. */
enum explorer_mistake {
    MISTAKE_NONE,
    MISTAKE_NO_SEQ_CST, /* seq_cst is acquire or release only */
    MISTAKE_NO_ACQUIRE, /* acquire is relaxed, but for locks */
    MISTAKE_NO_RELEASE, /* release is relaxed, but for locks */
    MISTAKE_SPLIT_SWAP, /* an exchange is a load, and a store some time later */
};

/* Called by setup. */
void explorer_watch(const volatile void *address, const char *name);

/* Races on these bytes are known, and do no harm for the reason that stands at the call. */
void explorer_allow_race(const volatile void *address, size_t size);

/* Reports a property that does not hold, with the steps that led there, and ends the process. */
_Noreturn void explorer_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define PROPERTY(condition, ...) ((condition) ? (void)0 : explorer_fail(__VA_ARGS__))

/* Explores a scenario, in ordered memory first, so that what fails there has nothing to do with memory,
 * and then in that of C11, which may do all that the others do. Prints how many interleavings there
 * were. */
void explore(const struct scenario *scenario);

/* The same for one with so many interleavings in C11's memory that only one load of each may return an old value;
 * with MALLOW_LONG in the environment all may. */
void explore_wide(const struct scenario *scenario);

/* The same for one with so many interleavings that C11's memory takes a minute even so: ordered memory only, and
 * with MALLOW_LONG in the environment that of C11 too, where one load of each interleaving may return an
 * old value. */
void explore_large(const struct scenario *scenario);

/* Ends the test unless the explorer finds the mistake, and says so with this sentence. */
void explore_finds(const struct scenario *scenario, enum explorer_memory memory,
                   enum explorer_mistake mistake, const char *sentence);

#endif
