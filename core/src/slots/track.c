/* SPDX-License-Identifier: MIT */
#include "track.h"

#include "../memory/meta.h"

#include <string.h>

/* --- Tables ----------------------------------------------------------------------------------- */

static struct lock track_tables_lock = LOCK_INITIALIZER(LOCK_TABLES);
static _Atomic(struct track_table *) track_tables;         /* all ever made; they are never freed */
static struct track_table *tables_unused[TABLE_SIZES + 8]; /* lock: tables; by log2 of their size */

#if MW_TRACK
static _Atomic(struct track_table *) *table_place(struct extent *extent)
{
    return &extent->tracks;
}
#else
static _Atomic(struct track_table *) *table_place(struct extent *extent)
{
    (void)extent;
    return &track_tables;
}
#endif

static struct track_table *track_table(struct extent *extent)
{
    return atomic_get_acquire(table_place(extent)); /* pairs with table_make */
}

static unsigned table_log2(uint32_t capacity)
{
    size_t size = sizeof(struct track_table) + capacity * sizeof(struct track);
    return floor_log2(size_max(size, CACHE_LINE) - 1) + 1;
}

static struct track_table *table_take_unused_locked(unsigned log2)
{
    struct track_table *table = tables_unused[log2];
    check(lock_is_mine(&track_tables_lock));
    if (table != NULL) {
        /* In a table that waits the first block is the link. */
        tables_unused[log2] = (struct track_table *)atomic_get(&table->tracks[0].inverted);
        atomic_set(&table->tracks[0].inverted, 0);
        for (uint32_t i = 0; i < table->capacity; i++) {
            if (atomic_get(&table->tracks[i].word) != TRACK_NONE) {
                atomic_set(&table->tracks[i].word, TRACK_NONE); /* of another extent's block */
            }
        }
    }
    return table;
}

static struct track_table *table_obtain_locked(uint32_t capacity)
{
    unsigned log2 = table_log2(capacity);
    check(log2 < array_count(tables_unused));
    struct track_table *table = table_take_unused_locked(log2);
    if (table != NULL) {
        return table;
    }
    table = meta_alloc_modestly((size_t)1 << log2);
    if (table != NULL) {
        table->capacity = (uint32_t)((((size_t)1 << log2) - sizeof *table) / sizeof(struct track));
        table->next = atomic_get(&track_tables);
        atomic_set_release(&track_tables, table); /* pairs with track_visit */
    }
    return table;
}

/* Where there is no memory for a new one. */
static struct track_table *table_take_larger_locked(uint32_t capacity)
{
    struct track_table *table = NULL;
    for (unsigned log2 = table_log2(capacity) + 1;
         table == NULL && log2 < array_count(tables_unused); log2++) {
        table = table_take_unused_locked(log2);
    }
    return table;
}

/* It waits for an extent that needs one of its size. */
static void table_put_locked(struct track_table *table)
{
    unsigned log2 = table_log2(table->capacity);
    check(lock_is_mine(&track_tables_lock));
    atomic_set(&table->tracks[0].word, TRACK_NONE);
    atomic_set(&table->tracks[0].inverted, (uintptr_t)tables_unused[log2]);
    tables_unused[log2] = table;
}

/* Whether a table has room for so many blocks; one block needs no table of a slab. */
static bool table_serves(const struct track_table *table, uint32_t capacity)
{
    return table != NULL && table->capacity >= capacity && (capacity > 1 || table->capacity == 1);
}

/* The table goes with the descriptor while that is used, from an extent to what is made of its pages: what it says of
 * earlier blocks does no harm, as these lay elsewhere or were of the same kind. An extent for one block changes a larger
 * one for one of its size, if there is memory for that. */
static COLD struct track_table *table_make(struct extent *extent, uint32_t capacity)
{
    lock_take(&track_tables_lock);
    struct track_table *old = atomic_get(table_place(extent));
    if (!table_serves(old, capacity)) {
        struct track_table *table = table_obtain_locked(capacity);
        if (table == NULL && (old == NULL || old->capacity < capacity)) {
            table = table_take_larger_locked(capacity);
        }
        if (table != NULL) {
            atomic_set_release(table_place(extent), table); /* pairs with track_table */
        }
        if (table != NULL && old != NULL) {
            table_put_locked(old);
        }
    }
    lock_release(&track_tables_lock);
    struct track_table *table = atomic_get(table_place(extent));
    return table != NULL && table->capacity >= capacity ? table : NULL;
}

/* Else slabs would need new tables, which stay for ever, while descriptors that nobody uses have some. */
static void track_drop_table(struct extent *extent)
{
    struct track_table *table = track_table(extent);
    if (table != NULL) {
        lock_take(&track_tables_lock);
        atomic_set(table_place(extent), NULL);
        table_put_locked(table);
        lock_release(&track_tables_lock);
    }
}

