/* SPDX-License-Identifier: MIT */
#include "tagged.h"

#include "foreign.h"

/* The bytes of the slot that begins at an address, if a block there has a tag; else 0. */
static size_t tagged_room(struct extent *extent, const void *block)
{
    if (extent_state(extent) != EXTENT_ACTIVE || !slab_has_slot(extent, block) ||
        extent_is_direct(extent)) {
        return 0;
    }
    return slot_block_size(extent, block); /* 0: a block of a common slab goes on there */
}

/* The block's granules get the tag; what is behind them in the slot keeps having none, most often with the canary. */
static void *tagged_give_as(struct extent *extent, void *block, size_t room, unsigned tag)
{
    size_t size = size_min(canary_read(extent, block, room), room);
    size_t used = align_up(size, TAG_GRANULE);
    char *pointer = pointer_with_tag(block, tag);
    tags_set(pointer, used);
    return tag_at(block) == tag ? pointer : block;
}

/* Another tag than those of the slots beside it, so that an access which runs over an end is noticed; two threads
 * that give neighbours at the same moment may draw the same. */
static unsigned tag_for(struct extent *extent, const char *block, size_t room)
{
    unsigned excluded = 1;
    if ((uintptr_t)block != extent->start) {
        excluded |=
            1u << tag_at(block - TAG_GRANULE) | 1u << tag_at(block - extent->slab.slot_size);
    }
    if (slab_has_slot(extent, block + room)) {
        excluded |= 1u << tag_at(block + room);
    }
    return tag_draw(excluded);
}

static void *tagged_give(void *block)
{
    struct extent *extent = pagemap_find(block);
    size_t room = tags_are_on() ? tagged_room(extent, block) : 0;
    return room != 0 ? tagged_give_as(extent, block, room, tag_for(extent, block, room)) : block;
}

_Noreturn static COLD void tag_differs(const char *call, const void *block, unsigned tag,
                                       unsigned of_memory)
{
    fault_simple(FAULT_INVALID_FREE, call, block,
                 "%s of %p by a stale pointer: its memory tag is %u, that of the memory is %u",
                 call, block, tag, of_memory);
}

/* Whether an address begins a block that never has a tag and that the program holds. */
static COLD bool untagged_is_held(struct extent *extent, const void *block)
{
    if (extent_state(extent) != EXTENT_ACTIVE) {
        return false;
    }
    if (!extent_is_slab(extent)) {
        return (uintptr_t)block == extent->start;
    }
    return extent_is_direct(extent) && slab_has_slot(extent, block) && slot_is_held(extent, block);
}

/* The same as tagged_look, and in *room the bytes of the slot if it has a tag. A slot that has none was
 * freed, or given before there were tags: for its pointer the rest of the allocator says what it is. */
static void *tagged_find(const char *call, const void *pointer, size_t *room)
{
    *room = 0;
    void *block = pointer_with_tag(pointer, 0);
    struct extent *extent = pagemap_find(block);
    unsigned tag = pointer_tag(pointer);
    if (!tags_are_on() || (uintptr_t)pointer >> TAG_SHIFT > TAG_MASK) {
        return (void *)(uintptr_t)pointer;
    }
    if (unlikely(extent == pagemap_nothing())) {
        /* In the midst of our memory a pointer to a block that was there before has a tag still. */
        bool is_within = tag != 0 && extent_around(block) != NULL;
        return is_within ? block : (void *)(uintptr_t)pointer;
    }
    size_t bytes = tagged_room(extent, block);
    if (unlikely(bytes == 0)) {
        if (tag != 0 && untagged_is_held(extent, block)) {
            tag_differs(call, block, tag, 0);
        }
        return block;
    }
    unsigned of_memory = slot_is_held(extent, block) ? tag_at(block) : 0;
    if (unlikely(of_memory != tag && of_memory != 0)) {
        tag_differs(call, block, tag, of_memory);
    }
    *room = of_memory != 0 ? bytes : 0;
    return block;
}

static void *tagged_look(const char *call, const void *pointer)
{
    size_t room;
    return tagged_find(call, pointer, &room);
}

static void *tagged_take(const char *call, void *pointer)
{
    size_t room;
    void *block = tagged_find(call, pointer, &room);
    if (room != 0) {
        tags_set(block, room);
    }
    return block;
}

static void *tagged_give_resized(const void *pointer, void *block, void *moved, bool stays_else)
{
    bool stays = moved == block || (moved == NULL && stays_else);
    unsigned tag = pointer_tag(pointer);
    if (!stays) {
        return tagged_give(moved);
    }
    struct extent *extent = pagemap_find(block);
    size_t room = tags_are_on() && tag != 0 ? tagged_room(extent, block) : 0;
    void *given = room != 0 ? tagged_give_as(extent, block, room, tag) : block;
    return moved != NULL ? given : NULL;
}
