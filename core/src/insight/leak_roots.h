/* SPDX-License-Identifier: MIT
 *
 * Where the leak check begins: the memory of the program, as the kernel lists it, without what is the allocator's.
 *
 *   private mappings   that can be written, or are of no file: globals of all modules, stacks, thread-local data, what
 *                      the program maps itself
 *   shared mappings    of memory: not of devices, nor of files on a disk
 *
 * What calls that have returned left below the calls of the thread that ends the program is no root.
 */
#ifndef MALLOW_LEAK_ROOTS_H
#define MALLOW_LEAK_ROOTS_H

#include "../thread/heaps.h"

struct leak_range {
    uintptr_t start;
    uintptr_t end;
};

struct leak_roots {
    struct leak_range *own; /* memory of the allocator */
    size_t own_count;
    size_t own_most;
    uintptr_t stack; /* from here upwards the calling thread's stack is the program's */
    size_t mappings; /* that were looked through */
    void *context;   /* of mark */
    void (*mark)(void *context, uintptr_t start, uintptr_t end);
};

/* Memory for a table; NULL if there is none. */
static void *leak_map(size_t count, size_t size);

/* Says how many ranges will be excluded at most. False if there is no memory for that. */
static bool leak_roots_open(struct leak_roots *roots, size_t ranges);

/* Memory that is the allocator's. */
static void leak_roots_exclude(struct leak_roots *roots, uintptr_t start, uintptr_t end);

/* Calls `mark` for all roots. The calling thread's stack is the program's from `stack` upwards. */
static void leak_roots_visit(struct leak_roots *roots, uintptr_t stack);

#endif
