/* SPDX-License-Identifier: MIT */
#include "unwind.h"

#include "../base/atomic.h"
#include "../base/check.h"
#include "../os/os.h"
#include "capture.h"
#include "code.h"
#include "expression.h"
#include "frame_row.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

/* A place on the stack: a function and the values of its registers. */
struct cursor {
    uintptr_t registers[CFI_REGISTERS];
    uintptr_t readable;     /* pages from here ... */
    uintptr_t readable_end; /* ... to here are known to be readable */
    uintptr_t known;        /* so are those from here ... */
    uintptr_t known_end;    /* ... to here */
    bool is_interrupted;    /* the function was interrupted, so its pc is no return address */
    bool is_careful;        /* a quick walk looks whether an object lies where it lay */
    bool needs_all;         /* a quick walk met a frame for which three registers are too little */
    struct code_object object; /* of the frame before, where it is careful */
    struct code_object before; /* another one, which often comes again */
};

/* Frame pointers that lead further up than this lead nowhere. */
#define FRAME_MOST (8 * MiB)

/* --- The stack -------------------------------------------------------------------------------- */

/* Frames larger than a page leave pages out, which are asked about too: so the stack stays one piece. */
#define FRAME_USUAL (64 * KiB)

/* Adds the page where the readable ones end, and those behind it if they are known. */
static void cursor_add_page(struct cursor *cursor)
{
    cursor->readable_end += os_page_size;
    if (cursor->readable_end == cursor->known) {
        cursor->readable_end = cursor->known_end;
    }
}

static void cursor_fill_up_to(struct cursor *cursor, uintptr_t page)
{
    while (cursor->readable_end < page && page - cursor->readable_end <= FRAME_USUAL &&
           os_is_readable(cursor->readable_end)) {
        cursor_add_page(cursor);
    }
}

/* A page that the kernel has not been asked about yet. */
static NOINLINE bool cursor_ask(struct cursor *cursor, uintptr_t address)
{
    uintptr_t page = address & ~(os_page_size - 1);
    if (address == 0 || !os_is_readable(address)) {
        return false;
    }
    if (cursor->readable_end == 0) {
        cursor->readable = cursor->readable_end = cursor->registers[CFI_SP] & ~(os_page_size - 1);
    }
    cursor_fill_up_to(cursor, page);
    if (page < cursor->readable || page > cursor->readable_end) {
        cursor->readable = cursor->readable_end = page;
    }
    if (page == cursor->readable_end) {
        cursor_add_page(cursor);
    }
    return true;
}

/* A struct cursor reads only pages that the kernel has been asked about. */
ALWAYS_INLINE bool cursor_read(void *context, uintptr_t address, uintptr_t *value)
{
    struct cursor *cursor = context;
    if (address % sizeof *value != 0) {
        return false;
    }
    bool is_known = address >= cursor->readable && address < cursor->readable_end;
    if (unlikely(!is_known) && !cursor_ask(cursor, address)) {
        return false;
    }
    memcpy(value, (const void *)address, sizeof *value);
    return true;
}

static bool cursor_read_register(struct cursor *cursor, uintptr_t address, unsigned number)
{
    return cursor_read(cursor, address, &cursor->registers[number]);
}

/* Return addresses may be signed in bits that addresses of programs do not have. */
static uintptr_t plain_pc(uintptr_t pc)
{
#if defined(__aarch64__)
    return pc & (((uintptr_t)1 << 48) - 1);
#else
    return pc;
#endif
}

/* --- Frames of signal handlers' returns ------------------------------------------------------- */

/* Whether the code at `pc` can be read, with what stands behind it. */
static bool code_is_readable(struct cursor *cursor, uintptr_t pc)
{
    uintptr_t word;
    return cursor_read(cursor, pc & ~(uintptr_t)7, &word) &&
           cursor_read(cursor, (pc & ~(uintptr_t)7) + 8, &word);
}

static bool cursor_is_at_signal_return(struct cursor *cursor)
{
    uintptr_t pc = cursor->registers[CFI_PC];
    return code_is_readable(cursor, pc) && is_signal_return((const uint8_t *)pc);
}

