/* SPDX-License-Identifier: MIT
 *
 * Files, by raw system calls: errno stays as it is.
 */
#include "os.h"
#include "syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static int os_open_to_read(const char *path)
{
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    return is_error(fd) ? -1 : (int)fd;
}

static int os_create_file(const char *path)
{
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path,
                          O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644, 0, 0);
    return (int)fd;
}

static void os_empty_file(int fd)
{
    system_call(SYS_ftruncate, fd, 0, 0, 0, 0, 0);
}

static bool os_close(int fd)
{
    return !is_error(system_call(SYS_close, fd, 0, 0, 0, 0, 0));
}

static long os_read_some(int fd, char *buffer, size_t size)
{
    for (;;) {
        long got = system_call(SYS_read, fd, (long)buffer, (long)size, 0, 0, 0);
        if (got != -EINTR) {
            return got;
        }
    }
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

static void *os_map_shared(const char *path, size_t size)
{
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC | O_NOCTTY, 0, 0, 0);
    if (is_error(fd)) {
        return NULL;
    }
    char last;
    long address = -1;
    if (os_read_at((int)fd, size - 1, &last, 1)) { /* what is not there would trap */
        address = system_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    os_close((int)fd);
    return is_error(address) ? NULL : (void *)address;
}

static int os_write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        long written = system_call(SYS_write, fd, (long)text, (long)size, 0, 0, 0);
        if (written == -EINTR) {
            continue;
        }
        if (is_error(written) || written == 0) {
            return written == 0 ? EIO : (int)-written;
        }
        text += written;
        size -= (size_t)written;
    }
    return 0;
}

static int os_wait_to_write(int fd, uint32_t timeout_ms)
{
    if (os_is_confined() || os_refuses_changes()) {
        return -1;
    }
    long answer;
    uint64_t end_ms = os_now_ms() + timeout_ms;
    do {
        uint64_t now_ms = os_now_ms();
        uint32_t left_ms = now_ms < end_ms ? (uint32_t)(end_ms - now_ms) : 0;
        struct timespec left = {left_ms / 1000, (long)(left_ms % 1000) * 1000000};
        struct pollfd asked = {.fd = fd, .events = POLLOUT};
        answer = system_call(SYS_ppoll, (long)&asked, 1, (long)&left, 0, 0, 0);
    } while (answer == -EINTR);
    return (int)answer;
}

static void os_lock_file(int fd)
{
    for (unsigned tries = 0; tries < 200; tries++) {
        if (system_call(SYS_flock, fd, LOCK_EX | LOCK_NB, 0, 0, 0, 0) != -EWOULDBLOCK) {
            return;
        }
        os_nap(5);
    }
}

static void os_unlock_file(int fd)
{
    system_call(SYS_flock, fd, LOCK_UN, 0, 0, 0, 0);
}

_Noreturn static void os_exit(int status)
{
    for (;;) {
        system_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
    }
}