static void (*const descriptor_drops_tracks)(struct extent *extent) = track_drop_table;

static uint32_t track_index(struct extent *extent, const void *address)
{
    return extent_is_slab(extent) ? slab_index(extent, address) : 0;
}

static struct track *track_make(struct extent *extent, const void *block)
{
    uint32_t capacity = extent_is_slab(extent) ? extent->slab.capacity : 1;
    struct track_table *table = track_table(extent);
    if (unlikely(!table_serves(table, capacity))) {
        table = table_make(extent, capacity);
    }
    uint32_t index = track_index(extent, block);
    check(index < capacity);
    return table != NULL ? &table->tracks[index] : NULL;
}

static struct track *track_find(const void *block)
{
    struct extent *extent = pagemap_find(block);
    struct track_table *table = track_table(extent);
    if (unlikely(table == NULL)) {
        return NULL;
    }
    uint32_t index = track_index(extent, block);
    struct track *track = &table->tracks[index];
    bool is_known = index < table->capacity && track_block(track) == (uintptr_t)block;
    return likely(is_known) ? track : NULL;
}

static void track_prefetch(const void *block)
{
    struct extent *extent = pagemap_find(block);
    struct track_table *table = track_table(extent);
    if (likely(table != NULL)) {
        __builtin_prefetch(&table->tracks[track_index(extent, block)]);
    }
}

/* Whether a track of that number speaks of a block in the extent as it is now, and not of an earlier
 * use of the descriptor; and whether the block's slot, or its pages, reach to an address. */
static bool track_reaches(struct extent *extent, struct track *track, uint32_t index,
                          uintptr_t address)
{
    uint64_t word = atomic_get(&track->word);
    uintptr_t block = track_block(track);
    if (track_state(word) == TRACK_NONE || block < extent->start || block >= extent_end(extent)) {
        return false;
    }
    if (!extent_is_slab(extent)) {
        return true;
    }
    size_t slot_size = extent->slab.slot_size;
    uintptr_t start = block - track_front(word);
    uintptr_t end = size_max(start + slot_size, block + track_size(word) + 16);
    return slab_index(extent, (void *)block) == index && start >= extent->start &&
           (start - extent->start) % slot_size == 0 && start <= address && address < end;
}

/* Slots of a block may lie on both sides of the one that it begins in (common.h): the nearest block
 * that the program holds, or, if there is none, the nearest of those that it held. */
static struct track *track_find_around(struct extent *extent, const void *address)
{
    struct track_table *table = track_table(extent);
    if (table == NULL) {
        return NULL;
    }
    struct track *freed = NULL;
    uint32_t index = track_index(extent, address);
    uint32_t reach = extent_is_slab(extent) ? COMMON_SPAN_MAX : 1;
    for (uint32_t i = 0; i < 2 * reach; i++) {
        uint32_t at = i < reach ? index - i : index + (i - reach); /* below 0: beyond the table */
        struct track *track = at < table->capacity ? &table->tracks[at] : NULL;
        if (track == NULL || !track_reaches(extent, track, at, (uintptr_t)address)) {
            continue;
        }
        if (track_state(atomic_get(&track->word)) == TRACK_LIVE) {
            return track;
        }
        freed = freed == NULL ? track : freed;
    }
    return freed;
}

static void track_clear(struct track *track)
{
    atomic_set(&track->word, TRACK_NONE);
    atomic_set(&track->inverted, 0);
}

static void track_forget(struct extent *extent, const void *address)
{
    struct track_table *table = track_table(extent);
    if (!extent_is_slab(extent) && table != NULL) {
        track_clear(
            &table->tracks[0]); /* of another block, which the extent may reach when it grows */
    }
    struct track *track; /* several may have reached the address, one after the other */
    while ((track = track_find_around(extent, address)) != NULL) {
        track_clear(track);
    }
}

static bool track_visit(bool (*visit)(struct track *track, void *context), void *context)
{
    struct track_table *table =
        atomic_get_acquire(&track_tables); /* pairs with table_obtain_locked */
    for (; table != NULL; table = table->next) {
        for (uint32_t i = 0; i < table->capacity; i++) {
            if (track_state(atomic_get(&table->tracks[i].word)) != TRACK_NONE &&
                !visit(&table->tracks[i], context)) {
                return false;
            }
        }
    }
    return true;
}

/* --- Red zones -------------------------------------------------------------------------------- */

