/* SPDX-License-Identifier: MIT
 *
 * What depends on the processor in talking to the kernel. errno stays as it is, and nothing that a
 * program may have replaced is called. The recorder of the tool uses it too.
 */
#ifndef MALLOW_SYSCALL_H
#define MALLOW_SYSCALL_H

#include "../base/base.h"

ALWAYS_INLINE long system_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "Mallow knows the system calls of x86-64 and aarch64"
#endif
}

/* The kernel answers -errno, and no valid address or count lies in that range. */
ALWAYS_INLINE bool is_error(long result)
{
    return (unsigned long)result > -4096UL;
}

/* Tells threads apart. */
ALWAYS_INLINE uintptr_t thread_pointer(void)
{
    uintptr_t pointer;
#if defined(__x86_64__)
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
    return pointer;
}

#endif
