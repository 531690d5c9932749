/* SPDX-License-Identifier: MIT */
#include "fault.h"

#include <signal.h>
#include <string.h>

static const char *const fault_names[FAULT_KINDS] = {
    "double-free",     "interior-free", "misaligned-free", "invalid-free",
    "foreign-free",    "overflow",      "underflow",       "write-after-free",
    "read-after-free", "out-of-bounds", "size-mismatch",   "alignment-mismatch",
    "kind-mismatch",   "damaged-list",  "out-of-memory",   "broken",
    "misuse",          "leak",
};

/* Bytes around the damage that a report shows, and bytes in a line. */
#define SHOWN_BEFORE 64u
#define SHOWN_BYTES 192u
#define SHOWN_LINE 32u

/* Of a sentence: with what stands around it, it is one piece for a sink. */
#define FAULT_SENTENCE 500u

/* How long a thread that finds a fault waits for the one that reports: after that it is thought to
 * be stuck. */
#define FAULT_PATIENCE_MS 3000u
#define FAULT_LOOK_MS 50u

/* How long somebody has who may read standard error. */
#define FAULT_LISTEN_MS 1000u

static char fault_path[1024] IN_SECTION(fault); /* const after start; "": none */

/* Of all processes that report to one reader: how many reports are not written so far. A process that can open no file
 * any more still has it. NULL: the reader does not count. */
static _Atomic uint32_t *fault_unwritten; /* const after start */

static struct {
    _Atomic(void *) speaker; /* the thread that reports */
    _Atomic(void *) writer;  /* the thread whose report is open; NULL: none is */
    int fd;                  /* of that report */
    _Atomic(mw_misuse_handler) handler;
} fault_state;

static bool fault_goes_on SEALED; /* const after start: whether the program does, after a misuse */

static void fault_load(void)
{
    char *buffer = fault_path;
    const char *path = libc_getenv("MALLOW_FAULT_REPORT", buffer, sizeof fault_path);
    size_t length = path != NULL ? strlen(path) : 0;
    if (length >= sizeof fault_path) {
        log_warn("MALLOW_FAULT_REPORT is too long: no report will be written");
        length = 0;
    }
    if (length != 0) {
        memmove(buffer, path, length);
    }
    if (buffer[length] != 0) { /* a store would make the page dirty */
        buffer[length] = 0;
    }
    if (length != 0) {
        char name[sizeof fault_path + sizeof ".unwritten"] = "";
        text_print_behind(name, sizeof name, "%s.unwritten", buffer);
        fault_unwritten = os_map_shared(name, sizeof *fault_unwritten);
    }
}

static bool fault_is_reported(void)
{
    return fault_path[0] != 0;
}

/* --- The parts of a report -------------------------------------------------------------------- */

static void write_report(void *context, const char *text, size_t size)
{
    os_write(*(const int *)context, text, size);
}

static void fault_put_frames(struct sink *sink, const struct fault_stack *stack)
{
    for (uint32_t i = 0; i < stack->count; i++) {
        sink_print(sink, " %p", (void *)stack->frames[i]);
    }
    sink_print(sink, "\n");
}

/* Standard error, which nobody may read: then what is behind is left out too. */
static void write_while_read(void *context, const char *text, size_t size)
{
    bool *is_read = context;
    *is_read = *is_read && os_wait_to_write(2, FAULT_LISTEN_MS) != 0;
    if (*is_read) {
        os_write(2, text, size);
    }
}

/* As the kernel writes paths in its list of mappings. */
static void fault_put_path(struct sink *sink, const char *path)
{
    for (const char *end; (end = strchr(path, '\n')) != NULL; path = end + 1) {
        sink->write(sink->context, path, (size_t)(end - path));
        sink->write(sink->context, "\\012", 4);
    }
    sink->write(sink->context, path, strlen(path));
}

