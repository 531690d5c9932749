/* SPDX-License-Identifier: MIT
 *
 * Settings: read once at the start of the process (load.h). Constant afterwards, except those that
 * mallopt and mallctl may change. Syntax: key:value,key:value; in a file a new line separates as
 * well, and # where a setting begins, or behind a blank, starts a comment. Numbers may end in K, M
 * or G. The settings that programs make for jemalloc have a syntax of their own (conf.h).
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

enum { BY_BUILD, ALWAYS_OFF, ALWAYS_ON };
enum { THP_NEVER, THP_DEFAULT, THP_ALWAYS };
enum { FOREIGN_ABORT, FOREIGN_IGNORE, FOREIGN_NEXT };
enum { PROF_FORMAT_JEMALLOC, PROF_FORMAT_PPROF };
enum { JUNK_FALSE, JUNK_TRUE, JUNK_ALLOC, JUNK_FREE };
enum { ZERO_REALLOC_ALLOC, ZERO_REALLOC_FREE, ZERO_REALLOC_ABORT };

/* The value of an option. Sizes: bytes, or below 0 a percentage of the cgroup's limit. */
static long option(enum option_id id);
static void option_set(enum option_id id, long value);

/* What the names of profiles begin with: prof_prefix. Only so many characters of it count. The second is what the
 * settings say, whatever the program has set since. */
#define PREFIX_MOST 256u
static const char *prof_prefix(void);
static const char *prof_prefix_at_start(void);

/* What the option junk fills: new blocks, blocks that are freed. */
static bool junk_fills_new(void);
static bool junk_fills_freed(void);

/* The largest value that it takes. */
static long option_maximum(enum option_id id);

/* Sets an option while settings are read, and notes where the value comes from, for confirm_conf.
 * What it was set to can be asked for later, whatever it is then. */
static void option_set_from(enum option_id id, long value, const char *origin);
static long option_at_start(enum option_id id);

/* --- Parsing --------------------------------------------------------------------------------- */

/* A piece of the text that is parsed. */
struct word {
    const char *start;
    size_t length;
};

static bool word_is(struct word word, const char *string);

/* NULL if there is none of that name. */
static const struct option_info *option_named(struct word name);

/* Sets prof_prefix: a setting does, or the program later. False if it is too long. */
static bool prof_prefix_set(struct word word);
static bool prof_prefix_change(struct word word);

/* The index of `word` among those in "a|b|c"; -1 if it is none of them. */
static long word_index(struct word word, const char *words);

/* The word at an index of "a|b|c"; its start is NULL behind the last. */
static struct word word_at(const char *words, long index);

/* A copy that ends in 0, cut to what a message can show. */
static const char *word_text(struct word word, char *buffer, size_t size);

/* Applies each setting of a text; false if one was not understood. */
static bool parse_settings(const char *text, const char *origin);

/* Whether one more setting of a source that was not understood may be told of; the rest are counted,
 * and told of at its end. */
static void complaints_begin(void);
static bool may_complain(void);
static void complain_of_rest(const char *origin);

/* Every option, its value and its origin. */
static void print_settings(void);

#endif
