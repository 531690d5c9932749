/* SPDX-License-Identifier: MIT
 *
 * What the bytes of code say, where nothing else tells what a function is.
 */
#ifndef MALLOW_CODE_H
#define MALLOW_CODE_H

#include "../base/base.h"

#include <string.h>

#if defined(__x86_64__)

/* Whether the rules for such a frame are left aside: those of the kernel's own say less than it has. */
#define SIGNALS_BY_CODE false

/* mov $15, %rax (or %eax); syscall */
static const uint8_t return_code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
static const uint8_t return_code_short[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

/* The registers in the order of the kernel's struct sigcontext, which begins 40 bytes above the
 * stack pointer. */
static const uint8_t context_registers[] = {8, 9, 10, 11, 12, 13, 14, 15, 5,
                                            4, 6, 3,  1,  0,  2,  7,  16};
#define CONTEXT_AT 40u

static bool is_signal_return(const uint8_t *code)
{
    return memcmp(code, return_code, sizeof return_code) == 0 ||
           memcmp(code, return_code_short, sizeof return_code_short) == 0;
}

/* The longest call: by a register and an offset of four bytes, with a prefix. */
#define CALL_MOST 8u

/* Whether the instruction before `code` can be a call: by a distance of four bytes, or by a register or a word in
 * memory (opcode ff, /2) of two to seven bytes. */
static bool code_ends_with_call(const uint8_t *code)
{
    if (code[-5] == 0xe8) {
        return true;
    }
    for (int length = 2; length <= 7; length++) {
        if (code[-length] == 0xff && (code[1 - length] >> 3 & 7) == 2) {
            return true;
        }
    }
    return false;
}

#else

#define SIGNALS_BY_CODE true

/* mov x8, #139; svc #0 */
static const uint8_t return_code[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4};

/* struct rt_sigframe: 128 bytes of siginfo, then the ucontext, whose registers begin at 168 + 8: behind
 * the address of the fault x0 to x30, sp, pc. */
#define CONTEXT_AT (128u + 176u + 8u)

static bool is_signal_return(const uint8_t *code)
{
    return memcmp(code, return_code, sizeof return_code) == 0;
}

#define CALL_MOST 4u

/* bl, or blr with or without a check of the address. */
static bool code_ends_with_call(const uint8_t *code)
{
    uint32_t before;
    memcpy(&before, code - sizeof before, sizeof before);
    return (before & 0xfc000000) == 0x94000000 || (before & 0xfefff800) == 0xd63f0800 ||
           (before & 0xfffffc1f) == 0xd63f0000;
}

#endif

#endif
