/* SPDX-License-Identifier: MIT
 *
 * Small slots of full slabs, which have no owner: a heap keeps some where slabs are nearly full or many, and none of a
 * class that its thread frees.
 */
#include "unit.h"

/* Blocks of a class whose slabs hold few slots each. */
enum { NOBODYS_SIZE = 1000, NOBODYS_BLOCKS = 640 };

static bool is_of_nobody(const char *block)
{
    return atomic_get(&pagemap_find(block)->owner) == NULL;
}

/* Of small slots a slab has enough, however many slabs there were. */
TEST(keep_nothing_of_many_slabs_of_small_slots)
{
    enum { MANY = 64 * 1024 };
    static char *blocks[MANY];
    size_t count = 0;
    blocks[count++] = mw_malloc(64);
    struct bin *bin = &heap_own->bins[class_of(64 + CANARY_BYTES)];
    while (count < MANY && bin->made < MADE_MOST) {
        blocks[count++] = mw_malloc(64);
        CHECK(!bin->is_scarce);
    }
    CHECK_EQ(bin->made, MADE_MOST);
    struct extent *last = bin->current;
    while (bin->current == last) {
        CHECK(count < MANY);
        blocks[count++] = mw_malloc(64);
    }
    CHECK(bin->current != NULL && !bin->is_scarce);
    while (count > 0) {
        mw_free(blocks[--count]);
    }
}

/* Slabs are scarce where the one that is taken has few free slots, though it was used before, or where there were many. */
TEST(keep_where_slabs_are_nearly_full_or_many)
{
    enum { MANY = 2000 };
    static char *blocks[MANY];
    unsigned class = class_of(NOBODYS_SIZE + CANARY_BYTES);
    size_t count = 0;
    blocks[count++] = mw_malloc(NOBODYS_SIZE);
    struct bin *bin = &heap_own->bins[class];
    struct extent *first = bin->current;
    CHECK(first != NULL && !bin->is_scarce);
    while (bin->current == first || bin->current->slab.carved < bin->current->slab.capacity) {
        blocks[count++] = mw_malloc(NOBODYS_SIZE);
    }
    CHECK(!bin->is_scarce && is_of_nobody(blocks[0]));
    for (size_t i = 0; pagemap_find(blocks[i]) == first; i++) {
        mw_free(blocks[i]);
        blocks[i] = NULL;
        if (first->slab.place == SLAB_READY) {
            break;
        }
    }
    CHECK(first->slab.place == SLAB_READY);
    while (first->slab.place == SLAB_READY) {
        blocks[count++] = mw_malloc(NOBODYS_SIZE);
    }
    CHECK(bin->is_scarce);
    while (count < MANY &&
           (bin->made < MADE_MOST || bin->current == NULL || bin->current->slab.carved == 0)) {
        blocks[count++] = mw_malloc(NOBODYS_SIZE);
    }
    CHECK_EQ(bin->made, MADE_MOST);
    CHECK(bin->is_scarce);
    while (count > 0) {
        mw_free(blocks[--count]);
    }
}

