/* SPDX-License-Identifier: MIT
 *
 * A unit test stands between the allocator and the kernel, and makes up what the kernel says of
 * /etc/malloc.conf (that there is none), and of memory that is given back where a test asks for that.
 */
#ifndef TEST_KERNEL_H
#define TEST_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../real_call.h"
#include "../test.h"

static const char *link_text; /* what /etc/malloc.conf leads to; NULL: it is no link */
static const char *file_text; /* what is in it; NULL: there is none */
static bool is_secure;        /* the program is privileged */
static bool purges_ignored;   /* MADV_DONTNEED does nothing, with success */
static unsigned purges;
static bool mincore_refused; /* by a filter that answers EPERM */

static unsigned long test_getauxval(unsigned long type)
{
    return type == AT_SECURE ? is_secure : getauxval(type);
}

enum { CONF_FILE = 12345 };

static long open_conf(void)
{
    CHECK_MSG(file_text != NULL, "opened, though it is a link or does not exist");
    return CONF_FILE;
}

static long copy_out(const char *text, long to, long room)
{
    size_t length = strlen(text) < (size_t)room ? strlen(text) : (size_t)room;
    memcpy((void *)to, text, length);
    return (long)length;
}

static long test_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    bool names_conf = (number == SYS_readlinkat || number == SYS_openat) &&
                      !strcmp((const char *)b, "/etc/malloc.conf");
    if (names_conf && number == SYS_openat) {
        return open_conf();
    }
    if (names_conf) {
        return link_text != NULL   ? copy_out(link_text, c, d)
               : file_text != NULL ? -EINVAL
                                   : -ENOENT;
    }
    if (number == SYS_read && a == CONF_FILE) {
        long length = copy_out(file_text, b, c);
        file_text += length;
        return length;
    }
    if (number == SYS_close && a == CONF_FILE) {
        return 0;
    }
    if (number == SYS_madvise && c == MADV_DONTNEED) {
        purges++;
        if (purges_ignored) {
            return 0;
        }
    }
    if (number == SYS_mincore && mincore_refused) {
        return -EPERM;
    }
    return real_call(number, a, b, c, d, e, f);
}

#define getauxval test_getauxval

#endif
