/* SPDX-License-Identifier: MIT */
#include "trapped.h"

#include "../os/tags.h"
#include "blame.h"
#include "canary.h"
#include "hollow.h"

/* Whether an address lies between the guards of a block, or in them. */
static bool block_spans(struct extent *extent, uintptr_t address)
{
    const struct fence *fence = extent_fence(extent);
    uintptr_t start = extent->start - ((uintptr_t)fence->front << os_page_shift);
    uintptr_t end = extent->start + extent_size(extent) + ((uintptr_t)fence->tail << os_page_shift);
    return address >= start && address < end;
}

/* The page map knows the first and the last granule of a block, and none of its guards. Those in front of an aligned
 * block may be more than are looked through: farther away nobody is named. */
static struct extent *block_with_guard_at(uintptr_t address)
{
    const uintptr_t most = (uintptr_t)FENCE_FRONT_MOST << os_page_shift;
    for (uintptr_t distance = GRANULE; distance <= most; distance += GRANULE) {
        const uintptr_t places[] = {address - distance, address + distance};
        for (size_t i = 0; i < 2; i++) {
            struct extent *extent = pagemap_find((void *)places[i]);
            if (extent_has_fence(extent) && extent_state(extent) == EXTENT_ACTIVE &&
                !extent_is_slab(extent) && block_spans(extent, address)) {
                return extent;
            }
        }
    }
    return NULL;
}

/* Another thread may be at the quarantine: then what is read there may be a block that has just left. */
static struct extent *block_waiting_at(uintptr_t address)
{
    const uint64_t *ring = quarantine.ring;
    for (size_t i = 0; ring != NULL && i < QUARANTINE_BLOCKS; i++) {
        struct extent *extent = pagemap_find((void *)entry_block(ring[i]));
        if (extent_has_fence(extent) && extent_state(extent) == EXTENT_MOVING &&
            block_spans(extent, address)) {
            return extent;
        }
    }
    return NULL;
}

/* A block without guards that waits, see held.h. */
static struct extent *block_held_at(uintptr_t address)
{
    for (size_t distance = 0; distance < strength.fence_min; distance += GRANULE) {
        struct extent *extent = pagemap_find((void *)(address - distance));
        if (extent_state(extent) == EXTENT_CACHED && !extent_is_slab(extent) &&
            !extent_has_fence(extent) && extent_fence(extent)->ways != 0 &&
            block_spans(extent, address)) {
            return extent;
        }
    }
    return NULL;
}

static COLD void trapped_hollow(const struct trap *trap)
{
    uintptr_t block = trap->address & ~(uintptr_t)(HOLLOW_STRIDE - 1);
    if (extent_is_hollow(pagemap_find((void *)block)) && hollow_holds((void *)block)) {
        struct fault fault = {.block = block, .state = "live"};
        blame_access(&fault, "", trap);
    }
}

/* The last page of a slab, behind all its slots. */
static COLD void trapped_post(const struct trap *trap)
{
    struct extent *extent = pagemap_find((void *)trap->address);
    if (!extent_is_slab(extent) || extent_state(extent) != EXTENT_ACTIVE ||
        *slab_post(extent) == 0 || trap->address < extent_end(extent) - os_page_size ||
        trap->address >= extent_end(extent)) {
        return;
    }
    const char *access = trap->access != NULL ? trap->access : "access";
    struct fault fault = {.kind = FAULT_OUT_OF_BOUNDS,
                          .call = "access",
                          .pointer = (void *)trap->address,
                          .access = trap->access,
                          .pc = trap->pc,
                          .caller = trap->pc};
    fault_report(&fault, "%s of %p, behind the last block of a slab of %u-byte blocks", access,
                 fault.pointer, extent->slab.slot_size);
}

#if MW_TAGS
/* Of a slot that the program holds, if the pointer is one to it. */
static COLD void trapped_block(const struct trap *trap, struct extent *extent, uint32_t index)
{
    const char *slot = (const char *)extent->start + (size_t)index * extent->slab.slot_size;
    if (index >= extent->slab.capacity || !slot_number_is_held(extent, index) ||
        tag_at(slot) != trap->tag) {
        return;
    }
    size_t capacity = extent->slab.slot_size - CANARY_BYTES;
    struct fault fault = {.block = (uintptr_t)slot,
                          .size =
                              size_min(canary_read(extent, slot, extent->slab.slot_size), capacity),
                          .state = "live"};
    blame_access(&fault, "", trap);
}

/* A block with another tag than the pointer. If that has the tag of the block, or of the one on either side (of the
 * nearer one first, since both may have it), it has run over an end; else it is stale. By chance it may have such a
 * tag all the same: then a wrong one is named. */
static COLD void trapped_tag(const struct trap *trap)
{
    struct extent *extent = pagemap_find((void *)trap->address);
    if (!trap->is_of_tag || extent_state(extent) != EXTENT_ACTIVE || !extent_is_slab(extent) ||
        slab_is_common(extent)) {
        return;
    }
    uint32_t index = slab_index(extent, (void *)trap->address);
    uintptr_t slot = extent->start + (uintptr_t)index * extent->slab.slot_size;
    uint64_t before = tags_ignore();
    if (trap->tag != 0) {
        bool is_nearer_to_next = trap->address - slot >= extent->slab.slot_size / 2;
        trapped_block(trap, extent, index);
        trapped_block(trap, extent, is_nearer_to_next ? index + 1 : index - 1);
        trapped_block(trap, extent, is_nearer_to_next ? index - 1 : index + 1);
    }
    if (index < extent->slab.capacity && !slot_number_is_held(extent, index)) {
        struct fault fault = {.block = slot, .size = extent->slab.slot_size, .state = "freed"};
        blame_access(&fault, "", trap);
    }
    if (trap->tag != 0) {
        struct fault fault = {.kind = FAULT_OUT_OF_BOUNDS,
                              .call = "access",
                              .pointer = (void *)trap->address,
                              .pc = trap->pc,
                              .caller = trap->pc};
        fault_report(
            &fault,
            "access of %p by a stale pointer: its memory tag is %u, that of the memory is %u",
            fault.pointer, trap->tag, tag_at(fault.pointer));
    }
    tags_check_again(before);
}
#else
static void trapped_tag(const struct trap *trap)
{
    (void)trap;
}
#endif

static COLD void trapped_look(const struct trap *trap)
{
    if (!MW_FENCES) {
        return;
    }
    trapped_tag(trap);
    trapped_hollow(trap);
    trapped_post(trap);
    struct extent *extent = block_with_guard_at(trap->address);
    if (extent != NULL) {
        struct fault fault = {
            .block = extent->start, .size = canary_large_size(extent), .state = "live"};
        if (access_is_inside(&fault, trap->address)) {
            return;
        }
        blame_access(&fault, "", trap);
    }
    extent = block_waiting_at(trap->address);
    extent = extent != NULL ? extent : block_held_at(trap->address);
    if (extent != NULL) {
        struct fault fault = {
            .block = extent->start, .size = extent_size(extent), .state = "freed"};
        blame_access(&fault, "", trap);
    }
}

static void (*const trap_elsewhere)(const struct trap *) = trapped_look;