/* The calls of the thread that reports, without ours: they end where the program called us. */
static void fault_put_stack_now(struct sink *sink, const struct fault *fault)
{
    uintptr_t frames[FAULT_FRAMES];
    struct fault_stack now = fault->now;
    if (now.count == 0 && fault_capture != NULL) {
        now.frames = frames;
        now.count = (uint32_t)fault_capture(frames, FAULT_FRAMES);
    }
    for (uint32_t i = 0; i < now.count; i++) {
        if (now.frames[i] == fault->caller) {
            now.frames += i;
            now.count -= i;
            break;
        }
    }
    if (now.count == 0 && fault->caller != 0) {
        now.frames = &fault->caller;
        now.count = 1;
    }
    if (now.count != 0) {
        sink_print(sink, "stack now");
        fault_put_frames(sink, &now);
    }
}

static void fault_put_stack(struct sink *sink, const char *what, const struct fault_stack *stack)
{
    if (stack->count != 0) {
        sink_print(sink, "stack %s %u", what, stack->thread);
        fault_put_frames(sink, stack);
    }
}

/* Bytes around the damage, or around the pointer, as far as they can be read. */
static void fault_put_bytes(struct sink *sink, const struct fault *fault)
{
    uintptr_t middle = fault->block != 0 ? fault->block : (uintptr_t)fault->pointer;
    if (fault->has_offset) {
        middle += (uintptr_t)fault->offset;
    }
    if (middle < SHOWN_BEFORE + os_page_size) {
        return;
    }
    /* A line is in one page, which can be read or cannot. */
    uintptr_t at = (middle - SHOWN_BEFORE) & ~(uintptr_t)(SHOWN_LINE - 1);
    for (uintptr_t end = at + SHOWN_BYTES; at < end; at += SHOWN_LINE) {
        unsigned char bytes[SHOWN_LINE];
        if (!os_read_memory((void *)at, bytes, SHOWN_LINE)) {
            continue;
        }
        char text[2 * SHOWN_LINE + 1];
        for (size_t i = 0; i < SHOWN_LINE; i++) {
            text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
            text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
        }
        text[2 * SHOWN_LINE] = 0;
        sink_print(sink, "bytes %p %s\n", (void *)at, text);
    }
}

/* --- Mappings --------------------------------------------------------------------------------- */

/* What is kept of the lines of /proc/self/maps while they are read. */
struct map_reader {
    struct sink *sink;
    uintptr_t base;      /* where the file of the last lines begins: its header */
    char base_path[256]; /* that file */
};

