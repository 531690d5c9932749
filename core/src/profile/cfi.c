/* SPDX-License-Identifier: MIT */
#include "cfi.h"

#include "../base/check.h"
#include "dwarf.h"

/* --- Pointers ---------------------------------------------------------------------------------- */

/* How pointers are written: the low half says as which number, the high half relative to what. */
#define POINTER_FORM 0x0f
#define POINTER_RELATIVE 0x70
#define RELATIVE_TO_PLACE 0x10
#define RELATIVE_TO_HEADER 0x30

static bool read_pointer(const uint8_t **at, uint8_t encoding, const uint8_t *header,
                         uintptr_t *value)
{
    const uint8_t *place = *at;
    switch (encoding & POINTER_FORM) {
    case 0x00:
    case 0x04:
    case 0x0c:
        *value = read_fixed(at, 8);
        break;
    case 0x01:
        *value = leb_unsigned(at);
        break;
    case 0x02:
        *value = read_fixed(at, 2);
        break;
    case 0x03:
        *value = read_fixed(at, 4);
        break;
    case 0x09:
        *value = (uintptr_t)leb_signed(at);
        break;
    case 0x0a:
        *value = (uintptr_t)read_fixed_signed(at, 2);
        break;
    case 0x0b:
        *value = (uintptr_t)read_fixed_signed(at, 4);
        break;
    default:
        return false;
    }
    switch (encoding & POINTER_RELATIVE) {
    case 0:
        return true;
    case RELATIVE_TO_PLACE:
        *value += (uintptr_t)place;
        return true;
    case RELATIVE_TO_HEADER:
        *value += (uintptr_t)header;
        return header != NULL;
    default:
        return false;
    }
}

/* --- Entries ---------------------------------------------------------------------------------- */

/* The length of an entry, which begins at *at; *at is then behind the length. 0 at the end. */
static uint64_t entry_length(const uint8_t **at)
{
    uint64_t length = read_fixed(at, 4);
    return length == UINT32_MAX ? read_fixed(at, 8) : length;
}

static const uint8_t *cfi_next_entry(const uint8_t *entry)
{
    uint64_t length = entry_length(&entry);
    return length != 0 ? entry + length : NULL;
}

/* Reads what a CIE says; *encoding: how its FDEs write addresses. */
static bool read_cie(const uint8_t *at, struct cfi_function *function, uint8_t *encoding,
                     bool *has_extra)
{
    uint64_t length = entry_length(&at);
    const uint8_t *end = at + length;
    if (length == 0 || read_fixed(&at, 4) != 0) {
        return false;
    }
    uint8_t version = *at++;
    const char *letters = (const char *)at;
    at += strlen(letters) + 1;
    if ((version != 1 && version != 3) || (letters[0] != 0 && letters[0] != 'z')) {
        return false;
    }
    function->code_unit = leb_unsigned(&at);
    function->data_unit = leb_signed(&at);
    function->return_register = version == 1 ? *at++ : (unsigned)leb_unsigned(&at);
    function->is_signal = false;
    *encoding = 0;
    *has_extra = letters[0] == 'z';
    if (*has_extra) {
        uint64_t extra = leb_unsigned(&at);
        const uint8_t *program = at + extra;
        uintptr_t unused;
        for (letters++; *letters != 0; letters++) {
            if (*letters == 'R') {
                *encoding = *at++;
            } else if (*letters == 'L') {
                at++;
            } else if (*letters == 'P') {
                uint8_t form = *at++;
                if (!read_pointer(&at, form & POINTER_FORM, NULL, &unused)) {
                    return false;
                }
            } else if (*letters == 'S') {
                function->is_signal = true;
            }
        }
        at = program;
    }
    function->program = at;
    function->program_end = end;
    return at <= end;
}

static bool cfi_read_entry(const uint8_t *entry, struct cfi_function *function)
{
    const uint8_t *at = entry;
    uint64_t length = entry_length(&at);
    const uint8_t *end = at + length;
    const uint8_t *link = at;
    uint64_t distance = length != 0 ? read_fixed(&at, 4) : 0;
    uint8_t encoding;
    bool has_extra;
    uintptr_t size;
    if (distance == 0 || !read_cie(link - distance, function, &encoding, &has_extra) ||
        !read_pointer(&at, encoding, NULL, &function->start) ||
        !read_pointer(&at, encoding & POINTER_FORM, NULL, &size)) {
        return false;
    }
    function->end = function->start + size;
    if (has_extra) {
        uint64_t extra = leb_unsigned(&at);
        at += extra;
    }
    function->own_program = at;
    function->own_program_end = end;
    return at <= end;
}

