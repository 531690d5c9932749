/* SPDX-License-Identifier: MIT */
#include "ctl_prof.h"

#include "../profile/unwind.h"
#include "../thread/sampling.h"
#include "../thread/thread.h"
#include "profile.h"

#include <errno.h>
#include <string.h>

/* Waits for a profile that another thread writes; not for ever, as a signal handler may have interrupted
 * this one in writing it. */
#define DUMP_TRIES 2000u

static int dump_asked_for(const char *path)
{
    int error = EAGAIN;
    for (unsigned tries = 0; tries < DUMP_TRIES && error == EAGAIN; tries++) {
        error = profile_dump(path, DUMP_ASKED_FOR);
        if (error == EAGAIN) {
            os_nap(1);
        }
    }
    return error == 0 ? 0 : error == EAGAIN ? EAGAIN : EFAULT;
}

static bool ctl_prof_is_refused(unsigned id, const struct ctl_name *name, bool is_write)
{
    bool is_of_profiles = name->group == CTL_GROUP_PROF || name->group == CTL_GROUP_THREAD_PROF;
    bool is_for_profiles =
        is_write || name->access == CTL_ACCESS_WRITE || id == CTL_thread_prof_name;
    return is_of_profiles && is_for_profiles && id != CTL_prof_active &&
           !atomic_get(&profile.is_enabled);
}

static int ctl_prof_read(unsigned id, uint64_t *value)
{
    switch (id) {
    case CTL_prof_thread_active_init:
        *value = atomic_get(&profile.is_enabled) && atomic_get(&profile.starts_active);
        break;
    case CTL_prof_active:
        *value = atomic_get(&profile.is_active);
        break;
    case CTL_prof_gdump:
        *value = atomic_get(&profile.dumps_at_peak);
        break;
    case CTL_prof_interval:
        *value = profile_interval_bytes();
        break;
    default:
        *value = atomic_get(&profile.rate_log2);
        break;
    }
    return 0;
}

/* The calling thread begins or ends to take samples at once, which moves its lists; others when they look at the
 * clock, and so does one that is in a handler of a signal, perhaps in the middle of malloc. */
static void follow_profile(void)
{
    if (!unwind_is_in_handler()) {
        struct heap *heap = thread_enter();
        heap_follow_profile(heap);
        thread_leave(heap);
    }
}

static int ctl_prof_write(unsigned id, const uint64_t *value)
{
    uint64_t number = value != NULL ? *value : 0;
    const char *text = (const char *)number;
    if (!atomic_get(&profile.is_enabled)) {
        bool is_so =
            id == CTL_prof_active && number == 0; /* off: nothing has to be done for that */
        return is_so ? 0 : ENOENT;
    }
    switch (id) {
    case CTL_prof_thread_active_init:
        atomic_set(&profile.starts_active, number != 0);
        return 0;
    case CTL_prof_active:
        profile_set_active(number != 0);
        follow_profile();
        return 0;
    case CTL_prof_gdump:
        atomic_set(&profile.dumps_at_peak, number != 0);
        return 0;
    case CTL_prof_prefix:
        return text != NULL && prof_prefix_change((struct word){text, strlen(text)}) ? 0 : EINVAL;
    case CTL_prof_reset: {
        uint64_t most = (uint64_t)option_maximum(OPTION_lg_prof_sample);
        uint64_t rate_log2 = value == NULL ? atomic_get(&profile.rate_log2) : *value;
        profile_reset((unsigned)size_min(rate_log2, most));
        follow_profile();
        return 0;
    }
    default:
        return dump_asked_for(text);
    }
}

static int ctl_thread_prof_read(unsigned id, uint64_t *value)
{
    struct heap *heap = thread_enter();
    *value = id == CTL_thread_prof_name ? (uintptr_t)heap->profile_name
                                        : atomic_get(&profile.is_enabled) && heap->may_sample;
    thread_leave(heap);
    return 0;
}

/* A name of printable characters, blanks and tabs, cut to what there is room for. */
static int thread_name_set(struct heap *heap, const char *name)
{
    if (name == NULL) {
        return EFAULT;
    }
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) {
        if ((name[i] < ' ' || name[i] > '~') && name[i] != '\t') {
            return EFAULT;
        }
    }
    length = size_min(length, sizeof heap->profile_name - 1);
    memcpy(heap->profile_name, name, length);
    heap->profile_name[length] = 0;
    return 0;
}

static int ctl_thread_prof_write(unsigned id, uint64_t value)
{
    int error = 0;
    if (!atomic_get(&profile.is_enabled)) {
        return ENOENT;
    }
    struct heap *heap = thread_enter();
    if (id == CTL_thread_prof_name) {
        error = thread_name_set(heap, (const char *)value);
    } else {
        heap->may_sample = value != 0;
    }
    thread_leave(heap);
    if (id != CTL_thread_prof_name) {
        follow_profile();
    }
    return error;
}
