/* SPDX-License-Identifier: MIT
 *
 * The frames of an interpreter, as they are sent: what its code is called, once, and which of it runs.
 */
#include "thread.h"

#include <dlfcn.h>
#include <string.h>

#define SCRIPT_FRAMES 128
#define SCRIPT_TEXT 4096 /* of a name or a path, at most */

/* Of one call, innermost first. */
struct script_frames {
    uint64_t count;
    uintptr_t evaluation; /* the function of C that runs them */
    struct {
        uint64_t key;   /* of the code */
        uint64_t place; /* in it, and perhaps SCRIPT_ENTRY */
        uint64_t stack; /* of an entry: an address among the locals of what runs it, or 0 */
    } frames[SCRIPT_FRAMES];
};

static uintptr_t script_word(uintptr_t object, size_t offset)
{
    return *(const uintptr_t *)(object + offset);
}

static uintptr_t script_symbol(const char *name)
{
    return (uintptr_t)dlsym(RTLD_DEFAULT, name);
}

/* What code is known by: its address, and what other code at the same address has otherwise. */
static uint64_t script_key(const uintptr_t *words, size_t count)
{
    uint64_t key = 0;
    for (size_t i = 0; i < count; i++) {
        key = (key ^ words[i]) * 0x9e3779b97f4a7c15u;
        key ^= key >> 29;
    }
    return key | 1;
}

/* Where to note that the collector knows of this code. */
static uint64_t *script_sent(struct thread *thread, uint64_t key)
{
    return &thread->ring->codes[key >> 32 & (array_count(thread->ring->codes) - 1)];
}

static struct thread *script_send_part(struct thread *thread, uint64_t key, enum script_part part,
                                       const void *bytes, size_t size, uint64_t width,
                                       uint32_t first_line)
{
    uint64_t words[] = {size, key, (uint64_t)part | width << 8, first_line};
    return thread_send(thread, MESSAGE_SCRIPT_CODE, words, array_count(words), bytes, size);
}

/* There is room. */
static void script_send(struct thread *thread, const struct script_frames *frames)
{
    if (likely(frames->count == 0)) {
        return;
    }
    thread_put(thread, 0, MESSAGE_SCRIPT);
    thread_put(thread, 1, frames->count);
    thread_put(thread, 2, frames->evaluation);
    for (uint64_t i = 0; i < frames->count; i++) {
        thread_put(thread, 3 + SCRIPT_WORDS * i, frames->frames[i].key);
        thread_put(thread, 4 + SCRIPT_WORDS * i, frames->frames[i].place);
        thread_put(thread, 5 + SCRIPT_WORDS * i, frames->frames[i].stack);
    }
    thread_publish(thread, 3 + SCRIPT_WORDS * frames->count);
}
