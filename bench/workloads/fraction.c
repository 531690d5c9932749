/* SPDX-License-Identifier: MIT
 *
 * fraction: the continued fraction of the square root of a large number, with numbers of arbitrary
 * length as values that are never changed: each operation allocates its result (a few dozen bytes)
 * and its operands die soon. One thread; ns per operation.
 * Source of the idea: cfrac (factoring by continued fractions) in the allocator surveys of Zorn and
 * Grunwald, "Empirical measurements of six allocation-intensive C programs" (1992).
 */
#include "bench.h"

enum { TERMS = 400 };

/* Little endian, without leading zeros; zero has no digits. */
struct number {
    uint32_t count;
    uint32_t digits[];
};

static size_t operations;

static struct number *number_new(uint32_t count) {
    operations++;
    struct number *n = must(malloc(sizeof *n + count * sizeof n->digits[0]));
    n->count = count;
    return n;
}

static struct number *trimmed(struct number *n) {
    while (n->count > 0 && n->digits[n->count - 1] == 0) n->count--;
    return n;
}

static struct number *from_small(uint32_t value) {
    struct number *n = number_new(1);
    n->digits[0] = value;
    return trimmed(n);
}

static struct number *multiply(const struct number *a, uint32_t factor) {
    struct number *n = number_new(a->count + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        carry += (uint64_t)a->digits[i] * factor;
        n->digits[i] = (uint32_t)carry;
        carry >>= 32;
    }
    n->digits[a->count] = (uint32_t)carry;
    return trimmed(n);
}

static struct number *add(const struct number *a, const struct number *b) {
    if (a->count < b->count) return add(b, a);
    struct number *n = number_new(a->count + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        carry += (uint64_t)a->digits[i] + (i < b->count ? b->digits[i] : 0);
        n->digits[i] = (uint32_t)carry;
        carry >>= 32;
    }
    n->digits[a->count] = (uint32_t)carry;
    return trimmed(n);
}

/* a modulo 2^160: the numerators stay short, as they do modulo the number to be factored. */
static struct number *reduced(const struct number *a) {
    struct number *n = number_new(a->count > 5 ? 5 : a->count);
    memcpy(n->digits, a->digits, n->count * sizeof n->digits[0]);
    return trimmed(n);
}

/* The recurrences of the expansion of sqrt(radicand): P, Q and a are small, the numerators A are
 * numbers. A(k) = a(k) A(k-1) + A(k-2). */
static void expand(uint64_t radicand) {
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 31; bit != 0; bit >>= 1)
        if ((root + bit) * (root + bit) <= radicand) root += bit;
    uint64_t p = 0, q = 1, term = root;
    struct number *before = from_small(1), *last = from_small((uint32_t)root);
    for (int k = 0; k < TERMS; k++) {
        p = term * q - p;
        q = (radicand - p * p) / q;
        if (q == 0) break;
        term = (root + p) / q;
        struct number *product = multiply(last, (uint32_t)term);
        struct number *sum = add(product, before);
        struct number *next = reduced(sum);
        free(product);
        free(before);
        free(sum);
        before = last;
        last = next;
    }
    keep(last->digits);
    free(before);
    free(last);
}

static void run(void *context) {
    size_t count = *(size_t *)context;
    operations = 0;
    for (size_t i = 0; i < count; i++) expand(1000000007u * (uint64_t)(1000003 + 2 * i));
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    size_t count = bench_short ? 200 : 600;
    run(&count);
    report("fraction/operation", measure(run, &count, operations), "ns");
    bench_end("fraction");
    return 0;
}
