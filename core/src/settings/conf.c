/* SPDX-License-Identifier: MIT */
#include "conf.h"

#include <string.h>

#define NOTHING CONF_NOTHING
#define KEPT CONF_KEPT

static const struct conf_option conf_options[] = {
#define CONF_BOOL(name, value, target) \
    {#name, "false|true", CONF_TYPE_BOOL, target, false, value, 0, 1},
#define CONF_NUMBER(name, type, value, minimum, maximum, target) \
    {#name, "", CONF_TYPE_##type, target, false, value, minimum, maximum},
#define CONF_CLIPPED(name, type, value, minimum, maximum, target) \
    {#name, "", CONF_TYPE_##type, target, true, value, minimum, maximum},
#define CONF_WORD(name, value, words, target) \
    {#name, words, CONF_TYPE_WORD, target, false, value, 0, 9},
#define CONF_TEXT(name, target) {#name, "", CONF_TYPE_TEXT, target, false, 0, 0, 0},
#include "conf.def"
#undef NOTHING
#undef KEPT
};

static_assert(array_count(conf_options) == CONF_COUNT, "an enum conf_id for each");

/* What was set of an option that is KEPT. */
static struct {
    long value;
    bool is_set;
} conf_kept[CONF_COUNT] IN_SECTION(options);

/* Apart from them, so that most programs touch none of their pages. */
static bool any_is_kept;

/* The letters of malloc_stats_print, each once at most. */
#define STATS_LETTERS "Jgmdablxeh"

static struct {
    char of_print[sizeof STATS_LETTERS];
    char of_interval[sizeof STATS_LETTERS];
} conf_letters IN_SECTION(options);

/* tcache_ncached_max and slab_sizes: with room for a range of each class */
static char conf_ncached[1000] IN_SECTION(options);
static char conf_slabs[1000] IN_SECTION(options);

#define CONF_SHARDS_MAX 64 /* as many as jemalloc takes */

static unsigned conf_count(void)
{
    return array_count(conf_options);
}

static const struct conf_option *conf_at(unsigned index)
{
    check(index < conf_count());
    return &conf_options[index];
}

static bool conf_has_option(const struct conf_option *conf)
{
    return conf->target >= 0;
}

static long conf_value(const struct conf_option *conf)
{
    size_t index = (size_t)(conf - conf_options);
    return conf_has_option(conf)                    ? option_at_start((enum option_id)conf->target)
           : any_is_kept && conf_kept[index].is_set ? conf_kept[index].value
                                                    : conf->value;
}

static bool conf_keeps_any(void)
{
    return any_is_kept;
}

static const char *conf_text(const struct conf_option *conf)
{
    switch (conf - conf_options) {
    case CONF_prof_prefix:
        return prof_prefix_at_start();
    case CONF_stats_print_opts:
        return conf_letters.of_print;
    case CONF_stats_interval_opts:
        return conf_letters.of_interval;
    case CONF_tcache_ncached_max:
        return conf_ncached;
    case CONF_slab_sizes:
        return conf_slabs;
    default:
        return "";
    }
}

/* --- Messages --------------------------------------------------------------------------------- */

static PRINTF_LIKE(1, 2) void conf_say(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    text_print(line, sizeof line, format, &arguments);
    va_end(arguments);
    struct sink sink = log_sink();
    sink_print(&sink, "<jemalloc>: %s\n", line);
}

/* A setting that is told of, cut to what a message can show. */
static void conf_say_setting(const char *what, struct word key, struct word value, const char *end)
{
    char shown_key[64];
    char shown_value[96];
    conf_say("%s: %s:%s%s", what, word_text(key, shown_key, sizeof shown_key),
             word_text(value, shown_value, sizeof shown_value), end);
}

/* Whether a setting that was not understood may end the program: jemalloc tolerates those of
 * experiments and two that it has given up. */
static bool conf_is_tolerated(struct word key)
{
    static const char *const prefixes[] = {"experimental_", "hpa_sec_bytes_after_flush",
                                           "hpa_sec_batch_fill_extra"};
    for (size_t i = 0; i < array_count(prefixes); i++) {
        size_t length = strlen(prefixes[i]);
        if (key.length >= length && memcmp(key.start, prefixes[i], length) == 0) {
            return true;
        }
    }
    return false;
}

/* True if the setting is tolerated. */
static bool conf_complain(const char *what, struct word key, struct word value)
{
    if (may_complain()) {
        conf_say_setting(what, key, value, "");
    }
    return conf_is_tolerated(key);
}

/* --- Values ----------------------------------------------------------------------------------- */

static unsigned digit_of(char c)
{
    return c >= '0' && c <= '9'                     ? (unsigned)(c - '0')
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (unsigned)((c | 0x20) - 'a') + 10
                                                    : 99;
}

/* Behind the blanks and the sign that may stand before a number. */
static size_t behind_sign(struct word word, bool *is_negative)
{
    size_t at = 0;
    while (at < word.length &&
           (word.start[at] == ' ' || (word.start[at] >= '\t' && word.start[at] <= '\r'))) {
        at++;
    }
    *is_negative = at < word.length && word.start[at] == '-';
    bool is_positive = at < word.length && word.start[at] == '+';
    return at + (*is_negative || is_positive);
}

/* A whole number as strtoul reads it: with 0x in base 16, with 0 in base 8. One of more than 64 bits is none, one above
 * LONG_MAX is LONG_MAX. */
static bool conf_parse_number(struct word word, long *value)
{
    bool is_negative;
    size_t at = behind_sign(word, &is_negative);
    unsigned base = 10;
    if (word.length > at + 1 && word.start[at] == '0') {
        bool is_hex = (word.start[at + 1] | 0x20) == 'x';
        base = is_hex ? 16 : 8;
        at += is_hex ? 2 : 1;
    }
    if (at == word.length) {
        return false;
    }
    uint64_t number = 0;
    for (; at < word.length; at++) {
        unsigned digit = digit_of(word.start[at]);
        if (digit >= base || __builtin_mul_overflow(number, (uint64_t)base, &number) ||
            __builtin_add_overflow(number, (uint64_t)digit, &number)) {
            return false;
        }
    }
    long most = number < LONG_MAX ? (long)number : LONG_MAX;
    *value = is_negative ? -most : most;
    return true;
}

/* The digits from `first` on, behind a point, in parts of CONF_ONE; 0 if there are none. */
static bool conf_parse_fraction(struct word word, size_t first, uint32_t *fraction)
{
    *fraction = 0;
    for (size_t at = word.length; at > first; at--) {
        unsigned digit = digit_of(word.start[at - 1]);
        if (digit > 9) {
            return false;
        }
        *fraction = (*fraction + digit * CONF_ONE) / 10;
    }
    return true;
}

/* The first of the words in "a|b|c" that begins with `word`; -1 if there is none. jemalloc takes
 * abbreviations of words, but not of true and false, and not of what realloc does. Of no letters at all it
 * makes its first word, the default. */
static long word_abbreviated(const struct conf_option *conf, struct word word)
{
    const char *words = conf->words;
    if (word.length == 0) {
        return conf->value;
    }
    long index = 0;
    for (struct word at = word_at(words, 0); at.start != NULL; at = word_at(words, ++index)) {
        if (word.length <= at.length && memcmp(word.start, at.start, word.length) == 0) {
            return index;
        }
    }
    return -1;
}

/* Letters that mean nothing are left out, as in jemalloc. */
static void letters_set(char *to, struct word word)
{
    size_t used = 0;
    memset(to, 0, sizeof STATS_LETTERS);
    for (size_t i = 0; i < word.length; i++) {
        bool is_letter = memchr(STATS_LETTERS, word.start[i], sizeof STATS_LETTERS - 1) != NULL;
        if (is_letter && strchr(to, word.start[i]) == NULL) {
            to[used++] = word.start[i];
        }
    }
    check(used < sizeof STATS_LETTERS);
}

/* A number that is a part of another: -1, or decimal digits with or without others behind a point. In parts of
 * CONF_ONE. */
static bool conf_parse_part(struct word word, long *value)
{
    if (word_is(word, "-1")) {
        *value = -1;
        return true;
    }
    long whole = 0;
    size_t at = 0;
    for (; at < word.length && word.start[at] != '.'; at++) {
        unsigned digit = digit_of(word.start[at]);
        whole = whole * 10 + (long)digit;
        if (digit > 9 || whole >= CONF_ONE) {
            return false;
        }
    }
    uint32_t fraction;
    if (!conf_parse_fraction(word, at + 1, &fraction)) {
        return false;
    }
    *value = whole * (long)CONF_ONE + (long)fraction;
    return word.length > 0 && word.start[word.length - 1] != '.';
}

/* A number up to one of `ends`, which *text is moved behind. */
static bool next_number(const char **text, const char *ends, long *number)
{
    size_t length = strcspn(*text, ends);
    struct word word = {*text, length};
    bool is_good = conf_parse_number(word, number) && *number >= 0;
    *text += is_good ? length + ((*text)[length] != 0) : 0;
    return is_good;
}

static bool conf_next_range(const char **text, struct conf_range *range)
{
    const char *at = *text;
    bool is_good = *at != 0 && next_number(&at, "-:|", &range->first) && at[-1] == '-' &&
                   next_number(&at, "-:|", &range->last) && at[-1] == ':' &&
                   next_number(&at, "|,", &range->value);
    *text = is_good ? at : *text;
    return is_good;
}

/* Whether there are ranges in it, and nothing else, with such values. One that ends before it begins has no sizes,
 * and behind the last a bar may stand, as in jemalloc. */
static bool ranges_are_good(struct word word, long least, long most)
{
    const char *at = word.start;
    const char *end = word.start + word.length;
    struct conf_range range;
    bool is_good = word.length > 0;
    while (is_good && at < end) {
        is_good = conf_next_range(&at, &range) && range.value >= least && range.value <= most;
    }
    return is_good;
}

/* Puts ranges behind those that are there. False if they are malformed, or too many. */
static bool ranges_add(char *to, size_t size, struct word word)
{
    size_t used = strlen(to);
    bool needs_bar = used > 0 && to[used - 1] != '|';
    if (used + needs_bar + word.length >= size || !ranges_are_good(word, 0, LONG_MAX)) {
        return false;
    }
    any_is_kept = true;
    to[used] = '|';
    memcpy(to + used + needs_bar, word.start, word.length);
    to[used + needs_bar + word.length] = 0;
    return true;
}

/* False if the text is too long, or means nothing. */
static bool conf_set_text(const struct conf_option *conf, struct word word)
{
    switch (conf - conf_options) {
    case CONF_prof_prefix:
        return prof_prefix_set(word);
    case CONF_stats_print_opts:
        letters_set(conf_letters.of_print, word);
        return true;
    case CONF_stats_interval_opts:
        letters_set(conf_letters.of_interval, word);
        return true;
    case CONF_tcache_ncached_max:
        return ranges_add(conf_ncached, sizeof conf_ncached, word);
    case CONF_bin_shards:
        return ranges_are_good(word, 1, CONF_SHARDS_MAX);
    case CONF_slab_sizes:
        if (word_is(word, "default")) {
            conf_slabs[0] = 0;
            return true;
        }
        return ranges_add(conf_slabs, sizeof conf_slabs, word);
    default:
        return true;
    }
}

/* What is wrong with a text, in jemalloc's words. */
static const char *conf_wrong_text(const struct conf_option *conf)
{
    switch (conf - conf_options) {
    case CONF_bin_shards:
        return "Invalid settings for bin_shards";
    case CONF_slab_sizes:
        return "Invalid settings for slab_sizes";
    case CONF_tcache_ncached_max:
        return "Invalid settings for tcache_ncached_max";
    default:
        return "Invalid conf value";
    }
}

/* What is negative is very much where the type has no sign, as in jemalloc. */
static const char *conf_check_number(const struct conf_option *conf, long *value)
{
    bool has_sign = conf->type == CONF_TYPE_SSIZE || conf->type == CONF_TYPE_SIGNED64;
    *value = *value < 0 && !has_sign ? LONG_MAX : *value;
    if (conf->is_clipped) {
        *value = *value < conf->minimum ? conf->minimum : *value;
        *value = *value > conf->maximum ? conf->maximum : *value;
    }
    return *value < conf->minimum || *value > conf->maximum ? "Out-of-range conf value" : NULL;
}

/* NULL, or what is wrong with the value. */
static const char *conf_parse_value(const struct conf_option *conf, struct word word, long *value)
{
    switch (conf->type) {
    case CONF_TYPE_TEXT:
        *value = 0;
        return conf_set_text(conf, word) ? NULL : conf_wrong_text(conf);
    case CONF_TYPE_PART:
        return conf_parse_part(word, value) && *value >= conf->minimum && *value <= conf->maximum
                   ? NULL
                   : "Invalid conf value";
    case CONF_TYPE_WORD:
        *value = conf->target == OPTION_junk || conf->target == OPTION_zero_realloc
                     ? word_index(word, conf->words)
                     : word_abbreviated(conf, word);
        return *value >= 0 ? NULL : "Invalid conf value";
    case CONF_TYPE_BOOL:
        *value = word_index(word, conf->words);
        return *value >= 0 ? NULL : "Invalid conf value";
    default:
        if (conf->target == OPTION_arenas && word_is(word, "default")) {
            *value = 0;
            return NULL;
        }
        return conf_parse_number(word, value) ? conf_check_number(conf, value)
                                              : "Invalid conf value";
    }
}

/* --- Settings --------------------------------------------------------------------------------- */

/* The option of a name. Some names jemalloc takes abbreviated. */
static const struct conf_option *conf_find(struct word key)
{
    static const char *const abbreviated[] = {"metadata_thp", "dss", "percpu_arena"};
    for (unsigned i = 0; i < conf_count(); i++) {
        if (word_is(key, conf_options[i].name)) {
            return &conf_options[i];
        }
    }
    for (size_t i = 0; i < array_count(abbreviated); i++) {
        if (key.length < strlen(abbreviated[i]) &&
            memcmp(key.start, abbreviated[i], key.length) == 0) {
            return conf_find((struct word){abbreviated[i], strlen(abbreviated[i])});
        }
    }
    return NULL;
}

/* Two names for the same: the size, and its logarithm. */
static void conf_keep(enum conf_id id, long value)
{
    any_is_kept = true;
    conf_kept[id].value = value;
    conf_kept[id].is_set = true;
    if (id == CONF_lg_tcache_max) {
        conf_kept[CONF_tcache_max].value = 1L << (value < 62 ? value : 62);
        conf_kept[CONF_tcache_max].is_set = true;
    } else if (id == CONF_tcache_max) {
        conf_kept[CONF_lg_tcache_max].value = value > 1 ? floor_log2((size_t)value) : 0;
        conf_kept[CONF_lg_tcache_max].is_set = true;
    }
}

/* Of a setting without effect. Who lets wrong settings end the program wants to know of those that do
 * nothing, but where they ask for what holds anyway. */
static bool conf_misleads(const struct conf_option *conf, long value)
{
    return conf->target == CONF_NOTHING && option(OPTION_abort_conf) &&
           (conf->type == CONF_TYPE_TEXT || value != conf->value);
}

static bool conf_apply(struct word key, struct word word, const char *origin)
{
    const struct conf_option *conf = conf_find(key);
    if (conf == NULL) {
        return conf_complain(option_named(key) != NULL ? "Set in MALLOW_CONF, not here"
                                                       : "Invalid conf pair",
                             key, word);
    }
    long value;
    const char *wrong = conf_parse_value(conf, word, &value);
    if (wrong != NULL) {
        return conf_complain(wrong, key, word);
    }
    if (conf->target == CONF_KEPT && conf->type != CONF_TYPE_TEXT) {
        conf_keep((enum conf_id)(conf - conf_options), value);
    } else if (conf_has_option(conf)) {
        enum option_id id = (enum option_id)conf->target;
        if (value > option_maximum(id)) {
            value = option_maximum(id);
        }
        option_set_from(id, value, origin);
    }
    if (option(OPTION_confirm_conf)) {
        conf_say_setting("-- Set conf value", key, word,
                         conf->target == CONF_NOTHING ? " (accepted without effect)" : "");
    } else if (conf_misleads(conf, value) && may_complain()) {
        conf_say_setting("Conf value without effect", key, word, "");
    }
    return true;
}

static bool is_of_key(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

/* Cuts the next setting off the text. False at its end, or if it is malformed; then *is_good is
 * false. */
static bool conf_next(const char **text, struct word *key, struct word *value, bool *is_good)
{
    const char *at = *text;
    while (is_of_key(*at)) {
        at++;
    }
    if (*at != ':') {
        if (*at != 0 || at != *text) {
            conf_say(*at != 0 ? "Malformed conf string" : "Conf string ends with key");
            *is_good = false;
        }
        return false;
    }
    *key = (struct word){*text, (size_t)(at - *text)};
    at++;
    *value = (struct word){at, strcspn(at, ",")};
    at += value->length;
    if (at[0] == ',' && at[1] == 0) {
        conf_say("Conf string ends with comma");
        *is_good = false;
    }
    *text = at + (*at == ',');
    return true;
}

static bool conf_apply_all(const struct conf_source *source)
{
    const char *text = source->text;
    bool is_good = true;
    struct word key;
    struct word value;
    complaints_begin();
    while (conf_next(&text, &key, &value, &is_good)) {
        is_good &= conf_apply(key, value, source->origin);
    }
    complain_of_rest(source->origin);
    return is_good;
}

/* Whether a source asks for a report, which then says what all sources set. */
static void conf_look_for_confirm(const char *text)
{
    static const char setting[] = "confirm_conf:true";
    size_t length = sizeof setting - 1;
    while (text != NULL && *text != 0) {
        if (strncmp(text, setting, length) == 0 && (text[length] == 0 || text[length] == ',')) {
            option_set(OPTION_confirm_conf, true);
        }
        text = strchr(text, ',');
        text += text != NULL;
    }
}

static COLD bool conf_load_found(const struct conf_source *sources, unsigned count)
{
    bool is_good = true;
    for (unsigned i = 0; i < count; i++) {
        conf_look_for_confirm(sources[i].text);
    }
    for (unsigned i = 0; i < count; i++) {
        const char *text = sources[i].text;
        if (option(OPTION_confirm_conf) && i == 0) {
            conf_say("malloc_conf #1 (string specified via --with-malloc-conf): \"\"");
        }
        if (option(OPTION_confirm_conf)) {
            conf_say("malloc_conf #%u (%s): \"%s\"", i + 2, sources[i].described,
                     text != NULL ? text : "");
        }
        if (text != NULL) {
            is_good &= conf_apply_all(&sources[i]);
        }
    }
    return is_good;
}

static COLD void conf_say_end(void)
{
    conf_say("Abort (abort_conf:true) on invalid conf value (see above).");
}

static bool conf_load(const struct conf_source *sources, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (sources[i].text != NULL) {
            return conf_load_found(sources, count);
        }
    }
    return true;
}
