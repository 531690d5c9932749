/* SPDX-License-Identifier: MIT */
#include "heap_common.h"

#include "../slots/harden.h"
#include "keep.h"
#include "remote.h"
#include "stack.h"

/* Own slabs that are looked at for one that is almost empty. */
#define OWN_SPARSE_TRIES 8u

/* More threads than this begin with common slabs. */
#define MANY_HEAPS MW_LIMIT(16u, 2u)

/* What such a thread takes of a class at a time, see FIRST_BYTES. */
#define FIRST_BATCH_BYTES 256u
#define FIRST_BATCH 8u

/* The sizes of blocks that are served from holes, the smallest class whose slots these may consist
 * of, and how many blocks are taken at a time. */
#define HOLE_BLOCK_MIN 64u
#define HOLE_BLOCK_MAX (4 * KiB)
#define HOLE_CLASS_MIN 2u
#define HOLE_BATCH 64u

static_assert(FIRST_BYTES + FIRST_BATCH_BYTES + SMALL_MAX <= UINT16_MAX,
              "common_bytes holds the sum");

static struct slot *heap_take_first(struct heap *heap, unsigned class, uint32_t *count)
{
    struct bin *bin = &heap->bins[class];
    uint32_t slot_size = class_size(class);
    uint32_t want = FIRST_BATCH_BYTES / slot_size;
    want = want < 1 ? 1 : want < FIRST_BATCH ? want : FIRST_BATCH;
    want = heap_is_sampling(heap) && want > heap->list_max ? heap->list_max : want;
    if (atomic_get(&heaps.in_use) <= MANY_HEAPS ||
        bin->common_bytes + want * slot_size > FIRST_BYTES) {
        return NULL;
    }
    check(bin->current == NULL && heap->free[class] == NULL);
    struct slot *list = common_take(heap->arena, COMMON_FIRST,
                                    &(struct common_request){class, class, 1, want}, count);
    if (list == NULL) {
        struct extent *extent = heap_take_pages(heap, class_slab_pages(class, UINT32_MAX));
        if (extent == NULL) {
            return NULL;
        }
        slab_create(extent, class, heap);
        heap->counts[class].slabs++;
        list = common_create_first(extent, heap, want, count);
        if (list == NULL) {
            heap_release_slab(heap, extent);
            return NULL;
        }
    }
    check(*count > 0 && *count <= want && slab_is_common(pagemap_find(list)));
    bin->common_bytes += (uint16_t)(*count * slot_size);
    return list;
}

/* A ready slab of the heap's own that is so empty, if there are more of them than the heap may keep beside
 * others; NULL if there is none among the first, which have been there for the longest time. Of another arena than
 * the heap's it takes none: there it looks for no holes. */
static struct extent *heap_take_own_sparse(struct heap *heap, unsigned class, uint32_t span)
{
    struct bin *bin = &heap->bins[class];
    if (bin->ready_count <= READY_MAX) {
        return NULL;
    }
    struct link *at = list_first(&bin->ready);
    for (unsigned tries = 0; tries < OWN_SPARSE_TRIES && at != &bin->ready;
         tries++, at = at->next) {
        struct extent *extent = slab_at(at);
        bool is_sparse = slab_used(extent) * size_max(span, 4) <= extent->slab.capacity;
        if (is_sparse && extent->arena == heap->arena->index) {
            heap_unlist(heap, extent);
            return extent;
        }
    }
    return NULL;
}

/* Makes a shared slab a common one that is so empty that blocks of `span` slots fit into its holes.
 * False if there is none. */
static bool heap_open_sparse(struct heap *heap, unsigned class, uint32_t span)
{
    struct extent *extent = heap_take_own_sparse(heap, class, span);
    if (extent == NULL) {
        extent = common_take_sparse(heap->arena, class, span, heap);
    }
    if (extent == NULL) {
        return false;
    }
    check(atomic_get(&extent->owner) == heap && extent->slab.place == SLAB_NONE);
    heap_empty_own_outbox(heap, extent);
    slab_absorb_remote(extent);
    if (slab_used(extent) == 0) {
        heap_release_slab(heap, extent);
        return false;
    }
    if (!common_create(extent, COMMON_HOLES, heap)) {
        heap_abandon_slab(heap, extent);
        return false;
    }
    /* What others freed before they could see that it is common now. */
    if (common_collect(extent)) {
        heap_put_slab_pages(heap, extent);
        return false;
    }
    return true;
}

/* Whether blocks of a class may be cut from slots of another: most have no slab for that, so this is asked
 * before anything is computed. */
ALWAYS_INLINE bool heap_may_take_holes(struct heap *heap, unsigned class, unsigned from)
{
    return common_may_serve(heap->arena, COMMON_HOLES, from) ||
           (from < class && (heap->bins[from].ready_count > READY_MAX ||
                             atomic_get(&slab_pool_at(heap->arena)->count[from]) != 0));
}

/* The largest slots first: with fewer of them per block it is likelier that their neighbours are
 * free too. */
static struct slot *heap_take_holes(struct heap *heap, unsigned class, uint32_t want,
                                    uint32_t *count)
{
    uint32_t size = class_size(class);
    bool program_moves_blocks =
        atomic_get(&heaps.kept_house_ms) < atomic_get(&heaps.moving_until_ms);
    if (size < HOLE_BLOCK_MIN || size > HOLE_BLOCK_MAX || program_moves_blocks ||
        !slab_pools_are_used()) {
        return NULL;
    }
    unsigned from = class < CLASS_OF_SMALL_MAX ? class : CLASS_OF_SMALL_MAX;
    for (; from >= HOLE_CLASS_MIN; from--) {
        if (!heap_may_take_holes(heap, class, from)) {
            continue;
        }
        uint32_t slot_size = class_size(from);
        uint32_t span = (size + slot_size - 1) / slot_size;
        if (span > COMMON_SPAN_MAX) {
            break;
        }
        if (span * slot_size - size > size / 8) {
            continue;
        }
        struct common_request request = {class, from, span, want};
        struct slot *list = common_take(heap->arena, COMMON_HOLES, &request, count);
        if (list == NULL && from < class && heap_open_sparse(heap, from, span)) {
            list = common_take(heap->arena, COMMON_HOLES, &request, count);
        }
        check(list == NULL || (*count > 0 && *count <= want));
        if (list != NULL) {
            return list;
        }
    }
    return NULL;
}

static struct slot *heap_take_common(struct heap *heap, unsigned class)
{
    uint32_t count;
    check(heap->free[class] == NULL && !class_is_medium(class) && heap->list_max > 0);
    struct slot *list = heap_take_first(heap, class, &count);
    if (list == NULL) {
        uint32_t want = heap->list_max < HOLE_BATCH ? heap->list_max : HOLE_BATCH;
        list = heap_take_holes(heap, class, want, &count);
    }
    if (list == NULL) {
        return NULL;
    }
    heap_fill_list(heap, class, list, count);
    heap_note_class(heap, class);
    return list;
}
