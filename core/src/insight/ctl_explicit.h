/* SPDX-License-Identifier: MIT
 *
 * What mallctl does with arenas and caches that the program makes. Each function returns 0 or an error
 * number.
 */
#ifndef MALLOW_CTL_EXPLICIT_H
#define MALLOW_CTL_EXPLICIT_H

#include "report.h"

#include "../api/cache.h"

/* Whether a number means all arenas: by the number that stands for them, and by the one that older
 * programs use; whether it means anything. */
static bool number_is_all(size_t number);
static bool number_is_valid(size_t number);

/* How many numbers arenas have. */
static unsigned number_count(void);

/* The arena of a number; NULL if it means several, or one that is not made yet or destroyed. */
static struct arena *arena_of_number(size_t number);

/* Makes an arena, with hooks or NULL, and says its number. */
static int arena_create(extent_hooks_t *hooks, uint64_t *number);

/* Take all blocks of an explicit arena back; the second ends it, unless a thread is bound to it. */
static int arena_reset(size_t number);
static int arena_destroy(size_t number);

/* Whether an arena has ever been destroyed. */
static bool arenas_were_destroyed(void);

/* What is free goes back to the kernel, all of it or what the time of is over. */
static void arena_give_back(struct arena *arena, bool all);

static extent_hooks_t *arena_hooks(struct arena *arena);
static int arena_set_hooks(struct arena *arena, extent_hooks_t *hooks);

/* A name that is longer than ARENA_NAME_SIZE with the 0 at its end is cut. */
static void arena_set_name(struct arena *arena, const char *name);

/* The most that a region grows to of itself. */
static size_t arena_region_most(struct arena *arena);
static int arena_set_region_most(struct arena *arena, size_t size);

/* The size from which jemalloc would take another arena: kept for who asks, and no more than that, as
 * what is large has its own mapping in every arena. */
static size_t arena_oversize(struct arena *arena);
static void arena_set_oversize(struct arena *arena, size_t size);

#endif
