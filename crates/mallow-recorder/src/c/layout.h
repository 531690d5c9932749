/* SPDX-License-Identifier: MIT
 *
 * What the recorder in a program and the collector share: one memory file of the collector's, which
 * begins with `struct control` and goes on with a slot for each thread.
 *
 *   | control | slot 0: ring header, words | slot 1: … |
 *
 * A slot is a ring with one writer, its thread, and one reader, the collector. A slot goes
 * FREE -> BUSY (a thread takes it) -> READY (it writes) -> FREE (the thread is gone, as the
 * collector sees in /proc, and everything is read). The thread does nothing at its end, so its last
 * frees are seen too, and it may be killed at any moment.
 *
 * `src/layout.rs` says the same in Rust; its tests compare the two.
 */
#ifndef RECORDER_LAYOUT_H
#define RECORDER_LAYOUT_H

#include <base/base.h>

#include <stdatomic.h>

#define LAYOUT_MAGIC 0x314d524du /* "MRM1" */
#define SLOT_COUNT 4096
#define RING_HEADER 8192

enum stack_mode { STACKS_NONE, STACKS_FP, STACKS_COPY };
enum when_full { FULL_WAIT, FULL_DROP };
enum clock_mode { CLOCK_COUNTER, CLOCK_SYSTEM };
enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY };

struct control {
    /* const after init, written by the collector */
    uint32_t magic;
    uint32_t ring_words; /* a power of two */
    uint32_t stacks;
    uint32_t when_full;
    uint32_t clock;
    uint32_t copy_bytes;             /* of stack, at most, in STACKS_COPY */
    _Atomic uint64_t stack_distance; /* raised by the collector while unwinding takes too long */
    uint64_t first_slot;             /* offset in the file */
    uint64_t slot_size;

    _Alignas(
        CACHE_LINE) _Atomic uint32_t bell; /* futex: rung by threads, waited for by the collector */
    _Atomic uint32_t is_waiting;           /* set before a wait, cleared by who rings */
    _Atomic uint32_t beat;                 /* changes while the collector lives */
    _Atomic uint32_t is_closed;            /* the collector has ended */
    _Atomic uint32_t lost_threads;         /* for which there was no slot */
    _Atomic uint32_t slots_used;           /* those above were never taken */
    _Atomic uint32_t programs;             /* that have found this memory */

    _Alignas(CACHE_LINE) _Atomic uint32_t states[SLOT_COUNT];
};

struct ring {
    _Atomic uint64_t head;                       /* words written; owner thread */
    _Atomic uint64_t dropped;                    /* calls that found no room; owner thread */
    _Alignas(CACHE_LINE) _Atomic uint64_t tail;  /* words read; collector */
    _Alignas(CACHE_LINE) uint64_t previous[256]; /* the last stack sent, outermost first; owner */
    uint64_t previous_count;
    uint64_t has_codes;
    uint64_t codes[512]; /* of scripts, that the collector knows of; owner */
};

static_assert(sizeof(struct ring) <= RING_HEADER, "the words begin behind the header");

/* A message is a word `time << 8 | kind`, and what follows by kind:
 *
 * a call (kind is the number of its Op): address << 16 | size, or 0xffff for size, and the size in
 *     a word of its own; then the alignment if the function takes one; then, for a realloc, the old
 *     address and the time (in clock ticks) between its begin and its end.
 * the others: see below. Texts and bytes are padded to words. */
enum message {
    OP_MALLOC,
    OP_CALLOC,
    OP_REALLOC,
    OP_REALLOCARRAY,
    OP_POSIX_MEMALIGN,
    OP_ALIGNED_ALLOC,
    OP_MEMALIGN,
    OP_VALLOC,
    OP_PVALLOC,
    OP_NEW,
    OP_NEW_ARRAY,
    OP_NEW_NOTHROW,
    OP_NEW_ARRAY_NOTHROW,
    OP_NEW_ALIGNED,
    OP_NEW_ARRAY_ALIGNED,
    OP_NEW_ALIGNED_NOTHROW,
    OP_NEW_ARRAY_ALIGNED_NOTHROW,
    OP_FREE,
    OP_CFREE,
    OP_FREE_SIZED,
    OP_FREE_ALIGNED_SIZED,
    OP_DELETE,
    OP_DELETE_ARRAY,
    OP_DELETE_SIZED,
    OP_DELETE_ARRAY_SIZED,
    OP_DELETE_NOTHROW,
    OP_DELETE_ARRAY_NOTHROW,
    OP_DELETE_ALIGNED,
    OP_DELETE_ARRAY_ALIGNED,
    OP_DELETE_SIZED_ALIGNED,
    OP_DELETE_ARRAY_SIZED_ALIGNED,
    OP_DELETE_ALIGNED_NOTHROW,
    OP_DELETE_ARRAY_ALIGNED_NOTHROW,

    MESSAGE_THREAD = 64,  /* pid << 32 | tid, image, two words of name */
    MESSAGE_PROCESS,      /* length, image, parent image or 0, pid << 32 | parent pid, text:
                            allocator NUL executable NUL command words, each with NUL. Comes
                            before the first MESSAGE_THREAD of the image */
    MESSAGE_MAP,          /* length, text: a line of /proc/PID/maps */
    MESSAGE_STACK,        /* fresh | common << 16, then the fresh frames, innermost first. The
                             `common` outermost ones are those of the thread's stack before. It
                             belongs to the call that follows */
    MESSAGE_STACK_COPY,   /* length, ip, sp, fp, the mean distance in bytes between such copies,
                            then the bytes from sp on. Belongs likewise */
    MESSAGE_MARKER,       /* length, text */
    MESSAGE_MAPS_CHANGED, /* a library was unloaded */
    MESSAGE_SCRIPT_CODE,  /* length, key, script_part | bytes of a character << 8, first line, then
                            the bytes */
    MESSAGE_SCRIPT, /* count, address of the function that evaluates, then SCRIPT_WORDS a frame,
                            innermost first: key; instruction and perhaps SCRIPT_ENTRY; of an entry,
                            which frame of C runs it: 1 + its number in a MESSAGE_STACK, an address
                            in the stack of a MESSAGE_STACK_COPY, 0: not known. It belongs to the
                            stack that follows */
};

/* The table is Python's, which tells lines. Texts with 0 bytes a character are UTF-8. */
enum script_part { SCRIPT_FILE, SCRIPT_NAME, SCRIPT_TABLE };

#define SCRIPT_WORDS 3
/* The outermost frame of those that one call of the evaluating function runs. */
#define SCRIPT_ENTRY ((uint64_t)1 << 32)
/* The place is a line, of Ruby's; else an instruction of Python's. */
#define SCRIPT_IS_LINE ((uint64_t)1 << 33)

#define SIZE_FOLLOWS 0xffffu
#define CALL_WORDS 6 /* at most */
#define STACK_LIMIT 128

#endif
