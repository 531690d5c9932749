/* SPDX-License-Identifier: MIT */
#include "options.h"

#include "../base/atomic.h"

#include <limits.h>
#include <string.h>

enum option_kind { KIND_BOOL, KIND_NUMBER, KIND_SIZE, KIND_CHOICE };

struct option_info {
    const char *name;
    enum option_kind kind;
    long minimum;
    long maximum;
    const char *words; /* what may be written; for numbers their unit */
};

static const struct option_info option_infos[OPTION_COUNT] = {
#define BOOL(name, value, help) {#name, KIND_BOOL, 0, 1, "false|true"},
#define NUMBER(name, value, minimum, maximum, unit, help) \
    {#name, KIND_NUMBER, minimum, maximum, unit},
#define SIZE(name, value, help) {#name, KIND_SIZE, 0, LONG_MAX, "bytes, or N%"},
#define CHOICE(name, value, words, help) {#name, KIND_CHOICE, 0, 9, words},
#include "options.def"
#undef BOOL
#undef NUMBER
#undef SIZE
#undef CHOICE
};

static struct {
    _Atomic long now;
    long at_start; /* as the settings left it: what the program changes later is not here */
} option_values[OPTION_COUNT] = {
#define BOOL(name, value, help) {value, value},
#define NUMBER(name, value, minimum, maximum, unit, help) {value, value},
#define SIZE(name, value, help) {value, value},
#define CHOICE(name, value, words, help) {value, value},
#include "options.def"
#undef BOOL
#undef NUMBER
#undef SIZE
#undef CHOICE
};

/* Where each value comes from, for confirm_conf. */
static const char *option_origins[OPTION_COUNT] IN_SECTION(options);

static long option(enum option_id id)
{
    return atomic_get(&option_values[id].now);
}

static void option_set(enum option_id id, long value)
{
    atomic_set(&option_values[id].now, value);
}

static void option_set_from(enum option_id id, long value, const char *origin)
{
    option_set(id, value);
    option_values[id].at_start = value;
    option_origins[id] = origin;
}

static long option_at_start(enum option_id id)
{
    return option_values[id].at_start;
}

static long option_maximum(enum option_id id)
{
    return option_infos[id].maximum;
}

static bool junk_fills_new(void)
{
    return option(OPTION_junk) == JUNK_TRUE || option(OPTION_junk) == JUNK_ALLOC;
}

static bool junk_fills_freed(void)
{
    return option(OPTION_junk) == JUNK_TRUE || option(OPTION_junk) == JUNK_FREE;
}

struct prefix {
    char text[PREFIX_MOST];
    bool is_set;
};

static struct prefix prefix_at_start IN_SECTION(options);
static struct prefix prefix_of_program IN_SECTION(options);

/* Apart from them, see any_is_kept. */
static bool has_prefix;

static const char *prof_prefix_at_start(void)
{
    return has_prefix && prefix_at_start.is_set ? prefix_at_start.text : "jeprof";
}

static const char *prof_prefix(void)
{
    return has_prefix && prefix_of_program.is_set ? prefix_of_program.text : prof_prefix_at_start();
}

static bool prefix_write(struct prefix *to, struct word word)
{
    if (word.length >= sizeof to->text) {
        return false;
    }
    memcpy(to->text, word.start, word.length);
    to->text[word.length] = 0;
    to->is_set = has_prefix = true;
    return true;
}

static bool prof_prefix_set(struct word word)
{
    return prefix_write(&prefix_at_start, word);
}

static bool prof_prefix_change(struct word word)
{
    return prefix_write(&prefix_of_program, word);
}

/* --- Parsing --------------------------------------------------------------------------------- */

static bool word_is(struct word word, const char *string)
{
    return strlen(string) == word.length && memcmp(word.start, string, word.length) == 0;
}

/* Edit distance, of words up to 31 characters; longer ones are far from everything. */
static unsigned word_distance(struct word word, const char *name)
{
    unsigned row[32];
    size_t name_length = strlen(name);
    if (word.length >= array_count(row) || name_length >= array_count(row)) {
        return 99;
    }
    for (unsigned j = 0; j <= name_length; j++) {
        row[j] = j;
    }
    for (unsigned i = 1; i <= word.length; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= name_length; j++) {
            unsigned substituted = diagonal + (word.start[i - 1] != name[j - 1]);
            diagonal = row[j];
            unsigned inserted = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = substituted < inserted ? substituted : inserted;
        }
    }
    return row[name_length];
}

