/* SPDX-License-Identifier: MIT
 *
 * The operations of the model test: a list decoded from bytes, so that a fuzzer and a random
 * generator drive the same runs, and printed as readable lines.
 *
 * Six bytes an operation:   kind | slot | size, 16 bits | extra | extra
 */
#ifndef MODEL_OPS_H
#define MODEL_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { OP_BYTES = 6, SLOTS = 256, MODEL_THREADS = 4 };

enum op_kind {
    OP_MALLOC,
    OP_CALLOC,
    OP_REALLOC,
    OP_REALLOCARRAY,
    OP_ALIGNED_ALLOC,
    OP_MEMALIGN,
    OP_POSIX_MEMALIGN,
    OP_FREE,
    OP_FREE_SIZED,
    OP_USABLE_SIZE,
    OP_CHECK,
    OP_IMPOSSIBLE,
    OP_HOP,     /* what follows runs on another thread */
    OP_RESTART, /* the thread ends and a new one takes its place */
    OP_COLLECT,
    OP_TRIM,
    OP_INFO,
    OP_VALID,
    OP_FORK,
    OP_KINDS
};

struct op {
    enum op_kind kind;
    uint32_t thread; /* the thread that runs it */
    uint32_t slot;
    uint32_t count; /* of calloc and reallocarray: size is that of one element */
    size_t size;
    size_t alignment;
    bool flag;
};

/* Decodes up to `most` operations and returns how many there are. */
size_t ops_decode(const uint8_t *bytes, size_t length, struct op *ops, size_t most);

void ops_print_one(FILE *out, size_t index, const struct op *op);

#endif
