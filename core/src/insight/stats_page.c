/* SPDX-License-Identifier: MIT */
#include "stats_page.h"

#include "../thread/tray.h"
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

/* What holds now of an option. */
#define OPTION(name)                                                                            \
    {                                                                                           \
        "option." #name, OPTION_##name * sizeof(option_values[0]), sizeof(option_values[0].now) \
    }

/* Sets are counted in pages; only that field of theirs is of interest. */
#define SET(set)                                                                  \
    {                                                                             \
        "arena." #set "_pages", offsetof(struct arena, set.pages), sizeof(size_t) \
    }

/* class_size() as constants, of block classes too; core/tests/unit/statistics.c compares the two. */
#define SIZE_SMALL(class)                            \
    ((class) < 9 ? ((class) == 0 ? 8 : 16 * (class)) \
                 : (5 + ((class) - 9) % 4) << (5 + ((class) - 9) / 4))
#define SIZE_MEDIUM(class) ((9 + ((class) - 21) % 8) << (7 + ((class) - 21) / 8))
#define FOUR(size, class) size(class), size((class) + 1), size((class) + 2), size((class) + 3)

static const uint32_t stats_class_sizes[LIST_CLASSES] = {
    FOUR(SIZE_SMALL, 0),    FOUR(SIZE_SMALL, 4),    FOUR(SIZE_SMALL, 8),    FOUR(SIZE_SMALL, 12),
    FOUR(SIZE_SMALL, 16),   SIZE_SMALL(20),         FOUR(SIZE_MEDIUM, 21),  FOUR(SIZE_MEDIUM, 25),
    FOUR(SIZE_MEDIUM, 29),  FOUR(SIZE_MEDIUM, 33),  FOUR(SIZE_MEDIUM, 37),  FOUR(SIZE_MEDIUM, 41),
    FOUR(SIZE_MEDIUM, 45),  FOUR(SIZE_MEDIUM, 49),  FOUR(SIZE_MEDIUM, 53),  FOUR(SIZE_MEDIUM, 57),
    FOUR(SIZE_MEDIUM, 61),  FOUR(SIZE_MEDIUM, 65),  FOUR(SIZE_MEDIUM, 69),  FOUR(SIZE_MEDIUM, 73),
    FOUR(SIZE_MEDIUM, 77),  FOUR(SIZE_MEDIUM, 81),  FOUR(SIZE_MEDIUM, 85),  FOUR(SIZE_MEDIUM, 89),
    FOUR(SIZE_MEDIUM, 93),  FOUR(SIZE_MEDIUM, 97),  FOUR(SIZE_MEDIUM, 101), FOUR(SIZE_MEDIUM, 105),
    FOUR(SIZE_MEDIUM, 109), FOUR(SIZE_MEDIUM, 113), FOUR(SIZE_MEDIUM, 117), FOUR(SIZE_MEDIUM, 121),
};

static const struct stats_root stats_roots[] = {
    {"arenas", arenas},
    {"arenas_used", &arenas_used},
    {"explicit_arenas", explicit_arenas},
    {"explicit_count", &explicit_count},
    {"pagemap", &pagemap},
    {"heaps", &heaps.all},
    {"heap_shared", &heap_shared},
    {"meta_bytes", &meta.bytes},
    {"page_shift", &os_page_shift},
    {"slab_pools", slab_pools},
    {"trays", trays},
    {"class_sizes", stats_class_sizes},
#if MW_CODED_LINKS
    {"link_keys", &secrets.link},
#endif
    {"lock.process", &process.lock},
    {"lock.heaps", &process.heaps_lock},
    {"lock.shared", &process.shared_lock},
    {"lock.tray", &tray_lock},
    {"lock.rob", &rob_lock},
    {"lock.meta", &meta.lock},
    {"lock.table", &table_lock},
    {"lock.quarantine", &quarantine.lock},
    {"lock.emptied", &emptied_lock},
    {"lock.limit", &memory_limit.lock},
    {"lock.tables", &track_tables_lock},
    {"lock.guarded", &guarded_lock},
    {"mappings_made", &os_counts.maps},
    {"mappings_dropped", &os_counts.unmaps},
    {"mappings_moved", &os_counts.remaps},
    {"threads", &heaps.in_use},
    {"options", option_values},
    {"limit.hard_pages", &memory_limit.hard_pages},
    {"limit.soft_pages", &memory_limit.soft_pages},
};