/* NULL if the word is too long to be near any. */
static const char *nearest_option(struct word key)
{
    unsigned best = 99;
    const char *nearest = NULL;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        unsigned distance = word_distance(key, option_infos[i].name);
        if (distance < best) {
            best = distance;
            nearest = option_infos[i].name;
        }
    }
    return nearest;
}

/* A decimal number with an optional sign and one of the suffixes K, M, G. */
static bool parse_number(struct word word, long *value)
{
    size_t at = 0;
    bool negative = word.length > 0 && word.start[0] == '-';
    at += negative;
    bool has_digit = at < word.length && word.start[at] >= '0' && word.start[at] <= '9';
    if (!has_digit || word.length - at > 15) {
        return false;
    }
    long number = 0;
    for (; at < word.length && word.start[at] >= '0' && word.start[at] <= '9'; at++) {
        number = number * 10 + (word.start[at] - '0');
    }
    if (at + 1 == word.length) {
        unsigned shift = 0;
        switch (word.start[at++] | 0x20) {
        case 'k':
            shift = 10;
            break;
        case 'm':
            shift = 20;
            break;
        case 'g':
            shift = 30;
            break;
        default:
            return false;
        }
        if (__builtin_mul_overflow(number, (long)1 << shift, &number)) {
            return false;
        }
    }
    *value = negative ? -number : number;
    return at == word.length;
}

/* The index of `word` among those in "a|b|c"; -1 if it is none of them. */
static long word_index(struct word word, const char *words)
{
    for (long index = 0;; index++) {
        const char *end = strchr(words, '|');
        size_t length = end != NULL ? (size_t)(end - words) : strlen(words);
        if (length == word.length && memcmp(words, word.start, length) == 0) {
            return index;
        }
        if (end == NULL) {
            return -1;
        }
        words = end + 1;
    }
}

/* Bytes, or 1% to 100%, which is stored as -1 to -100. */
static bool parse_size(struct word word, long *value)
{
    bool is_share = word.length > 1 && word.start[word.length - 1] == '%';
    word.length -= is_share;
    if (!parse_number(word, value) || *value < (is_share ? 1 : 0)) {
        return false;
    }
    if (is_share) {
        *value = -*value;
    }
    return *value >= -100;
}

static struct word word_at(const char *words, long index)
{
    while (index-- > 0) {
        words = strchr(words, '|');
        if (words == NULL) {
            return (struct word){NULL, 0};
        }
        words++;
    }
    return (struct word){words, strcspn(words, "|")};
}

static bool parse_value(const struct option_info *info, struct word word, long *value)
{
    if (info->kind == KIND_SIZE) {
        return parse_size(word, value);
    }
    if (info->kind == KIND_NUMBER) {
        return parse_number(word, value) && *value >= info->minimum && *value <= info->maximum;
    }
    *value = word_index(word, info->words);
    return *value >= 0;
}

/* A copy that ends in 0, cut to what a message can show. */
static const char *word_text(struct word word, char *buffer, size_t size)
{
    size_t length = size_min(word.length, size - 1);
    memcpy(buffer, word.start, length);
    buffer[length] = 0;
    return buffer;
}

/* Settings that were not understood and are told of; the rest are counted. */
#define COMPLAINTS_MAX 5u

static unsigned complaints; /* lock: process */

static bool may_complain(void)
{
    return ++complaints <= COMPLAINTS_MAX;
}

static void complaints_begin(void)
{
    complaints = 0;
}

static void complain_of_rest(const char *origin)
{
    if (complaints > COMPLAINTS_MAX) {
        log_warn("%s: %u more settings were not understood", origin, complaints - COMPLAINTS_MAX);
    }
}

