/* SPDX-License-Identifier: MIT
 *
 * The registers of the function that asks, by their numbers in DWARF, as an unwinder begins with them.
 */
#ifndef MALLOW_CAPTURE_H
#define MALLOW_CAPTURE_H

/* The registers as they are here; all of them stand still while they are read. */
#if defined(__x86_64__)
#define CAPTURE(registers)                                                            \
    __asm__ volatile("leaq 0f(%%rip), %%rax\n"                                        \
                     "0: movq %%rax, 128(%0)\n"                                       \
                     "movq %%rbx, 24(%0)\nmovq %%rbp, 48(%0)\nmovq %%rsp, 56(%0)\n"   \
                     "movq %%r12, 96(%0)\nmovq %%r13, 104(%0)\nmovq %%r14, 112(%0)\n" \
                     "movq %%r15, 120(%0)\n"                                          \
                     :                                                                \
                     : "r"(registers)                                                 \
                     : "rax", "memory")
#else
#define CAPTURE(registers)                                                  \
    __asm__ volatile("adr x9, 0f\n"                                         \
                     "0: str x9, [%0, #256]\n"                              \
                     "mov x9, sp\nstr x9, [%0, #248]\n"                     \
                     "stp x19, x20, [%0, #152]\nstp x21, x22, [%0, #168]\n" \
                     "stp x23, x24, [%0, #184]\nstp x25, x26, [%0, #200]\n" \
                     "stp x27, x28, [%0, #216]\nstp x29, x30, [%0, #232]\n" \
                     :                                                      \
                     : "r"(registers)                                       \
                     : "x9", "memory")
#endif

#endif