static struct zones track_zones(struct extent *extent, struct track *track)
{
    uint64_t word = atomic_get(&track->word);
    uintptr_t block = track_block(track);
    uintptr_t block_end = block + track_size(word);
    uintptr_t start, end;
    if (extent_is_slab(extent)) {
        start = block - track_front(word);
        end = start + slot_block_size(extent, (void *)start);
    } else {
        start = block & ~(uintptr_t)(os_page_size - 1);
        end = size_min(align_up(block_end, os_page_size), extent_end(extent));
    }
    check(start <= block && block_end <= end);
    return (struct zones){(unsigned char *)start, (unsigned char *)block,
                          (unsigned char *)block_end, (unsigned char *)end};
}

static void track_describe(struct track *track, struct fault *fault, char *who)
{
    static const char *const made[] = {"malloc", "new", "new[]", "aligned"};
    uint64_t word = atomic_get(&track->word);
    uint32_t allocated_by = atomic_get(&track->allocated_thread);
    uint32_t freed_by = atomic_get(&track->freed_thread);
    bool is_live = track_state(word) == TRACK_LIVE;
    fault->block = track_block(track);
    fault->size = track_size(word);
    fault->state = is_live ? "live" : "freed";
    fault->made = made[track_made(word)];
    fault->allocated = calls_kept(atomic_get(&track->allocated_stack));
    fault->allocated.thread = allocated_by;
    if (!is_live) {
        fault->freed = calls_kept(atomic_get(&track->freed_stack));
        fault->freed.thread = freed_by;
    }
    blame_who(fault, who);
}

static COLD void track_overflow(struct track *track, const struct zones *zones, const char *call,
                                uintptr_t caller)
{
    struct fault fault = {.call = call, .pointer = zones->block, .caller = caller};
    char who[BLAME_WHO];
    track_describe(track, &fault, who);
    fault.state = "live";
    blame_zones(&fault, who, zones);
}

static void track_check_zones(struct track *track, const struct zones *zones, const char *call,
                              uintptr_t caller)
{
    /* Of a block that another thread has freed meanwhile the zones may be gone: who frees it now finds that out. */
    if (unlikely(!zones_are_whole(zones)) &&
        track_state(atomic_get_ordered(&track->word)) == TRACK_LIVE) {
        track_overflow(track, zones, call, caller);
    }
}

/* --- Faults ----------------------------------------------------------------------------------- */

static COLD NO_RETURN void track_written(const char *call, const struct slot *slot, size_t size,
                                         struct written written)
{
    const unsigned char *byte = (const unsigned char *)slot + written.at;
    struct fault fault = {.kind = FAULT_WRITE_AFTER_FREE, .call = call, .pointer = byte};
    struct track *track = track_find_around(pagemap_find(slot), byte);
    fault.has_offset = true;
    fault.length = written.length;
    if (track == NULL) {
        fault.block = (uintptr_t)slot;
        fault.size = size;
        fault.offset = (long)written.at;
        fault_report(&fault, "write after free: byte %zu of %p (%zu bytes) is 0x%x", written.at,
                     (const void *)slot, size, *byte);
    }
    char who[BLAME_WHO];
    track_describe(track, &fault, who);
    fault.state = "freed";
    fault.offset = (long)((uintptr_t)byte - fault.block);
    fault_report(&fault, "write after free: byte %ld of %p (%zu bytes%s) is 0x%x", fault.offset,
                 (void *)fault.block, fault.size, who, *byte);
}

static void (*const harden_written)(const char *, const struct slot *, size_t,
                                    struct written) = track_written;

static COLD void track_bad_pointer(const char *call, const void *pointer, struct extent *around,
                                   uintptr_t caller)
{
    struct track *track = around != NULL ? track_find_around(around, pointer) : NULL;
    if (track == NULL) {
        return;
    }
    struct fault fault = {.call = call, .pointer = pointer, .caller = caller};
    char who[BLAME_WHO];
    track_describe(track, &fault, who);
    blame_pointer(&fault, who);
}

/* --- Threads ---------------------------------------------------------------------------------- */

static THREAD_LOCAL uint32_t track_thread;

static uint32_t track_thread_number(void)
{
    if (unlikely(track_thread == 0)) {
        track_thread = (uint32_t)libc_thread_number();
    }
    return track_thread;
}

static void track_forget_thread(void)
{
    track_thread = 0;
}

static void track_set_allocated(struct track *track, uint32_t stack)
{
    atomic_set(&track->allocated_stack, stack);
    atomic_set(&track->allocated_thread, track_thread_number());
}

static void track_set_size(struct track *track, size_t size)
{
    uint64_t word = atomic_get(&track->word);
    atomic_set_release(&track->word, (word & 0xffff) | (uint64_t)size << 16);
}
