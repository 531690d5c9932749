/* SPDX-License-Identifier: MIT
 *
 * malloc_stats_print: where its text goes, which parts it has, and the form for people to read.
 */
#ifndef MALLOW_STATS_TEXT_H
#define MALLOW_STATS_TEXT_H

#include "stats_json.h"

/* A function that takes pieces of text; NULL stands for malloc_message or standard error. */
struct stats_target {
    void (*write)(void *context, const char *text);
    void *context;
};

/* What mw_malloc_stats_print does, for who has its arguments by another way. */
static void stats_print_to(struct stats_target target, const char *options);

#endif
