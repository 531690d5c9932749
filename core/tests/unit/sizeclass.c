/* SPDX-License-Identifier: MIT
 *
 * Size classes: each size has the smallest class that holds it, and little is wasted.
 */
#include "unit.h"

TEST(class_holds_its_sizes)
{
    for (size_t size = 0; size <= SLOT_MAX; size++) {
        unsigned class = class_of(size);
        CHECK_LT(class, CLASSES);
        CHECK_GE(class_size(class), size);
        if (class > 1) {
            CHECK_MSG(class_size(class - 1) < size, "size %zu fits the class below %u", size,
                      class);
        }
    }
}

TEST(classes_grow_and_are_aligned)
{
    for (unsigned class = 1; class < CLASSES; class ++) {
        CHECK_EQ(class_of(class_size(class)), class);
        CHECK_EQ(class_size(class) % 16, 0);
        CHECK_LT(class_size(class - 1), class_size(class));
    }
    CHECK_EQ(class_size(CLASSES - 1), SLOT_MAX);
}

TEST(classes_waste_at_most_a_quarter_and_the_large_ones_an_eighth)
{
    for (size_t size = 33; size <= SLOT_MAX; size++) {
        size_t slot = class_size(class_of(size));
        size_t share = size <= SMALL_MAX ? 4 : 8;
        CHECK_MSG((slot - size) * share <= size + 60, "size %zu has slots of %zu", size, slot);
    }
}

TEST(slabs_hold_slots_and_waste_little)
{
    process_init();
    for (unsigned class = 1; class < CLASSES; class ++) { /* of class 0 there are no slabs */
        size_t before = 0;
        for (unsigned made = 0; made < 12; made++) {
            size_t bytes = class_slab_pages(class, made) * os_page_size;
            CHECK_GE(bytes, class_size(class));
            CHECK_LE(bytes % class_size(class) * 8, bytes);
            CHECK_GE(bytes, before);
            CHECK_LE(bytes / class_size(class), SLAB_SLOTS_MAX);
            before = bytes;
        }
        size_t least = class_least_pages(class) * os_page_size;
        CHECK_GE(least, class_size(class));
        CHECK_LE(least, class_slab_pages(class, 0) * os_page_size);
        CHECK_LE(least % class_size(class) * 8, least);
    }
}

TEST(slabs_have_as_many_pages_as_are_set)
{
    process_init();
    static const size_t set[] = {0, 1, 17, 128, 100000};
    for (unsigned class = 1; class < CLASSES; class ++) {
        for (size_t i = 0; i < array_count(set); i++) {
            class_set_slab_pages(class, set[i]);
            size_t pages = class_slab_pages(class, 5);
            CHECK_GE(pages * os_page_size, class_size(class));
            CHECK_LE(pages * os_page_size / class_size(class), SLAB_SLOTS_MAX);
            bool is_least = (pages - 1) * os_page_size < class_size(class);
            bool is_most = (pages + 1) * os_page_size > SLAB_SET_MOST ||
                           (pages + 1) * os_page_size / class_size(class) > SLAB_SLOTS_MAX;
            CHECK(pages == set[i] || (pages > set[i] ? is_least : is_most));
        }
        slab_pages_set[class] = 0;
    }
    some_slab_pages_are_set = false;
}

TEST(classes_for_alignments_are_multiples)
{
    for (size_t alignment = 1; alignment <= 16 * KiB; alignment *= 2) {
        for (size_t size = 0; align_up(size, alignment) <= SLOT_MAX; size++) {
            unsigned class = class_of_aligned(alignment, size);
            CHECK_LT(class, CLASSES);
            CHECK_GE(class_size(class), size);
            CHECK_MSG(class_size(class) % alignment == 0, "size %zu, alignment %zu: slots of %u",
                      size, alignment, class_size(class));
        }
    }
}
