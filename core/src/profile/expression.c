/* SPDX-License-Identifier: MIT */
#include "expression.h"

#include "dwarf.h"

/* Values on the stack of an expression, and operations that it may carry out. */
#define EXPRESSION_DEPTH 12u
#define EXPRESSION_STEPS 200u

struct expression {
    uintptr_t stack[EXPRESSION_DEPTH];
    unsigned depth;
    const uintptr_t *registers;
    const struct stack_memory *memory;
};

static bool push(struct expression *run, uintptr_t value)
{
    if (run->depth == EXPRESSION_DEPTH) {
        return false;
    }
    run->stack[run->depth++] = value;
    return true;
}

static bool push_register(struct expression *run, uint64_t number, const uint8_t **at)
{
    int64_t offset = leb_signed(at);
    return number < CFI_REGISTERS && push(run, run->registers[number] + (uintptr_t)offset);
}

/* Operations that push what stands in the expression. *is_known is false if it is none of them. */
static bool run_constant(struct expression *run, uint8_t code, const uint8_t **at, bool *is_known)
{
    *is_known = true;
    if (code >= 0x30 && code <= 0x4f) { /* lit */
        return push(run, code - 0x30u);
    }
    if (code >= 0x70 && code <= 0x8f) { /* breg */
        return push_register(run, code - 0x70u, at);
    }
    switch (code) {
    case 0x03: /* addr */
    case 0x0e:
    case 0x0f:
        return push(run, read_fixed(at, 8));
    case 0x08: /* const1u, 1s, 2u, 2s, 4u, 4s, 8, 8s */
        return push(run, read_fixed(at, 1));
    case 0x09:
        return push(run, (uintptr_t)read_fixed_signed(at, 1));
    case 0x0a:
        return push(run, read_fixed(at, 2));
    case 0x0b:
        return push(run, (uintptr_t)read_fixed_signed(at, 2));
    case 0x0c:
        return push(run, read_fixed(at, 4));
    case 0x0d:
        return push(run, (uintptr_t)read_fixed_signed(at, 4));
    case 0x10: /* constu, consts */
        return push(run, leb_unsigned(at));
    case 0x11:
        return push(run, (uintptr_t)leb_signed(at));
    case 0x92: { /* bregx */
        uint64_t number = leb_unsigned(at);
        return push_register(run, number, at);
    }
    default:
        *is_known = false;
        return false;
    }
}

/* Operations on the value on top. */
static bool run_unary(struct expression *run, uint8_t code, const uint8_t **at, bool *is_known)
{
    uintptr_t *top = &run->stack[run->depth - 1];
    *is_known = true;
    switch (code) {
    case 0x06: /* deref */
        return run->memory->read(run->memory->context, *top, top);
    case 0x12: /* dup */
        return push(run, *top);
    case 0x13: /* drop */
        run->depth--;
        return true;
    case 0x15: { /* pick */
        uint8_t index = *(*at)++;
        return index < run->depth && push(run, run->stack[run->depth - 1 - index]);
    }
    case 0x1f: /* neg, not */
        *top = 0 - *top;
        return true;
    case 0x20:
        *top = ~*top;
        return true;
    case 0x23: /* plus_uconst */
        *top += leb_unsigned(at);
        return true;
    default:
        *is_known = false;
        return false;
    }
}

/* Operations on the two on top, of which `a` is the lower. */
static bool binary_value(uint8_t code, uintptr_t a, uintptr_t b, uintptr_t *value)
{
    intptr_t x = (intptr_t)a, y = (intptr_t)b;
    const struct {
        uint8_t code;
        uintptr_t value;
    } values[] = {
        {0x1a, a & b},
        {0x1c, a - b},
        {0x1e, a * b},
        {0x21, a | b},
        {0x22, a + b},
        {0x24, b < 64 ? a << b : 0},
        {0x25, b < 64 ? a >> b : 0},
        {0x26, (uintptr_t)(x >> (b < 64 ? b : 63))},
        {0x27, a ^ b},
        {0x29, x == y},
        {0x2a, x >= y},
        {0x2b, x > y},
        {0x2c, x <= y},
        {0x2d, x < y},
        {0x2e, x != y},
    };
    for (size_t i = 0; i < array_count(values); i++) {
        if (values[i].code == code) {
            *value = values[i].value;
            return true;
        }
    }
    return false;
}

static bool run_binary(struct expression *run, uint8_t code)
{
    uintptr_t *low = &run->stack[run->depth - 2];
    uintptr_t b = low[1];
    if (code == 0x14) { /* over */
        return push(run, low[0]);
    }
    if (code == 0x16) { /* swap */
        low[1] = low[0];
        low[0] = b;
        return true;
    }
    run->depth--;
    return binary_value(code, low[0], b, low);
}

/* bra and skip: where the expression goes on. */
static bool run_jump(struct expression *run, uint8_t code, const uint8_t **at)
{
    int64_t distance = read_fixed_signed(at, 2);
    if (code == 0x28 && run->depth == 0) {
        return false;
    }
    if (code == 0x2f || run->stack[--run->depth] != 0) {
        *at += distance;
    }
    return true;
}

static bool run_operation(struct expression *run, uint8_t code, const uint8_t **at)
{
    bool is_known;
    if (code == 0x96) { /* nop */
        return true;
    }
    if (code == 0x28 || code == 0x2f) {
        return run_jump(run, code, at);
    }
    bool is_good = run_constant(run, code, at, &is_known);
    if (is_known || run->depth < 1) {
        return is_good;
    }
    is_good = run_unary(run, code, at, &is_known);
    if (is_known || run->depth < 2) {
        return is_good;
    }
    return run_binary(run, code);
}

static bool expression_value(const uint8_t *expression, const uintptr_t *registers, bool has_cfa,
                             uintptr_t cfa, const struct stack_memory *memory, uintptr_t *value)
{
    struct expression run = {.registers = registers, .memory = memory};
    if (has_cfa) {
        push(&run, cfa);
    }
    const uint8_t *at = expression;
    uint64_t length = leb_unsigned(&at);
    const uint8_t *start = at, *end = at + length;
    for (unsigned steps = 0; at < end; steps++) {
        uint8_t code = *at++;
        if (steps == EXPRESSION_STEPS || !run_operation(&run, code, &at) || at < start) {
            return false;
        }
    }
    if (run.depth == 0) {
        return false;
    }
    *value = run.stack[run.depth - 1];
    return true;
}
