/* SPDX-License-Identifier: MIT
 *
 * What the heap holds, in numbers, gathered by walking over all extents when somebody asks: no
 * counter is kept for it on any path. While other threads work the numbers are a moment's.
 */
#ifndef MALLOW_REPORT_H
#define MALLOW_REPORT_H

#include "../api/alloc.h"

/* Bytes unless the name says otherwise. */
struct usage {
    size_t region_bytes;    /* address space in regions */
    size_t slab_bytes;      /* in slabs */
    size_t slab_used_bytes; /* in slots that the program, or another thread's list, holds */
    size_t free_slots;      /* count */
    size_t large_bytes;     /* in large blocks, without huge ones */
    size_t large_count;
    size_t huge_bytes;
    size_t huge_count;
    size_t huge_free_bytes; /* kept for the next huge block */
    size_t cached_bytes;    /* in the stacks of heaps */
    size_t dirty_bytes;     /* free, resident; huge ones included */
    size_t muzzy_bytes;
    size_t retained_bytes;
    size_t free_extents; /* count */
    size_t metadata_bytes;
};

/* Needs no memory, unlike the statistics (stats.h), whose figures it must agree with: mallinfo2 cannot fail. */
static struct usage usage_now(void);

/* Tells of blocks that nothing points to. */
static void (*const leak_check_at_exit)(void);

#endif
