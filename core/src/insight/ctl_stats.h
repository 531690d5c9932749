/* SPDX-License-Identifier: MIT
 *
 * stats.* of mallctl, and `epoch`, which says of which moment they are.
 */
#ifndef MALLOW_CTL_STATS_H
#define MALLOW_CTL_STATS_H

#include "ctl.h"

/* The words that a part like <mutex> of a pattern may be, as "a|b|c"; NULL for a number. In a MIB a word
 * is its index among them. */
static const char *ctl_slot_words(struct word slot);

/* As ctl_has_index, of a name of one of the groups STATS. */
static bool ctl_stats_has_index(enum ctl_group group, unsigned place, size_t index);

/* What `epoch` does: gathers all figures for stats.*. EAGAIN if there is no memory for them. */
static int ctl_stats_refresh(void);

/* How often they have been gathered; the first question does so too. */
static int ctl_stats_epoch(uint64_t *value);

/* A name of one of the groups STATS. */
static int ctl_stats_read(enum ctl_group group, unsigned id, const size_t *mib, uint64_t *value);

#endif