/* The words of an ELF file that is mapped at `base`, as far as a build id needs them. */
struct elf_header {
    unsigned char magic[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, phoff, shoff;
    uint32_t flags;
    uint16_t ehsize, phentsize, phnum;
};

struct elf_segment {
    uint32_t type, flags;
    uint64_t offset, vaddr, paddr, filesz, memsz, align;
};

struct elf_note {
    uint32_t name_size, size, type;
    char name[4];
};

#define ELF_NOTE 4u
#define ELF_BUILD_ID 3u

/* The build id among the notes of a segment, in hexadecimal; false if it is not there. */
static bool notes_build_id(uintptr_t at, size_t size, char *text)
{
    uintptr_t end = at + size;
    for (unsigned tries = 0; tries < 16 && at + sizeof(struct elf_note) <= end; tries++) {
        struct elf_note note;
        unsigned char bytes[20];
        if (!os_read_memory((void *)at, &note, sizeof note)) {
            return false;
        }
        if (note.type == ELF_BUILD_ID && note.name_size == 4 && memcmp(note.name, "GNU", 4) == 0 &&
            note.size > 0 && note.size <= sizeof bytes &&
            os_read_memory((void *)(at + sizeof note), bytes, note.size)) {
            for (size_t i = 0; i < note.size; i++) {
                *text++ = "0123456789abcdef"[bytes[i] >> 4];
                *text++ = "0123456789abcdef"[bytes[i] & 15];
            }
            *text = 0;
            return true;
        }
        at += 12 + align_up(note.name_size, 4) + align_up(note.size, 4);
    }
    return false;
}

/* The build id of the ELF file that is mapped at `base`; "-" if it cannot be read. */
static const char *module_build_id(uintptr_t base, char *text)
{
    struct elf_header header;
    if (base == 0 || !os_read_memory((void *)base, &header, sizeof header) ||
        memcmp(header.magic, "\177ELF", 4) != 0 || header.phnum > 64 ||
        header.phentsize != sizeof(struct elf_segment)) {
        return "-";
    }
    for (unsigned i = 0; i < header.phnum; i++) {
        struct elf_segment segment;
        uintptr_t at = base + header.phoff + i * sizeof segment;
        /* Notes lie in the first mapping, where address and offset differ by the base alone. */
        if (os_read_memory((void *)at, &segment, sizeof segment) && segment.type == ELF_NOTE &&
            notes_build_id(base + segment.offset, segment.filesz, text)) {
            return text;
        }
    }
    return "-";
}

/* "START-END PERMISSIONS OFFSET DEVICE INODE   PATH" */
static void map_line(void *context, char *line)
{
    struct map_reader *reader = context;
    char *at = line;
    uintptr_t start = text_parse_hex(&at);
    at += *at == '-';
    uintptr_t end = text_parse_hex(&at);
    if (*at != ' ' || strlen(at) < 8) {
        return;
    }
    bool is_executable = at[3] == 'x';
    at += 6;
    uintptr_t offset = text_parse_hex(&at);
    char *path = strchr(at, '/');
    if (path == NULL) {
        path = strchr(at, '[');
    }
    if (path == NULL) {
        return;
    }
    if (offset == 0) {
        reader->base = start;
        size_t length = size_min(strlen(path), sizeof reader->base_path - 1);
        memcpy(reader->base_path, path, length);
        reader->base_path[length] = 0;
    }
    if (is_executable) {
        char text[48];
        bool is_of_base = strncmp(path, reader->base_path, sizeof reader->base_path - 1) == 0;
        sink_print(reader->sink, "map %lx-%lx %lx %s ", start, end, offset,
                   is_of_base ? module_build_id(reader->base, text) : "-");
        reader->sink->write(reader->sink->context, path, strlen(path));
        sink_print(reader->sink, "\n");
    }
}

static void place_line(void *context, char *line)
{
    struct place *place = context;
    char *at = line;
    uintptr_t start = text_parse_hex(&at);
    at += *at == '-';
    uintptr_t end = text_parse_hex(&at);
    if (place->address < start || place->address >= end || strlen(at) < 8) {
        return;
    }
    at += 6;
    place->offset = place->address - start + text_parse_hex(&at);
    const char *path = strchr(at, '/');
    if (path != NULL) {
        size_t length = strlen(path);
        path += length < sizeof place->file ? 0 : length - sizeof place->file + 1;
        memcpy(place->file, path, strlen(path) + 1);
    }
}

static struct place fault_place_of(uintptr_t address)
{
    struct place place = {address, 0, ""};
    os_read_lines(OS_MAPS, place_line, &place);
    return place;
}

#define PLACES_SHOWN 16u

static void fault_put_places(struct sink *sink, const struct fault_stack *stack)
{
    for (uint32_t i = 0; i < stack->count && i < PLACES_SHOWN; i++) {
        struct place place = fault_place_of(stack->frames[i] - 1);
        sink_print(sink, "        %p %s+0x%lx\n", (void *)stack->frames[i], place.file,
                   place.offset);
    }
}

/* --- A report --------------------------------------------------------------------------------- */

static void fault_put_block(struct sink *sink, const struct fault *fault)
{
    if (fault->block != 0) {
        sink_print(sink, "block %p %zu\n", (void *)fault->block, fault->size);
    }
    if (fault->state != NULL) {
        sink_print(sink, "state %s\n", fault->state);
    }
    if (fault->made != NULL) {
        sink_print(sink, "made %s\n", fault->made);
    }
    if (fault->has_offset) {
        sink_print(sink, "offset %ld\n", fault->offset);
    }
    if (fault->length != 0) {
        sink_print(sink, "length %zu\n", fault->length);
    }
}

static bool fault_open(const struct fault *fault, const char *sentence, struct sink *sink)
{
    if (!fault_is_reported()) {
        return false;
    }
    if (fault_unwritten != NULL) {
        atomic_add(fault_unwritten, 1);
    }
    fault_state.fd = os_open_to_append(fault_path);
    if (fault_state.fd < 0) {
        return false;
    }
    atomic_set_release(&fault_state.writer, os_thread_id()); /* pairs with fault_in_child */
    os_lock_file(fault_state.fd); /* processes that were forked may report at the same moment */
    *sink = (struct sink){write_report, &fault_state.fd};
    sink_print(sink, "mallow-fault 1\nkind %s\n", fault_names[fault->kind]);
    if (fault->call != NULL) {
        sink_print(sink, "call %s\n", fault->call);
    }
    sink_print(sink, "sentence ");
    sink->write(sink->context, sentence, strlen(sentence));
    sink_print(sink, "\npid %d\ntid %d\n", os_process_number(), os_thread_number());
    char program[512];
    if (os_read_link_or_file("/proc/self/exe", program, sizeof program) > 0 && program[0] == '/') {
        sink_print(sink, "program ");
        fault_put_path(sink, program);
        sink_print(sink, "\n");
    }
    if (fault->pointer != NULL) {
        sink_print(sink, "pointer %p\n", fault->pointer);
    }
    if (fault->access != NULL) {
        sink_print(sink, "access %s\n", fault->access);
    }
    if (fault->pc != 0) {
        sink_print(sink, "pc %p\n", (void *)fault->pc);
    }
    fault_put_block(sink, fault);
    return true;
}

static void fault_close(struct sink *sink)
{
    struct map_reader reader = {.sink = sink};
    os_read_lines(OS_MAPS, map_line, &reader);
    sink_print(sink, "end\n");
    if (fault_unwritten != NULL) {
        atomic_sub(fault_unwritten, 1);
    }
    os_unlock_file(fault_state.fd);        /* a child that is forked from here on has it open */
    atomic_set(&fault_state.writer, NULL); /* before the number may be another file's */
    os_close(fault_state.fd);
}

static void fault_write(const struct fault *fault, const char *sentence)
{
    struct sink sink;
    if (!fault_open(fault, sentence, &sink)) {
        return;
    }
    fault_put_stack_now(&sink, fault);
    fault_put_stack(&sink, "allocated", &fault->allocated);
    fault_put_stack(&sink, "freed", &fault->freed);
    if (fault->block != 0) {
        fault_put_bytes(&sink, fault);
    }
    fault_close(&sink);
}

/* Returns for the one thread that speaks; another waits for the end of the program. A fault while
 * this thread reports ends it at once. */
static void fault_begin(void)
{
    void *none = NULL;
    if (atomic_replace(&fault_state.speaker, &none, os_thread_id())) {
        return;
    }
    if (none == os_thread_id()) {
        os_abort();
    }
    for (unsigned waited_ms = 0; waited_ms < FAULT_PATIENCE_MS; waited_ms += FAULT_LOOK_MS) {
        os_nap(FAULT_LOOK_MS);
        none = NULL;
        if (atomic_replace(&fault_state.speaker, &none, os_thread_id())) {
            return; /* it was told, and the program went on */
        }
    }
    os_abort();
}

static bool fault_is_told_here(void)
{
    return atomic_get(&fault_state.speaker) == os_thread_id();
}

static void fault_in_child(void)
{
    void *speaker = atomic_get(&fault_state.speaker);
    if (speaker != NULL && speaker != os_thread_id()) {
        atomic_set(&fault_state.speaker, NULL);
    }
    void *writer = atomic_get_acquire(&fault_state.writer); /* pairs with fault_open */
    if (writer != NULL && writer != os_thread_id()) {
        atomic_set(&fault_state.writer, NULL);
        os_close(fault_state.fd); /* else it would stay locked for other reports */
    }
}

static void fault_set_goes_on(bool goes_on)
{
    fault_goes_on = goes_on;
}

static mw_misuse_handler fault_set_handler(mw_misuse_handler handler)
{
    return atomic_exchange_explicit(&fault_state.handler, handler, memory_order_acq_rel);
}

/* Those of the processor, and SIGABRT. */
#define FAULT_SIGNALS                                                                      \
    (SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGABRT) | SIGNAL_BIT(SIGBUS) | \
     SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGSEGV))

