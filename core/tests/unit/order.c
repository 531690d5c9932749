/* SPDX-License-Identifier: MIT
 *
 * The order of fresh slots: each comes once, within so many pages as were allowed, and which one comes next, or when
 * the neighbour of a slot does, can hardly be guessed.
 */
#include "unit.h"

enum { TRIES = 20000, DISTANCES = 2 * ORDER_SLOTS_MAX };

/* Guesses that are right, in a hundred, if one always says what is the case most often. */
static unsigned best_guess(const unsigned seen[DISTANCES])
{
    unsigned most = 0;
    for (unsigned i = 0; i < DISTANCES; i++) {
        most = seen[i] > most ? seen[i] : most;
    }
    return most * 100 / TRIES;
}

TEST(each_slot_comes_once)
{
    process_init();
    for (uint32_t runs = 1; runs <= ORDER_RUNS_MAX; runs++) {
        for (uint32_t count = 1; count <= ORDER_SLOTS_MAX; count++) {
            uint16_t order[ORDER_SLOTS_MAX];
            bool came[ORDER_SLOTS_MAX] = {false};
            order_choose(order, count, runs);
            for (uint32_t i = 0; i < count; i++) {
                CHECK_LT(order[i], count);
                CHECK_MSG(!came[order[i]], "%u came twice of %u in %u runs", order[i], count, runs);
                came[order[i]] = true;
            }
        }
    }
}

/* Blocks of 64 bytes: 64 to a page, so of four pages all that can be had at once. */
static void check_guesses(uint32_t count, uint32_t runs, unsigned most)
{
    static unsigned next[DISTANCES], until_neighbour[DISTANCES];
    memset(next, 0, sizeof next);
    memset(until_neighbour, 0, sizeof until_neighbour);
    for (unsigned try = 0; try < TRIES; try++) {
        uint16_t order[ORDER_SLOTS_MAX], turn[ORDER_SLOTS_MAX];
        order_choose(order, count, runs);
        for (uint32_t i = 0; i < count; i++) {
            turn[order[i]] = (uint16_t)i;
        }
        uint32_t at = random_below(random_bits(), count - 1);
        next[ORDER_SLOTS_MAX + order[at + 1] - order[at]]++;
        until_neighbour[ORDER_SLOTS_MAX + turn[at + 1] - turn[at]]++;
    }
    CHECK_LE(best_guess(next), most);
    CHECK_LE(best_guess(until_neighbour), most);
}

TEST(nobody_can_guess_what_comes_next)
{
    process_init();
    check_guesses(64, 1, 3);
    check_guesses(4 * 64, 4, 14);
    check_guesses(2 * 64, 2, 25);
}

TEST(runs_rise)
{
    process_init();
    uint16_t order[ORDER_SLOTS_MAX];
    uint32_t reached[4] = {0};
    order_choose(order, 256, 4);
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t run = order[i] / 64;
        CHECK_GE(order[i] + 1u, reached[run]); /* but for two neighbours */
        reached[run] = order[i] > reached[run] ? order[i] : reached[run];
    }
}
