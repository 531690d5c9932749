/* SPDX-License-Identifier: MIT
 *
 * The correct twins of the faults: each family goes as near to its faults as is allowed, with every
 * entry and every size. Nothing may be reported.
 */
#ifndef FAULT_CORRECT_H
#define FAULT_CORRECT_H

/* Runs a family: bounds, use, frees, matching, requests, threads. 0 if all went as it should. */
int correct_family(const char *name);

#endif
