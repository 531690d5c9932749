/* SPDX-License-Identifier: MIT
 *
 * The Python frames of a call, read from the interpreter's own structures. They belong to the calling
 * thread, which stands still in malloc meanwhile, so no lock is needed. Where what lies in them, the
 * interpreter itself describes from 3.13 on; of the versions before there is a table. Of versions
 * whose description is not known, nothing is read.
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
    uint16_t file;       /* in a code object, as the next four */
    uint16_t name;
    uint16_t lines;
    uint16_t first_line;
    uint16_t instructions;
    uint16_t type; /* of any object */
    uint16_t size; /* in a string of bytes, as the next */
    uint16_t bytes;
    uint16_t length; /* in a text, as the next two */
    uint16_t form;
    uint16_t ascii;     /* what follows the head, of one of ASCII; of another, */
    uint16_t unicode;   /* this */
    uint8_t form_shift; /* where in its form the width of its characters is */
    /* Where threads have copies of the instructions; 0: they have none. */
    uint16_t copies; /* in a code object */
    uint16_t copy;   /* in a frame: which of them runs */
};

static const struct python_layout python_layouts[] = {
    {0x030b, true, 56, 8,  32, 48, 56, 68, 0,  112, 128, 136,
     72,     184,  8,  16, 32, 16, 32, 48, 72, 2,   0,   0},
    {0x030c, true, 56, 0,  0,  8,  56, 70, 3,  112, 128, 136,
     68,     192,  8,  16, 32, 16, 32, 40, 56, 2,   0,   0},
};

/* A description begins with these words, and goes on with a part for each structure. */
enum { DESCRIPTION_MARK, DESCRIPTION_VERSION, DESCRIPTION_IS_FREE_THREADED };

/* Where in the description its parts begin, in words. A part begins with the size of the structure; what
 * later versions describe besides comes last in it. */
struct python_parts {
    uint32_t version;
    uint8_t thread_state;
    uint8_t frame;
    uint8_t code;
    uint8_t object;
    uint8_t bytes;
    uint8_t text;
};

static const struct python_parts python_parts[] = {
    {0x030d, 19, 28, 34, 44, 64, 67},
    {0x030e, 22, 31, 39, 50, 74, 77},
    {0x030f, 22, 39, 47, 58, 86, 89},
};

/* Which word of a part has the offset. */
enum { IN_THREAD_STATE_FRAME = 4 };
enum {
    IN_FRAME_PREVIOUS = 1,
    IN_FRAME_CODE,
    IN_FRAME_INSTRUCTION,
    IN_FRAME_OWNER = 5,
    IN_FRAME_COPY = 7
};
enum { IN_CODE_FILE = 1, IN_CODE_NAME = 3, IN_CODE_LINES, IN_CODE_FIRST_LINE };
enum { IN_CODE_INSTRUCTIONS = 9, IN_CODE_COPIES };
enum { IN_OBJECT_TYPE = 1, IN_BYTES_SIZE = 1, IN_BYTES_BYTES };
enum { IN_TEXT_FORM = 1, IN_TEXT_LENGTH, IN_TEXT_ASCII };

/* In the form of a text, behind the width of its characters. */
enum { FORM_WIDTH = 7, FORM_COMPACT = 8, FORM_ASCII = 16 };

#define PYTHON_FINAL \
    0xc0 /* in the lowest byte of a version; of what came before, anything may differ */
#define PYTHON_LINES (32 << 10)        /* of a table of lines */
#define STEPS_MOST (4 * SCRIPT_FRAMES) /* from frame to frame, with those that are no function's */

/* const after init */
static struct {
    const struct python_layout *layout; /* NULL: no Python, or an unknown one */
    struct python_layout described;
    uintptr_t (*state)(void); /* of the calling thread */
    int (*is_ending)(void);
    uintptr_t code_type;
    uintptr_t evaluation; /* the function of C that runs Python's */
} python;

/* An offset that the description names; `is_sound` becomes false where it lies outside. */
static uint16_t python_offset(const uint64_t *part, size_t place, bool *is_sound)
{
    *is_sound = *is_sound && part[0] <= UINT16_MAX && part[place] < part[0];
    return (uint16_t)part[place];
}

