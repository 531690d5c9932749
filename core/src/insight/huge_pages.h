/* SPDX-License-Identifier: MIT
 *
 * What only the kernel knows of the memory that blocks lie in: how much of it it has made of huge pages, whoever
 * asked for them, and how many mappings it takes for it, of which a process may have so many. It walks the page tables of the whole process for that, so it is asked where somebody is shown
 * figures, and at no other time.
 */
#ifndef MALLOW_HUGE_PAGES_H
#define MALLOW_HUGE_PAGES_H

#include "stats.h"

/* 0 where the kernel does not tell, or is not asked since it may end the program for that. Of a mapping that the
 * kernel has joined with another's, as it may, both count. */
static void kernel_figures(struct stats_process *to);

/* Whether the kernel makes huge pages for whoever does not object, for who asks, or for nobody: the words of jemalloc's
 * system.thp_mode. */
static const char *kernel_thp_mode(void);

/* Whether a figure is one of these. */
static bool figure_is_of_kernel(const char *name);

#endif
