/* SPDX-License-Identifier: MIT */
#include "frame_row.h"

#include "../base/atomic.h"
#include "../base/check.h"
#include "dwarf.h"
#include "function_index.h"

/* A row, and the place that it is of. Nobody waits: who finds it being written works it out anew.
 *
 *   writer                         reader
 *   version + 1: odd               version, even
 *   the fields, by release         the fields, by acquire
 *   version + 1, by release        the same version still: they belong together
 */
struct known_row {
    _Atomic uint32_t version;
    _Atomic uint64_t row;
    _Atomic uintptr_t pc; /* 0: none yet */
    _Atomic uintptr_t start;
    _Atomic(const uint8_t *) frames; /* the tables of its object */
};

#define KNOWN_ROWS 2048u

/* Mapped when it is first needed: a program that locks its memory pays for all that is there. */
static _Atomic(struct known_row *) known_rows; /* const once mapped */

static_assert(sizeof(struct frame_row) == sizeof(uint64_t), "a row is read and written at once");
static_assert(KNOWN_ROWS == (uint64_t)1 << (64 - 53), "the upper bits are an index");

static NOINLINE struct known_row *known_rows_map(void)
{
    struct known_row *expected = NULL;
    size_t size = align_up(KNOWN_ROWS * sizeof *expected, os_page_size);
    struct known_row *mapped = os_map(NULL, size);
    if (mapped != NULL && !atomic_replace(&known_rows, &expected, mapped)) {
        os_unmap(mapped, size); /* another thread was faster */
        return expected;
    }
    return mapped;
}

static bool function_find(uintptr_t pc, const uint8_t *frames, struct cfi_function *function)
{
    return frames != NULL ? cfi_find(frames, pc, function) : index_find(pc, function);
}

/* --- From rules to a row ---------------------------------------------------------------------- */

static bool in_words(int64_t bytes, int16_t *words)
{
    int64_t word = (int64_t)sizeof(uintptr_t);
    *words = (int16_t)(bytes / word);
    return bytes % word == 0 && bytes / word > INT16_MIN && bytes / word <= INT16_MAX;
}

/* Whether an expression is "frame pointer + *offset", with `rest` behind it. */
static bool is_by_fp(int64_t expression, const uint8_t *rest, size_t rest_size, int64_t *offset)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)expression;
    uint64_t length = leb_unsigned(&at);
    const uint8_t *end = at + length;
    if (length < 2 || *at++ != 0x70 + CFI_FP) { /* breg */
        return false;
    }
    *offset = leb_signed(&at);
    return at + rest_size == end && memcmp(at, rest, rest_size) == 0;
}

/* Sets the base and the place of the CFA. */
static bool row_set_cfa(struct frame_row *row, const struct cfi_rules *rules)
{
    static const uint8_t dereference[] = {0x06};
    int64_t offset = rules->cfa_value;
    if (rules->cfa_kind == CFI_IS_EXPRESSION) {
        row->base = ROW_AT_FP;
        return is_by_fp(rules->cfa_value, dereference, sizeof dereference, &offset) &&
               in_words(offset, &row->cfa);
    }
    row->base = rules->cfa_register == CFI_SP ? ROW_OF_SP : ROW_OF_FP;
    return (rules->cfa_register == CFI_SP || rules->cfa_register == CFI_FP) &&
           in_words(offset, &row->cfa);
}

static bool row_set_fp(struct frame_row *row, const struct cfi_rules *rules)
{
    int64_t offset = rules->values[CFI_FP];
    switch (rules->kinds[CFI_FP]) {
    case CFI_SAME:
        row->fp_at = ROW_FP_SAME;
        return true;
    case CFI_SAVED:
        return row->base != ROW_AT_FP && in_words(offset, &row->fp_at);
    case CFI_SAVED_BY:
        return row->base == ROW_AT_FP && is_by_fp(offset, NULL, 0, &offset) &&
               in_words(offset, &row->fp_at);
    default:
        return false;
    }
}

static struct frame_row row_of_rules(const struct cfi_function *function,
                                     const struct cfi_rules *rules)
{
    const struct frame_row other = {.base = ROW_OTHER};
    struct frame_row row = {.base = ROW_LAST};
    unsigned pc = function->return_register;
    if (function->is_signal || pc >= CFI_REGISTERS || rules->kinds[CFI_SP] != CFI_SAME) {
        return other;
    }
    if (rules->kinds[pc] == CFI_UNDEFINED) {
        return row;
    }
    bool is_simple = rules->kinds[pc] == CFI_SAVED && row_set_cfa(&row, rules) &&
                     row_set_fp(&row, rules) && in_words(rules->values[pc], &row.pc_at);
    return is_simple ? row : other;
}

static struct frame_row row_work_out(uintptr_t pc, const uint8_t *frames, uintptr_t *start)
{
    struct cfi_function function;
    struct cfi_rules rules;
    *start = 0;
    if (!function_find(pc, frames, &function)) {
        return (struct frame_row){.base = ROW_NO_RULES};
    }
    *start = function.start;
    if (!cfi_rules_at(&function, pc, &rules)) {
        return (struct frame_row){.base = ROW_OTHER};
    }
    return row_of_rules(&function, &rules);
}

/* --- What is known ---------------------------------------------------------------------------- */

ALWAYS_INLINE bool known_row_get(struct known_row *known, uintptr_t pc,
                                 const struct code_object *object, struct frame_row *row,
                                 uintptr_t *start)
{
    uint32_t version = atomic_get_acquire(&known->version);
    bool is_same = atomic_get_acquire(&known->pc) == pc &&
                   (object == NULL || atomic_get_acquire(&known->frames) == object->frames);
    uint64_t word = atomic_get_acquire(&known->row);
    *start = atomic_get_acquire(&known->start);
    memcpy(row, &word, sizeof word);
    return is_same && version % 2 == 0 && atomic_get(&known->version) == version;
}

static NOINLINE struct frame_row known_row_fill(struct known_row *known, uintptr_t pc,
                                                const uint8_t *frames, uintptr_t *start)
{
    struct frame_row row = row_work_out(pc, frames, start);
    uint32_t version = atomic_get(&known->version);
    if (version % 2 == 0 && atomic_replace(&known->version, &version, version + 1)) {
        uint64_t word;
        memcpy(&word, &row, sizeof word);
        atomic_set_release(&known->row, word);
        atomic_set_release(&known->pc, pc);
        atomic_set_release(&known->start, *start);
        atomic_set_release(&known->frames, frames);
        atomic_set_release(&known->version, version + 2); /* pairs with known_row_get */
    }
    return row;
}

ALWAYS_INLINE struct frame_row frame_row_at(uintptr_t pc, const struct code_object *object,
                                            uintptr_t *start)
{
    struct known_row *rows = atomic_get_acquire(&known_rows); /* pairs with known_rows_map */
    struct frame_row row;
    if (unlikely(rows == NULL) && (rows = known_rows_map()) == NULL) {
        return row_work_out(pc, libc_find_frames(pc), start);
    }
    struct known_row *known = &rows[(pc * 0x9e3779b97f4a7c15u) >> 53];
    if (likely(known_row_get(known, pc, object, &row, start))) {
        return row;
    }
    return known_row_fill(known, pc, object != NULL ? object->frames : libc_find_frames(pc), start);
}
