/* SPDX-License-Identifier: MIT
 *
 * The words of the fault suite. A case is one fault by one program: `driver FAULT ENTRY SIZE THREAD`
 * (cases.txt lists them). Each program goes the same way:
 *
 *   stage    allocate the block under test between neighbours of its size, and fill all of them
 *   prepare  what leads to the fault and is no fault, such as the first of two frees
 *   commit   the fault itself
 *   go on    what a program does afterwards: allocate, use and free blocks of that size, then free
 *            what it holds and end with 0
 *
 * Apart from its fault a program is clean, so whatever ends it was caused by the fault. What it can
 * see of the damage it prints: an allocator that stays silent about a damage did worse than one
 * that made the fault harmless.
 */
#ifndef FAULT_SUITE_H
#define FAULT_SUITE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    BEFORE = 4, /* neighbours allocated before the block ... */
    NEIGHBOURS = 8,
    MARK_NEIGHBOUR = 'n',
    MARK_BLOCK = 's', /* a secret, for faults that read */
    MARK_FAULT = 0x7e,
};

/* A way to allocate and the release that fits it. */
struct entry {
    const char *name;
    void *(*allocate)(size_t size);
    void (*release)(void *block, size_t size);
};

struct scene {
    const struct entry *entry;
    size_t size;
    unsigned char *block; /* NULL: nothing is left to free */
    unsigned char *stale; /* what `block` was, where a fault has let go of it or moved it */
    unsigned char *neighbours[NEIGHBOURS];
    bool is_damaged; /* the fault saw what it must not see, or changed what is another's */
};

struct fault {
    const char *name;
    void (*prepare)(struct scene *scene); /* NULL: nothing to prepare */
    void (*commit)(struct scene *scene);
    /* Not about a block: there is no stage, and the program ends at once. */
    bool is_alone;
};

/* Ending with a name of NULL. */
extern const struct entry entries[];
extern const struct fault bounds_faults[];
extern const struct fault use_faults[];
extern const struct fault free_faults[];
extern const struct fault request_faults[];

const struct entry *entry_named(const char *name);

/* The same pointer, of which the compiler knows nothing. */
void *opaque(void *pointer);

/* Allocates with the entry. Where that is refused (some allocators take aligned_alloc's size only in
 * multiples of the alignment), the case is absent. */
void *allocate(const struct entry *entry, size_t size);

/* Fills a block; of a large one its first and its last page, so that a case takes no second. */
void fill(unsigned char *block, size_t size, int mark);
bool is_filled(const unsigned char *block, size_t size, int mark);

/* Allocates, uses and frees `rounds` blocks. Ends the program as damaged where two live blocks
 * overlap. */
void churn(const struct scene *scene, size_t rounds);

/* Says how the program ended for itself, and ends it. */
_Noreturn void end_damaged(const char *how);
_Noreturn void end_refused(void);
_Noreturn void end_absent(const char *what);

/* Allocation functions that glibc has not in every version: without them the case is absent. */
void free_sized_or_absent(void *block, size_t size);
void free_aligned_sized_or_absent(void *block, size_t alignment, size_t size);

/* The operators of C++ by their names in object files, so that one program in C calls all. */
void *_Znwm(size_t size) __attribute__((weak)); /* new */
void *_Znam(size_t size) __attribute__((weak)); /* new[] */
void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag) __attribute__((weak));
void *_ZnwmSt11align_val_t(size_t size, size_t alignment) __attribute__((weak));
void *_ZnamSt11align_val_t(size_t size, size_t alignment) __attribute__((weak));
void _ZdlPv(void *block) __attribute__((weak));               /* delete */
void _ZdaPv(void *block) __attribute__((weak));               /* delete[] */
void _ZdlPvm(void *block, size_t size) __attribute__((weak)); /* sized delete */
void _ZdaPvm(void *block, size_t size) __attribute__((weak));
void _ZdlPvSt11align_val_t(void *block, size_t alignment) __attribute__((weak));
void _ZdaPvSt11align_val_t(void *block, size_t alignment) __attribute__((weak));
void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment) __attribute__((weak));

#endif