static bool step_from_signal(struct cursor *cursor)
{
    uintptr_t at = cursor->registers[CFI_SP] + CONTEXT_AT;
    if (!cursor_is_at_signal_return(cursor)) {
        return false;
    }
#if defined(__x86_64__)
    for (size_t i = 0; i < array_count(context_registers); i++) {
        if (!cursor_read_register(cursor, at + 8 * i, context_registers[i])) {
            return false;
        }
    }
#else
    for (unsigned i = 0; i < CFI_REGISTERS; i++) {
        if (!cursor_read_register(cursor, at + 8 * i, i)) {
            return false;
        }
    }
#endif
    cursor->is_interrupted = true;
    return true;
}

/* --- One frame outwards ----------------------------------------------------------------------- */

/* What a rule gives for a register of the caller. */
static bool rule_value(struct cursor *cursor, const struct cfi_rules *rules, unsigned number,
                       uintptr_t cfa, uintptr_t *value)
{
    const struct stack_memory memory = {cursor_read, cursor};
    int64_t rule = rules->values[number];
    const uint8_t *expression = (const uint8_t *)(uintptr_t)rule;
    switch (rules->kinds[number]) {
    case CFI_SAVED:
        return cursor_read(cursor, cfa + (uintptr_t)rule, value);
    case CFI_IS_OFFSET:
        *value = cfa + (uintptr_t)rule;
        return true;
    case CFI_IN_REGISTER:
        *value = (uint64_t)rule < CFI_REGISTERS ? cursor->registers[rule] : 0;
        return (uint64_t)rule < CFI_REGISTERS;
    case CFI_SAVED_BY:
        return expression_value(expression, cursor->registers, true, cfa, &memory, value) &&
               cursor_read(cursor, *value, value);
    case CFI_IS_EXPRESSION:
        return expression_value(expression, cursor->registers, true, cfa, &memory, value);
    case CFI_UNDEFINED:
        *value = 0;
        return true;
    default:
        *value = cursor->registers[number];
        return true;
    }
}

static bool rules_cfa(struct cursor *cursor, const struct cfi_rules *rules, uintptr_t *cfa)
{
    const struct stack_memory memory = {cursor_read, cursor};
    if (rules->cfa_kind == CFI_IS_EXPRESSION) {
        return expression_value((const uint8_t *)(uintptr_t)rules->cfa_value, cursor->registers,
                                false, 0, &memory, cfa);
    }
    if (rules->cfa_register >= CFI_REGISTERS) {
        return false;
    }
    *cfa = cursor->registers[rules->cfa_register] + (uintptr_t)rules->cfa_value;
    return true;
}

/* By what .eh_frame says of the function. */
static bool step_by_rules(struct cursor *cursor, const struct cfi_function *function,
                          const struct cfi_rules *rules)
{
    uintptr_t caller[CFI_REGISTERS], cfa;
    if (!rules_cfa(cursor, rules, &cfa)) {
        return false;
    }
    memcpy(caller, cursor->registers, sizeof caller);
    for (unsigned i = 0; i < CFI_REGISTERS; i++) {
        if (rules->kinds[i] != CFI_SAME && !rule_value(cursor, rules, i, cfa, &caller[i])) {
            return false;
        }
    }
    if (rules->kinds[CFI_SP] == CFI_SAME) {
        caller[CFI_SP] = cfa;
    }
    if (function->return_register < CFI_REGISTERS) {
        caller[CFI_PC] = caller[function->return_register];
    }
    /* The stack grows down; only the stacks of signal handlers may lie anywhere. */
    bool is_upwards = caller[CFI_SP] > cursor->registers[CFI_SP] ||
                      (caller[CFI_SP] == cursor->registers[CFI_SP] && cursor->is_interrupted);
    if (!function->is_signal && !is_upwards) {
        return false;
    }
    memcpy(cursor->registers, caller, sizeof caller);
    cursor->is_interrupted = function->is_signal;
    return true;
}

/* Whether the pc can be a return address: code without rules may use the register of the frame pointer for anything. 0
 * is the end of a stack. */
static bool cursor_is_behind_call(struct cursor *cursor)
{
    uintptr_t pc = plain_pc(cursor->registers[CFI_PC]);
    if (pc == 0 || libc_find_frames(pc - 1) != NULL) {
        return true;
    }
    return pc > CALL_MOST && code_is_readable(cursor, pc - CALL_MOST) &&
           code_ends_with_call((const uint8_t *)pc);
}

