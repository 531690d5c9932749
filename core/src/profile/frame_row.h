/* SPDX-License-Identifier: MIT
 *
 * How the frame of a place in the program is left, in eight bytes: nearly all frames are left by the stack
 * pointer, the frame pointer and the return address alone. What the tables say of a place is worked out
 * once and kept; if other code has come to lie there since, a stack is wrong, and no more than that.
 *
 *     CFA         the stack pointer of the caller
 *     ROW_OF_SP   CFA = stack pointer + cfa
 *     ROW_OF_FP   CFA = frame pointer + cfa
 *     ROW_AT_FP   CFA is what stands at frame pointer + cfa: functions that align their stack
 */
#ifndef MALLOW_FRAME_ROW_H
#define MALLOW_FRAME_ROW_H

#include "../os/os.h"
#include "cfi.h"

enum row_base {
    ROW_OF_SP,
    ROW_OF_FP,
    ROW_AT_FP,
    ROW_LAST,     /* nobody called */
    ROW_NO_RULES, /* no table knows the place */
    ROW_OTHER,    /* takes more registers, or more than this */
};

/* All places are in words. */
struct frame_row {
    int16_t cfa;
    int16_t pc_at; /* from the CFA: where the return address stands */
    int16_t
        fp_at; /* where the caller's frame pointer stands: from the CFA, of ROW_AT_FP from the frame
                      pointer; ROW_FP_SAME: it is the same */
    uint16_t base;
};

#define ROW_FP_SAME INT16_MIN

/* The row of a place that lies in `object`; NULL: what was found out before is believed wherever the place
 * lies now. *start: where its function begins, 0 if that is not known. */
ALWAYS_INLINE struct frame_row frame_row_at(uintptr_t pc, const struct code_object *object,
                                            uintptr_t *start);

/* What the tables say of the function that has `pc`; `frames` are those of its object. */
static bool function_find(uintptr_t pc, const uint8_t *frames, struct cfi_function *function);

#endif
