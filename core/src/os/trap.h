/* SPDX-License-Identifier: MIT
 *
 * Accesses that trap, of tracked and of guarded blocks: whoever knows the address says what is wrong, and what
 * nobody knows goes on to whoever handled SIGSEGV before. A program that sets a handler of its own later
 * replaces ours, unless a report of faults is asked for: then ours is set again, once, in front of it.
 */
#ifndef MALLOW_TRAP_H
#define MALLOW_TRAP_H

#include "../base/base.h"
#include "../base/config.h"

struct trap {
    uintptr_t address;  /* what was accessed */
    uintptr_t pc;       /* by this instruction */
    const char *access; /* "read" or "write"; NULL where the CPU does not say */
#if MW_TAGS
    bool is_of_tag; /* the memory has another tag than the pointer, ... */
    unsigned tag;   /* which has this one; 0 if the kernel does not say it */
#endif
};

/* From now on `look` is called first; it returns if the address is none of its own. */
static void trap_watch(void (*look)(const struct trap *trap));

/* Called when a block loses its access: where a report is asked for, who replaced our handler since
 * `trap_watch` comes after it from now on, unless he hands on to it himself. Costs a system call until then. */
static COLD void trap_keep(void);

#endif
