/* SPDX-License-Identifier: MIT
 *
 * Settings: read once at the start of the process, from /etc/mallow.conf and then from MALLOW_CONF,
 * key by key, the later source winning. Constant afterwards, except the decay times, which mallopt
 * may change. Syntax: key:value,key:value; in the file a new line separates as well and # starts a
 * comment. Numbers may end in K, M or G.
 */
#ifndef MALLOW_OPTIONS_H
#define MALLOW_OPTIONS_H

#include "../os/log.h"

enum option_id {
#define BOOL(name, value, help) OPTION_##name,
#define NUMBER(name, value, minimum, maximum, unit, help) OPTION_##name,
#define SIZE(name, value, help) OPTION_##name,
#define CHOICE(name, value, words, help) OPTION_##name,
#include "options.def"
#undef BOOL
#undef NUMBER
#undef SIZE
#undef CHOICE
    OPTION_COUNT
};

enum { FOREIGN_ABORT, FOREIGN_IGNORE, FOREIGN_NEXT };

/* The value of an option. Sizes: bytes, or below 0 a percentage of the cgroup's limit. */
static long option(enum option_id id);
static void option_set(enum option_id id, long value);

static void options_load(void);

#endif