static void complain_of_value(const struct option_info *info, struct word word, const char *origin)
{
    char shown[64];
    if (!may_complain()) {
        return;
    }
    word_text(word, shown, sizeof shown);
    if (info->kind == KIND_NUMBER) {
        log_warn("%s: %s takes a number from %ld to %ld (%s), not '%s'", origin, info->name,
                 info->minimum, info->maximum, info->words, shown);
    } else if (info->kind == KIND_SIZE) {
        log_warn(
            "%s: %s takes a number of bytes, such as 512M, or a share of the cgroup's limit, such "
            "as 80%%, not '%s'",
            origin, info->name, shown);
    } else {
        log_warn("%s: %s takes %s, not '%s'", origin, info->name, info->words, shown);
    }
}

static const struct option_info *option_named(struct word name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (word_is(name, option_infos[i].name)) {
            return &option_infos[i];
        }
    }
    return NULL;
}

static bool apply_setting(struct word key, struct word word, const char *origin)
{
    if (word_is(key, "prof_prefix")) {
        if (!prof_prefix_set(word) && may_complain()) {
            log_warn("%s: prof_prefix takes a path of less than %u characters", origin,
                     PREFIX_MOST);
            return false;
        }
        return true;
    }
    const struct option_info *info = option_named(key);
    if (info != NULL) {
        long value;
        if (parse_value(info, word, &value)) {
            option_set_from((enum option_id)(info - option_infos), value, origin);
            return true;
        }
        complain_of_value(info, word, origin);
        return false;
    }
    if (may_complain()) {
        char shown[64];
        const char *nearest = nearest_option(key);
        const char *before = nearest != NULL ? "; the nearest name is '" : "";
        log_warn("%s: there is no option '%s'%s%s%s", origin, word_text(key, shown, sizeof shown),
                 before, nearest != NULL ? nearest : "", nearest != NULL ? "'" : "");
    }
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct word word_trimmed(const char *start, const char *end)
{
    while (start < end && is_blank(*start)) {
        start++;
    }
    while (end > start && is_blank(end[-1])) {
        end--;
    }
    return (struct word){start, (size_t)(end - start)};
}

/* Up to where a setting ends, or a comment begins: the name of a file may have its sign in it. */
static size_t setting_length(const char *text)
{
    size_t length = strcspn(text, ",\n#");
    while (text[length] == '#' && length > 0 && !is_blank(text[length - 1])) {
        length += 1 + strcspn(text + length + 1, ",\n#");
    }
    return length;
}

/* Applies each setting of a text; false if one was not understood. */
static bool parse_settings(const char *text, const char *origin)
{
    bool all_good = true;
    complaints_begin();
    while (*text != 0) {
        size_t length = setting_length(text);
        struct word setting = word_trimmed(text, text + length);
        const char *colon = memchr(setting.start, ':', setting.length);
        if (colon != NULL) {
            struct word key = word_trimmed(setting.start, colon);
            struct word value = word_trimmed(colon + 1, setting.start + setting.length);
            all_good &= apply_setting(key, value, origin);
        } else if (setting.length > 0) {
            if (may_complain()) {
                char shown[64];
                log_warn("%s: '%s' has no value; write key:value,key:value", origin,
                         word_text(setting, shown, sizeof shown));
            }
            all_good = false;
        }
        text += length;
        if (*text == '#') {
            text += strcspn(text, "\n");
        }
        text += *text != 0;
    }
    complain_of_rest(origin);
    return all_good;
}

/* --- Reporting -------------------------------------------------------------------------------- */

static void print_settings(void)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_info *info = &option_infos[i];
        const char *origin = option_origins[i] != NULL ? option_origins[i] : "default";
        long value = option((enum option_id)i);
        if (info->kind == KIND_NUMBER) {
            log_warn("%s:%ld (%s, from %s)", info->name, value, info->words, origin);
            continue;
        }
        if (info->kind == KIND_SIZE) {
            bool is_share = value < 0;
            log_warn("%s:%ld%s (from %s)", info->name, is_share ? -value : value,
                     is_share ? "% of the cgroup's limit" : " bytes", origin);
            continue;
        }
        char shown[64];
        log_warn("%s:%s (from %s)", info->name,
                 word_text(word_at(info->words, value), shown, sizeof shown), origin);
    }
}
