/* SPDX-License-Identifier: MIT
 *
 * The environment, without the libc's getenv, which a program may have replaced. Inside a libc too.
 */
#include "os.h"

#include <string.h>
#include <sys/auxv.h>

extern char **environ;

/* What stands behind "name=" at the start of `entry`; NULL if that is another variable. */
static const char *value_of(const char *entry, const char *name)
{
    while (*name != 0 && *entry == *name) {
        entry++;
        name++;
    }
    return *name == 0 && *entry == '=' ? entry + 1 : NULL;
}

static const char *libc_getenv(const char *name, char *buffer, size_t size)
{
    if (getauxval(AT_SECURE) != 0) {
        return NULL;
    }
    const char *value = NULL;
    if (environ != NULL) {
        for (char **entry = environ; *entry != NULL && value == NULL; entry++) {
            value = value_of(*entry, name);
        }
        return value;
    }
    /* The loader allocates before the libc has set environ. */
    long used = os_read_file("/proc/self/environ", buffer, size);
    for (long at = 0; at < used && value == NULL; at += (long)strlen(buffer + at) + 1) {
        value = value_of(buffer + at, name);
    }
    return value;
}
