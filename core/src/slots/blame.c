/* SPDX-License-Identifier: MIT */
#include "blame.h"

static void zones_fill(const struct zones *zones)
{
    memset(zones->start, FILL_ZONE, (size_t)(zones->block - zones->start));
    memset(zones->block_end, FILL_ZONE, (size_t)(zones->end - zones->block_end));
}

static bool zones_are_whole(const struct zones *zones)
{
    size_t front = (size_t)(zones->block - zones->start);
    size_t behind = (size_t)(zones->end - zones->block_end);
    return fill_differs(zones->start, front, FILL_ZONE) == front &&
           fill_differs(zones->block_end, behind, FILL_ZONE) == behind;
}

static void blame_who(const struct fault *fault, char *who)
{
    who[0] = 0;
    text_print_behind(who, BLAME_WHO, ", allocated by thread %u", fault->allocated.thread);
    if (fault->state[0] == 'f') {
        text_print_behind(who, BLAME_WHO, ", freed by thread %u", fault->freed.thread);
    }
}

/* How many bytes lie from the first that is damaged to the last. */
static size_t damage_length(const unsigned char *first, const unsigned char *end)
{
    while (end > first && end[-1] == FILL_ZONE) {
        end--;
    }
    return (size_t)(end - first);
}

static COLD void blame_zones(struct fault *fault, const char *who, const struct zones *zones)
{
    size_t size = (size_t)(zones->block_end - zones->block);
    size_t behind = (size_t)(zones->end - zones->block_end);
    size_t at = fill_differs(zones->block_end, behind, FILL_ZONE);
    fault->has_offset = true;
    if (at < behind) {
        fault->kind = FAULT_OVERFLOW;
        fault->offset = (long)(size + at);
        fault->length = damage_length(zones->block_end + at, zones->end);
        fault_report(fault, "overflow of %p (%zu bytes%s): byte %zu behind it is 0x%x",
                     (void *)zones->block, size, who, at, zones->block_end[at]);
    }
    size_t front = (size_t)(zones->block - zones->start);
    size_t first = fill_differs(zones->start, front, FILL_ZONE);
    if (first < front) {
        fault->kind = FAULT_UNDERFLOW;
        fault->length = damage_length(zones->start + first, zones->block);
        size_t before = front - (first + fault->length) + 1;
        fault->offset = -(long)(front - first);
        fault_report(fault, "underflow of %p (%zu bytes%s): byte %zu in front of it is 0x%x",
                     (void *)zones->block, size, who, before, zones->block[-(long)before]);
    }
}

static bool access_is_inside(const struct fault *fault, uintptr_t address)
{
    return fault->state[0] == 'l' && address - fault->block < fault->size;
}

_Noreturn static COLD void blame_access(struct fault *fault, const char *who,
                                        const struct trap *trap)
{
    const char *access = trap->access != NULL ? trap->access : "access";
    fault->call = "access";
    fault->pointer = (void *)trap->address;
    fault->access = trap->access;
    fault->pc = trap->pc;
    fault->caller = trap->pc;
    fault->has_offset = true;
    fault->offset = (long)(trap->address - fault->block);
    if (fault->state[0] == 'f') {
        fault->kind = access[0] == 'w' ? FAULT_WRITE_AFTER_FREE : FAULT_READ_AFTER_FREE;
        fault_report(fault, "%s after free: byte %ld of %p (%zu bytes%s)", access, fault->offset,
                     (void *)fault->block, fault->size, who);
    }
    fault->kind = FAULT_OUT_OF_BOUNDS;
    if (fault->offset < 0) {
        fault_report(fault, "underflow of %p (%zu bytes%s): %s of byte %ld in front of it",
                     (void *)fault->block, fault->size, who, access, -fault->offset);
    }
    fault_report(fault, "overflow of %p (%zu bytes%s): %s of byte %ld behind it",
                 (void *)fault->block, fault->size, who, access, fault->offset - (long)fault->size);
}

/* Where an address lies, seen from a block. */
static const char *place_of(uintptr_t address, uintptr_t block, size_t size, size_t *distance)
{
    if (address < block) {
        *distance = block - address;
        return "in front of";
    }
    *distance =
        address < block + size || address == block ? address - block : address - (block + size);
    return address < block + size || address == block ? "inside" : "behind";
}

static COLD void blame_pointer(struct fault *fault, const char *who)
{
    const char *call = fault->call;
    uintptr_t pointer = (uintptr_t)fault->pointer;
    bool is_live = fault->state[0] == 'l';
    if (fault->block == pointer) {
        if (is_live) {
            return;
        }
        fault->kind = FAULT_DOUBLE_FREE;
        if (text_is(call, "free") || call[0] == 'o') {
            fault_report(fault, "double free of %p (%zu bytes%s)", fault->pointer, fault->size,
                         who);
        }
        fault_report(fault, "%s of %p (%zu bytes%s), which is free", call, fault->pointer,
                     fault->size, who);
    }
    size_t distance;
    const char *place = place_of(pointer, fault->block, fault->size, &distance);
    fault->kind = pointer % 16 != 0 ? FAULT_MISALIGNED_FREE : FAULT_INTERIOR_FREE;
    fault->has_offset = true;
    fault->offset = (long)(pointer - fault->block);
    fault_report(fault, "%s of %p, which is %zu bytes %s a %sblock of %zu bytes at %p (%s)", call,
                 fault->pointer, distance, place, is_live ? "" : "freed ", fault->size,
                 (void *)fault->block, who + 2);
}
