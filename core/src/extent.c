/* SPDX-License-Identifier: MIT */
#include "extent.h"

static void extent_map_ends(struct extent *extent)
{
    pagemap_set(extent->start, extent);
    pagemap_set(extent_end(extent) - GRANULE, extent);
}

static void extent_unmap_ends(struct extent *extent)
{
    pagemap_set(extent->start, NULL);
    pagemap_set(extent_end(extent) - GRANULE, NULL);
}

/* --- The tree: a treap (Seidel and Aragon 1996), ordered by (pages, start) --------------------- */

/* The heap order of the treap: a hash of the descriptor's address serves as its random number. */
ALWAYS_INLINE uint64_t tree_priority(struct extent *extent)
{
    return ((uintptr_t)extent >> 6) * 0x9e3779b97f4a7c15u;
}

ALWAYS_INLINE bool tree_less(struct extent *a, struct extent *b)
{
    size_t a_pages = extent_pages(a);
    size_t b_pages = extent_pages(b);
    return a_pages != b_pages ? a_pages < b_pages : a->start < b->start;
}

static void tree_insert(struct extent **root, struct extent *extent)
{
    struct extent **at = root;
    while (*at != NULL && tree_priority(*at) >= tree_priority(extent)) {
        at = tree_less(*at, extent) ? &(*at)->right : &(*at)->left;
    }
    /* Split what is below into the smaller and the larger ones. */
    struct extent *rest = *at;
    struct extent **smaller = &extent->left;
    struct extent **larger = &extent->right;
    while (rest != NULL) {
        if (tree_less(rest, extent)) {
            *smaller = rest;
            smaller = &rest->right;
            rest = rest->right;
        } else {
            *larger = rest;
            larger = &rest->left;
            rest = rest->left;
        }
    }
    *smaller = NULL;
    *larger = NULL;
    *at = extent;
}

static void tree_remove(struct extent **root, struct extent *extent)
{
    struct extent **at = root;
    while (*at != extent) {
        require(*at != NULL);
        at = tree_less(*at, extent) ? &(*at)->right : &(*at)->left;
    }
    struct extent *smaller = extent->left;
    struct extent *larger = extent->right;
    while (smaller != NULL && larger != NULL) {
        if (tree_priority(smaller) >= tree_priority(larger)) {
            *at = smaller;
            at = &smaller->right;
            smaller = smaller->right;
        } else {
            *at = larger;
            at = &larger->left;
            larger = larger->left;
        }
    }
    *at = smaller != NULL ? smaller : larger;
}

/* --- Sets ------------------------------------------------------------------------------------ */

static void extent_set_init(struct extent_set *set)
{
    *set = (struct extent_set){0};
    list_init(&set->lru);
}

static void extent_set_insert(struct extent_set *set, struct extent *extent)
{
    tree_insert(&set->root, extent);
    list_push_back(&set->lru, &extent->link);
    set->pages += extent_pages(extent);
    set->count++;
}

static void extent_set_remove(struct extent_set *set, struct extent *extent)
{
    check(set->count > 0 && set->pages >= extent_pages(extent));
    tree_remove(&set->root, extent);
    list_remove(&extent->link);
    set->pages -= extent_pages(extent);
    set->count--;
}

static struct extent *extent_set_fit(struct extent_set *set, size_t pages)
{
    struct extent *best = NULL;
    struct extent *at = set->root;
    while (at != NULL) {
        if (extent_pages(at) >= pages) {
            best = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return best;
}

static struct extent *extent_set_oldest(struct extent_set *set)
{
    return list_is_empty(&set->lru) ? NULL : container_of(set->lru.next, struct extent, link);
}
