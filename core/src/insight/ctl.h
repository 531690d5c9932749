/* SPDX-License-Identifier: MIT
 *
 * The names of mallctl: which there are, and what stands behind each. How a program comes to one is
 * in mallctl.c.
 */
#ifndef MALLOW_CTL_H
#define MALLOW_CTL_H

#include "stats_json.h"

#include "../settings/conf.h"

/* The parts of a name at most. */
#define CTL_DEPTH 7u

enum ctl_id {
#define CTL(name, group, type, access, pattern) CTL_##name,
#include "ctl.def"
#undef CTL
#define TOTAL(name, type, value) CTL_TOTAL_##name,
#define WORKER(name, type, value) CTL_WORKER_##name,
#define ARENA(name, type, value) CTL_ARENA_##name,
#define ARENA_HIDDEN ARENA
#define SMALL(name, type, value) CTL_SMALL_##name,
#define LARGE(name, type, value) CTL_LARGE_##name,
#define BIN(name, type, value) CTL_BIN_##name,
#define BIN_HIDDEN BIN
#define LEXTENT(name, type, value) CTL_LEXTENT_##name,
#define LEXTENT_HIDDEN LEXTENT
#define EXTENT(name, type, value) CTL_EXTENT_##name,
#include "stats_json.def"
    CTL_OPT, /* the first of opt.*; the others follow in the order of conf.def */
};

/* Who reads and writes a name. */
enum ctl_group {
    CTL_GROUP_GLOBAL,
    CTL_GROUP_CONFIG,
    CTL_GROUP_THREAD,
    CTL_GROUP_THREAD_PROF,
    CTL_GROUP_PROF,
    CTL_GROUP_TCACHE,
    CTL_GROUP_ARENA,
    CTL_GROUP_ARENAS,
    CTL_GROUP_SIZES,
    CTL_GROUP_OPT,
    CTL_GROUP_RAW,   /* mallctl.c */
    CTL_GROUP_STATS, /* these to the last: ctl_stats.c */
    CTL_GROUP_STATS_ARENA,
    CTL_GROUP_STATS_BIN,
    CTL_GROUP_STATS_LEXTENT,
    CTL_GROUP_STATS_EXTENT,
    CTL_GROUP_STATS_LOCK,
    CTL_GROUP_STATS_HPA,
};

enum ctl_type {
    CTL_TYPE_BOOL,
    CTL_TYPE_UNSIGNED,
    CTL_TYPE_SIZE,
    CTL_TYPE_SSIZE,
    CTL_TYPE_NUMBER64,
    CTL_TYPE_SIGNED64,
    CTL_TYPE_TEXT,
    CTL_TYPE_WORD, /* a TEXT, by its index among the words of an option */
    CTL_TYPE_POINTER,
    CTL_TYPE_VOID,
    CTL_TYPE_CREATE, /* an unsigned: reading makes something, and gives its number */
    CTL_TYPE_NAME,   /* a text; who reads it hands the address of a buffer in */
    CTL_TYPE_RAW,    /* a structure: what is read depends on what is written */
    CTL_TYPE_LOOKUP, /* a pointer is written and the index of its arena is read */
};

enum ctl_access { CTL_ACCESS_READ, CTL_ACCESS_WRITE, CTL_ACCESS_READ_WRITE, CTL_ACCESS_CALL };

/* What is written to a WRITE name by who gives no value: whether that means something its group says. */
#define CTL_NO_VALUE UINT64_MAX

/* Text in place, so that the loader has nothing to relocate here when a program starts. */
struct ctl_name {
    char pattern[54];
    uint8_t group;  /* an enum ctl_group */
    uint8_t type;   /* an enum ctl_type */
    uint8_t access; /* an enum ctl_access */
};

/* All names, by enum ctl_id. Those that begin alike stand together. */
static unsigned ctl_count(void);
static const struct ctl_name *ctl_at(unsigned id);

/* Whether there is what a number at a place of a name's MIB stands for: an arena, or a part of one. */
static bool ctl_has_index(unsigned id, unsigned place, size_t index);

/* The value of a name; `mib` has the numbers of its slots. 0 or an error number. Of a LOOKUP, a CREATE
 * and a NAME *value is what was handed in. */
static int ctl_read(unsigned id, const size_t *mib, uint64_t *value);

/* Sets it, or does what the name stands for. */
static int ctl_write(unsigned id, const size_t *mib, uint64_t value);

#endif
