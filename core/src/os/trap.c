/* SPDX-License-Identifier: MIT */
#include "trap.h"

#include "../base/atomic.h"
#include "fault.h"
#include "os.h"
#include "syscall.h"
#include "tags.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>

/* The kernel's struct sigaction, which is not the libc's. aarch64's has a restorer too, and needs none. */
struct kernel_action {
    void (*handler)(int number, siginfo_t *info, void *context);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};
static_assert(sizeof(struct kernel_action) == 4 * sizeof(uint64_t), "what the kernel writes");

#define KERNEL_SA_RESTORER 0x04000000ul
#define KERNEL_SA_EXPOSE_TAGBITS 0x00000800ul
#define KERNEL_SEGV_MTESERR 9

/* Whom each of our two handlers follows: who was there at the start, and who was set later. Whoever was set
 * later may hand on to the first of ours, so the second is another function. */
enum { TRAP_FIRST, TRAP_AGAIN, TRAP_HANDLERS };
static struct kernel_action trap_previous[TRAP_HANDLERS]; /* const once set, but for SA_RESETHAND */
static void (*trap_look)(const struct trap *trap);
static _Atomic bool trap_is_kept; /* nobody is to be followed any more */

static long trap_set(const struct kernel_action *action, struct kernel_action *old)
{
    return system_call(SYS_rt_sigaction, SIGSEGV, (long)action, (long)old, sizeof action->mask, 0,
                       0);
}

#if defined(__x86_64__)
/* Where a handler returns to. */
void mw_trap_return(void) __attribute__((visibility("hidden")));
__asm__(".text\n.p2align 4\n.hidden mw_trap_return\n.globl mw_trap_return\n"
        ".type mw_trap_return, @function\nmw_trap_return:\n"
        "movq $15, %rax\nsyscall\n.size mw_trap_return, . - mw_trap_return\n");
#endif

static struct trap trap_of(const siginfo_t *info, const void *context)
{
    const ucontext_t *state = context;
    struct trap trap = {.address = (uintptr_t)info->si_addr};
#if defined(__x86_64__)
    trap.pc = (uintptr_t)state->uc_mcontext.gregs[16];                        /* RIP */
    trap.access = (state->uc_mcontext.gregs[19] & 2) != 0 ? "write" : "read"; /* ERR */
#else
    trap.pc = state->uc_mcontext.pc;
#endif
#if MW_TAGS
    trap.is_of_tag = info->si_code == KERNEL_SEGV_MTESERR;
    trap.tag = pointer_tag(info->si_addr);
    trap.address = (uintptr_t)pointer_with_tag(info->si_addr, 0);
#endif
    return trap;
}

/* To whoever handled the signal before, as the kernel would have given it to him. */
static void trap_pass_on(struct kernel_action *previous, int number, siginfo_t *info, void *context)
{
    struct kernel_action to = *previous;
    bool is_sent = info->si_code <= 0;
    uintptr_t handler = (uintptr_t)to.handler;
    if (handler == (uintptr_t)SIG_IGN && is_sent) {
        return;
    }
    if (handler == (uintptr_t)SIG_DFL || handler == (uintptr_t)SIG_IGN) {
        /* The instruction traps again, or the signal is sent again, and is not ours then. */
        if (trap_set(&to, NULL) != 0) {
            os_abort_unhandled(); /* a filter of system calls refuses it: it would trap for ever */
        }
        if (is_sent) {
            system_call(SYS_tgkill, os_process_number(), os_thread_number(), number, 0, 0, 0);
        }
        return;
    }
    if ((to.flags & (unsigned long)SA_RESETHAND) != 0) {
        previous->handler = (void (*)(int, siginfo_t *, void *))(uintptr_t)SIG_DFL;
    }
    to.handler(number, info, context);
}

static void trap_come(int which, int number, siginfo_t *info, void *context)
{
    struct trap trap = trap_of(info, context);
    if (info->si_code > 0) { /* of the CPU, not sent by somebody */
        trap_look(&trap);
    }
    bool wants_tag = (trap_previous[which].flags & KERNEL_SA_EXPOSE_TAGBITS) != 0;
    if (tags_are_on() && info->si_code > 0 && !wants_tag) {
        /* As the kernel does it: addresses at the upper end keep their ones. */
        info->si_addr = (void *)((intptr_t)(trap.address << 8) >> 8);
    }
    trap_pass_on(&trap_previous[which], number, info, context);
}

static void trap_handle(int number, siginfo_t *info, void *context)
{
    trap_come(TRAP_FIRST, number, info, context);
}

static void trap_handle_again(int number, siginfo_t *info, void *context)
{
    trap_come(TRAP_AGAIN, number, info, context);
}

/* Follows who is set now. A stack for signals is taken only by his wish: a report needs more than the 8 KiB that
 * those of Rust's threads have. */
static void trap_follow(int which, const struct kernel_action *now)
{
    struct kernel_action action = {.handler = which == TRAP_FIRST ? trap_handle : trap_handle_again,
                                   .flags = SA_SIGINFO};
#if defined(__x86_64__)
    action.flags |= KERNEL_SA_RESTORER;
    action.restorer = mw_trap_return;
#endif
    if (tags_are_on()) {
        action.flags |= KERNEL_SA_EXPOSE_TAGBITS;
    }
    trap_previous[which] = *now;
    if ((uintptr_t)now->handler > (uintptr_t)SIG_IGN) {
        action.mask = now->mask;
        action.flags |= now->flags & (unsigned long)(SA_NODEFER | SA_RESTART | SA_ONSTACK);
    }
    trap_set(&action, NULL);
}

static void trap_watch(void (*look)(const struct trap *trap))
{
    struct kernel_action now;
    trap_look = look;
    if (trap_set(NULL, &now) == 0) {
        trap_follow(TRAP_FIRST, &now);
    }
}

/* Java's machine reads what may not be there and handles the trap, as part of its work. What it does not
 * know it hands on to who was there before. */
static bool trap_comes_back_from(const struct kernel_action *action)
{
    return strstr(fault_place_of((uintptr_t)action->handler).file, "/libjvm.so") != NULL;
}

static COLD void trap_keep(void)
{
    struct kernel_action now;
    if (trap_look == NULL || !fault_is_reported() || atomic_get(&trap_is_kept) ||
        os_is_confined() || trap_set(NULL, &now) != 0 || now.handler == trap_handle) {
        return;
    }
    bool was_kept = false;
    if (atomic_replace(&trap_is_kept, &was_kept, true) && !trap_comes_back_from(&now)) {
        trap_follow(TRAP_AGAIN, &now);
    }
}
