/* SPDX-License-Identifier: MIT
 *
 * Decoding and printing of operation lists.
 */
#include "ops.h"

static const char *const names[OP_KINDS] = {
    "malloc",   "calloc",         "realloc", "reallocarray",   "aligned_alloc",
    "memalign", "posix_memalign", "free",    "free_sized",     "usable_size",
    "check",    "impossible",     "hop",     "restart thread", "collect",
    "trim",     "info",           "valid",   "fork",
};

/* How often each kind comes up, of 256. Frees and allocations balance, as a slot that holds a block
 * is freed before it is used again. */
static const uint8_t weights[OP_KINDS] = {
    [OP_MALLOC] = 66,       [OP_CALLOC] = 22,     [OP_REALLOC] = 34,       [OP_REALLOCARRAY] = 4,
    [OP_ALIGNED_ALLOC] = 8, [OP_MEMALIGN] = 5,    [OP_POSIX_MEMALIGN] = 5, [OP_FREE] = 54,
    [OP_FREE_SIZED] = 6,    [OP_USABLE_SIZE] = 4, [OP_CHECK] = 6,          [OP_IMPOSSIBLE] = 2,
    [OP_HOP] = 32,          [OP_RESTART] = 2,     [OP_COLLECT] = 1,        [OP_TRIM] = 1,
    [OP_INFO] = 1,          [OP_VALID] = 2,       [OP_FORK] = 1,
};

/* The 64 magnitudes of a size: each is the log2 of the limit below which the size falls. */
static const uint8_t magnitudes[64] = {
    3,  4,  4,  5,  5,  5,  5,  6,  6,  6,  6,  6,  6,  7,  7,  7,  7,  7,  7,  8,  8,  8,
    8,  8,  8,  9,  9,  9,  9,  9,  10, 10, 10, 10, 10, 11, 11, 11, 11, 12, 12, 12, 12, 13,
    13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 16, 16, 16, 17, 17, 18, 19, 20, 22, 25,
};

static enum op_kind kind_of(uint8_t byte)
{
    uint32_t sum = 0;
    for (int kind = 0; kind < OP_KINDS; kind++) {
        sum += weights[kind];
        if (byte < sum) {
            return (enum op_kind)kind;
        }
    }
    return OP_CHECK;
}

static size_t size_of(uint32_t code)
{
    return ((size_t)(code & 1023) << magnitudes[code >> 10]) >> 10;
}

size_t ops_decode(const uint8_t *bytes, size_t length, struct op *ops, size_t most)
{
    size_t count = 0;
    uint32_t thread = 0;
    for (; count < most && length >= OP_BYTES; length -= OP_BYTES, bytes += OP_BYTES) {
        struct op *op = &ops[count++];
        op->kind = kind_of(bytes[0]);
        op->slot = bytes[1];
        op->size = size_of(bytes[2] | (uint32_t)bytes[3] << 8);
        op->flag = bytes[5] & 1;
        /* Mostly small alignments, sometimes up to 4 MiB. */
        op->alignment = (size_t)1 << (bytes[4] % 8 < 6 ? bytes[4] / 8 % 10 : bytes[4] / 8 % 23);
        op->count = 1;
        if (op->kind == OP_CALLOC || op->kind == OP_REALLOCARRAY) {
            op->count = 1 + (bytes[4] & 15);
            op->size /= op->count;
        }
        if (op->kind == OP_HOP) {
            thread = bytes[4] % MODEL_THREADS;
        }
        op->thread = thread;
    }
    return count;
}

void ops_print_one(FILE *out, size_t index, const struct op *op)
{
    fprintf(out, "%6zu  thread %u  ", index, op->thread);
    switch (op->kind) {
    case OP_MALLOC:
    case OP_REALLOC:
        fprintf(out, "slot %3u = %s(%zu)\n", op->slot, names[op->kind], op->size);
        break;
    case OP_CALLOC:
    case OP_REALLOCARRAY:
        fprintf(out, "slot %3u = %s(%u, %zu)\n", op->slot, names[op->kind], op->count, op->size);
        break;
    case OP_ALIGNED_ALLOC:
    case OP_MEMALIGN:
    case OP_POSIX_MEMALIGN:
        fprintf(out, "slot %3u = %s(%zu, %zu)\n", op->slot, names[op->kind], op->alignment,
                op->size);
        break;
    case OP_FREE:
    case OP_FREE_SIZED:
    case OP_USABLE_SIZE:
    case OP_CHECK:
        fprintf(out, "%s(slot %u)\n", names[op->kind], op->slot);
        break;
    case OP_COLLECT:
        fprintf(out, "collect(%s)\n", op->flag ? "true" : "false");
        break;
    default:
        fprintf(out, "%s\n", names[op->kind]);
        break;
    }
}