/* By the two words that a frame pointer points to: the caller's frame pointer and the return address. */
static bool step_by_frame_pointer(struct cursor *cursor)
{
    uintptr_t fp = cursor->registers[CFI_FP];
    uintptr_t sp = cursor->registers[CFI_SP];
    if (fp < sp || fp - sp > FRAME_MOST || !cursor_read_register(cursor, fp + 8, CFI_PC) ||
        !cursor_read_register(cursor, fp, CFI_FP)) {
        return false;
    }
    cursor->registers[CFI_SP] = fp + 16;
    cursor->is_interrupted = false;
    return cursor_is_behind_call(cursor);
}

static bool step_fully(struct cursor *cursor, uintptr_t pc, uintptr_t *start)
{
    struct cfi_function function;
    struct cfi_rules rules;
    bool is_known = function_find(pc, libc_find_frames(pc), &function);
    *start = is_known ? function.start : 0;
    if (is_known && !(function.is_signal && SIGNALS_BY_CODE)) {
        return cfi_rules_at(&function, pc, &rules) && step_by_rules(cursor, &function, &rules);
    }
    return step_from_signal(cursor) || step_by_frame_pointer(cursor);
}

/* *start: where the function begins that was left, 0 if that is not known. */
static bool cursor_step(struct cursor *cursor, uintptr_t *start)
{
    uintptr_t pc = cursor->registers[CFI_PC] - !cursor->is_interrupted;
    bool is_good = step_fully(cursor, pc, start);
    cursor->registers[CFI_PC] = plain_pc(cursor->registers[CFI_PC]);
    return is_good && cursor->registers[CFI_PC] != 0;
}

/* --- The walk --------------------------------------------------------------------------------- */

/* Mallow's functions that were told of, and what lies between them. */
static struct {
    _Atomic uintptr_t first;
    _Atomic uintptr_t last;
} own_functions;

static void unwind_note_own(const void *function)
{
    uintptr_t start = (uintptr_t)function;
    uintptr_t first = atomic_get(&own_functions.first);
    if (first == 0 || start < first) {
        atomic_set(&own_functions.first, start);
    }
    if (start > atomic_get(&own_functions.last)) {
        atomic_set(&own_functions.last, start);
    }
}

#if MW_SHARED_OBJECT
extern const char object_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

/* How far our code reaches from the start of the object: to the end of its executable segment. */
static size_t object_reach(void)
{
    static _Atomic size_t reach;
    size_t known = atomic_get(&reach);
    if (likely(known != 0)) {
        return known;
    }
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)object_start;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(object_start + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_X) != 0) {
            known = segments[i].p_vaddr + segments[i].p_memsz;
        }
    }
    atomic_set(&reach, known);
    return known;
}

static bool is_own(uintptr_t pc, uintptr_t start)
{
    (void)start;
    return pc - (uintptr_t)object_start < object_reach();
}
#else
static bool is_own(uintptr_t pc, uintptr_t start)
{
    (void)pc;
    return start != 0 && start >= atomic_get(&own_functions.first) &&
           start <= atomic_get(&own_functions.last);
}
#endif

/* Frames of ours that are left out at most: a program that is linked in one piece may have functions
 * of its own between ours. */
#define OWN_MOST 12u

/* What a walk has found. */
struct walk {
    uintptr_t *frames;
    uintptr_t *tops; /* NULL where nobody wants them */
    size_t most;
    size_t count;
    unsigned own_left; /* so many frames of ours may still come */
};

/* Notes a frame whose function begins at `start`, unless it is ours. False if there is room for no more. */
ALWAYS_INLINE bool walk_note(struct walk *walk, uintptr_t pc, uintptr_t sp, uintptr_t start)
{
    if (walk->own_left != 0 && is_own(pc, start)) {
        walk->own_left--;
        return true;
    }
    walk->own_left = 0;
    if (walk->tops != NULL) {
        walk->tops[walk->count] = sp;
    }
    walk->frames[walk->count++] = pc;
    return walk->count < walk->most;
}

/* From the caller of the function that a struct cursor is in. */
static size_t cursor_walk(struct cursor *cursor, uintptr_t *frames, uintptr_t *tops, size_t most)
{
    struct walk walk = {frames, tops, most, 0, OWN_MOST};
    uintptr_t start;
    bool goes_on = cursor_step(cursor, &start);
    while (goes_on) {
        uintptr_t pc = cursor->registers[CFI_PC], sp = cursor->registers[CFI_SP];
        goes_on = cursor_step(cursor, &start);
        goes_on = walk_note(&walk, pc, sp, start) && goes_on;
    }
    return walk.count;
}

