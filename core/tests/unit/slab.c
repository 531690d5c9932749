/* SPDX-License-Identifier: MIT
 *
 * Slabs: slots are cut in order, remote frees come in whole, positions are told exactly.
 */
#include "unit.h"

/* A slab of the program's heap, by way of one of its blocks. */
static struct extent *slab_of_size(size_t size, void **block)
{
    *block = mw_malloc(size);
    struct extent *extent = pagemap_find(*block);
    CHECK(extent_is_slab(extent));
    return extent;
}

TEST(slab_tells_slots_from_other_addresses)
{
    for (unsigned class = 1; class < CLASSES; class ++) {
        void *block;
        struct extent *extent = slab_of_size(class_size(class) - CANARY_BYTES, &block);
        uint32_t slot_size = extent->slab.slot_size;
        CHECK_EQ(slot_size, class_size(class));
        for (size_t offset = 0; offset < extent->slab.capacity * (size_t)slot_size;
             offset += class == 0 ? 1 : 8) {
            const char *address = (const char *)extent->start + offset;
            CHECK_MSG(slab_has_slot_at(extent, address) == (offset % slot_size == 0),
                      "offset %zu, slots of %u", offset, slot_size);
            CHECK_EQ(slab_index(extent, address), offset / slot_size);
        }
        CHECK(slab_is_valid(extent));
        mw_free(block);
    }
}

TEST(slab_collects_remote_frees)
{
    struct slot *slots[10];
    struct extent *extent = slab_of_size(100, (void **)&slots[0]);
    for (int i = 1; i < 10; i++) {
        CHECK(slab_of_size(100, (void **)&slots[i]) == extent);
    }
    uint32_t count = 0;
    CHECK(slab_collect_remote(extent, &count) == NULL);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(slab_push_remote(extent, slots[i], slots[i], 1), i + 1);
    }
    struct slot *list = slab_collect_remote(extent, &count);
    CHECK_EQ(count, 10);
    for (int i = 9; i >= 0; i--, list = slot_next(list)) {
        CHECK(list == slots[i]);
    }
    CHECK(list == NULL);
    CHECK(slab_collect_remote(extent, &count) == NULL);
}

static void *free_in_thread(void *block)
{
    mw_free(block);
    return NULL;
}

TEST(slab_stays_valid_through_its_life)
{
    enum { BLOCKS = 3000 };
    static void *blocks[BLOCKS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = mw_malloc(200);
            CHECK(slab_is_valid(pagemap_find(blocks[i])));
        }
        for (int i = 0; i < BLOCKS; i++) {
            if (i % 100 == 0) {
                pthread_t thread;
                CHECK_EQ(pthread_create(&thread, NULL, free_in_thread, blocks[i]), 0);
                pthread_join(thread, NULL);
            } else {
                mw_free(blocks[i]);
            }
        }
        CHECK(mw_heap_is_valid());
    }
}
