/* SPDX-License-Identifier: MIT
 *
 * Call frame information: what .eh_frame says about a place in the program, which is where its function
 * has put the registers of its caller. An interpreter of its own, since that of the compiler's library
 * takes locks and allocates.
 *
 *     .eh_frame_hdr   sorted: address of a function -> its FDE        (binary search)
 *     .eh_frame       FDE: which addresses, a program of rules; CIE: what many FDEs have in common
 *
 * The tables belong to loaded objects and are trusted. The stack is not: whoever follows the rules reads
 * it through a function that looks first.
 */
#ifndef MALLOW_CFI_H
#define MALLOW_CFI_H

#include "../base/base.h"

/* Registers by their DWARF numbers. */
#if defined(__x86_64__)
#define CFI_REGISTERS 17u
#define CFI_FP 6u
#define CFI_SP 7u
#define CFI_PC 16u
#else
#define CFI_REGISTERS 33u
#define CFI_FP 29u
#define CFI_SP 31u
#define CFI_PC 32u /* a number of our own */
#endif

/* Where the caller's value of a register is. */
enum cfi_kind {
    CFI_SAME,          /* still in the register */
    CFI_UNDEFINED,     /* nowhere */
    CFI_SAVED,         /* at CFA + value */
    CFI_IS_OFFSET,     /* it is CFA + value */
    CFI_IN_REGISTER,   /* in register number `value` */
    CFI_SAVED_BY,      /* at the address that the expression at `value` gives */
    CFI_IS_EXPRESSION, /* it is what the expression at `value` gives */
};

/* The rules that hold at one place. CFA, the canonical frame address, is what the stack pointer was
 * before the call; its rule is CFI_IS_OFFSET from cfa_register, or CFI_IS_EXPRESSION. */
struct cfi_rules {
    int64_t values[CFI_REGISTERS];
    int64_t cfa_value;
    uint8_t kinds[CFI_REGISTERS];
    uint8_t cfa_kind;
    uint8_t cfa_register;
};

/* What is said of a function. */
struct cfi_function {
    uintptr_t start;
    uintptr_t end;
    const uint8_t *program; /* of the CIE, then of the FDE */
    const uint8_t *program_end;
    const uint8_t *own_program;
    const uint8_t *own_program_end;
    uint64_t code_unit;
    int64_t data_unit;
    unsigned return_register;
    bool is_signal; /* the frame of a signal handler's return */
};

/* The function that has `pc`, by the .eh_frame_hdr of its object. */
static bool cfi_find(const uint8_t *header, uintptr_t pc, struct cfi_function *function);

/* Reads the FDE at `entry`; false if it is none (a CIE, or the end). */
static bool cfi_read_entry(const uint8_t *entry, struct cfi_function *function);

/* Behind the entry at `entry`; NULL if it was the last. */
static const uint8_t *cfi_next_entry(const uint8_t *entry);

/* The rules at `pc`, which is in the function; false if its program is not understood. */
static bool cfi_rules_at(const struct cfi_function *function, uintptr_t pc,
                         struct cfi_rules *rules);

#endif
