/* SPDX-License-Identifier: MIT
 *
 * The functions of a program that was linked without the table which finds them, as static ones are:
 * sorted by address, from the program's own file. Made once, when it is first asked for, in memory that
 * is mapped for it.
 */
#ifndef MALLOW_FUNCTION_INDEX_H
#define MALLOW_FUNCTION_INDEX_H

#include "cfi.h"

/* The function that has `pc`. False too while another thread makes the index. */
static bool index_find(uintptr_t pc, struct cfi_function *function);

#endif