static_assert(offsetof(__typeof__(secrets), link_odd) ==
                  offsetof(__typeof__(secrets), link) + sizeof(uint64_t),
              "link_keys leads to both");

static const struct stats_number stats_numbers[] = {
    {"pagemap_root_at", offsetof(__typeof__(pagemap), root)},
    {"root_shift", PAGEMAP_ROOT_SHIFT},
    {"granule_shift", GRANULE_SHIFT},
    {"leaf_mask", PAGEMAP_LEAF_WORDS - 1},
    {"remote_count_shift", LIST_HEAD_BITS},
    {"small_classes", SMALL_CLASSES},
    {"classes", CLASSES},
    {"lists", LIST_CLASSES},
    {"outboxes", OUTBOXES},
    {"tray_size", sizeof(struct tray)},
    {"tray_count_shift", TRAY_ITEM_BITS},
    {"tray_unit", TRAY_UNIT},
    {"large_classes", LARGE_CLASSES},
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
    FIELD(arena, is_in_use),
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
    ARRAY(heap, rooms),
    ARRAY(heap, outboxes),
    FIELD(outbox, slab),
    FIELD(outbox, count),
    FIELD(heap, arena),
    FIELD(heap, thread),
    FIELD(heap, stack_pages),
    FIELD(heap, robbed_pages),
    FIELD(heap, magazine_bytes),
#if MW_DELAY_FREE
    FIELD_NAMED("heap.delayed_bytes", heap, delay.small.bytes),
    FIELD_NAMED("heap.delayed_larger", heap, delay.larger.bytes),
#endif
    ARRAY(heap, counts),
    ARRAY(heap, puts),
    ARRAY(heap, large_counts),
    FIELD(class_counts, handed),
    FIELD(class_counts, returned),
    FIELD(class_counts, sent),
    FIELD(class_counts, fills),
    FIELD(class_counts, flushes),
    FIELD(class_counts, slabs),
    FIELD_NAMED("extent.class", extent, slab.class),
    FIELD(arena, index),
    FIELD(arena, lock),
    FIELD(arena, purge_lock),
    FIELD(arena, growth_lock),
    FIELD(arena, dirty_purges),
    FIELD(arena, muzzy_purges),
    FIELD(arena, pages_refaulted),
    FIELD(arena, regions_made),
    FIELD(arena, regions_dropped),
    FIELD(purge_counts, runs),
    FIELD(purge_counts, calls),
    FIELD(purge_counts, pages),
    SIZE_OF(slab_pool),
    FIELD(slab_pool, lock),
    FIELD(slab_pool, batch_bytes),
    FIELD(lock, turns),
    FIELD(lock, owner_changes),
    FIELD(lock, spins),
    FIELD(lock, waits),
    FIELD(lock, wait_ns),
    FIELD(lock, wait_ns_most),
    FIELD(lock, queue_most),
    OPTION(dirty_decay_ms),
    OPTION(muzzy_decay_ms),
    OPTION(purge_thread),
};

#define LINE(level, name, type, unit) {#name, unit, level, #type},
static const struct stats_line stats_lines[] = {
#define PROCESS(name, type, unit, help) LINE("process", name, type, unit)
#define ARENA(name, type, unit, help) LINE("arena", name, type, unit)
#define CLASS(name, type, unit, help) LINE("class", name, type, unit)
#define LARGE(name, type, unit, help) LINE("large", name, type, unit)
#define EXTENT(name, type, unit, help) LINE("extent", name, type, unit)
#define HEAP(name, type, unit, help) LINE("heap", name, type, unit)
#define LOCK(name, type, unit, help) LINE("lock", name, type, unit)
#include "stats.def"
};
#undef LINE

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
    .line_count = COUNT(stats_lines),
    .lines = stats_lines,
};