/* --- With three registers --------------------------------------------------------------------- */

#define ROW_WORD ((int)sizeof(uintptr_t))

/* What a quick walk follows, by the rows of frame_row.h. */
struct spot {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
};

ALWAYS_INLINE bool spot_step_by_row(struct cursor *cursor, struct spot *at, struct frame_row row)
{
    uintptr_t cfa = (row.base == ROW_OF_SP ? at->sp : at->fp) + (uintptr_t)(row.cfa * ROW_WORD);
    if (unlikely(row.base == ROW_AT_FP) && !cursor_read(cursor, cfa, &cfa)) {
        return false;
    }
    uintptr_t fp_from = row.base == ROW_AT_FP ? at->fp : cfa;
    if (cfa <= at->sp || !cursor_read(cursor, cfa + (uintptr_t)(row.pc_at * ROW_WORD), &at->pc) ||
        (row.fp_at != ROW_FP_SAME &&
         !cursor_read(cursor, fp_from + (uintptr_t)(row.fp_at * ROW_WORD), &at->fp))) {
        return false;
    }
    at->sp = cfa;
    return true;
}

/* A frame that has no row. */
static NOINLINE bool spot_step_rarely(struct cursor *cursor, struct spot *at, struct frame_row row)
{
    uintptr_t *registers = cursor->registers;
    registers[CFI_PC] = at->pc; /* exactly, as a signal's return is told by */
    registers[CFI_SP] = at->sp;
    registers[CFI_FP] = at->fp;
    cursor->needs_all =
        row.base == ROW_OTHER || (row.base == ROW_NO_RULES && cursor_is_at_signal_return(cursor));
    bool is_done = row.base == ROW_NO_RULES && !cursor->needs_all && step_by_frame_pointer(cursor);
    *at = (struct spot){registers[CFI_PC], registers[CFI_SP], registers[CFI_FP]};
    return is_done;
}

ALWAYS_INLINE bool object_has_pc(const struct code_object *object, uintptr_t pc)
{
    return pc - object->start < object->end - object->start;
}

static void cursor_change_object(struct cursor *cursor, uintptr_t pc)
{
    struct code_object last = cursor->object;
    cursor->object = object_has_pc(&cursor->before, pc) ? cursor->before : libc_find_code(pc);
    cursor->before = last;
}

/* From a place whose function has `pc`. */
ALWAYS_INLINE bool spot_step(struct cursor *cursor, struct spot *at, uintptr_t pc, uintptr_t *start)
{
    const struct code_object *object = cursor->is_careful ? &cursor->object : NULL;
    if (object != NULL && !object_has_pc(object, pc)) {
        cursor_change_object(cursor, pc);
    }
    struct frame_row row = frame_row_at(pc, object, start);
    bool is_good;
    if (likely(row.base <= ROW_AT_FP)) {
        is_good = spot_step_by_row(cursor, at, row);
    } else {
        struct spot rare = *at; /* so that the other stays in registers */
        is_good = spot_step_rarely(cursor, &rare, row);
        *at = rare;
    }
    at->pc = plain_pc(at->pc);
    return is_good && at->pc != 0;
}

static size_t cursor_walk_spots(struct cursor *cursor, uintptr_t *frames, uintptr_t *tops,
                                size_t most)
{
    const uintptr_t *registers = cursor->registers;
    struct spot at = {registers[CFI_PC], registers[CFI_SP], registers[CFI_FP]};
    struct walk walk = {frames, tops, most, 0, OWN_MOST};
    uintptr_t start;
    bool goes_on = spot_step(cursor, &at, at.pc, &start);
    while (goes_on) {
        uintptr_t pc = at.pc, sp = at.sp;
        goes_on = spot_step(cursor, &at, pc - 1, &start);
        goes_on = walk_note(&walk, pc, sp, start) && goes_on;
    }
    return walk.count;
}

/* Quickly, as far as that goes; where it does not, all over again with all registers. */
static size_t cursor_walk_quickly(struct cursor *cursor, uintptr_t *frames, uintptr_t *tops,
                                  size_t most)
{
    struct cursor first = *cursor;
    size_t count = cursor_walk_spots(cursor, frames, tops, most);
    if (unlikely(cursor->needs_all)) {
        *cursor = first;
        count = cursor_walk(cursor, frames, tops, most);
    }
    return count;
}

