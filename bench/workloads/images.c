/* SPDX-License-Identifier: MIT
 *
 * images: pictures of 1 to 32 MiB are decoded, scaled, filtered and encoded, one after the other:
 * each step allocates its result beside its input, with a table of rows, and each page is written;
 * the encoder's output grows by realloc, and of each picture a thumbnail of 16 to 256 KiB stays in a
 * gallery of 100. us of CPU per picture; peak of resident memory.
 * Source of the idea: image servers and photo tools, where the sizes of neighbouring requests differ.
 */
#include "bench.h"

enum { GALLERY = 100, SIZES = 512, ROW = 4096, ENCODER_FIRST = 64 * 1024 };

struct picture {
    char *pixels;
    char **rows;
    size_t size;
};

struct work {
    size_t count, at;
    uint64_t seed;
};

static uint32_t sizes[SIZES], thumbnail_sizes[SIZES];
static char *gallery[GALLERY];

static struct picture new_picture(size_t size) {
    struct picture p = {must(malloc(size)), NULL, size};
    size_t row_count = size / ROW + 1;
    p.rows = must(malloc(row_count * sizeof *p.rows));
    for (size_t i = 0; i < row_count; i++) p.rows[i] = p.pixels + i * ROW;
    write_pages(p.pixels, size);
    return p;
}

static void drop_picture(struct picture *p) {
    free(p->rows);
    free(p->pixels);
}

/* An eighth of the picture, in steps whose end is not known before. */
static void encode(const struct picture *p) {
    size_t capacity = ENCODER_FIRST;
    char *out = must(malloc(capacity));
    write_pages(out, capacity);
    while (capacity < p->size / 8) {
        out = must(realloc(out, capacity * 2));
        write_pages(out + capacity, capacity);
        capacity *= 2;
    }
    keep(out);
    free(out);
}

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        w->at = (w->at + 1) % SIZES;
        struct picture decoded = new_picture(sizes[w->at]);
        /* Half to all of the size. */
        struct picture scaled = new_picture(decoded.size / 256 * random_between(&w->seed, 128, 256));
        drop_picture(&decoded);
        struct picture filtered = new_picture(scaled.size);
        size_t slot = random_between(&w->seed, 0, GALLERY - 1);
        free(gallery[slot]);
        gallery[slot] = must(malloc(thumbnail_sizes[w->at]));
        write_pages(gallery[slot], thumbnail_sizes[w->at]);
        drop_picture(&scaled);
        encode(&filtered);
        drop_picture(&filtered);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    draw_log_uniform(sizes, SIZES, MIB, 32 * MIB, 12345);
    draw_log_uniform(thumbnail_sizes, SIZES, 16 * KIB, 256 * KIB, 54321);
    struct work w = {bench_short ? 10 : 20, 0, 88172645463325252u};
    report("images/picture", measure(run, &w, w.count) / 1e3, "us");
    bench_end("images");
    return 0;
}
