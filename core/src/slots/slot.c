/* SPDX-License-Identifier: MIT */
#include "slot.h"

#include "../os/fault.h"
#include "made.h"

#include <string.h>

_Noreturn static COLD void harden_interior(const char *call, const void *pointer, uintptr_t block,
                                           size_t size)
{
    struct fault fault = {
        .kind = (uintptr_t)pointer % 16 != 0 ? FAULT_MISALIGNED_FREE : FAULT_INTERIOR_FREE,
        .call = call,
        .pointer = pointer,
        .block = block,
        .size = size,
        .has_offset = true,
        .offset = (long)((uintptr_t)pointer - block),
    };
    fault_report(&fault, "%s of %p, which is %zu bytes inside a block of %zu bytes at %p", call,
                 pointer, (uintptr_t)pointer - block, size, (void *)block);
}

static struct written fill_find_written(const unsigned char *bytes, size_t from, size_t end,
                                        unsigned char fill)
{
    while (from < end && bytes[from] == fill) {
        from++;
    }
    while (end > from && bytes[end - 1] == fill) {
        end--;
    }
    return (struct written){from, from < end ? end - from : 0};
}

/* The first word is the fill as long as the slot waits in the quarantine, and a link behind that, of whose eight bytes
 * hardly ever four happen to be the fill. */
static struct written link_find_written(const unsigned char *bytes)
{
    size_t whole = 0;
    for (size_t at = 0; at < sizeof(struct slot); at++) {
        whole += bytes[at] == FILL_FREE;
    }
    struct written all = {0, sizeof(struct slot)};
    return whole >= sizeof(struct slot) / 2 ? fill_find_written(bytes, 0, all.length, FILL_FREE)
                                            : all;
}

static struct written slot_find_written(const struct slot *slot, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)slot;
    size_t first_end = size_min(size, FILL_EDGE);
    size_t last_start = size_max(size - first_end, sizeof *slot);
    /* Where only the ends are filled, what lies between them is what the program left. */
    size_t count = strength_spares_middle(size, strength.fill_whole) ? 2 : 3;
    const size_t parts[][2] = {
        {sizeof *slot, first_end}, {last_start, size}, {first_end, last_start}};
    for (size_t i = 0; i < count; i++) {
        struct written found = fill_find_written(bytes, parts[i][0], parts[i][1], FILL_FREE);
        if (found.length != 0) {
            return found;
        }
    }
    return link_find_written(bytes);
}

_Noreturn static COLD void slot_tell_written(const char *call, const struct slot *slot, size_t size,
                                             struct written found)
{
    struct fault fault = {
        .kind = FAULT_WRITE_AFTER_FREE,
        .call = call,
        .block = (uintptr_t)slot,
        .size = size,
        .state = "freed",
        .has_offset = true,
        .offset = (long)found.at,
        .length = found.length,
    };
    if (found.at == 0 && found.length == sizeof *slot) {
        fault_report(&fault, "write after free: the first word of %p (%zu bytes) was overwritten",
                     (const void *)slot, size);
    }
    fault_report(&fault, "write after free: byte %zu of %p (%zu bytes) is 0x%x", found.at,
                 (const void *)slot, size, ((const unsigned char *)slot)[found.at]);
}

_Noreturn static COLD void slot_bad_content(const char *call, const struct slot *slot, size_t size)
{
    slot_tell_written(call, slot, size, slot_find_written(slot, size));
}

_Noreturn static COLD void harden_bad_block(const char *call, struct extent *extent,
                                            const void *block)
{
    if (!extent_is_slab(extent)) { /* a block of pages that lies in a list */
        bool is_free = call_releases(call);
        fault_simple(FAULT_DOUBLE_FREE, call, block, "%s of %p (a block of more than %zu bytes)%s",
                     is_free ? "double free" : call, block, SLOT_MAX,
                     is_free ? "" : ", which is free");
    }
    uint32_t slot_size = extent->slab.slot_size;
    uintptr_t start = extent->start + (uintptr_t)slab_index(extent, block) * slot_size;
    if ((uintptr_t)block != start) {
        harden_interior(call, block, start, slot_size);
    }
    if (slab_index(extent, block) >= extent->slab.capacity) {
        fault_simple(FAULT_INVALID_FREE, call, block,
                     "%s of %p, which is behind the last block of its slab", call, block);
    }
    if (call_releases(call)) {
        fault_simple(FAULT_DOUBLE_FREE, call, block, "double free of %p (%u bytes)", block,
                     slot_size);
    }
    fault_simple(FAULT_DOUBLE_FREE, call, block, "%s of %p (%u bytes), which is free", call, block,
                 slot_size);
}

_Noreturn static COLD void slot_bad_link(unsigned class, const void *link)
{
    uint32_t slot_size = class_size(class);
    if (link == NULL) {
        fault_simple(FAULT_DAMAGED_LIST, NULL, NULL,
                     "free list of %u-byte blocks is damaged: it ends too early", slot_size);
    }
    struct extent *extent = pagemap_find(link);
    fault_simple(FAULT_DAMAGED_LIST, NULL, link,
                 "free list of %u-byte blocks is damaged: it names %p, which is %s", slot_size,
                 link,
                 slab_has_slot(extent, link) && slot_is_held(extent, link) ? "in use" : "none");
}

_Noreturn static COLD void slot_bad_next(struct extent *extent, const struct slot *slot)
{
    if (MW_CODED_LINKS && !slot_link_is_plausible(slot)) {
        slot_bad_content("malloc", slot, extent->slab.slot_size);
    }
    slot_bad_link(extent->slab.class, slot_next(slot));
}

static size_t fill_differs(const unsigned char *at, size_t size, unsigned char fill)
{
    size_t i = 0;
    uint64_t words = fill * 0x0101010101010101u, word[4];
    for (; i + 32 <= size; i += 32) {
        memcpy(word, at + i, 32);
        if (((word[0] ^ words) | (word[1] ^ words) | (word[2] ^ words) | (word[3] ^ words)) != 0) {
            break;
        }
    }
    for (; i + 8 <= size; i += 8) {
        memcpy(word, at + i, 8);
        if (word[0] != words) {
            break;
        }
    }
    if (i + 8 > size && size >= 8) { /* the last word again, with what is left behind it */
        memcpy(word, at + size - 8, 8);
        if (word[0] == words) {
            return size;
        }
    }
    for (; i < size && at[i] == fill; i++) {
    }
    return i;
}