/* What the interpreter describes of itself. */
static COLD bool python_describe(const uint64_t *words, const struct python_parts *parts)
{
    const uint64_t *frame = words + parts->frame;
    const uint64_t *code = words + parts->code;
    const uint64_t *bytes = words + parts->bytes;
    const uint64_t *text = words + parts->text;
    bool is_sound = true;
    bool is_free_threaded = words[DESCRIPTION_IS_FREE_THREADED] != 0;
    bool has_copies = is_free_threaded && parts->version >= 0x030e;
    uint16_t ascii = python_offset(text, IN_TEXT_ASCII, &is_sound);
    python.described = (struct python_layout){
        .version = parts->version,
        .state = python_offset(words + parts->thread_state, IN_THREAD_STATE_FRAME, &is_sound),
        .code = python_offset(frame, IN_FRAME_CODE, &is_sound),
        .previous = python_offset(frame, IN_FRAME_PREVIOUS, &is_sound),
        .instruction = python_offset(frame, IN_FRAME_INSTRUCTION, &is_sound),
        .entry = python_offset(frame, IN_FRAME_OWNER, &is_sound),
        .entry_owner = 3,
        .file = python_offset(code, IN_CODE_FILE, &is_sound),
        .name = python_offset(code, IN_CODE_NAME, &is_sound),
        .lines = python_offset(code, IN_CODE_LINES, &is_sound),
        .first_line = python_offset(code, IN_CODE_FIRST_LINE, &is_sound),
        .instructions = python_offset(code, IN_CODE_INSTRUCTIONS, &is_sound),
        .type = python_offset(words + parts->object, IN_OBJECT_TYPE, &is_sound),
        .size = python_offset(bytes, IN_BYTES_SIZE, &is_sound),
        .bytes = python_offset(bytes, IN_BYTES_BYTES, &is_sound),
        .length = python_offset(text, IN_TEXT_LENGTH, &is_sound),
        .form = python_offset(text, IN_TEXT_FORM, &is_sound),
        .ascii = ascii,
        .unicode = ascii + 2 * sizeof(uintptr_t),
        .form_shift = has_copies ? 8 : 2,
        .copies = has_copies ? python_offset(code, IN_CODE_COPIES, &is_sound) : 0,
        .copy = has_copies ? python_offset(frame, IN_FRAME_COPY, &is_sound) : 0,
    };
    return is_sound;
}

/* NULL: nothing is known of this version. */
static COLD const struct python_layout *python_find_layout(uint32_t version)
{
    for (size_t i = 0; i < array_count(python_layouts); i++) {
        if (python_layouts[i].version == version >> 16) {
            return &python_layouts[i];
        }
    }
    const uint64_t *words = (const uint64_t *)script_symbol("_PyRuntime");
    /* Builds that seek faults of the interpreter number the objects that a frame refers to. */
    bool has_numbers = script_symbol("_Py_stackref_get_object") != 0;
    if (words == NULL || memcmp(words, "xdebugpy", 8) != 0 ||
        words[DESCRIPTION_VERSION] != version || (version & 0xf0) < PYTHON_FINAL || has_numbers) {
        return NULL;
    }
    for (size_t i = 0; i < array_count(python_parts); i++) {
        if (python_parts[i].version == version >> 16) {
            return python_describe(words, &python_parts[i]) ? &python.described : NULL;
        }
    }
    return NULL;
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
    python.state = (uintptr_t(*)(void))state;
    python.is_ending = (int (*)(void))ending;
    python.code_type = script_symbol("PyCode_Type");
    python.evaluation = script_symbol("_PyEval_EvalFrameDefault");
    python.layout = python.code_type == 0 ? NULL : python_find_layout(*(const uint32_t *)version);
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
        script_word(code, python.layout->file),
        script_word(code, python.layout->name),
        script_word(code, python.layout->lines),
        python_first_line(code),
    };
    return script_key(words, array_count(words));
}

