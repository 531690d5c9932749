/* SPDX-License-Identifier: MIT */
#include "inbox.h"

static struct lock emptied_lock = LOCK_INITIALIZER(LOCK_EMPTIED);

static_assert(SLAB_SLOTS_MAX <= UINT16_MAX, "a slab's slots can be counted");

/* What the inbox holds when nobody is in the middle of emptying the slab. */
static uint64_t inbox_when_settled(struct extent *extent)
{
    lock_take(&emptied_lock);
    lock_release(&emptied_lock);
    return atomic_get(&extent->remote);
}

static uint32_t slab_push_remote(struct extent *extent, struct slot *head, struct slot *tail,
                                 uint32_t count)
{
    check(count > 0 && slab_has_slot(extent, head) && slab_has_slot(extent, tail));
    check(count == 1 ? head == tail : head != tail);
    uint32_t capacity = extent->slab.capacity;
    uint64_t old = atomic_get(&extent->remote);
    uint64_t new;
    do {
        if (unlikely((old & INBOX_EMPTIED) != 0)) {
            old = inbox_when_settled(extent);
            if ((old & INBOX_EMPTIED) != 0) {
                return 0;
            }
        }
        slot_set_next(tail, list_word_head(old));
        uint32_t total = list_word_length(old) + count;
        check(total <= capacity && list_word_head(old) != head);
        new = list_word(head, total) | (old & INBOX_FLAGS);
        /* pairs with slab_collect_remote and slab_mark_emptied, and in its order with slab_disown */
    } while (!atomic_replace(&extent->remote, &old, new));
    return list_word_length(new);
}

static struct slot *slab_collect_remote(struct extent *extent, uint32_t *count)
{
    if (atomic_get(&extent->remote) == 0) {
        return NULL;
    }
    uint64_t remote = atomic_swap(&extent->remote, 0); /* pairs with slab_push_remote */
    *count = list_word_length(remote);
    check((remote & INBOX_FLAGS) == 0);
    check(*count > 0 && *count <= extent->slab.capacity && list_word_head(remote) != NULL);
    return list_word_head(remote);
}

static struct slot *slab_first_remote(struct extent *extent)
{
    return list_word_head(atomic_get_acquire(&extent->remote)); /* pairs with slab_push_remote */
}

/* --- Slabs that others empty -------------------------------------------------------------------- */

static void slab_open(struct extent *extent)
{
    check((atomic_get(&extent->remote) & INBOX_FLAGS) == 0);
    check(extent->slab.place == SLAB_READY || extent->slab.place == SLAB_WAITING);
    /* pairs with slab_mark_emptied */
    atomic_fetch_or_explicit(&extent->remote, INBOX_OPEN, memory_order_acq_rel);
}

static NOINLINE bool slab_close_slow(struct extent *extent)
{
    uint64_t old = atomic_get(&extent->remote);
    bool was_open = (old & INBOX_OPEN) != 0;
    for (;;) {
        if ((old & INBOX_EMPTIED) != 0) {
            old = inbox_when_settled(extent); /* pairs with who released the lock */
            if ((old & INBOX_EMPTIED) != 0) {
                break;
            }
        }
        /* pairs with slab_push_remote */
        if (atomic_replace(&extent->remote, &old, old & ~(uint64_t)INBOX_OPEN)) {
            return was_open;
        }
    }
    struct slab *slab = &extent->slab;
    slab->local = NULL;
    slab->left = 0;
    slab->bias = 0;
    slab->carved = 0;
    slab->was_touched =
        true; /* what this thread wrote last may have come behind the kernel's zeros */
    atomic_set(&extent->remote, 0);
    return was_open;
}

/* The owner may be freeing into it: then the number is too high. */
__attribute__((no_sanitize("thread"))) static uint32_t slab_peek_used(struct extent *extent)
{
    return atomic_peek(&extent->slab.left) + atomic_peek(&extent->slab.bias);
}

static bool slab_seems_emptied(struct extent *extent)
{
    uint64_t word = atomic_get_acquire(&extent->remote); /* pairs with slab_open */
    uint32_t count = list_word_length(word);
    return (word & INBOX_FLAGS) == INBOX_OPEN && count > 0 && count == slab_peek_used(extent);
}

/* The slots' memory is as it was. */
static void slab_unmark_emptied(struct extent *extent)
{
    check(lock_is_mine(&emptied_lock));
    /* pairs with slab_push_remote; with the lock for who waits */
    atomic_fetch_and_explicit(&extent->remote, ~(uint64_t)INBOX_EMPTIED, memory_order_release);
}

static bool slab_mark_emptied(struct extent *extent)
{
    check(lock_is_mine(&emptied_lock));
    uint64_t word = atomic_get(&extent->remote);
    if ((word & INBOX_FLAGS) != INBOX_OPEN || list_word_length(word) == 0 ||
        !atomic_replace(&extent->remote, &word, word | INBOX_EMPTIED)) { /* pairs with slab_open */
        return false;
    }
    /* Only now is it certain that the owner counts in no other way than by frees. */
    if (list_word_length(word) != slab_peek_used(extent)) {
        slab_unmark_emptied(extent);
        return false;
    }
    return true;
}
