/* SPDX-License-Identifier: MIT
 *
 * The settings that programs and users make for jemalloc: key:value,key:value, without blanks or
 * units, in the words and with the messages of jemalloc. Those with a meaning here set an option of
 * options.def.
 */
#ifndef MALLOW_CONF_H
#define MALLOW_CONF_H

#include "options.h"

#include <limits.h>

/* What `mallctl` gives for the value of an option. */
enum conf_type {
    CONF_TYPE_BOOL,
    CONF_TYPE_UNSIGNED,
    CONF_TYPE_SIZE,
    CONF_TYPE_SSIZE,
    CONF_TYPE_NUMBER64,
    CONF_TYPE_SIGNED64,
    CONF_TYPE_WORD,
    CONF_TYPE_TEXT,
};

/* Text in place, so that the loader has nothing to relocate here when a program starts. */
struct conf_option {
    char name[44];
    char words[28]; /* of a WORD */
    uint8_t type;   /* an enum conf_type */
    int8_t target;  /* an enum option_id, or CONF_NOTHING */
    long value;     /* what holds if there is no target */
    long minimum;
    long maximum;
};

#define CONF_NOTHING (-1)

/* jemalloc's options in the order of conf.def. */
static unsigned conf_count(void);
static const struct conf_option *conf_at(unsigned index);

/* The value that held when the program began: a number, a truth value or the index of a word. */
static long conf_value(const struct conf_option *conf);

/* A text with settings, and how jemalloc calls where it comes from. */
struct conf_source {
    const char *text; /* NULL: there is none */
    const char *described;
    const char *origin;
};

/* Applies the settings of all sources, a later one winning; false if one was not understood. */
static bool conf_load(const struct conf_source *sources, unsigned count);

#endif
