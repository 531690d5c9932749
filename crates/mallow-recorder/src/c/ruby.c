/* SPDX-License-Identifier: MIT
 *
 * The Ruby frames of a call. The control frames of the calling thread are read here, as python.c reads
 * Python's; what their code is called and which line runs is said by functions of the interpreter that
 * only read. Of other versions nothing is read.
 */
#include "thread.h"

#include <link.h>
#include <string.h>

/* Ruby 3.3 exports neither the context of a thread nor the function that evaluates. */
#define RUBY_VERSION "3.1."

/* Offsets in bytes. */
enum { CONTEXT_STACK = 0, CONTEXT_STACK_WORDS = 8, CONTEXT_FRAME = 16 };
enum { RUBY_PC = 0, RUBY_ISEQ = 16, RUBY_ENVIRONMENT = 32, RUBY_FRAME_SIZE = 64 };
enum { ISEQ_BODY = 16, BODY_SIZE = 4, BODY_CODE = 8 };
enum { STRING_EMBEDDED = 16, STRING_LENGTH = 16, STRING_POINTER = 24 };
/* In the first word of an object, and of a frame's environment. */
enum { RUBY_TYPE = 0x1f, RUBY_IS_STRING = 0x05, RUBY_IS_INTERNAL = 0x1a };
enum { STRING_IS_APART = 1 << 13, STRING_SHORT_SHIFT = 14, STRING_SHORT = 0x1f };
enum { RUBY_FINISH = 0x20, RUBY_OF_C = 0x80 };

/* How the loader's __tls_get_addr is asked. */
struct thread_local_place {
    size_t module;
    size_t offset;
};

/* const after init */
static struct {
    void *(*find)(struct thread_local_place *); /* NULL: no Ruby, or an unknown one */
    struct thread_local_place context;
    int (*is_collecting)(void);
    uintptr_t (*label)(uintptr_t iseq);
    uintptr_t (*path)(uintptr_t iseq);
    unsigned (*line)(uintptr_t iseq, size_t place);
    uintptr_t evaluation;
} ruby;

/* The module whose thread-local variables `address` is among. */
static int ruby_find_module(struct dl_phdr_info *info, size_t size, void *address)
{
    if (size < offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof(info->dlpi_tls_data)) {
        return 1;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        size_t offset = (uintptr_t)address - (uintptr_t)info->dlpi_tls_data;
        if (info->dlpi_tls_data != NULL && info->dlpi_phdr[i].p_type == PT_TLS &&
            offset < info->dlpi_phdr[i].p_memsz) {
            ruby.context = (struct thread_local_place){info->dlpi_tls_modid, offset};
            return 1;
        }
    }
    return 0;
}

/* Once, at the start, as python_find. */
static COLD void ruby_find(void)
{
    const char *version = (const char *)script_symbol("ruby_version");
    if (version == NULL || strncmp(version, RUBY_VERSION, strlen(RUBY_VERSION)) != 0) {
        return;
    }
    uintptr_t context = script_symbol("ruby_current_ec");
    ruby.is_collecting = (int (*)(void))script_symbol("rb_during_gc");
    ruby.label = (uintptr_t(*)(uintptr_t))script_symbol("rb_iseq_label");
    ruby.path = (uintptr_t(*)(uintptr_t))script_symbol("rb_iseq_path");
    ruby.line = (unsigned (*)(uintptr_t, size_t))script_symbol("rb_iseq_line_no");
    ruby.evaluation = script_symbol("rb_vm_exec");
    if (context == 0 || ruby.is_collecting == NULL || ruby.label == NULL || ruby.path == NULL ||
        ruby.line == NULL || ruby.evaluation == 0) {
        return;
    }
    dl_iterate_phdr(ruby_find_module, (void *)context);
    if (ruby.context.module != 0) {
        ruby.find = (void *(*)(struct thread_local_place *))script_symbol("__tls_get_addr");
    }
}

/* --- Code ------------------------------------------------------------------------------------- */

static bool ruby_is(uintptr_t object, uintptr_t type)
{
    return object % 8 == 0 && object >= 4096 && (script_word(object, 0) & RUBY_TYPE) == type;
}

