/* SPDX-License-Identifier: MIT
 *
 * The explorer's memory is what explorer.h says: of the small programs by which memories are usually told
 * apart, it shows the outcomes that each memory allows, and no others.
 */
#include <stdatomic.h>

#include "../test.h"
#include "explorer.h"

static _Atomic int x, y;
static int plain;
static int seen[3];

static void nothing_yet(void)
{
    atomic_store_explicit(&x, 0, memory_order_relaxed);
    atomic_store_explicit(&y, 0, memory_order_relaxed);
    plain = 0;
    seen[0] = seen[1] = seen[2] = -1;
    explorer_watch(&x, "x");
    explorer_watch(&y, "y");
    explorer_allow_race(seen, sizeof seen); /* each thread writes its own */
}

/* --- Each stores, then looks at what the other has stored ------------------------------------------- */

#define STORE_AND_LOOK(name, order)                       \
    static void name##_0(void)                            \
    {                                                     \
        atomic_store_explicit(&x, 1, order);              \
        seen[0] = atomic_load_explicit(&y, order##_LOAD); \
    }                                                     \
    static void name##_1(void)                            \
    {                                                     \
        atomic_store_explicit(&y, 1, order);              \
        seen[1] = atomic_load_explicit(&x, order##_LOAD); \
    }

#define memory_order_release_LOAD memory_order_acquire
#define memory_order_seq_cst_LOAD memory_order_seq_cst

STORE_AND_LOOK(weak, memory_order_release)
STORE_AND_LOOK(strong, memory_order_seq_cst)

static void one_sees_the_other(void)
{
    PROPERTY(seen[0] == 1 || seen[1] == 1, "neither sees the other");
}

static const struct scenario store_and_look_weak = {
    "store, look (release)", nothing_yet, {weak_0, weak_1}, one_sees_the_other};
static const struct scenario store_and_look_strong = {
    "store, look (seq_cst)", nothing_yet, {strong_0, strong_1}, one_sees_the_other};

TEST(delayed_stores_are_seen_unless_seq_cst)
{
    explore(&store_and_look_strong);
    explore_finds(&store_and_look_weak, MEMORY_X86, MISTAKE_NONE, "neither sees the other");
    explore_finds(&store_and_look_weak, MEMORY_C11, MISTAKE_NONE, "neither sees the other");
    explore_finds(&store_and_look_strong, MEMORY_X86, MISTAKE_NO_SEQ_CST, "neither sees the other");
    explore_finds(&store_and_look_strong, MEMORY_C11, MISTAKE_NO_SEQ_CST, "neither sees the other");
}

/* --- A message and a flag ----------------------------------------------------------------------------- */

static void send(void)
{
    plain = 1;
    atomic_store_explicit(&x, 1, memory_order_relaxed);
    atomic_store_explicit(&y, 1, memory_order_release);
}

static void receive(void)
{
    seen[1] = atomic_load_explicit(&y, memory_order_acquire);
    if (seen[1] == 1) {
        seen[2] = atomic_load_explicit(&x, memory_order_relaxed);
        PROPERTY(plain == 1, "the message is not there");
    }
}

static void message_has_come(void)
{
    PROPERTY(seen[1] != 1 || seen[2] == 1, "the flag came before the message");
}

static const struct scenario message = {
    "message, flag (release, acquire)", nothing_yet, {send, receive}, message_has_come};

static void send_relaxed(void)
{
    atomic_store_explicit(&x, 1, memory_order_relaxed);
    atomic_store_explicit(&y, 1, memory_order_relaxed);
}

static void receive_relaxed(void)
{
    seen[1] = atomic_load_explicit(&y, memory_order_relaxed);
    seen[2] = atomic_load_explicit(&x, memory_order_relaxed);
}

static const struct scenario message_relaxed = {
    "message, flag (relaxed)", nothing_yet, {send_relaxed, receive_relaxed}, message_has_come};

TEST(relaxed_stores_pass_each_other_unless_published)
{
    explore(&message);
    explore_finds(&message_relaxed, MEMORY_C11, MISTAKE_NONE, "the flag came before the message");
    explore_finds(&message, MEMORY_C11, MISTAKE_NO_RELEASE, "race");
    explore_finds(&message, MEMORY_C11, MISTAKE_NO_ACQUIRE, "race");
}

/* --- A counter ---------------------------------------------------------------------------------------- */

static void add(void)
{
    atomic_fetch_add_explicit(&x, 1, memory_order_relaxed);
}

static void add_in_two_steps(void)
{
    int old = atomic_load_explicit(&x, memory_order_relaxed);
    atomic_store_explicit(&x, old + 1, memory_order_relaxed);
}

static void all_are_counted(void)
{
    PROPERTY(atomic_load_explicit(&x, memory_order_relaxed) == 3, "an addition is lost");
}

static const struct scenario counter = {
    "add, add, add", nothing_yet, {add, add, add}, all_are_counted};
static const struct scenario counter_in_two_steps = {
    "mistake: load, store", nothing_yet, {add, add_in_two_steps, add}, all_are_counted};

TEST(nothing_comes_between_the_halves_of_an_exchange)
{
    explore(&counter);
    explore_finds(&counter_in_two_steps, MEMORY_ORDERED, MISTAKE_NONE, "an addition is lost");
}

/* --- Coherence ---------------------------------------------------------------------------------------- */

static void store_twice(void)
{
    atomic_store_explicit(&x, 1, memory_order_relaxed);
    atomic_store_explicit(&x, 2, memory_order_relaxed);
}

static void load_twice(void)
{
    seen[0] = atomic_load_explicit(&x, memory_order_relaxed);
    seen[1] = atomic_load_explicit(&x, memory_order_relaxed);
}

static void values_do_not_go_back(void)
{
    PROPERTY(seen[0] <= seen[1], "%d was seen after %d", seen[1], seen[0]);
}

static const struct scenario coherence = {
    "store twice, load twice", nothing_yet, {store_twice, load_twice}, values_do_not_go_back};

TEST(a_location_does_not_go_back)
{
    explore(&coherence);
}
