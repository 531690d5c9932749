/* SPDX-License-Identifier: MIT
 *
 * The Python frames of a call, read from the interpreter's own structures. They belong to the calling
 * thread, which stands still in malloc meanwhile, so no lock is needed. Which versions have which
 * layout says the table; of others nothing is read.
 *
 *   thread state -> frame -> previous frame -> ...      each with a code object and an instruction
 */
#include "thread.h"

#include <string.h>

/* Offsets in bytes. */
struct python_layout {
    uint32_t version; /* major << 8 | minor */
    bool is_behind;   /* the thread state holds a place that holds the frame */
    uint16_t state;   /* in the thread state: the frame, or that place */
    uint16_t place;   /* in that place: the frame */
    uint16_t code;    /* in a frame, as the next four */
    uint16_t previous;
    uint16_t instruction;
    uint16_t entry;
    uint8_t entry_owner; /* 0: `entry` says that a call from C began with this frame; else: a frame
                            with this owner there is none of Python's, and stands for such a call */
    uint16_t first_line; /* in a code object, as the next two */
    uint16_t instructions;
    uint16_t text; /* behind the head of an ASCII string */
};

static const struct python_layout python_layouts[] = {
    {0x030b, true, 56, 8, 32, 48, 56, 68, 0, 72, 184, 48},
    {0x030c, true, 56, 0, 0, 8, 56, 70, 3, 68, 192, 40},
    {0x030d, false, 72, 0, 0, 8, 56, 70, 3, 68, 200, 40},
};

/* The same in all of them. */
enum { CODE_FILE = 112, CODE_NAME = 128, CODE_LINES = 136 };
enum { OBJECT_TYPE = 8, OBJECT_SIZE = 16, BYTES_DATA = 32, TEXT_LENGTH = 16, TEXT_STATE = 32 };
enum { TEXT_COMPACT = 0x20, TEXT_ASCII = 0x40 };

#define PYTHON_LINES (32 << 10) /* of a table of lines */

/* const after init */
static struct {
    const struct python_layout *layout; /* NULL: no Python, or an unknown one */
    uintptr_t (*state)(void);           /* of the calling thread */
    int (*is_ending)(void);
    uintptr_t code_type;
    uintptr_t evaluation; /* the function of C that runs Python's */
} python;

/* Free-threaded builds have other objects. From 3.13 on the runtime begins with a description. */
static bool python_is_plain(uint32_t version)
{
    if (version < 0x030d) {
        return true;
    }
    uintptr_t runtime = script_symbol("_PyRuntime");
    return runtime != 0 && memcmp((const void *)runtime, "xdebugpy", 8) == 0 &&
           script_word(runtime, 16) == 0;
}

/* Once, at the start: dlsym takes the loader's lock, which other threads may hold later. */
static COLD void python_find(void)
{
    uintptr_t version = script_symbol("Py_Version");
    uintptr_t ending = version == 0 ? 0 : script_symbol("_Py_IsFinalizing");
    ending = ending != 0 || version == 0 ? ending : script_symbol("Py_IsFinalizing");
    uintptr_t state = ending == 0 ? 0 : script_symbol("PyGILState_GetThisThreadState");
    if (state == 0) {
        return;
    }
    uint32_t number = (uint32_t)(script_word(version, 0) >> 16);
    python.state = (uintptr_t(*)(void))state;
    python.is_ending = (int (*)(void))ending;
    python.code_type = script_symbol("PyCode_Type");
    python.evaluation = script_symbol("_PyEval_EvalFrameDefault");
    for (size_t i = 0; i < array_count(python_layouts); i++) {
        if (python_layouts[i].version == number && python_is_plain(number)) {
            python.layout = &python_layouts[i];
        }
    }
}

/* --- Code objects ----------------------------------------------------------------------------- */

static uint32_t python_first_line(uintptr_t code)
{
    return *(const uint32_t *)(code + python.layout->first_line);
}

static uint64_t python_key(uintptr_t code)
{
    const uintptr_t words[] = {
        code,
        script_word(code, CODE_FILE),
        script_word(code, CODE_NAME),
        script_word(code, CODE_LINES),
        python_first_line(code),
    };
    return script_key(words, array_count(words));
}