/* Where slabs are many, a slot of a full one is kept and asked for next; the slab stays as it is. */
TEST(keep_slots_of_full_slabs)
{
    static char *blocks[NOBODYS_BLOCKS];
    for (size_t i = 0; i < NOBODYS_BLOCKS; i++) {
        blocks[i] = mw_malloc(NOBODYS_SIZE);
    }
    unsigned class = class_of(NOBODYS_SIZE + CANARY_BYTES);
    heap_set_until_tick(heap_own, NOBODYS_BLOCKS);
    heap_own->bins[class].is_scarce = true;
    CHECK(is_of_nobody(blocks[0]) && is_of_nobody(blocks[NOBODYS_BLOCKS / 2]));
    int16_t most = (int16_t)list_most(heap_own, class);
    CHECK_GE(most, SCARCE_KEPT);
    heap_own->rooms[class] = (int16_t)(most - SCARCE_KEPT + 1);
    mw_free(blocks[0]);
    CHECK(is_of_nobody(blocks[0]));
    CHECK(heap_own->free[class] == (struct slot *)blocks[0]);
    CHECK(mw_malloc(NOBODYS_SIZE) == blocks[0]);

    /* Without room the slab becomes the heap's, also where there is no current one; so it does where slabs are few and have
     * room. */
    struct extent *current = heap_own->bins[class].current;
    heap_own->bins[class].current = NULL;
    heap_own->rooms[class] = (int16_t)(most - SCARCE_KEPT);
    mw_free(blocks[0]);
    CHECK(!is_of_nobody(blocks[0]));
    heap_own->bins[class].current = current;
    CHECK(heap_own->bins[class].is_scarce);
    heap_own->rooms[class] = most;
    heap_own->bins[class].is_scarce = false;
    size_t at = NOBODYS_BLOCKS / 2;
    mw_free(blocks[at]);
    CHECK(!is_of_nobody(blocks[at]));
    CHECK(mw_heap_is_valid());
    for (size_t i = 1; i < NOBODYS_BLOCKS; i++) {
        if (i != at) {
            mw_free(blocks[i]);
        }
    }
}

/* A slab all of whose slots are handed out is given up at once, so that all slabs are alike to free. */
TEST(keep_slots_of_the_current_slab)
{
    static char *blocks[NOBODYS_BLOCKS];
    unsigned class = class_of(NOBODYS_SIZE + CANARY_BYTES);
    size_t count = 0;
    blocks[count++] = mw_malloc(NOBODYS_SIZE);
    struct bin *bin = &heap_own->bins[class];
    do {
        blocks[count++] = mw_malloc(NOBODYS_SIZE);
    } while (bin->current->slab.carved < bin->current->slab.capacity);
    for (int scarce = 0; scarce < 2; scarce++) {
        struct extent *current = bin->current;
        heap_return_lists(heap_own);
        if (current->slab.local == NULL) { /* all of its slots were out */
            mw_free(blocks[--count]);
        }
        heap_set_until_tick(heap_own, NOBODYS_BLOCKS);
        bin->is_scarce = scarce != 0;
        CHECK(bin->current == current && current->slab.local != NULL);
        blocks[count++] = mw_malloc(NOBODYS_SIZE);
        CHECK(slab_is_full(current));
        CHECK((bin->current == current) == (scarce == 0));
        CHECK(is_of_nobody(blocks[count - 1]) == (scarce != 0));
    }
    CHECK(mw_heap_is_valid());
    while (count > 0) {
        mw_free(blocks[--count]);
    }
}

static void keep_nothing_of_blocks(size_t count, size_t stride)
{
    static char *blocks[NOBODYS_BLOCKS];
    unsigned class = class_of(NOBODYS_SIZE + CANARY_BYTES);
    size_t before = usage_now().slab_bytes;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = mw_malloc(NOBODYS_SIZE);
    }
    struct bin *bin = &heap_own->bins[class];
    heap_return_lists(heap_own);
    if (stride != 1) { /* no slab is the current one */
        CHECK(bin->current != NULL);
        struct extent *extent = bin->current;
        bin->current = NULL;
        extent->slab.place = SLAB_NONE;
        heap_abandon_slab(heap_own, extent);
    }
    bin->is_scarce = true;
    heap_set_until_tick(heap_own, (int32_t)(2 * count));
    heap_own->rooms[class] = (int16_t)list_most(heap_own, class);
    uint64_t sent = heap_own->counts[class].sent;
    for (size_t i = 0; i < count; i++) {
        mw_free(blocks[i * stride % count]);
    }
    CHECK_LE(heap_own->counts[class].sent, sent + 1);
    CHECK_MSG(usage_now().slab_bytes <= before + 64 * KiB, "%zu of %zu, stride %zu",
              usage_now().slab_bytes, count, stride);
    CHECK(mw_heap_is_valid());
    heap_settle_classes(heap_own);
    CHECK(!bin->is_scarce && !bin->is_draining);
}

