/* SPDX-License-Identifier: MIT
 *
 * The recorder: preloaded in front of a program's allocator, it writes each call into a ring that
 * the collector (`mallow record`) reads. It allocates nothing, takes no lock, and starts no thread.
 *
 * One translation unit; each file may use those before it.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* its checks are functions that only glibc has */

#include "layout.h"
#include "system.h"
#include "thread.h"

#include "start.c"
#include "script.c"
#include "python.c"
#include "ruby.c"
#include "stack.c"
#include "next.c"
#include "entry.c"
#include "operators.c"
