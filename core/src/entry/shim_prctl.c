/* SPDX-License-Identifier: MIT
 *
 * prctl, by which a program that forbids itself system calls says so first: with PR_SET_NO_NEW_PRIVS, without
 * which only root may set a seccomp filter, or with PR_SET_SECCOMP. Such a filter knows the calls of the
 * libc's malloc, and may end the program for another; from then on ours makes no others. The strict mode
 * knows read, write and exit alone: small blocks of memory that is there need none there either.
 *
 * It may be called between vfork and exec, or by a signal's handler.
 */
#include "../os/os.h"
#include "../thread/strict.h"

#include <errno.h>

/* As in <linux/prctl.h>, which not every musl has beside it; <sys/prctl.h> declares prctl otherwise. */
#define CONFINED_SECCOMP 22           /* PR_SET_SECCOMP */
#define CONFINED_STRICT 1             /* SECCOMP_MODE_STRICT */
#define CONFINED_NO_NEW_PRIVILEGES 38 /* PR_SET_NO_NEW_PRIVS */

__attribute__((used)) static int watched_prctl(int option, unsigned long second,
                                               unsigned long third, unsigned long fourth,
                                               unsigned long fifth)
{
    if (option == CONFINED_NO_NEW_PRIVILEGES || option == CONFINED_SECCOMP) {
        os_note_confined();
    }
    bool becomes_strict = option == CONFINED_SECCOMP && second == CONFINED_STRICT;
    if (becomes_strict) {
        thread_note_strict(true);
    }
    int result = os_prctl(option, second, third, fourth, fifth);
    if (becomes_strict && result < 0) {
        thread_note_strict(false);
    }
    if (result < 0) {
        errno = -result;
        return -1;
    }
    return result;
}

int prctl(int option, unsigned long second, unsigned long third, unsigned long fourth,
          unsigned long fifth) PUBLIC_ALIAS(watched_prctl);

#undef CONFINED_SECCOMP
#undef CONFINED_STRICT
#undef CONFINED_NO_NEW_PRIVILEGES
