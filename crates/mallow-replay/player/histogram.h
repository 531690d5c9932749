/* SPDX-License-Identifier: MIT */
/*
 * Times in ticks, counted in buckets that are narrow where the times are short: exact below 32, then
 * sixteen buckets for each doubling, so that a percentile is at most 6 % off.
 */
#ifndef MALLOW_PLAYER_HISTOGRAM_H
#define MALLOW_PLAYER_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 32 + 16 * 36 };

struct histogram {
    uint32_t counts[HISTOGRAM_BUCKETS];
};

static inline uint32_t histogram_bucket(uint64_t value)
{
    if (value < 32) {
        return (uint32_t)value;
    }
    uint32_t exponent = 63u - (uint32_t)__builtin_clzll(value);
    uint32_t bucket = 32 + (exponent - 5) * 16 + ((uint32_t)(value >> (exponent - 4)) & 15);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The middle of the bucket. */
static inline uint64_t histogram_value(uint32_t bucket)
{
    if (bucket < 32) {
        return bucket;
    }
    uint32_t exponent = 5 + (bucket - 32) / 16;
    uint64_t width = (uint64_t)1 << (exponent - 4);
    return ((uint64_t)16 + (bucket - 32) % 16) * width + width / 2;
}

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->counts[histogram_bucket(value)]++;
}

static inline void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        into->counts[bucket] += from->counts[bucket];
    }
}

static inline uint64_t histogram_total(const struct histogram *histogram)
{
    uint64_t total = 0;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        total += histogram->counts[bucket];
    }
    return total;
}

/* The value that `per_mille` of the counted times do not pass; 0 of nothing. */
static inline uint64_t histogram_percentile(const struct histogram *histogram, uint64_t per_mille)
{
    uint64_t total = histogram_total(histogram);
    uint64_t wanted = (total * per_mille + 999) / 1000;
    uint64_t seen = 0;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS && total > 0; bucket++) {
        seen += histogram->counts[bucket];
        if (seen >= wanted) {
            return histogram_value(bucket);
        }
    }
    return 0;
}

#endif
