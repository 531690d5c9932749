/* SPDX-License-Identifier: MIT
 *
 * Memory tags (Arm's MTE), which the secure build uses on aarch64 CPUs that have them, with memory_tags:true. Each granule of 16 bytes
 * has a tag, 0 to 15, and so has each pointer, in bits 56 to 59; an access by a pointer with another tag than the
 * memory traps (SIGSEGV with SEGV_MTESERR).
 *
 *     memory                                     its tag
 *     ------------------------------------------------------------------------------------------------
 *     granules with bytes of a block of a slab   chance, but not 0, nor that of the blocks beside it
 *     all other memory of ours                   0
 *
 * So only the outermost functions know of tags (entry/shim_tags.c): a block gets its tag when all else is done
 * with it, and has none any more before anything else is done with it. All pointers inside of the allocator
 * have tag 0. It looks at blocks of the program with them too, as at the canary in front of a slot: while
 * the program is in a call that gives, takes or measures blocks its thread's accesses are not checked
 * (PSTATE.TCO), nor while statistics walk along the lists of other threads.
 *
 * A thread has tags switched on by prctl, and those that it starts inherit that. So there are none in a process
 * that has several threads when Mallow is loaded: a system call of the others would refuse such a pointer.
 */
#ifndef MALLOW_TAGS_H
#define MALLOW_TAGS_H

#include "../base/check.h"
#include "../base/config.h"
#include "os.h"

#define TAG_GRANULE 16u
#define TAG_SHIFT 56
#define TAG_MASK 15u
#define TOP_BYTE ((uintptr_t)0xff << TAG_SHIFT)

/* At the start of the process, before memory is mapped: tags are on from now on if the CPU and the kernel have them. */
static void tags_load(void);

/* Whether blocks that are given from now on have tags. */
ALWAYS_INLINE bool tags_are_on(void)
{
    return MW_TAGS && os_maps_tagged;
}

ALWAYS_INLINE unsigned pointer_tag(const void *pointer)
{
    return (unsigned)((uintptr_t)pointer >> TAG_SHIFT) & TAG_MASK;
}

ALWAYS_INLINE void *pointer_with_tag(const void *pointer, unsigned tag)
{
    return (void *)(((uintptr_t)pointer & ~TOP_BYTE) | (uintptr_t)tag << TAG_SHIFT);
}

#if MW_TAGS
/* As numbers, for registers 0 and 1: an assembler takes the names only if it makes all of the file for such a CPU. */
#define STG ".inst 0xd9200800"  /* stg x0, [x0] */
#define ST2G ".inst 0xd9a00800" /* st2g x0, [x0]: two granules */
#define LDG ".inst 0xd9600000"  /* ldg x0, [x0] */
#define IRG ".inst 0x9ac11000"  /* irg x0, x0, x1 */
#define TCO "S3_3_C4_C2_7"
#define TCO_SET ((uint64_t)1 << 25)

/* Gives a range of granules the tag of the pointer. Where the memory has no tags nothing happens. */
ALWAYS_INLINE void tags_set(void *pointer, size_t size)
{
    register uintptr_t at __asm__("x0") = (uintptr_t)pointer;
    check((at | size) % TAG_GRANULE == 0);
    for (; size >= 2 * TAG_GRANULE; size -= 2 * TAG_GRANULE, at += 2 * TAG_GRANULE) {
        __asm__ volatile(ST2G : : "r"(at) : "memory");
    }
    if (size != 0) {
        __asm__ volatile(STG : : "r"(at) : "memory");
    }
}

/* The tag of the memory at an address that may be read; 0 where it has none. */
ALWAYS_INLINE unsigned tag_at(const void *address)
{
    register uintptr_t pointer __asm__("x0") = (uintptr_t)address;
    __asm__ volatile(LDG : "+r"(pointer) : : "memory");
    return pointer_tag((void *)pointer);
}

/* Any tag but those of a set, a bit each. */
ALWAYS_INLINE unsigned tag_draw(unsigned excluded)
{
    register uintptr_t pointer __asm__("x0") = 0;
    register uintptr_t without __asm__("x1") = excluded;
    __asm__ volatile(IRG : "+r"(pointer) : "r"(without));
    return pointer_tag((void *)pointer);
}

/* From here to tags_check_again, with what this returned, the thread's accesses are not checked. */
ALWAYS_INLINE uint64_t tags_ignore(void)
{
    uint64_t before = 0;
    if (tags_are_on()) {
        __asm__ volatile("mrs %0, " TCO : "=r"(before) : : "memory");
        __asm__ volatile("msr " TCO ", %0" : : "r"(TCO_SET) : "memory");
    }
    return before;
}

ALWAYS_INLINE void tags_check_again(uint64_t before)
{
    if (tags_are_on()) {
        __asm__ volatile("msr " TCO ", %0" : : "r"(before) : "memory");
    }
}
#else
ALWAYS_INLINE void tags_set(void *pointer, size_t size)
{
    (void)pointer, (void)size;
}

ALWAYS_INLINE unsigned tag_at(const void *address)
{
    (void)address;
    return 0;
}

ALWAYS_INLINE unsigned tag_draw(unsigned excluded)
{
    (void)excluded;
    return 0;
}

ALWAYS_INLINE uint64_t tags_ignore(void)
{
    return 0;
}

ALWAYS_INLINE void tags_check_again(uint64_t before)
{
    (void)before;
}
#endif

#endif