static struct thread *ruby_send_text(struct thread *thread, uint64_t key, enum script_part part,
                                     uintptr_t text)
{
    const void *bytes = "";
    size_t size = 0;
    if (ruby_is(text, RUBY_IS_STRING)) {
        uintptr_t flags = script_word(text, 0);
        bool is_apart = (flags & STRING_IS_APART) != 0;
        size = is_apart ? script_word(text, STRING_LENGTH)
                        : flags >> STRING_SHORT_SHIFT & STRING_SHORT;
        bytes = is_apart ? (const void *)script_word(text, STRING_POINTER)
                         : (const void *)(text + STRING_EMBEDDED);
    }
    return script_send_part(thread, key, part, bytes, size_min(size, SCRIPT_TEXT), 0, 0);
}

static struct thread *ruby_send_code(struct thread *thread, uint64_t key, uintptr_t path,
                                     uintptr_t label)
{
    struct ring *ring = thread->ring;
    uint64_t *sent = script_sent(thread, key);
    if (*sent == key) {
        return thread;
    }
    thread = ruby_send_text(thread, key, SCRIPT_FILE, path);
    if (thread != NULL) {
        thread = ruby_send_text(thread, key, SCRIPT_NAME, label);
    }
    if (thread != NULL) {
        *sent = key;
        ring->has_codes = 1;
    }
    return thread;
}

/* --- Frames ----------------------------------------------------------------------------------- */

/* How many words of its code a frame has run; 0 also where it is of C. */
static size_t ruby_progress(uintptr_t frame, uintptr_t flags)
{
    uintptr_t iseq = script_word(frame, RUBY_ISEQ);
    if ((flags & RUBY_OF_C) != 0 || !ruby_is(iseq, RUBY_IS_INTERNAL)) {
        return 0;
    }
    uintptr_t body = script_word(iseq, ISEQ_BODY);
    size_t words = (script_word(frame, RUBY_PC) - script_word(body, BODY_CODE)) / sizeof(uintptr_t);
    return words <= *(const uint32_t *)(body + BODY_SIZE) ? words : 0;
}

/* As python_walk; a place is a line. */
static struct thread *ruby_walk(struct thread *thread, struct script_frames *found)
{
    if (likely(ruby.find == NULL)) {
        return thread;
    }
    struct thread_local_place place = ruby.context;
    uintptr_t context = *(uintptr_t *)ruby.find(&place);
    /* A thread that begins or ends has no context, or no stack. A collection moves objects. */
    uintptr_t stack = context == 0 ? 0 : script_word(context, CONTEXT_STACK);
    if (stack == 0 || ruby.is_collecting() != 0) {
        return thread;
    }
    found->evaluation = ruby.evaluation;
    uintptr_t end = stack + script_word(context, CONTEXT_STACK_WORDS) * sizeof(uintptr_t);
    uintptr_t frame = script_word(context, CONTEXT_FRAME);
    for (; stack <= frame && frame < end && found->count < SCRIPT_FRAMES;
         frame += RUBY_FRAME_SIZE) {
        uintptr_t environment = script_word(frame, RUBY_ENVIRONMENT);
        uintptr_t flags = environment == 0 ? RUBY_OF_C : script_word(environment, 0);
        /* At the bottom stands a frame for bindings, which never runs. */
        size_t progress = ruby_progress(frame, flags);
        if (progress == 0) {
            continue;
        }
        uintptr_t iseq = script_word(frame, RUBY_ISEQ);
        uintptr_t path = ruby.path(iseq);
        uintptr_t label = ruby.label(iseq);
        const uintptr_t words[] = {iseq, script_word(iseq, ISEQ_BODY), path, label};
        uint64_t key = script_key(words, array_count(words));
        thread = ruby_send_code(thread, key, path, label);
        if (thread == NULL) {
            return NULL;
        }
        found->frames[found->count].key = key;
        found->frames[found->count].place = ruby.line(iseq, progress - 1) | SCRIPT_IS_LINE |
                                            ((flags & RUBY_FINISH) != 0 ? SCRIPT_ENTRY : 0);
        found->frames[found->count].stack = 0;
        found->count++;
    }
    return thread;
}
