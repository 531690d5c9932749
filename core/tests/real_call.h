/* SPDX-License-Identifier: MIT
 *
 * What a test that stands between the allocator and the kernel (MW_TEST_SYSCALLS) lets through.
 */
#ifndef TEST_REAL_CALL_H
#define TEST_REAL_CALL_H

#include <errno.h>
#include <unistd.h>

/* As the allocator expects it: an error is a negative number, and errno stays. */
static inline long real_call(long number, long a, long b, long c, long d, long e, long f)
{
    int saved = errno;
    long result = syscall(number, a, b, c, d, e, f);
    result = result == -1 ? -errno : result;
    errno = saved;
    return result;
}

#endif