/* --- Known stacks ----------------------------------------------------------------------------- */

/* Where a thread began: its own data lies right behind its stack, and behind that of the first the
 * kernel's, with the pointers to as many words of the command line and the environment as nearly all programs
 * get. Other stacks that a program makes end elsewhere, and may go at any time: one that is right below the
 * least stack of a thread, of 16 KiB, and one that is as near to the first as mmap comes, are none of these. */
#define STACK_TAIL (8 * KiB)
#define FIRST_STACK_TAIL (256 * KiB)

/* Whether an address is in the last page before `end`, or less than so many bytes behind it. */
static bool lies_behind(uintptr_t address, uintptr_t end, size_t bytes)
{
    return address + os_page_size - end < os_page_size + bytes;
}

static bool stack_is_of_thread(uintptr_t end)
{
    return lies_behind((uintptr_t)__builtin_thread_pointer(), end, STACK_TAIL) ||
           lies_behind((uintptr_t)getauxval(AT_RANDOM), end, FIRST_STACK_TAIL);
}

static void cursor_use_known(struct cursor *cursor, const struct known_stack *known)
{
    uintptr_t sp = cursor->registers[CFI_SP];
    cursor->known = known->start;
    cursor->known_end = known->end;
    if (sp >= known->start && sp < known->end) {
        cursor->readable = known->start;
        cursor->readable_end = known->end;
    }
}

static void cursor_note_known(const struct cursor *cursor, uintptr_t sp, struct known_stack *known)
{
    bool is_of_stack = cursor->readable <= sp && sp < cursor->readable_end;
    bool is_more = cursor->readable < known->start || cursor->readable_end != known->end;
    if (is_of_stack && is_more && stack_is_of_thread(cursor->readable_end)) {
        *known = (struct known_stack){cursor->readable, cursor->readable_end};
    }
}

ALWAYS_INLINE size_t cursor_walk_known(struct cursor *cursor, uintptr_t *frames, uintptr_t *tops,
                                       size_t most, struct known_stack *known)
{
    uintptr_t sp = cursor->registers[CFI_SP];
    cursor_use_known(cursor, known);
    size_t count = cursor_walk_quickly(cursor, frames, tops, most);
    cursor_note_known(cursor, sp, known);
    return count;
}

static NOINLINE size_t unwind_often(uintptr_t *frames, uintptr_t *tops, size_t most)
{
    static THREAD_LOCAL uintptr_t start, end; /* as a struct they would be aligned to 16 */
    struct known_stack known = {start, end};
    struct cursor cursor;
    memset(&cursor, 0, sizeof cursor);
    CAPTURE(cursor.registers);
    cursor.is_interrupted = true; /* the pc is exact */
    size_t count = cursor_walk_known(&cursor, frames, tops, most, &known);
    start = known.start;
    end = known.end;
    return count;
}

static NOINLINE size_t unwind_sample(uintptr_t *frames, size_t most, struct known_stack *known)
{
    struct known_stack nothing = {0, 0};
    struct cursor cursor;
    memset(&cursor, 0, sizeof cursor);
    CAPTURE(cursor.registers);
    cursor.is_interrupted = true; /* the pc is exact */
    cursor.is_careful = true;
    return cursor_walk_known(&cursor, frames, NULL, most, known != NULL ? known : &nothing);
}

static NOINLINE size_t unwind_here(uintptr_t *frames, size_t most)
{
    struct cursor cursor;
    memset(&cursor, 0, sizeof cursor);
    CAPTURE(cursor.registers);
    cursor.is_interrupted = true; /* the pc is exact */
    return cursor_walk(&cursor, frames, NULL, most);
}

static NOINLINE bool unwind_is_in_handler(void)
{
    struct cursor cursor;
    memset(&cursor, 0, sizeof cursor);
    CAPTURE(cursor.registers);
    cursor.is_interrupted = true; /* the pc is exact */
    uintptr_t start;
    for (unsigned i = 0; i < UNWIND_MOST && cursor_step(&cursor, &start); i++) {
        if (cursor.is_interrupted) {
            return true;
        }
    }
    return false;
}