/* Of misuses after which the program goes on so many are written, then each whose number is a power of two: a server
 * may have one in every request. */
#define WRITTEN_MOST 16u
static _Atomic uint32_t misuses_gone_on; /* atomic */

/* What is said to people. */
static COLD void fault_put_sentence(const struct fault *fault, const char *sentence, bool is_last)
{
    bool is_read = true;
    struct sink sink = {write_while_read, &is_read};
    sink_print(&sink, "mallow: %s\n", sentence);
    if (fault->allocated.count != 0 && !fault_is_reported()) {
        sink_print(&sink, "    allocated by thread %u at\n", fault->allocated.thread);
        fault_put_places(&sink, &fault->allocated);
    }
    if (fault->freed.count != 0 && !fault_is_reported()) {
        sink_print(&sink, "    freed by thread %u at\n", fault->freed.thread);
        fault_put_places(&sink, &fault->freed);
    }
    if (is_last) {
        sink_print(&sink, "mallow: more such misuses are told when their number has doubled\n");
    }
}

/* is_last: the last one before only some are written. */
static COLD void fault_write_all(const struct fault *fault, const char *sentence, bool is_last)
{
    if (os_is_confined()) { /* the kernel may end the program for any call but that of the sentence */
        fault_put_sentence(fault, sentence, is_last);
        fault_write(fault, sentence);
        return;
    }
    uint64_t taken = os_set_signal_mask(~FAULT_SIGNALS);
    fault_write(fault, sentence);
    /* Perhaps nobody reads: then the program's signals are taken, but for SIGPIPE. */
    if (os_wait_to_write(2, 0) <= 0) {
        os_set_signal_mask(taken | SIGNAL_BIT(SIGPIPE));
    }
    fault_put_sentence(fault, sentence, is_last);
    os_set_signal_mask(taken);
}

