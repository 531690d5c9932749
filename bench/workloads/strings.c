/* SPDX-License-Identifier: MIT
 *
 * strings: some strings grow by realloc in small steps, a random one at a time; one that has reached its length is
 * freed and begins anew. The last byte is written. One that grows alone, and two hundred that grow by turns, short and
 * long. ns of CPU per step; peak of resident memory.
 * Source of the idea: output buffers and logs to which little is appended, by programs that do not double them.
 */
#include "bench.h"

enum { STRINGS_MAX = 200, STEPS = 200000 };

struct work {
    uint32_t strings, step, limit;
};

static char *strings[STRINGS_MAX];
static uint32_t lengths[STRINGS_MAX];

static void run(void *context) {
    const struct work *w = context;
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < STEPS; i++) {
        uint32_t at = random_between(&seed, 0, w->strings - 1);
        if (lengths[at] + w->step > w->limit) {
            free(strings[at]);
            strings[at] = NULL;
            lengths[at] = 0;
        }
        lengths[at] += w->step;
        strings[at] = must(realloc(strings[at], lengths[at]));
        strings[at][lengths[at] - 1] = 1;
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const struct work works[] = {{1, 64, 100000}, {200, 16, 4096}, {200, 100, 20000}};
    for (size_t i = 0; i < LENGTH(works); i++) {
        struct work w = works[i];
        char row[32];
        snprintf(row, sizeof row, "strings/%u-by-%u", w.strings, w.step);
        report(row, measure(run, &w, STEPS), "ns");
        for (uint32_t at = 0; at < w.strings; at++) {
            free(strings[at]);
            strings[at] = NULL;
            lengths[at] = 0;
        }
    }
    bench_end("strings");
    return 0;
}
