/* SPDX-License-Identifier: MIT
 *
 * Explicit caches: made by the program, which names one in the flags of a call. A block that is freed
 * with a cache stays in it, and the next request of its class that names the cache gets it. A cache lies
 * above the heaps: what is in it is in use as far as they know.
 *
 * Slots up to SLOT_MAX are cached. Direct blocks are not: an arena that takes its blocks back finds none
 * of them here. As in jemalloc the program sees to it that no two threads use a cache at a time.
 */
#ifndef MALLOW_CACHE_H
#define MALLOW_CACHE_H

#include "free.h"

struct cache;

/* 0 or EFAULT: there is no memory, or no identity left. */
static int cache_create(unsigned *id);

/* Empty it, and end it. 0, or EFAULT if there is no such cache. */
static int cache_flush(unsigned id);
static int cache_destroy(unsigned id);

/* The cache of an identity; NULL if there is none. */
static struct cache *cache_at(unsigned id);

/* A block of a class; NULL if the cache has none. */
static void *cache_take(struct cache *cache, unsigned class);

/* Takes a block that the program holds; false if it cannot be cached. */
static bool cache_put(struct cache *cache, void *block);

#endif
