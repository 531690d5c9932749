/* SPDX-License-Identifier: MIT
 *
 * What another process needs in order to read this one's heap from outside, through
 * /proc/PID/mem, without stopping it and without calling into it. Nothing is copied into the page
 * and no path keeps it up to date: it is constant, and says where the counters and descriptors are
 * that the allocator keeps for itself, and how they are laid out.
 *
 * How to find it: the symbol mw_stats_page of the object that serves malloc; in a program without
 * symbols, the bytes of STATS_PAGE_MAGIC at a multiple of 16 in its read-only data, where `self`
 * is their address.
 *
 * How to read it: by the names in the tables, never by a layout of one's own. Version 1 had no lines
 * and no counters. Version 2 means:
 *
 *   arena       `arenas` is an array of `arenas_used` elements of the size in `sizeof.arena`; the
 *               counters in it hold together while `arena.lock_state` is 0 and `arena.lock_turns`
 *               is the same before and after (each holder of the lock adds 1)
 *   extents     region by region: the page map gives the descriptor of the first page, its `pages`
 *               where the next one begins. A word of the page map is a distance from `pagemap`, 0
 *               means nothing: root[address >> root_shift] leads to a leaf, and the word there
 *               with the index (address >> granule_shift) & leaf_mask to the descriptor; of that
 *               sum the low 48 bits count
 *   slab        an active extent whose `slot_size` is not 0. `left` + `bias` slots are out, of
 *               which `remote` >> remote_count_shift are freed by others and not yet collected
 *   heap        `heaps` is the first of a list. The slots in `free`[class] are out of their slabs
 *               but not with the program; so are those of an outbox, and in the secure build so many
 *               bytes of slots as `delayed_bytes` says, which wait after they were freed
 *   length      `rooms` of a heap, signed, from `small_classes` on: minus the length of the list. There is
 *               no need to follow such a list, whose slots the program may be writing to by now. From
 *               `classes` to `lists` it is one of blocks of pages, which their arena counts as the
 *               program's; with `link_keys` they count as cached
 *   link        the first word of a slot in a list is the address of the next; where the page has
 *               `link_keys`, two words k and o, it is that address ^ ((slot ^ k) * o)
 *   cached      pages in the stacks of heaps: free, though the arena counts them as active
 *   counters    `counts` and `puts` of a heap are arrays of `classes` elements. The program was given
 *               handed + puts - returned blocks of a class, less the length of the list. `large_counts`, by
 *               page class, are large blocks that were given past the lists; `puts` and `free` go on to `lists`
 *               elements with block classes, and puts less the length of the list were given from there.
 *               `purge_counts` and `lock` lie in an arena where the fields say, `class_sizes` are
 *               `lists` numbers of 4 bytes. The figures of all heaps, with `heap_shared`, make up the sum
 *   option      fields of what `options` leads to, signed: the values that hold now
 *   limit       `limit.hard_pages` and `limit.soft_pages` are what memory_limit and memory_soft_limit
 *               come to now, in pages; all bits are set where there is no limit
 *   lines       the figures of stats.def, by name: what mw_stats_each of the process would show
 */
#ifndef MALLOW_STATS_PAGE_H
#define MALLOW_STATS_PAGE_H

#include <stdint.h>

#define STATS_PAGE_MAGIC "mallow:stats:2\n" /* 16 bytes with the final zero */
#define STATS_PAGE_VERSION 2
#define STATS_NAME_SIZE 24

/* A place in memory. */
struct stats_root {
    char name[STATS_NAME_SIZE];
    const void *address;
};

/* A number that says how to read. */
struct stats_number {
    char name[STATS_NAME_SIZE];
    uint64_t value;
};

/* A field of a structure; `size` is that of an element where the field is an array. The field
 * "sizeof.x" has offset 0 and the size of the whole structure. */
struct stats_field {
    char name[STATS_NAME_SIZE];
    uint32_t offset;
    uint32_t size;
};

/* A line of stats.def. */
struct stats_line {
    char name[STATS_NAME_SIZE];
    char unit[16];
    char level[8]; /* "process", "arena", "class", "large", "extent", "heap", "lock" */
    char type[8];  /* "COUNTER", "GAUGE", "PEAK", "FACT" */
};

struct stats_page {
    char magic[16];
    uint32_t version;
    uint32_t size; /* of this structure */
    const struct stats_page *self;
    char build[STATS_NAME_SIZE]; /* "0.1.0 fast" */
    const struct stats_root *roots;
    const struct stats_number *numbers;
    const struct stats_field *fields;
    uint32_t root_count;
    uint32_t number_count;
    uint32_t field_count;
    uint32_t line_count;
    const struct stats_line *lines;
};

#endif
