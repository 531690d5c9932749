/* SPDX-License-Identifier: MIT
 *
 * cubes: a logic minimiser: the prime implicants of random functions of 7 variables. Terms are
 * small blocks in lists that are merged pairwise into new ones, level after level; sizes depend on
 * the level, and most terms die with it. One thread; ns per term.
 * Source of the idea: espresso in the allocator surveys of Zorn and Grunwald (1992); the method is
 * that of Quine and McCluskey.
 */
#include "bench.h"

enum { VARIABLES = 7, VALUES = 1 << VARIABLES };

struct term {
    struct term *next;
    uint16_t value, dashes; /* dashes: variables that do not matter */
    bool merged;
    uint16_t covers; /* minterms covered; a list of them follows */
    uint16_t minterms[];
};

static size_t terms_made;

static struct term *term_new(uint16_t value, uint16_t dashes, uint16_t covers) {
    terms_made++;
    struct term *t = must(malloc(sizeof *t + covers * sizeof t->minterms[0]));
    t->next = NULL;
    t->value = value;
    t->dashes = dashes;
    t->merged = false;
    t->covers = covers;
    return t;
}

static void list_free(struct term *list) {
    while (list) {
        struct term *next = list->next;
        free(list);
        list = next;
    }
}

static bool listed(const struct term *list, uint16_t value, uint16_t dashes) {
    for (; list; list = list->next)
        if (list->value == value && list->dashes == dashes) return true;
    return false;
}

static struct term *merge(struct term *a, struct term *b) {
    struct term *t = term_new(a->value & b->value, a->dashes | (a->value ^ b->value),
                              (uint16_t)(a->covers + b->covers));
    memcpy(t->minterms, a->minterms, a->covers * sizeof a->minterms[0]);
    memcpy(t->minterms + a->covers, b->minterms, b->covers * sizeof b->minterms[0]);
    a->merged = b->merged = true;
    return t;
}

/* All terms of two neighbouring groups (by the number of ones) that differ in one variable. */
static void merge_groups(struct term *low, struct term *high, struct term **out) {
    for (struct term *a = low; a; a = a->next) {
        for (struct term *b = high; b; b = b->next) {
            uint16_t differing = a->value ^ b->value;
            if (a->dashes != b->dashes || (differing & (differing - 1)) != 0) continue;
            if (listed(*out, a->value & b->value, a->dashes | differing)) {
                a->merged = b->merged = true;
                continue;
            }
            struct term *t = merge(a, b);
            t->next = *out;
            *out = t;
        }
    }
}

/* Number of prime implicants of the function that is true with `density` of 16. */
static size_t minimise(uint64_t *seed, uint32_t density) {
    struct term *groups[VARIABLES + 1] = {0};
    for (uint16_t v = 0; v < VALUES; v++) {
        if (random_between(seed, 0, 15) >= density) continue;
        struct term *t = term_new(v, 0, 1), **group = &groups[__builtin_popcount(v)];
        t->minterms[0] = v;
        t->next = *group;
        *group = t;
    }
    size_t primes = 0;
    for (bool more = true; more;) {
        struct term *next[VARIABLES + 1] = {0};
        more = false;
        for (int g = 0; g < VARIABLES; g++) {
            merge_groups(groups[g], groups[g + 1], &next[g]);
            more |= next[g] != NULL;
        }
        for (int g = 0; g <= VARIABLES; g++) {
            for (struct term *t = groups[g]; t; t = t->next) primes += !t->merged;
            list_free(groups[g]);
            groups[g] = next[g];
        }
    }
    return primes;
}

static void run(void *context) {
    size_t count = *(size_t *)context;
    uint64_t seed = 12345;
    terms_made = 0;
    for (size_t i = 0; i < count; i++)
        if (minimise(&seed, 4) == 0) _exit(1);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    size_t count = bench_short ? 2000 : 4000;
    run(&count);
    report("cubes/term", measure(run, &count, terms_made), "ns");
    bench_end("cubes");
    return 0;
}
