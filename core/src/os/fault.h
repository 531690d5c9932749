/* SPDX-License-Identifier: MIT
 *
 * The end of a program that misuses memory: one sentence to standard error, and for programs that
 * read it a report (docs/fault-report.md), which goes to the file that the environment variable
 * MALLOW_FAULT_REPORT names. Every detection ends here.
 *
 * Nothing here allocates or takes a lock, so a report also comes from a signal handler, from the
 * child of a fork and under any lock. Memory that the report shows is read by the kernel, which
 * answers where a read of ours would trap.
 */
#ifndef MALLOW_FAULT_H
#define MALLOW_FAULT_H

#include "../../include/mallow.h"
#include "log.h"

enum fault_kind {
    FAULT_DOUBLE_FREE,
    FAULT_INTERIOR_FREE,
    FAULT_MISALIGNED_FREE,
    FAULT_INVALID_FREE,
    FAULT_FOREIGN_FREE,
    FAULT_OVERFLOW,
    FAULT_UNDERFLOW,
    FAULT_WRITE_AFTER_FREE,
    FAULT_READ_AFTER_FREE,
    FAULT_OUT_OF_BOUNDS,
    FAULT_SIZE_MISMATCH,
    FAULT_ALIGNMENT_MISMATCH,
    FAULT_KIND_MISMATCH,
    FAULT_DAMAGED_LIST,
    FAULT_OUT_OF_MEMORY,
    FAULT_BROKEN,
    FAULT_MISUSE,
    FAULT_LEAK,
    FAULT_KINDS
};

/* The most calls of a stack that a report shows. */
#define FAULT_FRAMES 64u

/* Return addresses, innermost first. */
struct fault_stack {
    uint32_t thread; /* its number; 0: not known */
    uint32_t count;
    const uintptr_t *frames;
};

/* What is known; the rest is 0. */
struct fault {
    enum fault_kind kind;
    const char *call;    /* the function that the program called; "access", "sweep", "exit" */
    const void *pointer; /* what it was called with, or what was accessed */
    uintptr_t block;     /* the block that it is about */
    size_t size;         /* of the block, as the program asked for it */
    const char *state;   /* "live" or "freed" */
    const char *made;    /* "malloc", "new", "new[]", "aligned" */
    bool has_offset;
    long offset;            /* of the damage, or of the pointer, in the block */
    size_t length;          /* bytes that are damaged */
    const char *access;     /* "read" or "write" */
    uintptr_t pc;           /* the instruction that trapped */
    uintptr_t caller;       /* the return address of the program's call: the stack begins there */
    struct fault_stack now; /* where it is known; else it is walked */
    struct fault_stack allocated;
    struct fault_stack freed;
};

/* Writes the report, prints the sentence for a reader who may not be there, and ends the program. Of several threads
 * that come here at once one speaks. */
_Noreturn static COLD PRINTF_LIKE(2, 3) void fault_report(const struct fault *fault,
                                                          const char *format, ...);

/* The same, but with the option misuse:continue it returns: for what has done
 * no harm so far. */
static COLD PRINTF_LIKE(2, 3) void fault_tell(const struct fault *fault, const char *format, ...);

/* What a report says of a block that the program holds. */
static struct fault fault_of_live(const char *call, const void *block, size_t size);

/* Whether fault_tell returns. */
static void fault_set_goes_on(bool goes_on);

/* Called once a fault is told: mw_set_misuse_handler. */
static mw_misuse_handler fault_set_handler(mw_misuse_handler handler);

/* Whether the calling thread tells of a fault: it may hold locks that it will
 * never release. */
static bool fault_is_told_here(void);

/* The file of an address, found among the lines of /proc/self/maps. */
struct place {
    uintptr_t address;
    uintptr_t offset; /* in the file */
    char file[128];   /* the end of its path; "": none */
};

static struct place fault_place_of(uintptr_t address);

/* Whether somebody waits for a report: MALLOW_FAULT_REPORT is set. */
static bool fault_is_reported(void);

/* The same as fault_report with nothing known but the kind, the call and the
 * pointer. */
_Noreturn static COLD PRINTF_LIKE(4, 5) void fault_simple(enum fault_kind kind, const char *call,
                                                          const void *pointer, const char *format,
                                                          ...);

/* A report of several parts, for what does not end the program at once: false if none is wanted. */
static bool fault_open(const struct fault *fault, const char *sentence, struct sink *sink);
static void fault_close(struct sink *sink);
static void fault_put_frames(struct sink *sink, const struct fault_stack *stack);

/* A stack for people: a line for each call, with the file that it is in and where there. */
static void fault_put_places(struct sink *sink, const struct fault_stack *stack);

/* In the child of a fork: another thread that told of a fault does not exist here, and its report is closed. */
static void fault_in_child(void);

/* The file that reports go to, from the environment. */
static void fault_load(void);

/* Walks the stack of the calling thread: the return addresses, innermost first. What lies above in
 * the layers says how. */
static size_t (*const fault_capture)(uintptr_t *frames, size_t most);

#endif
