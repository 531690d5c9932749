/* SPDX-License-Identifier: MIT
 *
 * Three tiers of assertions. A failed one prints file, line and condition and ends the program.
 *
 *   require(x)     all builds: the boundary to a program that may misbehave
 *   check(x)       debug builds
 *   check_slow(x)  level 3: may walk whole lists and trees
 */
#ifndef MALLOW_CHECK_H
#define MALLOW_CHECK_H

#include "base.h"
#include "config.h"

/* Prints where, and ends the program. Nothing here can print: fault.c says what this calls. */
static void (*const check_failed)(const char *file, int line, const char *condition);

/* `text` is the condition as it is written, with no macro expanded. */
#define check_that(x, text) \
    (likely(x) ? (void)0 : (check_failed(__FILE__, __LINE__, text), not_reached()))
#define require(x) check_that(x, #x)
#define check(x) (MW_CHECK_LEVEL >= 2 ? check_that(x, #x) : (void)0)
#define check_slow(x) (MW_CHECK_LEVEL >= 3 ? check_that(x, #x) : (void)0)

#endif
