/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "count.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static _Atomic uint64_t calls; /* atomic, relaxed: a count */

uint64_t count_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

#if defined(__x86_64__) || defined(__aarch64__)

/* The one place from which the filter lets these calls through: right behind this instruction. */
extern const char count_passed[];
long count_pass(long number, const long arguments[6]);

/* The kernel's interface, as linux/filter.h, seccomp.h and audit.h have it. A C compiler for musl comes without
 * those headers in most systems. */
struct instruction {
    uint16_t code;
    uint8_t jump_if, jump_else;
    uint32_t value;
};
struct program {
    unsigned short length;
    const struct instruction *filter;
};
struct call {
    int number;
    uint32_t arch;
    uint64_t instruction_pointer;
    uint64_t arguments[6];
};
static_assert(sizeof(struct instruction) == 8 && sizeof(struct call) == 64, "as in the kernel");
enum {
    LOAD_WORD = 0x20,    /* BPF_LD | BPF_W | BPF_ABS */
    JUMP_EQUAL = 0x15,   /* BPF_JMP | BPF_JEQ | BPF_K */
    RETURN_VALUE = 0x06, /* BPF_RET | BPF_K */
    SET_MODE_FILTER = 1,
    FILTER_ALL_THREADS = 1, /* SECCOMP_FILTER_FLAG_TSYNC */
};
#define RET_ALLOW 0x7fff0000U
#define RET_TRAP 0x00030000U

#if defined(__x86_64__)
#define THIS_ARCH 0xc000003eU /* AUDIT_ARCH_X86_64 */
__asm__(".text\n"
        ".globl count_pass\n"
        ".hidden count_pass\n"
        ".type count_pass, @function\n"
        "count_pass:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %r11\n"
        "    mov 0(%r11), %rdi\n"
        "    mov 8(%r11), %rsi\n"
        "    mov 16(%r11), %rdx\n"
        "    mov 24(%r11), %r10\n"
        "    mov 32(%r11), %r8\n"
        "    mov 40(%r11), %r9\n"
        "    syscall\n"
        ".globl count_passed\n"
        ".hidden count_passed\n"
        "count_passed:\n"
        "    ret\n"
        ".size count_pass, . - count_pass\n");
#else
#define THIS_ARCH 0xc00000b7U /* AUDIT_ARCH_AARCH64 */
__asm__(".text\n"
        ".globl count_pass\n"
        ".hidden count_pass\n"
        ".type count_pass, @function\n"
        "count_pass:\n"
        "    mov x8, x0\n"
        "    mov x9, x1\n"
        "    ldp x0, x1, [x9]\n"
        "    ldp x2, x3, [x9, 16]\n"
        "    ldp x4, x5, [x9, 32]\n"
        "    svc 0\n"
        ".globl count_passed\n"
        ".hidden count_passed\n"
        "count_passed:\n"
        "    ret\n"
        ".size count_pass, . - count_pass\n");
#endif

static void on_call(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    int saved_errno = errno;
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
#if defined(__x86_64__)
    greg_t *registers = machine->gregs;
    long arguments[6] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                         registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
    registers[REG_RAX] = count_pass(registers[REG_RAX], arguments);
#else
    long arguments[6];
    for (int index = 0; index < 6; index++) {
        arguments[index] = (long)machine->regs[index];
    }
    machine->regs[0] = (unsigned long long)count_pass((long)machine->regs[8], arguments);
#endif
    errno = saved_errno;
}

#define STEP(code, jump_if, jump_else, value) \
    ((struct instruction){code, jump_if, jump_else, value})
#define LOAD(field) STEP(LOAD_WORD, 0, 0, offsetof(struct call, field))
#define RETURN(action) STEP(RETURN_VALUE, 0, 0, action)
/* Where the loaded word is not `value`, leaves out `skip` instructions. */
#define UNLESS(value, skip) STEP(JUMP_EQUAL, 0, skip, value)
/* Where it is, jumps to the last instruction of a filter of `left` more instructions. */
#define WHEN(value, left) STEP(JUMP_EQUAL, left, 0, value)

bool count_start(void)
{
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSYS, &action, NULL) != 0) {
        return false;
    }
    uint64_t passed = (uint64_t)(uintptr_t)count_passed;
    const struct instruction filter[] = {
        LOAD(arch),
        UNLESS(THIS_ARCH, 4),
        LOAD(instruction_pointer),
        UNLESS((uint32_t)passed, 3),
        STEP(LOAD_WORD, 0, 0, offsetof(struct call, instruction_pointer) + 4),
        UNLESS((uint32_t)(passed >> 32), 1),
        RETURN(RET_ALLOW),
        LOAD(number),
        WHEN(SYS_mmap, 6),
        WHEN(SYS_munmap, 5),
        WHEN(SYS_mremap, 4),
        WHEN(SYS_madvise, 3),
        WHEN(SYS_mprotect, 2),
        WHEN(SYS_brk, 1),
        RETURN(RET_ALLOW),
        RETURN(RET_TRAP),
    };
    const struct program program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return false;
    }
    /* All threads, for an allocator may have started one. */
    return syscall(SYS_seccomp, SET_MODE_FILTER, FILTER_ALL_THREADS, &program) == 0;
}

#else

bool count_start(void)
{
    return false;
}

#endif
