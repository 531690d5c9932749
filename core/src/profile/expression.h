/* SPDX-License-Identifier: MIT
 *
 * The expressions of call frame information, for what a register and an offset cannot say: the frames of
 * signal handlers, and the stubs that lead into other objects.
 */
#ifndef MALLOW_EXPRESSION_H
#define MALLOW_EXPRESSION_H

#include "cfi.h"

/* Reads a word of the stack; false if nothing is there. */
struct stack_memory {
    bool (*read)(void *context, uintptr_t address, uintptr_t *value);
    void *context;
};

/* The value of an expression with the registers of the frame and, if `has_cfa`, the CFA on the stack. */
static bool expression_value(const uint8_t *expression, const uintptr_t *registers, bool has_cfa,
                             uintptr_t cfa, const struct stack_memory *memory, uintptr_t *value);

#endif
