/* SPDX-License-Identifier: MIT */
#include "stats_page.h"

#include "report.h"

#if MW_MODE == MW_FAST
#define MW_MODE_WORD "fast"
#elif MW_MODE == MW_SECURE
#define MW_MODE_WORD "secure"
#else
#define MW_MODE_WORD "debug"
#endif

#define FIELD_NAMED(name, structure, field)                                                \
    {                                                                                      \
        name, offsetof(struct structure, field), sizeof(((struct structure *)NULL)->field) \
    }
#define FIELD(structure, field) FIELD_NAMED(#structure "." #field, structure, field)
#define ARRAY(structure, field)                                   \
    {                                                             \
#structure "." #field, offsetof(struct structure, field), \
            sizeof(((struct structure *)NULL)->field[0])          \
    }
#define SIZE_OF(structure)                                \
    {                                                     \
        "sizeof." #structure, 0, sizeof(struct structure) \
    }

/* Sets are counted in pages; only that field of theirs is of interest. */
#define SET(set)                                                                  \
    {                                                                             \
        "arena." #set "_pages", offsetof(struct arena, set.pages), sizeof(size_t) \
    }

static const struct stats_root stats_roots[] = {
    {"arenas", arenas},
    {"arenas_used", &arenas_used},
    {"pagemap", &pagemap},
    {"heaps", &heaps.all},
    {"heap_shared", &heap_shared},
    {"meta_bytes", &meta.bytes},
    {"page_shift", &os_page_shift},
};

static const struct stats_number stats_numbers[] = {
    {"pagemap_root_at", offsetof(__typeof__(pagemap), root)},
    {"root_shift", PAGEMAP_ROOT_SHIFT},
    {"granule_shift", GRANULE_SHIFT},
    {"leaf_mask", PAGEMAP_LEAF_WORDS - 1},
    {"remote_count_shift", REMOTE_HEAD_BITS},
    {"classes", CLASSES},
    {"outboxes", OUTBOXES},
    {"state_active", EXTENT_ACTIVE},
    {"state_cached", EXTENT_CACHED},
    {"state_dirty", EXTENT_DIRTY},
    {"state_muzzy", EXTENT_MUZZY},
    {"state_retained", EXTENT_RETAINED},
};

static const struct stats_field stats_fields[] = {
    SIZE_OF(arena),
    FIELD_NAMED("arena.lock_state", arena, lock.state),
    FIELD_NAMED("arena.lock_turns", arena, lock.turns),
    SET(dirty),
    SET(huge),
    SET(muzzy),
    SET(retained),
    FIELD(arena, regions),
    FIELD(arena, region_bytes),
    FIELD(arena, active_pages),
    FIELD(arena, huge_active_pages),
    FIELD(arena, huge_active_count),
    SIZE_OF(region),
    FIELD(region, next),
    FIELD(region, start),
    FIELD(region, size),
    SIZE_OF(extent),
    FIELD(extent, start),
    FIELD(extent, pages),
    FIELD(extent, state),
    FIELD(extent, is_huge),
    FIELD(extent, remote),
    FIELD_NAMED("extent.left", extent, slab.left),
    FIELD_NAMED("extent.bias", extent, slab.bias),
    FIELD_NAMED("extent.capacity", extent, slab.capacity),
    FIELD_NAMED("extent.slot_size", extent, slab.slot_size),
    SIZE_OF(heap),
    FIELD(heap, next),
    ARRAY(heap, free),
    ARRAY(heap, outboxes),
    FIELD(outbox, slab),
    FIELD(outbox, count),
};

#define COUNT(table) ((uint32_t)array_count(table))

extern const struct stats_page mw_stats_page;
MW_PUBLIC KEEP_SYMBOL __attribute__((aligned(16))) const struct stats_page mw_stats_page = {
    .magic = STATS_PAGE_MAGIC,
    .version = STATS_PAGE_VERSION,
    .size = sizeof(struct stats_page),
    .self = &mw_stats_page,
    .build = MW_VERSION_STRING " " MW_MODE_WORD,
    .roots = stats_roots,
    .numbers = stats_numbers,
    .fields = stats_fields,
    .root_count = COUNT(stats_roots),
    .number_count = COUNT(stats_numbers),
    .field_count = COUNT(stats_fields),
};
