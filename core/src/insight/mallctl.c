/* SPDX-License-Identifier: MIT
 *
 * mallctl: from a name, or from its numbers (a MIB), to the table of names, and values in and out.
 *
 *     arenas . bin . 7 . size         the pattern arenas.bin.<j>.size, id 44
 *       31     40    7    44          its MIB: a number stands for itself; another part is the
 *                                     first id whose name begins alike up to there
 *
 * So the last number of a MIB is the id of the name, and the others must be what belongs to it. Where the
 * last part is one of several words, its index is there too: id + index * number of all names.
 */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "../os/memcheck.h"
#include "ctl_prof.h"
#include "ctl_stats.h"
#include "utilization.h"

#include <errno.h>
#include <string.h>

/* --- Names ------------------------------------------------------------------------------------ */

/* The part of a name that begins here, without the dot behind it. */
static struct word part_at(const char *at)
{
    return (struct word){at, strcspn(at, ".")};
}

/* Behind a part and its dot; NULL if it was the last. */
static const char *part_next(struct word part)
{
    return part.start[part.length] == '.' ? part.start + part.length + 1 : NULL;
}

static bool part_is_slot(struct word part)
{
    return part.start[0] == '<';
}

static bool parts_are_equal(struct word a, struct word b)
{
    return a.length == b.length && memcmp(a.start, b.start, a.length) == 0;
}

/* A decimal number of up to nine digits. */
static bool part_is_number(struct word part, size_t *number)
{
    *number = 0;
    for (size_t i = 0; i < part.length; i++) {
        if (part.start[i] < '0' || part.start[i] > '9') {
            return false;
        }
        *number = 10 * *number + (size_t)(part.start[i] - '0');
    }
    return part.length > 0 && part.length <= 9;
}

/* What a part is in a MIB where the pattern has a slot: a number is itself, a word its index. */
static bool part_fits_slot(struct word part, struct word slot, size_t *number)
{
    const char *words = ctl_slot_words(slot);
    if (words == NULL) {
        return part_is_number(part, number);
    }
    long index = 0;
    for (struct word at = word_at(words, 0); at.start != NULL; at = word_at(words, ++index)) {
        if (parts_are_equal(part, at)) {
            *number = (size_t)index;
            return true;
        }
    }
    return false;
}

/* The first id whose pattern has the same `parts` first parts as that of `id`. */
static unsigned first_alike(unsigned id, unsigned parts)
{
    const char *pattern = ctl_at(id)->pattern;
    const char *end = pattern;
    for (unsigned i = 0; i < parts; i++) {
        end += (i > 0) + strcspn(end + (i > 0), ".");
    }
    size_t length = (size_t)(end - pattern);
    unsigned first = id;
    while (first > 0) {
        const char *before = ctl_at(first - 1)->pattern;
        if (strncmp(before, pattern, length) != 0 ||
            (before[length] != '.' && before[length] != 0)) {
            break;
        }
        first--;
    }
    return first;
}

static unsigned mib_depth(unsigned id)
{
    unsigned depth = 1;
    for (const char *at = ctl_at(id)->pattern; *at != 0; at++) {
        depth += *at == '.';
    }
    return depth;
}

/* The parts of the pattern of `id` as a MIB, the slots left as they are in `mib`. Returns how many
 * there are. */
static unsigned mib_complete(unsigned id, size_t *mib)
{
    unsigned depth = 0;
    for (const char *at = ctl_at(id)->pattern; at != NULL; at = part_next(part_at(at))) {
        if (!part_is_slot(part_at(at))) {
            mib[depth] = first_alike(id, depth + 1);
        }
        depth++;
    }
    return depth;
}

/* Whether the last part is one of several words. */
static bool pattern_ends_with_slot(const char *pattern)
{
    return pattern[strlen(pattern) - 1] == '>';
}

/* Whether there is what the numbers among the first `depth` parts of a MIB stand for. */
static bool mib_has_indices(unsigned id, const size_t *mib, size_t depth)
{
    struct word part = part_at(ctl_at(id)->pattern);
    for (unsigned place = 0; place < depth; place++) {
        bool is_number = part_is_slot(part) && ctl_slot_words(part) == NULL;
        if (is_number && !ctl_has_index(id, place, mib[place])) {
            return false;
        }
        const char *next = part_next(part);
        part = part_at(next != NULL ? next : "");
    }
    return true;
}