static COLD void fault_say(const struct fault *fault, bool goes_on, const char *format,
                           va_list *arguments)
{
    char sentence[FAULT_SENTENCE];
    fault_begin();
    text_print(sentence, sizeof sentence, format, arguments);
    uint32_t number = goes_on ? atomic_add(&misuses_gone_on, 1) + 1 : 0;
    if (number <= WRITTEN_MOST || (number & (number - 1)) == 0) {
        fault_write_all(fault, sentence, number == WRITTEN_MOST);
    }
    mw_misuse_handler handler = atomic_get_acquire(&fault_state.handler); /* pairs with its set */
    if (handler != NULL) {
        handler(&(struct mw_misuse){.kind = fault_names[fault->kind],
                                    .sentence = sentence,
                                    .pointer = fault->pointer,
                                    .block = (const void *)fault->block,
                                    .size = fault->size,
                                    .goes_on = goes_on});
    }
}

_Noreturn static COLD void fault_end(const struct fault *fault, const char *format,
                                     va_list *arguments)
{
    fault_say(fault, false, format, arguments);
    os_abort();
}

static struct fault fault_of_live(const char *call, const void *block, size_t size)
{
    return (struct fault){
        .call = call,
        .pointer = block,
        .block = (uintptr_t)block,
        .size = size,
        .state = "live",
    };
}

static COLD void fault_tell(const struct fault *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fault_say(fault, fault_goes_on, format, &arguments);
    va_end(arguments);
    if (!fault_goes_on) {
        os_abort();
    }
    atomic_set_release(&fault_state.speaker, NULL); /* the next one may speak */
}

_Noreturn static COLD void fault_report(const struct fault *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fault_end(fault, format, &arguments);
}

_Noreturn static COLD void fault_simple(enum fault_kind kind, const char *call, const void *pointer,
                                        const char *format, ...)
{
    struct fault fault = {.kind = kind, .call = call, .pointer = pointer};
    va_list arguments;
    va_start(arguments, format);
    fault_end(&fault, format, &arguments);
}

static NO_RETURN COLD void fault_broken(const char *file, int line, const char *condition)
{
    fault_simple(FAULT_BROKEN, NULL, NULL, "%s:%d: broken invariant: %s", file, line, condition);
}

static void (*const check_failed)(const char *, int, const char *) = fault_broken;
