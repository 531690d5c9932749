/* SPDX-License-Identifier: MIT
 *
 * The figures by name, for the program: what mallow.h calls mw_stats_each and mw_stats_read.
 */
#include "huge_pages.h"

#include <string.h>

/* Who is told of each figure. */
struct visitor {
    void (*visit)(void *context, const struct mw_stat *stat);
    void *context;
    const char *prefix; /* of the names at hand, such as "arena.0." */
};

/* Arrays, not pointers: those would be relocated in every program that starts, which makes their pages
 * dirty. */
struct stat_text {
    char name[24];
    enum mw_stat_type type;
    char unit[12];
    char help[96];
};

#define TEXT(name, type, unit, help) {#name, MW_STAT_##type, unit, help},

static const struct stat_text process_texts[] = {
#define PROCESS TEXT
#include "stats.def"
};

static const struct stat_text arena_texts[] = {
#define ARENA TEXT
#include "stats.def"
};

static const struct stat_text class_texts[] = {
#define CLASS TEXT
#include "stats.def"
};

static const struct stat_text large_texts[] = {
#define LARGE TEXT
#include "stats.def"
};

static const struct stat_text extent_texts[] = {
#define EXTENT TEXT
#include "stats.def"
};

static const struct stat_text heap_texts[] = {
#define HEAP TEXT
#include "stats.def"
};

static const struct stat_text lock_texts[] = {
#define LOCK TEXT
#include "stats.def"
};

#undef TEXT

/* A name is put together here. */
#define NAME_SIZE 96

static void text_append(char *buffer, const char *more)
{
    size_t used = strlen(buffer);
    size_t length = strlen(more);
    require(used + length < NAME_SIZE);
    memcpy(buffer + used, more, length + 1);
}

static void text_append_number(char *buffer, uint64_t number)
{
    char digits[21] = {0};
    unsigned at = 20;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    text_append(buffer, &digits[at]);
}

/* The figures of one structure, which has one for each text. */
static void visit_all(const struct visitor *to, const struct stat_text *texts, size_t count,
                      const void *figures)
{
    for (size_t i = 0; i < count; i++) {
        char name[NAME_SIZE] = {0};
        text_append(name, to->prefix);
        text_append(name, texts[i].name);
        struct mw_stat stat = {name, 0, texts[i].type, texts[i].unit, texts[i].help};
        memcpy(&stat.value, (const uint64_t *)figures + i, sizeof stat.value);
        to->visit(to->context, &stat);
    }
}

#define VISIT(to, texts, figures)                                               \
    do {                                                                        \
        static_assert(sizeof(figures) == array_count(texts) * sizeof(uint64_t), \
                      "a text for each figure");                                \
        visit_all(to, texts, array_count(texts), &(figures));                   \
    } while (0)

/* The visitor for names that go on with `word` and, unless it is NULL, `rest`. */
static struct visitor deeper(const struct visitor *from, char *buffer, const char *word,
                             uint64_t number, const char *rest)
{
    buffer[0] = 0;
    text_append(buffer, from->prefix);
    text_append(buffer, word);
    if (rest == NULL) {
        text_append_number(buffer, number);
    } else {
        text_append(buffer, rest);
    }
    text_append(buffer, ".");
    return (struct visitor){from->visit, from->context, buffer};
}

static void visit_arena(const struct visitor *to, const struct stats_arena *arena)
{
    char buffer[NAME_SIZE];
    VISIT(to, arena_texts, arena->figures);
    for (unsigned class = 1; class < CLASSES; class ++) {
        struct visitor next = deeper(to, buffer, "class.", arena->classes[class].size, NULL);
        VISIT(&next, class_texts, arena->classes[class]);
    }
    for (unsigned class = 0; class < LARGE_CLASSES; class ++) {
        struct visitor next = deeper(to, buffer, "large.", arena->large[class].size, NULL);
        VISIT(&next, large_texts, arena->large[class]);
    }
    for (unsigned bin = 0; bin < EXTENT_BINS; bin++) {
        struct visitor next = deeper(to, buffer, "extents.", arena->extents[bin].pages, NULL);
        VISIT(&next, extent_texts, arena->extents[bin]);
    }
    for (unsigned i = 0; i < STATS_ARENA_LOCKS; i++) {
        struct visitor next = deeper(to, buffer, "lock.", 0, stats_arena_lock_names[i]);
        VISIT(&next, lock_texts, arena->locks[i]);
    }
}

static void visit_stats(const struct visitor *to, const struct stats *stats)
{
    char buffer[NAME_SIZE];
    VISIT(to, process_texts, stats->process);
    for (unsigned i = 0; i < STATS_PROCESS_LOCKS; i++) {
        struct visitor next = deeper(to, buffer, "lock.", 0, stats_process_lock_names[i]);
        VISIT(&next, lock_texts, stats->locks[i]);
    }
    struct visitor all = deeper(to, buffer, "all", 0, "");
    visit_arena(&all, &stats->all);
    for (unsigned i = 0; i < stats->arena_count; i++) {
        struct visitor next = deeper(to, buffer, "arena.", i, NULL);
        visit_arena(&next, &stats->arenas[i]);
    }
    uint64_t number = 0;
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        struct visitor next = deeper(to, buffer, "heap.", number++, NULL);
        struct stats_heap figures = stats_of_heap(at);
        VISIT(&next, heap_texts, figures);
    }
}

static bool stats_each(void (*visit)(void *context, const struct mw_stat *stat), void *context,
                       bool asks_kernel)
{
    struct stats *stats = stats_open();
    if (stats == NULL) {
        return false;
    }
    if (asks_kernel) {
        kernel_figures(&stats->process);
    }
    struct visitor visitor = {visit, context, ""};
    visit_stats(&visitor, stats);
    stats_close(stats);
    return true;
}

bool mw_stats_each(void (*visit)(void *context, const struct mw_stat *stat), void *context)
{
    return stats_each(visit, context, true);
}

struct wanted {
    const char *name;
    uint64_t value;
    bool is_found;
};

static void look_for(void *context, const struct mw_stat *stat)
{
    struct wanted *wanted = context;
    if (!wanted->is_found && text_is(stat->name, wanted->name)) {
        wanted->value = stat->value;
        wanted->is_found = true;
    }
}

bool mw_stats_read(const char *name, uint64_t *value)
{
    struct wanted wanted = {name, 0, false};
    if (!stats_each(look_for, &wanted, figure_is_of_kernel(name)) || !wanted.is_found) {
        return false;
    }
    *value = wanted.value;
    return true;
}