/* The id of a whole MIB; `plain` becomes the same with the index of a last word in its place. ctl_count()
 * if there is none. */
static unsigned mib_find(const size_t *mib, size_t depth, size_t *plain)
{
    if (mib == NULL || depth == 0 || depth > CTL_DEPTH) {
        return ctl_count();
    }
    unsigned id = (unsigned)(mib[depth - 1] % ctl_count());
    bool has_word = pattern_ends_with_slot(ctl_at(id)->pattern);
    memcpy(plain, mib, depth * sizeof *mib);
    plain[depth - 1] = has_word ? mib[depth - 1] / ctl_count() : mib[depth - 1];
    size_t whole[CTL_DEPTH];
    memcpy(whole, plain, depth * sizeof *mib);
    bool is_whole = mib_depth(id) == depth && mib_complete(id, whole) == depth &&
                    memcmp(whole, plain, depth * sizeof *mib) == 0;
    return is_whole && mib_has_indices(id, plain, depth) ? id : ctl_count();
}

/* Whether the first `most` parts of a name, or all, are those of a pattern; the numbers for slots
 * go into `mib`. */
static bool name_matches(const char *name, const char *pattern, size_t most, size_t *mib)
{
    for (unsigned depth = 0; depth < most; depth++) {
        if (name == NULL || pattern == NULL) {
            return name == pattern;
        }
        struct word part = part_at(name);
        struct word wanted = part_at(pattern);
        bool is_alike = part_is_slot(wanted) ? part_fits_slot(part, wanted, &mib[depth])
                                             : parts_are_equal(part, wanted);
        if (!is_alike) {
            return false;
        }
        name = part_next(part);
        pattern = part_next(wanted);
    }
    return true;
}

/* The id of the first name whose pattern fits, and its MIB; ctl_count() if there is none. */
static unsigned name_find(const char *name, size_t most, size_t *mib, unsigned *depth)
{
    for (unsigned id = 0; id < ctl_count(); id++) {
        if (name_matches(name, ctl_at(id)->pattern, most, mib)) {
            *depth = mib_complete(id, mib);
            if (!mib_has_indices(id, mib, size_min(most, *depth))) {
                break;
            }
            if (pattern_ends_with_slot(ctl_at(id)->pattern)) {
                mib[*depth - 1] = id + mib[*depth - 1] * ctl_count();
            }
            return id;
        }
    }
    return ctl_count();
}

/* --- Values ----------------------------------------------------------------------------------- */

