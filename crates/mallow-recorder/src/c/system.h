/* SPDX-License-Identifier: MIT
 *
 * System calls, made without libc: errno stays as it is, and nothing that a program may have
 * replaced is called.
 */
#ifndef RECORDER_SYSTEM_H
#define RECORDER_SYSTEM_H

#include <os/syscall.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

ALWAYS_INLINE uint64_t read_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

/* Of the counter, some microseconds: it counts 2 to 4 times a nanosecond, or on aarch64 once in 1 to 40. */
#if defined(__x86_64__)
#define QUICK_TICKS ((uint64_t)1 << 13)
#else
#define QUICK_TICKS ((uint64_t)1 << 7)
#endif

#define FUTEX_WAKE_SHARED 1
#define MADVISE_DONTFORK 10
#define MADVISE_WIPEONFORK 18
#define PRCTL_GET_NAME 16

ALWAYS_INLINE void *system_map(size_t size, int flags, int fd, uint64_t offset)
{
    long result =
        system_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, flags, fd, (long)offset);
    return is_error(result) ? NULL : (void *)result;
}

/* A further mapping of the file that is mapped shared at `start`, from the same place on; NULL on errors. */
ALWAYS_INLINE void *system_map_again(void *start, size_t size)
{
    long result = system_call(SYS_mremap, (long)start, 0, (long)size, MREMAP_MAYMOVE, 0, 0);
    return is_error(result) ? NULL : (void *)result;
}

ALWAYS_INLINE void system_unmap(void *start, size_t size)
{
    system_call(SYS_munmap, (long)start, (long)size, 0, 0, 0, 0);
}

ALWAYS_INLINE bool system_advise(void *start, size_t size, int advice)
{
    return !is_error(system_call(SYS_madvise, (long)start, (long)size, advice, 0, 0, 0));
}

ALWAYS_INLINE int system_open(const char *path, int flags)
{
    return (int)system_call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0, 0);
}

ALWAYS_INLINE void system_close(int fd)
{
    system_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

ALWAYS_INLINE bool system_stat(int fd, struct stat *about)
{
    return !is_error(system_call(SYS_fstat, fd, (long)about, 0, 0, 0, 0));
}

/* 0 at the end of the file and on errors. */
ALWAYS_INLINE size_t system_read(int fd, void *buffer, size_t size)
{
    long got;
    do {
        got = system_call(SYS_read, fd, (long)buffer, (long)size, 0, 0, 0);
    } while (got == -4); /* EINTR */
    return is_error(got) ? 0 : (size_t)got;
}

ALWAYS_INLINE uint32_t system_pid(void)
{
    return (uint32_t)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

ALWAYS_INLINE uint32_t system_tid(void)
{
    return (uint32_t)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

ALWAYS_INLINE void system_sleep_us(long us)
{
    struct timespec time = {.tv_sec = 0, .tv_nsec = us * 1000};
    system_call(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
}

/* Monotonic. */
ALWAYS_INLINE uint64_t system_time_ns(void)
{
    struct timespec time = {0};
    system_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* As much of a file as fits. */
static size_t system_read_file(const char *path, char *buffer, size_t size)
{
    int fd = system_open(path, O_RDONLY);
    if (fd < 0) {
        return 0;
    }
    size_t used = 0;
    for (size_t got = 1; got != 0 && used < size; used += got) {
        got = system_read(fd, buffer + used, size - used);
    }
    system_close(fd);
    return used;
}

#endif
