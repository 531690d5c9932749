/* SPDX-License-Identifier: MIT
 *
 * prof.* and thread.prof.* of mallctl. Each function returns 0 or an error number; what is written is
 * ENOENT while the option prof is off, as in a jemalloc without profiles, and so is the name of the thread.
 */
#ifndef MALLOW_CTL_PROF_H
#define MALLOW_CTL_PROF_H

#include "ctl.h"

/* Whether a name is ENOENT, whatever else is wrong with the call, because the option prof is off. */
static bool ctl_prof_is_refused(unsigned id, const struct ctl_name *name, bool is_write);

/* The names of the whole process, and those of the calling thread. No value to write is NULL. */
static int ctl_prof_read(unsigned id, uint64_t *value);
static int ctl_prof_write(unsigned id, const uint64_t *value);
static int ctl_thread_prof_read(unsigned id, uint64_t *value);
static int ctl_thread_prof_write(unsigned id, uint64_t value);

#endif
