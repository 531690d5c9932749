/* SPDX-License-Identifier: MIT */
#include "quarantine.h"

#define WEIGHT_SHIFT 48
#define WEIGHT_UNIT 16u
#define WEIGHT_MAX ((size_t)0xffff * WEIGHT_UNIT)

static uintptr_t entry_block(uint64_t entry)
{
    return entry & (((uint64_t)1 << WEIGHT_SHIFT) - 1);
}

static size_t entry_bytes(uint64_t entry)
{
    return (size_t)(entry >> WEIGHT_SHIFT) * WEIGHT_UNIT;
}

/* Not all places are used from the start: the oldest of a few thousand blocks would go through all of them, and each page
 * of a ring of 2 MiB would have memory. */
#define PLACES_AT_FIRST ((size_t)512)
static_assert(PLACES_AT_FIRST <= QUARANTINE_BLOCKS, "the ring has them");

/* The place of the i-th block. */
static uint64_t *quarantine_place(size_t i)
{
    return &quarantine.ring[(quarantine.first + i) & (quarantine.places - 1)];
}

/* All places are taken: twice as many. Those in front of the oldest follow behind. */
static void quarantine_widen_locked(void)
{
    size_t places = quarantine.places;
    check(quarantine.count == places && places < QUARANTINE_BLOCKS);
    memcpy(quarantine.ring + places, quarantine.ring, quarantine.first * sizeof *quarantine.ring);
    quarantine.places = 2 * places;
}

static bool quarantine_put_locked(uintptr_t block, size_t bytes)
{
    check(lock_is_mine(&quarantine.lock));
    if (unlikely(quarantine.count == QUARANTINE_BLOCKS)) {
        return false; /* the kernel does not open those that should have left */
    }
    if (unlikely(quarantine.ring == NULL)) {
        quarantine.ring =
            os_map(NULL, align_up(QUARANTINE_BLOCKS * sizeof *quarantine.ring, os_page_size));
        if (quarantine.ring == NULL) {
            return false;
        }
        quarantine.places = PLACES_AT_FIRST;
    }
    if (unlikely(quarantine.count == quarantine.places)) {
        quarantine_widen_locked();
    }
    uint64_t weight = align_up(size_min(bytes, WEIGHT_MAX), WEIGHT_UNIT) / WEIGHT_UNIT;
    *quarantine_place(quarantine.count) = (uint64_t)block | weight << WEIGHT_SHIFT;
    quarantine.bytes += weight * WEIGHT_UNIT;
    quarantine.count++;
    return true;
}

/* So many blocks ahead is asked for what a block that leaves will be looked at by. */
#define LEAVES_AFTER 4u

static uintptr_t quarantine_take_locked(size_t limit)
{
    check(lock_is_mine(&quarantine.lock));
    bool is_full = quarantine.count >= QUARANTINE_BLOCKS - 1; /* a place for the next */
    if (quarantine.count == 0 || (quarantine.bytes <= limit && !is_full)) {
        return 0;
    }
    uint64_t entry = *quarantine_place(0);
    quarantine.first = (quarantine.first + 1) & (quarantine.places - 1);
    quarantine.count--;
    check(quarantine.bytes >= entry_bytes(entry));
    quarantine.bytes -= entry_bytes(entry);
    check(quarantine.count != 0 || quarantine.bytes == 0);
    if (quarantine.count > LEAVES_AFTER) { /* it has lain there so long that no cache has it */
        uint64_t later = *quarantine_place(LEAVES_AFTER);
        __builtin_prefetch((void *)entry_block(later));
        track_prefetch((void *)entry_block(later));
    }
    return entry_block(entry);
}

static void quarantine_check_locked(void)
{
    check(lock_is_mine(&quarantine.lock));
    for (size_t i = 0; i < quarantine.count; i++) {
        uint64_t entry = *quarantine_place(i);
        uintptr_t block = entry_block(entry);
        struct extent *extent = pagemap_find((void *)block);
        struct track *track = track_find((void *)block);
        require(track != NULL && track_state(atomic_get(&track->word)) == TRACK_FREED);
        if (extent_is_slab(extent)) {
            uintptr_t start = track_slot_start(track);
            size_t size = slot_block_size(extent, (void *)start);
            if (unlikely(fill_differs((const unsigned char *)start, size, FILL_FREE) != size)) {
                const struct slot *slot = (const struct slot *)start;
                harden_written("sweep", slot, size, slot_find_written(slot, size));
            }
        }
    }
}
