/* SPDX-License-Identifier: MIT
 *
 * maps: a hash map of strings. A place is drawn at random: an entry that stands there is deleted, else one is inserted.
 * An entry is a node of 56 bytes and a string of log-uniform length. 400,000 and 20,000 places with strings of 8 to 300
 * bytes, 5,000 with strings to 20,000; half of the places are full. ns per entry inserted or deleted; peak of resident memory.
 * Source of the idea: caches and indices, where what is freed and what is allocated come in random order; in `replace`
 * and `same` each free is followed by an allocation.
 */
#include "bench.h"

enum { PLACES_MAX = 400000, SIZES = 4096, STEPS = 1 << 20, NODE = 56 };

struct work {
    uint32_t places;
    double high;
};

static char *nodes[PLACES_MAX], *strings[PLACES_MAX];
static uint32_t sizes[SIZES];
static uint64_t seed = 88172645463325252u;

static void run(void *context) {
    const struct work *w = context;
    for (size_t i = 0; i < STEPS; i++) {
        uint32_t at = random_between(&seed, 0, w->places - 1);
        if (nodes[at] != NULL) {
            free(strings[at]);
            free(nodes[at]);
            nodes[at] = NULL;
        } else {
            nodes[at] = must(malloc(NODE));
            strings[at] = must(malloc(sizes[random_next(&seed) % SIZES]));
            *nodes[at] = *strings[at] = 1;
        }
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const struct work works[] = {{5000, 20000}, {20000, 300}, {400000, 300}};
    for (size_t i = 0; i < LENGTH(works); i++) {
        struct work w = works[i];
        draw_log_uniform(sizes, SIZES, 8, w.high, 12345);
        char row[32];
        snprintf(row, sizeof row, "maps/%u", w.places);
        report(row, measure(run, &w, STEPS), "ns");
        for (uint32_t at = 0; at < w.places; at++) {
            if (nodes[at] != NULL) {
                free(strings[at]);
                free(nodes[at]);
                nodes[at] = NULL;
            }
        }
    }
    bench_end("maps");
    return 0;
}
