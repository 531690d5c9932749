/* SPDX-License-Identifier: MIT
 *
 * nbody: gravity among 2,000 bodies by a tree of cells that is built anew in each step: many cells
 * of one size are allocated, live through the step and are freed in the order of the tree. One
 * thread; ms per step.
 * Source of the idea: barnes of the SPLASH-2 suite (Woo et al., ISCA 1995), after Barnes and Hut,
 * "A hierarchical O(N log N) force-calculation algorithm" (Nature, 1986); as in mimalloc-bench.
 */
#include "bench.h"

enum { BODIES = 2000, CHILDREN = 8 };

struct body {
    double at[3], speed[3], force[3], mass;
};

struct cell {
    double centre[3], half; /* of the cube */
    double mass, weighted[3];
    struct body *body; /* of a leaf */
    struct cell *children[CHILDREN];
};

static struct body bodies[BODIES];

static struct cell *cell_new(const double centre[3], double half) {
    struct cell *c = must(calloc(1, sizeof *c));
    memcpy(c->centre, centre, sizeof c->centre);
    c->half = half;
    return c;
}

static struct cell **child_of(struct cell *c, const struct body *b) {
    size_t octant = 0;
    double centre[3];
    for (size_t d = 0; d < 3; d++) {
        bool upper = b->at[d] >= c->centre[d];
        octant |= (size_t)upper << d;
        centre[d] = c->centre[d] + (upper ? c->half : -c->half) / 2;
    }
    if (c->children[octant] == NULL) c->children[octant] = cell_new(centre, c->half / 2);
    return &c->children[octant];
}

static void account(struct cell *c, const struct body *b) {
    c->mass += b->mass;
    for (size_t d = 0; d < 3; d++) c->weighted[d] += b->mass * b->at[d];
}

/* Bodies closer than this share a leaf's mass: the tree ends. */
static const double smallest_half = 1e-6;

static void insert(struct cell *c, struct body *b) {
    for (;;) {
        bool empty = c->mass == 0;
        account(c, b);
        if (empty) {
            c->body = b;
            return;
        }
        if (c->half < smallest_half) return;
        if (c->body) {
            struct body *old = c->body;
            c->body = NULL;
            struct cell *child = *child_of(c, old);
            account(child, old);
            child->body = old;
        }
        c = *child_of(c, b);
    }
}

static void pull(const struct cell *c, struct body *b) {
    double distance[3], square = 1e-4;
    for (size_t d = 0; d < 3; d++) {
        distance[d] = c->weighted[d] / c->mass - b->at[d];
        square += distance[d] * distance[d];
    }
    if (c->body == b) return;
    if (c->body || 4 * c->half * c->half < square || c->half < smallest_half) {
        for (size_t d = 0; d < 3; d++) b->force[d] += c->mass * distance[d] / square;
        return;
    }
    for (size_t i = 0; i < CHILDREN; i++)
        if (c->children[i]) pull(c->children[i], b);
}

static void cell_free(struct cell *c) {
    for (size_t i = 0; i < CHILDREN; i++)
        if (c->children[i]) cell_free(c->children[i]);
    free(c);
}

static void step(void) {
    struct cell *root = cell_new((double[3]){0, 0, 0}, 4);
    for (size_t i = 0; i < BODIES; i++) insert(root, &bodies[i]);
    for (size_t i = 0; i < BODIES; i++) {
        struct body *b = &bodies[i];
        memset(b->force, 0, sizeof b->force);
        pull(root, b);
        for (size_t d = 0; d < 3; d++) {
            b->speed[d] += b->force[d] * 1e-6;
            b->at[d] += b->speed[d] * 1e-3;
        }
    }
    cell_free(root);
}

static void run(void *context) {
    for (size_t i = 0; i < *(size_t *)context; i++) step();
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    uint64_t seed = 12345;
    for (size_t i = 0; i < BODIES; i++) {
        bodies[i].mass = 1;
        for (size_t d = 0; d < 3; d++)
            bodies[i].at[d] = (double)random_between(&seed, 0, 1000000) / 500000 - 1;
    }
    size_t steps = bench_short ? 2 : 4;
    report("nbody/step", measure(run, &steps, steps) / 1e6, "ms");
    bench_end("nbody");
    return 0;
}
