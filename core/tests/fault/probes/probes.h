/* SPDX-License-Identifier: MIT
 *
 * Exploits with a goal. A probe plays the attacker who has one fault of the program at hand and
 * knows the program, the allocator's source and the usual tricks, but no address. It takes its
 * steps once, and says how far it came:
 *
 *   reached   the goal: a function pointer is the attacker's, malloc returned memory of his choice,
 *             two owners share a block, or a secret was read
 *   missed    the steps were taken, and led nowhere
 *
 * Where the process is ended before that, it was stopped. Blocks are written by the program as
 * programs do, and freed only where the probe says so: what notices a damage at free comes too late
 * for an attacker who is done before.
 */
#ifndef FAULT_PROBES_H
#define FAULT_PROBES_H

#include <stddef.h>
#include <stdint.h>

enum { SMALL = 48, PAGE_SIZED = 4096, PAGES_SIZED = 64 << 10, LARGE = 300 << 10 };

struct probe {
    const char *name;
    void (*run)(void);
};

/* Ending with a name of NULL. */
extern const struct probe overflow_probes[];
extern const struct probe list_probes[];
extern const struct probe reuse_probes[];
extern const struct probe forge_probes[];

/* What the attacker wants to be called; it ends the program as reached. */
void win(void);
void reach(const char *goal) __attribute__((noreturn));

/* Memory outside the heap that malloc must never return. */
extern unsigned char target[8192];
int is_in_target(const void *pointer);

void *opaque(void *pointer);
void *take(size_t size); /* malloc, which must succeed */
void give(void *block);  /* free, of which the compiler knows nothing */
void in_thread(void *(*run)(void *argument), void *argument);

/* An object that the attacker wants: it has a function pointer at each end and in the middle. The
 * program calls all three, which is harmless as long as nobody has changed them. */
void set_up(void *object, size_t size);
void call(void *object, size_t size);
/* Fills memory with pointers to win(). */
void fill_with_win(void *memory, size_t size);

#endif