static size_t type_size(enum ctl_type type)
{
    return type == CTL_TYPE_BOOL ? sizeof(bool)
           : type == CTL_TYPE_UNSIGNED || type == CTL_TYPE_LOOKUP || type == CTL_TYPE_CREATE
               ? sizeof(unsigned)
               : sizeof(uint64_t);
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values are copied from the first bytes of a uint64_t"
#endif

/* Hands a value out; if the length is wrong, as much of it as fits. */
static int value_out(uint64_t value, size_t size, void *old_value, size_t *old_size)
{
    bool fits = *old_size == size;
    *old_size = size_min(*old_size, size);
    memcpy(old_value, &value, *old_size);
    return fits ? 0 : EINVAL;
}

/* What the program wants to do with a name. */
struct request_of_value {
    void *old_value;
    size_t *old_size;
    const void *new_value;
    size_t new_size;
};

static int request_look_up(unsigned id, const size_t *mib, const struct request_of_value *request)
{
    uint64_t value = 0;
    if (request->new_value == NULL || request->new_size != sizeof(void *)) {
        return EINVAL;
    }
    memcpy(&value, request->new_value, sizeof(void *));
    int error = ctl_read(id, mib, &value);
    if (error != 0 || request->old_value == NULL || request->old_size == NULL) {
        return error;
    }
    return value_out(value, sizeof(unsigned), request->old_value, request->old_size);
}

/* Nothing is made whose number would be lost. */
static int request_create(unsigned id, const size_t *mib, const struct request_of_value *request)
{
    uint64_t value = 0;
    bool is_write = request->new_value != NULL || request->new_size != 0;
    if (is_write && ctl_at(id)->access == CTL_ACCESS_READ) {
        return EPERM;
    }
    if (request->old_value == NULL || request->old_size == NULL ||
        *request->old_size != sizeof(unsigned)) {
        if (request->old_size != NULL) {
            *request->old_size = 0;
        }
        return EINVAL;
    }
    if (request->new_value != NULL) {
        if (request->new_size != sizeof(void *)) {
            return EINVAL;
        }
        memcpy(&value, request->new_value, sizeof(void *));
    }
    int error = ctl_read(id, mib, &value);
    return error != 0 ? error
                      : value_out(value, sizeof(unsigned), request->old_value, request->old_size);
}

static int request_name(unsigned id, const size_t *mib, const struct request_of_value *request)
{
    uint64_t buffer = 0, name = 0;
    bool is_write = request->new_value != NULL;
    if (request->old_value != NULL && request->old_size != NULL) {
        if (*request->old_size != sizeof(void *)) {
            return EINVAL;
        }
        memcpy(&buffer, request->old_value, sizeof(void *));
    }
    if (is_write) {
        if (request->new_size != sizeof(void *)) {
            return EINVAL;
        }
        memcpy(&name, request->new_value, sizeof(void *));
    }
    int error = ctl_read(id, mib, &buffer);
    return error != 0 || !is_write ? error : ctl_write(id, mib, name);
}

static int request_utilization(const struct request_of_value *request)
{
    struct utilization_of_bin result;
    const void *block;
    if (request->old_value == NULL || request->old_size == NULL ||
        *request->old_size != sizeof result || request->new_value == NULL ||
        request->new_size != sizeof block) {
        return EINVAL;
    }
    memcpy(&block, request->new_value, sizeof block);
    if (!utilization_query(block, &result)) {
        return EAGAIN;
    }
    memcpy(request->old_value, &result, sizeof result);
    return 0;
}

/* Of as many blocks as there are pointers. */
static int request_utilizations(const struct request_of_value *request)
{
    size_t count = request->new_size / sizeof(void *);
    if (request->old_value == NULL || request->old_size == NULL || request->new_value == NULL ||
        count == 0 || request->new_size % sizeof(void *) != 0 ||
        *request->old_size / sizeof(struct utilization) != count ||
        *request->old_size % sizeof(struct utilization) != 0) {
        return EINVAL;
    }
    utilization_note_moves();
    for (size_t i = 0; i < count; i++) {
        const void *block;
        memcpy(&block, (const char *)request->new_value + i * sizeof block, sizeof block);
        struct utilization result = utilization_of(block);
        memcpy((char *)request->old_value + i * sizeof result, &result, sizeof result);
    }
    return 0;
}

static int request_read(unsigned id, const size_t *mib, const struct request_of_value *request)
{
    uint64_t value = 0;
    int error = ctl_read(id, mib, &value); /* says too whether the numbers in the name are good */
    if (error != 0 || request->old_value == NULL || request->old_size == NULL) {
        return error;
    }
    return value_out(value, type_size(ctl_at(id)->type), request->old_value, request->old_size);
}

static int request_write(unsigned id, const size_t *mib, const struct request_of_value *request)
{
    uint64_t value = 0;
    if (request->new_value == NULL) {
        return 0;
    }
    memcpy(&value, request->new_value, request->new_size);
    return ctl_write(id, mib, value);
}

/* What is done where no value means something too. */
static int request_act(unsigned id, const size_t *mib, const struct request_of_value *request)
{
    return request->new_value != NULL ? request_write(id, mib, request)
                                      : ctl_write(id, mib, CTL_NO_VALUE);
}

/* What is asked for without a value. One of these names does not look at values. */
static int request_call(unsigned id, const size_t *mib, const struct request_of_value *request)
{
    bool has_value = request->new_value != NULL || request->new_size != 0 ||
                     request->old_value != NULL || request->old_size != NULL;
    return has_value && id != CTL_stats_mutexes_reset ? EPERM : ctl_write(id, mib, 0);
}

static int request_serve(unsigned id, const size_t *mib, const struct request_of_value *request)
{
    const struct ctl_name *name = ctl_at(id);
    bool is_write = request->new_value != NULL || request->new_size != 0;
    bool is_read_too = request->old_value != NULL && request->old_size != NULL;
    if (ctl_prof_is_refused(id, name, request->new_value != NULL)) {
        return ENOENT;
    }
    if (id == CTL_thread_prof_name && is_write && is_read_too) {
        return EPERM; /* what is read would be gone */
    }
    if (name->access == CTL_ACCESS_CALL) {
        return request_call(id, mib, request);
    }
    switch ((enum ctl_type)name->type) {
    case CTL_TYPE_LOOKUP:
        return request_look_up(id, mib, request);
    case CTL_TYPE_CREATE:
        return request_create(id, mib, request);
    case CTL_TYPE_NAME:
        return request_name(id, mib, request);
    case CTL_TYPE_RAW:
        return id == CTL_utilization_query ? request_utilization(request)
                                           : request_utilizations(request);
    default:
        break;
    }
    if (name->access == CTL_ACCESS_WRITE) {
        bool is_read = request->old_value != NULL || request->old_size != NULL;
        bool fits = request->new_value == NULL || request->new_size == type_size(name->type);
        return is_read ? EPERM : fits ? request_act(id, mib, request) : EINVAL;
    }
    if (is_write && name->access == CTL_ACCESS_READ) {
        return EPERM;
    }
    if (request->new_value != NULL && request->new_size != type_size(name->type)) {
        return EINVAL;
    }
    if (id == CTL_epoch) { /* what is read is the new one */
        int error = request_write(id, mib, request);
        return error != 0 ? error : request_read(id, mib, request);
    }
    int error = request_read(id, mib, request);
    return error != 0 ? error : request_write(id, mib, request);
}

/* Sweeps and purges read free memory. */
static int request_serve_apart(unsigned id, const size_t *mib, struct request_of_value *request)
{
    memcheck_enter();
    int error = request_serve(id, mib, request);
    memcheck_leave();
    return error;
}

/* --- Calls ------------------------------------------------------------------------------------ */

int mw_mallctl(const char *name, void *old_value, size_t *old_size, void *new_value,
               size_t new_size)
{
    size_t mib[CTL_DEPTH];
    unsigned depth;
    process_init();
    unsigned id = name != NULL ? name_find(name, CTL_DEPTH + 1, mib, &depth) : ctl_count();
    if (id == ctl_count()) {
        return name != NULL ? ENOENT : EINVAL;
    }
    struct request_of_value request = {old_value, old_size, new_value, new_size};
    if (pattern_ends_with_slot(ctl_at(id)->pattern)) {
        mib[depth - 1] /= ctl_count();
    }
    return request_serve_apart(id, mib, &request);
}

/* The beginning of a name gives the beginning of a MIB, as in jemalloc. */
int mw_mallctlnametomib(const char *name, size_t *mib, size_t *mib_size)
{
    size_t whole[CTL_DEPTH];
    unsigned depth;
    process_init();
    if (name == NULL || mib == NULL || mib_size == NULL) {
        return EINVAL;
    }
    size_t parts = 1;
    for (const char *at = name; *at != 0; at++) {
        parts += *at == '.';
    }
    size_t all_parts = parts;
    parts = size_min(parts, *mib_size);
    bool is_found = parts == 0 || name_find(name, parts, whole, &depth) != ctl_count();
    if (name[0] == 0 || !is_found || (parts != 0 && depth == parts && all_parts > parts)) {
        return ENOENT; /* also where a whole name is followed by more */
    }
    *mib_size = parts;
    memcpy(mib, whole, parts * sizeof *mib);
    return 0;
}

int mw_mallctlbymib(const size_t *mib, size_t mib_size, void *old_value, size_t *old_size,
                    void *new_value, size_t new_size)
{
    size_t plain[CTL_DEPTH];
    process_init();
    unsigned id = mib_find(mib, mib_size, plain);
    if (id == ctl_count()) {
        return ENOENT;
    }
    struct request_of_value request = {old_value, old_size, new_value, new_size};
    return request_serve_apart(id, plain, &request);
}
