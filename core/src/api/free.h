/* SPDX-License-Identifier: MIT
 *
 * What free and realloc have counted.
 */
#ifndef MALLOW_FREE_H
#define MALLOW_FREE_H

#include "alloc.h"

/* How often realloc was asked for 0 bytes. */
static size_t zero_reallocs(void);

#endif
