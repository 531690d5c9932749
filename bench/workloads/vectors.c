/* SPDX-License-Identifier: MIT
 *
 * vectors: 64 vectors grow by doubling, from 32 bytes to up to 1 MiB, a random one at a time; one
 * that has reached its length is freed and begins anew. Between any two growths one of 2,000 other
 * blocks (32 to 1,024 bytes) is replaced, so that the place behind a vector is seldom free. Growth by
 * realloc (vectors/realloc), or by malloc, copy and free as in C++ (vectors/copy); the new half is
 * filled. ns of CPU per growth; peak of resident memory.
 * Source of the idea: parsers and collections, which grow many vectors side by side; `realloc` grows
 * one in an empty heap.
 */
#include "bench.h"

enum { VECTORS = 64, OTHERS = 2000, SIZES = 4096, FIRST = 32 };

struct vector {
    char *data;
    size_t capacity, limit;
};

struct work {
    size_t count;
    bool by_realloc;
    uint64_t seed;
};

static struct vector vectors[VECTORS];
static char *others[OTHERS];
static uint32_t limits[SIZES], sizes[SIZES];

static void grow(struct vector *v, bool by_realloc) {
    size_t old = v->capacity, wanted = old ? 2 * old : FIRST;
    if (by_realloc) {
        v->data = must(realloc(v->data, wanted));
    } else {
        char *larger = must(malloc(wanted));
        if (old > 0) memcpy(larger, v->data, old);
        free(v->data);
        v->data = larger;
    }
    memset(v->data + old, 1, wanted - old);
    v->capacity = wanted;
}

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        struct vector *v = &vectors[random_between(&w->seed, 0, VECTORS - 1)];
        if (v->data && v->capacity >= v->limit) {
            free(v->data);
            *v = (struct vector){0};
        }
        if (!v->data) v->limit = limits[random_next(&w->seed) % SIZES];
        grow(v, w->by_realloc);
        size_t other = random_between(&w->seed, 0, OTHERS - 1);
        free(others[other]);
        others[other] = must(malloc(sizes[random_next(&w->seed) % SIZES]));
        *others[other] = 1;
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    draw_log_uniform(limits, SIZES, 64, 512 * KIB + 1, 12345);
    draw_log_uniform(sizes, SIZES, 32, 1024, 54321);
    struct work w = {bench_short ? 2500 : 5000, true, 88172645463325252u};
    report("vectors/realloc", measure(run, &w, w.count), "ns");
    w.by_realloc = false;
    report("vectors/copy", measure(run, &w, w.count), "ns");
    bench_end("vectors");
    return 0;
}