/* --- The table -------------------------------------------------------------------------------- */

/* A line of the table as the linkers write it: both relative to the header. */
struct table_line {
    int32_t start;
    int32_t entry;
};

#define TABLE_ENCODING 0x3b

static bool cfi_find(const uint8_t *header, uintptr_t pc, struct cfi_function *function)
{
    const uint8_t *at = header + 4;
    uintptr_t frames, count;
    if (header[0] != 1 || header[3] != TABLE_ENCODING ||
        !read_pointer(&at, header[1], header, &frames) ||
        !read_pointer(&at, header[2], header, &count) || count == 0) {
        return false;
    }
    const struct table_line *lines = (const struct table_line *)at;
    int64_t distance = (int64_t)(pc - (uintptr_t)header);
    size_t low = 0, high = count; /* the line, if any, is from low to high - 1 */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (lines[middle].start <= distance) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return lines[low].start <= distance && cfi_read_entry(header + lines[low].entry, function) &&
           pc >= function->start && pc < function->end;
}

/* --- Programs --------------------------------------------------------------------------------- */

/* States that a program may put aside at a time. */
#define REMEMBERED 3u

struct cfi_machine {
    struct cfi_rules rules;
    struct cfi_rules first; /* as the CIE's program leaves them */
    struct cfi_rules remembered[REMEMBERED];
    unsigned remembered_count;
    uintptr_t place; /* the rules hold from here on */
};

/* Rules of registers that nobody asks for are dropped. */
static void set_rule(struct cfi_rules *rules, uint64_t number, enum cfi_kind kind, int64_t value)
{
    if (number < CFI_REGISTERS) {
        rules->kinds[number] = (uint8_t)kind;
        rules->values[number] = value;
    }
}

static void set_cfa(struct cfi_rules *rules, uint64_t number, int64_t value)
{
    rules->cfa_kind = CFI_IS_OFFSET;
    rules->cfa_register = (uint8_t)size_min(number, UINT8_MAX);
    rules->cfa_value = value;
}

static void restore_rule(struct cfi_machine *machine, uint64_t number)
{
    if (number < CFI_REGISTERS) {
        machine->rules.kinds[number] = machine->first.kinds[number];
        machine->rules.values[number] = machine->first.values[number];
    }
}

/* The address of an expression, which stands behind its length; *at is then behind it. */
static int64_t take_expression(const uint8_t **at)
{
    const uint8_t *expression = *at;
    uint64_t length = leb_unsigned(at);
    *at += length;
    return (int64_t)(uintptr_t)expression;
}

/* Instructions whose high two bits are 0. False if it is not known. */
static bool run_extended(struct cfi_machine *machine, const struct cfi_function *function,
                         uint8_t code, const uint8_t **at)
{
    struct cfi_rules *rules = &machine->rules;
    uint64_t number;
    switch (code) {
    case 0x00: /* nop */
    case 0x2d: /* negate_ra_state: return addresses are signed, see unwind.c */
        return true;
    case 0x01: /* set_loc */
        machine->place = read_fixed(at, 8);
        return true;
    case 0x02: /* advance_loc1, 2, 4 */
        machine->place += read_fixed(at, 1) * function->code_unit;
        return true;
    case 0x03:
        machine->place += read_fixed(at, 2) * function->code_unit;
        return true;
    case 0x04:
        machine->place += read_fixed(at, 4) * function->code_unit;
        return true;
    case 0x05: /* offset_extended */
        number = leb_unsigned(at);
        set_rule(rules, number, CFI_SAVED, (int64_t)leb_unsigned(at) * function->data_unit);
        return true;
    case 0x06: /* restore_extended */
        restore_rule(machine, leb_unsigned(at));
        return true;
    case 0x07: /* undefined */
        set_rule(rules, leb_unsigned(at), CFI_UNDEFINED, 0);
        return true;
    case 0x08: /* same_value */
        set_rule(rules, leb_unsigned(at), CFI_SAME, 0);
        return true;
    case 0x09: /* register */
        number = leb_unsigned(at);
        set_rule(rules, number, CFI_IN_REGISTER, (int64_t)leb_unsigned(at));
        return true;
    case 0x0c: /* def_cfa */
        number = leb_unsigned(at);
        set_cfa(rules, number, (int64_t)leb_unsigned(at));
        return true;
    case 0x0d: /* def_cfa_register */
        set_cfa(rules, leb_unsigned(at), rules->cfa_value);
        return true;
    case 0x0e: /* def_cfa_offset */
        rules->cfa_value = (int64_t)leb_unsigned(at);
        return true;
    default:
        return false;
    }
}

