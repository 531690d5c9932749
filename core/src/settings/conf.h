/* SPDX-License-Identifier: MIT
 *
 * The settings that programs and users make for jemalloc: key:value,key:value, without units, and
 * with blanks before a number only, in the words and with the messages of jemalloc. Those with a meaning here set an option of
 * options.def.
 */
#ifndef MALLOW_CONF_H
#define MALLOW_CONF_H

#include "options.h"

#include <limits.h>

/* 1, of a number with a point. */
#define CONF_ONE 65536u

/* The longest time that jemalloc counts in: 2^64 ns, in whole seconds. */
#define CONF_DECAY_MS_MOST 18446744072000L

/* The largest size class of jemalloc. */
#define CONF_SIZE_MOST (7L << 60)

/* What `mallctl` gives for the value of an option. */
enum conf_type {
    CONF_TYPE_BOOL,
    CONF_TYPE_UNSIGNED,
    CONF_TYPE_SIZE,
    CONF_TYPE_SSIZE,
    CONF_TYPE_NUMBER64,
    CONF_TYPE_SIGNED64,
    CONF_TYPE_WORD,
    CONF_TYPE_PART, /* in parts of CONF_ONE; -1: none */
    CONF_TYPE_TEXT,
};

/* Text in place, so that the loader has nothing to relocate here when a program starts. */
struct conf_option {
    char name[44];
    char words[28]; /* of a WORD */
    uint8_t type;   /* an enum conf_type */
    int8_t target;  /* an enum option_id, CONF_NOTHING or CONF_KEPT */
    bool is_clipped;
    long value; /* what holds if there is no option, and nothing was set */
    long minimum;
    long maximum;
};

#define CONF_NOTHING (-1)
#define CONF_KEPT (-2)

/* The options of conf.def in its order. */
enum conf_id {
#define CONF_BOOL(name, value, target) CONF_##name,
#define CONF_NUMBER(name, type, value, minimum, maximum, target) CONF_##name,
#define CONF_WORD(name, value, words, target) CONF_##name,
#define CONF_TEXT(name, target) CONF_##name,
#define CONF_CLIPPED CONF_NUMBER
#include "conf.def"
    CONF_COUNT
};

/* jemalloc's options in the order of conf.def. */
static unsigned conf_count(void);
static const struct conf_option *conf_at(unsigned index);

/* The value that held when the program began: a number, a truth value or the index of a word. */
static long conf_value(const struct conf_option *conf);

/* The same of a TEXT. */
static const char *conf_text(const struct conf_option *conf);

/* What stands for a range of sizes in a text like "1-64:20|2000-8000:5". */
struct conf_range {
    long first;
    long last;
    long value;
};

/* Cuts the next off a text. False at its end, or where it is malformed: then *text is not at its end. */
static bool conf_next_range(const char **text, struct conf_range *range);

/* Whether a value of an option that is KEPT was set: else their defaults hold, and a program's start has not
 * to read them. */
static bool conf_keeps_any(void);

/* A text with settings, and how jemalloc calls where it comes from. */
struct conf_source {
    const char *text; /* NULL: there is none */
    const char *described;
    const char *origin;
};

/* Applies the settings of all sources, a later one winning; false if one was not understood. */
static bool conf_load(const struct conf_source *sources, unsigned count);

#endif
