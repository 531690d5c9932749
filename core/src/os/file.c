/* SPDX-License-Identifier: MIT
 *
 * Files, by raw system calls: errno stays as it is.
 */
#include "os.h"
#include "syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

static int os_open_to_read(const char *path)
{
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    return is_error(fd) ? -1 : (int)fd;
}

static bool os_close(int fd)
{
    return !is_error(system_call(SYS_close, fd, 0, 0, 0, 0, 0));
}

static bool os_read_at(int fd, size_t offset, void *buffer, size_t size)
{
    char *to = buffer;
    while (size > 0) {
        long got = system_call(SYS_pread64, fd, (long)to, (long)size, (long)offset, 0, 0);
        if (got == -EINTR) {
            continue;
        }
        if (is_error(got) || got == 0) {
            return false;
        }
        to += got;
        offset += (size_t)got;
        size -= (size_t)got;
    }
    return true;
}