/* The rarer ones among them: expressions, signed offsets, states. */
static bool run_rare(struct cfi_machine *machine, const struct cfi_function *function, uint8_t code,
                     const uint8_t **at)
{
    struct cfi_rules *rules = &machine->rules;
    uint64_t number;
    switch (code) {
    case 0x0a: /* remember_state */
        if (machine->remembered_count == REMEMBERED) {
            return false;
        }
        machine->remembered[machine->remembered_count++] = *rules;
        return true;
    case 0x0b: /* restore_state */
        if (machine->remembered_count == 0) {
            return false;
        }
        *rules = machine->remembered[--machine->remembered_count];
        return true;
    case 0x0f: /* def_cfa_expression */
        rules->cfa_kind = CFI_IS_EXPRESSION;
        rules->cfa_value = take_expression(at);
        return true;
    case 0x10: /* expression */
        number = leb_unsigned(at);
        set_rule(rules, number, CFI_SAVED_BY, take_expression(at));
        return true;
    case 0x11: /* offset_extended_sf */
        number = leb_unsigned(at);
        set_rule(rules, number, CFI_SAVED, leb_signed(at) * function->data_unit);
        return true;
    case 0x12: /* def_cfa_sf */
        number = leb_unsigned(at);
        set_cfa(rules, number, leb_signed(at) * function->data_unit);
        return true;
    case 0x13: /* def_cfa_offset_sf */
        rules->cfa_value = leb_signed(at) * function->data_unit;
        return true;
    case 0x14: /* val_offset */
        number = leb_unsigned(at);
        set_rule(rules, number, CFI_IS_OFFSET, (int64_t)leb_unsigned(at) * function->data_unit);
        return true;
    case 0x15: /* val_offset_sf */
        number = leb_unsigned(at);
        set_rule(rules, number, CFI_IS_OFFSET, leb_signed(at) * function->data_unit);
        return true;
    case 0x16: /* val_expression */
        number = leb_unsigned(at);
        set_rule(rules, number, CFI_IS_EXPRESSION, take_expression(at));
        return true;
    case 0x2e: /* args_size */
        leb_unsigned(at);
        return true;
    case 0x2f: /* negative_offset_extended */
        number = leb_unsigned(at);
        set_rule(rules, number, CFI_SAVED, -(int64_t)leb_unsigned(at) * function->data_unit);
        return true;
    default:
        return false;
    }
}

/* Runs a program up to `pc`. */
static bool run_program(struct cfi_machine *machine, const struct cfi_function *function,
                        const uint8_t *at, const uint8_t *end, uintptr_t pc)
{
    while (at < end && machine->place <= pc) {
        uint8_t code = *at++;
        unsigned operand = code & 0x3f;
        switch (code & 0xc0) {
        case 0x40: /* advance_loc */
            machine->place += operand * function->code_unit;
            break;
        case 0x80: /* offset */
            set_rule(&machine->rules, operand, CFI_SAVED,
                     (int64_t)leb_unsigned(&at) * function->data_unit);
            break;
        case 0xc0: /* restore */
            restore_rule(machine, operand);
            break;
        default:
            if (!run_extended(machine, function, code, &at) &&
                !run_rare(machine, function, code, &at)) {
                return false;
            }
            break;
        }
    }
    return true;
}

static bool cfi_rules_at(const struct cfi_function *function, uintptr_t pc, struct cfi_rules *rules)
{
    struct cfi_machine machine;
    memset(&machine.rules, 0, sizeof machine.rules);
    machine.remembered_count = 0;
    machine.place = function->start;
    check(pc >= function->start && pc < function->end);
    if (!run_program(&machine, function, function->program, function->program_end, pc)) {
        return false;
    }
    machine.first = machine.rules;
    if (!run_program(&machine, function, function->own_program, function->own_program_end, pc)) {
        return false;
    }
    *rules = machine.rules;
    return rules->cfa_kind == CFI_IS_EXPRESSION || rules->cfa_kind == CFI_IS_OFFSET;
}