/* A thread that frees all that it has: what was kept goes home, and the slabs with it, whatever the order. */
TEST(keep_nothing_of_a_class_that_is_freed)
{
    for (size_t stride = 1; stride < 80; stride += 30) { /* prime to their number */
        keep_nothing_of_blocks(NOBODYS_BLOCKS, stride);
        keep_nothing_of_blocks(NOBODYS_BLOCKS / 3, stride);
    }
}

static char *limbo_blocks[NOBODYS_BLOCKS];

static void *free_all_of_slab(void *slab)
{
    for (size_t i = 0; i < NOBODYS_BLOCKS; i++) {
        if (limbo_blocks[i] != NULL && pagemap_find(limbo_blocks[i]) == slab) {
            mw_free(limbo_blocks[i]);
            limbo_blocks[i] = NULL;
        }
    }
    return NULL;
}

/* A slab is taken over, slots of which are kept, and looking at the oldest of the heap's brings the list back: that slab is
 * where it belongs by then. */
TEST(keep_slots_of_a_slab_that_is_taken_over)
{
    enum { EMPTIED = 300, FIRST_OF_FULL = 400 };
    for (size_t i = 0; i < NOBODYS_BLOCKS; i++) {
        limbo_blocks[i] = mw_malloc(NOBODYS_SIZE);
    }
    unsigned class = class_of(NOBODYS_SIZE + CANARY_BYTES);
    struct bin *bin = &heap_own->bins[class];
    heap_return_lists(heap_own);
    bin->is_scarce = false;
    struct extent *waiting = pagemap_find(limbo_blocks[EMPTIED]);
    mw_free(limbo_blocks[EMPTIED]);
    limbo_blocks[EMPTIED] = NULL;
    CHECK(waiting->slab.place == SLAB_WAITING);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_all_of_slab, waiting), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);

    struct extent *full = pagemap_find(limbo_blocks[FIRST_OF_FULL]);
    CHECK(full != waiting && is_of_nobody(limbo_blocks[FIRST_OF_FULL]));
    bin->is_scarce = true;
    heap_own->rooms[class] = (int16_t)list_most(heap_own, class);
    heap_set_until_tick(heap_own, 2 * NOBODYS_BLOCKS);
    for (size_t i = FIRST_OF_FULL; atomic_get(&full->owner) == NULL; i++) {
        CHECK(i < NOBODYS_BLOCKS);
        if (pagemap_find(limbo_blocks[i]) == full) {
            mw_free(limbo_blocks[i]);
            limbo_blocks[i] = NULL;
        }
    }
    CHECK(heap_own->free[class] == NULL && waiting->slab.place == SLAB_NONE);
    CHECK(mw_heap_is_valid());
    for (size_t i = 0; i < NOBODYS_BLOCKS; i++) {
        mw_free(limbo_blocks[i]);
    }
}

/* What a thread leaves in a slab is shared from sixteen slots on, though an eighth is worth allocating from. */
TEST(keep_sixteen_slots_for_all)
{
    enum { MANY = 64 * 1024 };
    static char *blocks[MANY];
    size_t count = 0;
    blocks[count++] = mw_malloc(64);
    struct bin *bin = &heap_own->bins[class_of(64 + CANARY_BYTES)];
    while (bin->current == NULL || bin->current->slab.capacity < 16 * 16) {
        CHECK(count < MANY);
        blocks[count++] = mw_malloc(64);
    }
    struct extent *extent = bin->current;
    CHECK_GE(slab_slots_wanted(extent), 32);
    while (slab_used(extent) < extent->slab.capacity ||
           heap_own->free[extent->slab.class] != NULL) {
        CHECK(count < MANY);
        blocks[count++] = mw_malloc(64);
    }
    heap_set_until_tick(heap_own, MANY);
    for (unsigned left = 20; left > 0; left--) {
        CHECK(pagemap_find(blocks[count - 1]) == extent);
        mw_free(blocks[--count]);
    }
    CHECK(bin->current == extent);
    heap_return_lists(heap_own);
    bin->current = NULL;
    extent->slab.place = SLAB_NONE;
    heap_abandon_slab(heap_own, extent);
    CHECK(extent->slab.place == SLAB_SHARED);
    while (count > 0) {
        mw_free(blocks[--count]);
    }
}