/* Strings have one, two or four bytes a character. */
static struct thread *python_send_text(struct thread *thread, uintptr_t code, uint64_t key,
                                       enum script_part part, uintptr_t text)
{
    const struct python_layout *layout = python.layout;
    uint32_t form = *(const uint32_t *)(text + layout->form) >> layout->form_shift;
    uint64_t width = form & FORM_WIDTH;
    size_t size = size_min(script_word(text, layout->length), SCRIPT_TEXT / 4) * width;
    if ((form & FORM_COMPACT) == 0 || (width != 1 && width != 2 && width != 4)) {
        size = 0;
    }
    uintptr_t bytes = text + ((form & FORM_ASCII) != 0 ? layout->ascii : layout->unicode);
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
    uintptr_t lines = script_word(code, python.layout->lines);
    size_t size = size_min(script_word(lines, python.layout->size), PYTHON_LINES);
    thread =
        script_send_part(thread, key, SCRIPT_TABLE, (const void *)(lines + python.layout->bytes),
                         size, 1, python_first_line(code));
    if (thread != NULL) {
        thread = python_send_text(thread, code, key, SCRIPT_FILE,
                                  script_word(code, python.layout->file));
    }
    if (thread != NULL) {
        thread = python_send_text(thread, code, key, SCRIPT_NAME,
                                  script_word(code, python.layout->name));
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

/* The bits that say how a frame holds the object are no part of the address. */
static uintptr_t python_code(uintptr_t frame)
{
    uintptr_t code = script_word(frame, python.layout->code) & ~(uintptr_t)3;
    return code != 0 && script_word(code, python.layout->type) == python.code_type ? code : 0;
}

/* Where the instructions begin that this frame runs. A thread may have a copy of its own. */
static uintptr_t python_instructions(uintptr_t frame, uintptr_t code)
{
    const struct python_layout *layout = python.layout;
    if (layout->copies == 0) {
        return code + layout->instructions;
    }
    uintptr_t copies = script_word(code, layout->copies); /* how many, then where each is */
    uint32_t copy = *(const uint32_t *)(frame + layout->copy);
    bool is_known = copies != 0 && copy < script_word(copies, 0);
    return is_known ? script_word(copies, sizeof(uintptr_t) * (1 + (size_t)copy)) : UINTPTR_MAX;
}

/* The frame that was found last is the outermost that a function of C runs, whose frame lies among
 * that function's locals. Behind the outermost such frame there may be another, of the thread state. */
static void python_enter(struct script_frames *found, uintptr_t frame)
{
    if (found->count > 0 && (found->frames[found->count - 1].place & SCRIPT_ENTRY) == 0) {
        found->frames[found->count - 1].place |= SCRIPT_ENTRY;
        found->frames[found->count - 1].stack = frame;
    }
}

/* Fills in the frames: a place is an instruction's index, and an entry the outermost frame of those
 * that one call from C runs. The thread, or NULL where the ring has no room for what has to be said
 * of the code. */
static struct thread *python_walk(struct thread *thread, struct script_frames *found)
{
    const struct python_layout *layout = python.layout;
    if (likely(layout == NULL)) {
        return thread;
    }
    found->evaluation = python.evaluation;
    uintptr_t frame = python_top_frame();
    for (unsigned i = 0; frame != 0 && found->count < SCRIPT_FRAMES && i < STEPS_MOST;
         frame = script_word(frame, layout->previous), i++) {
        uint8_t entry = *(const uint8_t *)(frame + layout->entry);
        if (layout->entry_owner != 0 && entry == layout->entry_owner) {
            python_enter(found, frame);
            continue;
        }
        uintptr_t code = python_code(frame);
        if (code == 0) {
            continue;
        }
        uint64_t key = python_key(code);
        thread = python_send_code(thread, code, key);
        if (thread == NULL) {
            return NULL;
        }
        uintptr_t begin = python_instructions(frame, code);
        uintptr_t at = script_word(frame, layout->instruction);
        uint64_t index = at >= begin ? (at - begin) / 2 & UINT32_MAX : 0;
        bool is_entry = layout->entry_owner == 0 && entry != 0;
        found->frames[found->count].key = key;
        found->frames[found->count].place = index | (is_entry ? SCRIPT_ENTRY : 0);
        found->frames[found->count].stack = 0;
        found->count++;
    }
    return thread;
}