/* Strings have one, two or four bytes a character. */
static struct thread *python_send_text(struct thread *thread, uintptr_t code, uint64_t key,
                                       enum script_part part, uintptr_t text)
{
    uint32_t state = (uint32_t)script_word(text, TEXT_STATE);
    uint64_t width = state >> 2 & 7;
    size_t size = size_min(script_word(text, TEXT_LENGTH), SCRIPT_TEXT / 4) * width;
    if ((state & TEXT_COMPACT) == 0) {
        size = 0;
    }
    uintptr_t bytes = text + python.layout->text;
    if ((state & TEXT_ASCII) == 0) {
        bytes += python.layout->text == 48 ? 24 : 16; /* Python 3.11 has a word more */
    }
    return script_send_part(thread, key, part, (const void *)bytes, size, width,
                            python_first_line(code));
}

/* Says what the collector has to know of a code object, unless it was said lately. */
static struct thread *python_send_code(struct thread *thread, uintptr_t code, uint64_t key)
{
    struct ring *ring = thread->ring;
    uint64_t *sent = script_sent(thread, key);
    if (*sent == key) {
        return thread;
    }
    uintptr_t lines = script_word(code, CODE_LINES);
    size_t size = size_min(script_word(lines, OBJECT_SIZE), PYTHON_LINES);
    thread = script_send_part(thread, key, SCRIPT_TABLE, (const void *)(lines + BYTES_DATA), size,
                              1, python_first_line(code));
    if (thread != NULL) {
        thread = python_send_text(thread, code, key, SCRIPT_FILE, script_word(code, CODE_FILE));
    }
    if (thread != NULL) {
        thread = python_send_text(thread, code, key, SCRIPT_NAME, script_word(code, CODE_NAME));
    }
    if (thread != NULL) {
        *sent = key;
        ring->has_codes = 1;
    }
    return thread;
}

/* --- Frames ----------------------------------------------------------------------------------- */

static uintptr_t python_top_frame(void)
{
    uintptr_t state = python.state();
    /* An interpreter that ends frees the states of threads that it does not wait for. */
    if (state == 0 || python.is_ending() != 0) {
        return 0;
    }
    uintptr_t top = script_word(state, python.layout->state);
    if (!python.layout->is_behind) {
        return top;
    }
    return top == 0 ? 0 : script_word(top, python.layout->place);
}

/* Fills in the frames: a place is an instruction's index, and an entry the outermost frame of those
 * that one call from C runs. The thread, or NULL where the ring has no room for what has to be said
 * of the code. */
static struct thread *python_walk(struct thread *thread, struct script_frames *found)
{
    const struct python_layout *layout = python.layout;
    uint64_t *words = found->words;
    if (likely(layout == NULL)) {
        return thread;
    }
    found->evaluation = python.evaluation;
    uintptr_t frame = python_top_frame();
    for (; frame != 0 && found->count < SCRIPT_FRAMES;
         frame = script_word(frame, layout->previous)) {
        uint8_t entry = *(const uint8_t *)(frame + layout->entry);
        uintptr_t code = script_word(frame, layout->code);
        if (layout->entry_owner != 0 && entry == layout->entry_owner) {
            if (found->count > 0) {
                words[2 * found->count - 1] |= SCRIPT_ENTRY;
            }
            continue;
        }
        if (code == 0 || script_word(code, OBJECT_TYPE) != python.code_type) {
            continue;
        }
        uint64_t key = python_key(code);
        thread = python_send_code(thread, code, key);
        if (thread == NULL) {
            return NULL;
        }
        uintptr_t begin = code + layout->instructions;
        uintptr_t at = script_word(frame, layout->instruction);
        uint64_t index = at >= begin ? (at - begin) / 2 & UINT32_MAX : 0;
        bool is_entry = layout->entry_owner == 0 && entry != 0;
        words[2 * found->count] = key;
        words[2 * found->count + 1] = index | (is_entry ? SCRIPT_ENTRY : 0);
        found->count++;
    }
    return thread;
}
