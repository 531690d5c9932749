/* SPDX-License-Identifier: MIT
 *
 * Pages without access: marks of the kernel (Linux 6.13), or mappings of their own; and whether there is access.
 * Follows linux.c.
 */
#include "os.h"
#include "syscall.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Advice that no kernel knows. Who accepts it reports success for guards that are not there, as qemu-user does. To read
 * through a guard would show the same, but ends valgrind, which reads the arguments of calls itself. */
#define MADV_OF_NOBODY 0x6d77

/* A seccomp filter may refuse to take marks away, and may come at any time: from then on none are made. */
enum marks_answer { MARKS_UNKNOWN, MARKS_ARE_MADE, MARKS_ARE_REFUSED };
static _Atomic(enum marks_answer) marks_answer;

static bool advise(void *start, size_t size, int advice)
{
    return !is_error(memory_call(SYS_madvise, (long)start, (long)size, advice, 0, 0, 0));
}

/* Whether a filter that the program has set itself reports success for advice that the kernel never gets: marks that
 * were made before are there for good. */
static bool success_is_faked(void *start, size_t size)
{
    bool is_faked = os_is_confined() && advise(start, size, MADV_OF_NOBODY);
    if (unlikely(is_faked)) {
        atomic_set(&marks_answer, MARKS_ARE_REFUSED);
    }
    return is_faked;
}

static bool unmark(void *start, size_t size)
{
    bool done = advise(start, size, MADV_GUARD_REMOVE) && !success_is_faked(start, size);
    if (unlikely(!done) && !os_refuses_changes()) {
        atomic_set(&marks_answer, MARKS_ARE_REFUSED);
    }
    return done;
}

/* Whether these pages, without marks so far, may get some. */
static bool makes_marks(void *start, size_t size)
{
    enum marks_answer answer = atomic_get(&marks_answer);
    if (unlikely(answer == MARKS_UNKNOWN)) {
        bool can_be_undone = !advise(start, size, MADV_OF_NOBODY) && unmark(start, size);
        enum marks_answer before = MARKS_UNKNOWN;
        answer = can_be_undone ? MARKS_ARE_MADE : MARKS_ARE_REFUSED;
        /* Another thread may have been refused meanwhile. */
        answer = atomic_replace(&marks_answer, &before, answer) ? answer : before;
    }
    return answer == MARKS_ARE_MADE && !success_is_faked(start, size);
}

static unsigned os_guard(void *start, size_t size)
{
    check(is_of_pages(start, size));
    if (os_refuses_changes()) {
        return 0;
    }
    unsigned marks = makes_marks(start, size) ? GUARD_MARKED : 0;
    if (marks != 0 && advise(start, size, MADV_GUARD_INSTALL)) {
        return marks;
    }
    /* The kernel also refuses for memory that the program has locked, and may have marked what is in front of it. */
    if (marks != 0 && unmark(start, size)) {
        marks = 0;
    }
    if (!os_protect(start, size)) {
        os_make_writable(start, size); /* it may have changed the first of several mappings */
        return marks;
    }
    advise(start, size, MADV_DONTNEED);
    return marks | GUARD_PROTECTED;
}

static bool os_unguard(void *start, size_t size, unsigned ways)
{
    check(is_of_pages(start, size));
    return ((ways & GUARD_MARKED) == 0 || unmark(start, size)) &&
           ((ways & GUARD_PROTECTED) == 0 || os_make_writable(start, size));
}

/* --- Whether memory can be read --------------------------------------------------------------- */

/* Advice to read a page in (Linux 5.14) fails where it cannot be read. */
static bool page_is_read_in(uintptr_t address)
{
    void *page = (void *)(address & ~(uintptr_t)(os_page_size - 1));
    return advise(page, os_page_size, MADV_POPULATE_READ) &&
           !advise(page, os_page_size, MADV_OF_NOBODY);
}

/* The kernel reads the set of signals before it finds that there is no such way to use it. Another answer is that of a
 * filter; then the word is waited for, for no time. valgrind takes that for the program's error. */
static bool os_is_readable(uintptr_t address)
{
    check(address % 8 == 0);
    if (os_refuses_changes()) {
        return false;
    }
    if (unlikely(os_is_confined())) {
        return page_is_read_in(address);
    }
    long answer = system_call(SYS_rt_sigprocmask, -1, (long)address, 0, 8, 0, 0);
    if (unlikely(answer != -EINVAL && answer != -EFAULT)) {
        struct timespec none = {0, 0};
        answer = system_call(SYS_futex, (long)address, FUTEX_WAIT, 0, (long)&none, 0, 0);
        return answer == -EAGAIN || answer == -ETIMEDOUT;
    }
    return answer == -EINVAL;
}
