/* SPDX-License-Identifier: MIT
 *
 * How much of the memory that blocks lie in the kernel has made of huge pages, whoever asked for them. Only the
 * kernel knows: it walks the page tables of the whole process for that, so it is asked where somebody is shown
 * figures, and at no other time.
 */
#ifndef MALLOW_HUGE_PAGES_H
#define MALLOW_HUGE_PAGES_H

#include "stats.h"

/* Bytes; 0 where the kernel does not tell, or is not asked since it may end the program for that. Of a mapping
 * that the kernel has joined with another's, as it may, both count. */
static uint64_t huge_page_bytes(void);

#endif
