/* SPDX-License-Identifier: MIT
 *
 * phases: a server of one thread handles requests. Each allocates 300 blocks of 16 bytes to 8 KiB
 * and a buffer, and frees them at its end, but for one block in fifty, which survives. In each of
 * eight phases the sizes are others; at the end of a phase, nine in ten of the survivors of the one
 * before are freed, at random. ns of CPU per block; resident memory at the end above that of what is
 * alive, and its peak.
 * Source of the idea: web servers with sessions and caches; region allocators of compilers, whose
 * passes differ in what they allocate.
 */
#include "bench.h"

enum { BLOCKS = 300, SURVIVES = 50, PHASES = 8, SIZES = 4096, REQUESTS_MAX = 1500 };
enum { SURVIVORS_MAX = REQUESTS_MAX * (BLOCKS / SURVIVES) };

struct survivors {
    char *blocks[SURVIVORS_MAX];
    uint32_t sizes[SURVIVORS_MAX];
    size_t count;
};

static struct survivors survivors[PHASES];
static uint32_t sizes[SIZES];
static uint64_t seed = 88172645463325252u;

static void handle_request(struct survivors *kept, size_t buffer_size) {
    char *blocks[BLOCKS];
    uint32_t at[BLOCKS];
    char *buffer = must(malloc(buffer_size));
    write_pages(buffer, buffer_size);
    for (size_t i = 0; i < BLOCKS; i++) {
        at[i] = random_next(&seed) % SIZES;
        blocks[i] = must(malloc(sizes[at[i]]));
        memset(blocks[i], 1, sizes[at[i]] < 64 ? sizes[at[i]] : 64);
    }
    /* What survives lies among the rest. */
    size_t survivor = random_between(&seed, 0, SURVIVES - 1);
    for (size_t i = BLOCKS; i-- > 0;) {
        if (i % SURVIVES == survivor) {
            memset(blocks[i], 1, sizes[at[i]]);
            kept->sizes[kept->count] = sizes[at[i]];
            kept->blocks[kept->count++] = blocks[i];
        } else {
            free(blocks[i]);
        }
    }
    free(buffer);
}

static void forget(struct survivors *kept) {
    size_t left = 0;
    for (size_t i = 0; i < kept->count; i++) {
        if (random_between(&seed, 0, 9) > 0) {
            free(kept->blocks[i]);
        } else {
            kept->sizes[left] = kept->sizes[i];
            kept->blocks[left++] = kept->blocks[i];
        }
    }
    kept->count = left;
}

static double alive_mib(void) {
    double bytes = 0;
    for (size_t p = 0; p < PHASES; p++)
        for (size_t i = 0; i < survivors[p].count; i++) bytes += survivors[p].sizes[i];
    return bytes / (double)MIB;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    /* Smallest and largest block of each phase, and the buffer. */
    static const struct {
        double low, high;
        size_t buffer;
    } phases[PHASES] = {
        {16, 256, 16 * KIB},      {64, KIB, 64 * KIB},      {16, 8 * KIB, 256 * KIB},
        {256, 2 * KIB, 32 * KIB}, {16, 128, 8 * KIB},       {KIB, 8 * KIB, 128 * KIB},
        {32, 512, MIB},           {16, 4 * KIB, 512 * KIB},
    };
    size_t requests = bench_short ? REQUESTS_MAX / 3 : REQUESTS_MAX;
    /* The lists of survivors are no burden of the allocator. */
    memset(survivors, 0, sizeof survivors);
    for (size_t p = 0; p < PHASES; p++) survivors[p].sizes[SURVIVORS_MAX - 1] = 1;
    double before = rss_anon_mib(), times[PHASES];
    for (size_t p = 0; p < PHASES; p++) {
        draw_log_uniform(sizes, SIZES, phases[p].low, phases[p].high, p + 1);
        double start = thread_cpu_ns();
        for (size_t i = 0; i < requests; i++) handle_request(&survivors[p], phases[p].buffer);
        times[p] = (thread_cpu_ns() - start) / (double)(requests * BLOCKS);
        if (p > 0) forget(&survivors[p - 1]);
    }
    double sum = 0;
    for (size_t p = 0; p < PHASES; p++) sum += times[p];
    report("phases/block", sum / PHASES, "ns");
    report("phases/overhead", rss_anon_mib() - before - alive_mib(), "MiB");
    bench_end("phases");
    return 0;
}
