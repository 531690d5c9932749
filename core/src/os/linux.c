/* SPDX-License-Identifier: MIT
 *
 * Linux: raw system calls, so that errno stays untouched and no libc function that a program might
 * have replaced is called.
 */
#include "os.h"
#include "syscall.h"
#include "../base/atomic.h"
#include "../base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <string.h>
#include <time.h>

#ifndef MADV_FREE
#define MADV_FREE 8
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* The kernel's numbers, for a libc that comes without the kernel's headers. */
#define FUTEX_PRIVATE 128
#define FUTEX_WAIT (0 | FUTEX_PRIVATE)
#define FUTEX_WAKE (1 | FUTEX_PRIVATE)

static void os_init(void)
{
    unsigned long size = getauxval(AT_PAGESZ);
    os_page_size = size != 0 ? size : 4096;
    os_page_shift = floor_log2(os_page_size);
    os_find_clock();
}

/* --- Memory ---------------------------------------------------------------------------------- */

/* What the mapping functions ask of their callers, see os.h. */
ALWAYS_INLINE bool is_of_pages(const void *start, size_t size)
{
    return size != 0 && (((uintptr_t)start | size) & (os_page_size - 1)) == 0 &&
           (uintptr_t)start + size > (uintptr_t)start;
}

/* A call about memory: where the thread may make none, it fails as if the kernel refused. */
ALWAYS_INLINE long memory_call(long number, long start, long size, long a, long b, long c, long d)
{
    return os_refuses_changes() ? -EPERM : system_call(number, start, size, a, b, c, d);
}

#ifndef PROT_MTE
#define PROT_MTE 0x20 /* aarch64's */
#endif

/* What the program's memory may be used for. */
ALWAYS_INLINE int access_of_memory(void)
{
    return PROT_READ | PROT_WRITE | (MW_TAGS && os_maps_tagged ? PROT_MTE : 0);
}

/* The smallest huge page of any processor here. */
#define HUGE_PAGE_MIN (2 * MiB)

static void *os_map(void *hint, size_t size)
{
    check(is_of_pages(NULL, size));
    long address = memory_call(SYS_mmap, (long)hint, (long)size, access_of_memory(),
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (is_error(address)) {
        return NULL;
    }
    atomic_add(&os_counts.maps, 1);
    if (unlikely(os_refuses_huge_pages) && size >= HUGE_PAGE_MIN) {
        memory_call(SYS_madvise, address, (long)size, MADV_NOHUGEPAGE, 0, 0, 0);
    }
    return (void *)address;
}

static bool os_asks_for_huge_pages(size_t size)
{
    return os_wants_huge_pages && size >= HUGE_PAGE_MIN;
}

/* The kernel is asked for huge pages where that is wished; returns `start`. */
static void *ask_for_huge_pages(char *start, size_t size)
{
    if (unlikely(os_asks_for_huge_pages(size))) {
        memory_call(SYS_madvise, (long)start, (long)size, MADV_HUGEPAGE, 0, 0, 0);
    }
    return start;
}

static bool os_ask_for_huge_pages(void *start, size_t size)
{
    check(is_of_pages(start, size));
    return !os_refuses_huge_pages &&
           !is_error(memory_call(SYS_madvise, (long)start, (long)size, MADV_HUGEPAGE, 0, 0, 0));
}

static void os_refuse_huge_pages(void *start, size_t size)
{
    check(is_of_pages(start, size));
    memory_call(SYS_madvise, (long)start, (long)size, MADV_NOHUGEPAGE, 0, 0, 0);
}

/* Address space alone, without access, which the kernel does not hold against the memory that there is. */
static char *reserve_space(size_t size)
{
    long address =
        memory_call(SYS_mmap, 0, (long)size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return is_error(address) ? NULL : (char *)address;
}

static void *os_map_aligned(void *hint, size_t size, size_t alignment)
{
    check(is_power_of_two(alignment) && alignment >= os_page_size);
    /* Most often the hint fits, and nothing has to be cut off. */
    char *start = os_map(hint, size);
    if (start == NULL) {
        return NULL;
    }
    if (((uintptr_t)start & (alignment - 1)) == 0) {
        return ask_for_huge_pages(start, size);
    }
    os_unmap(start, size);

    size_t padded = size + alignment - os_page_size;
    if (padded < size) {
        return NULL;
    }
    start = os_map(NULL, padded);
    bool is_reserved = start == NULL; /* perhaps for an alignment that is more than all memory */
    if (is_reserved) {
        start = reserve_space(padded);
    }
    if (start == NULL) {
        return NULL;
    }
    char *aligned = (char *)align_up((uintptr_t)start, alignment);
    if (aligned != start) {
        os_unmap(start, (size_t)(aligned - start));
    }
    size_t behind = (size_t)(start + padded - (aligned + size));
    if (behind != 0) {
        os_unmap(aligned + size, behind);
    }
    if (is_reserved && !os_make_writable(aligned, size)) {
        os_unmap(aligned, size);
        return NULL;
    }
    return ask_for_huge_pages(aligned, size);
}

static bool os_protect(void *start, size_t size)
{
    check(is_of_pages(start, size));
    return !is_error(memory_call(SYS_mprotect, (long)start, (long)size, PROT_NONE, 0, 0, 0));
}

static bool make_accessible(void *start, size_t size, int access)
{
    check(is_of_pages(start, size));
    return !is_error(memory_call(SYS_mprotect, (long)start, (long)size, access, 0, 0, 0));
}

/* The memory of a file has no tags. */
static bool os_make_writable(void *start, size_t size)
{
    return make_accessible(start, size, access_of_memory()) ||
           (MW_TAGS && os_maps_tagged && make_accessible(start, size, PROT_READ | PROT_WRITE));
}

static bool os_make_readonly(void *start, size_t size)
{
    return make_accessible(start, size, PROT_READ);
}

static bool os_unmap(void *start, size_t size)
{
    check(is_of_pages(start, size));
    if (is_error(memory_call(SYS_munmap, (long)start, (long)size, 0, 0, 0, 0))) {
        return false;
    }
    atomic_add(&os_counts.unmaps, 1);
    return true;
}

/* Whether MADV_DONTNEED clears. qemu-user before 7.1 ignores it and reports success; container builds
 * for other processors run there. A seccomp filter may do the same, and come at any time: a program that may have set
 * itself one asks each time. */
enum { PURGE_UNKNOWN, PURGE_CLEARS, PURGE_IS_IGNORED };
static _Atomic uint8_t purge_answer;

static bool os_map_over(void *start, size_t size)
{
    return memory_call(SYS_mmap, (long)start, (long)size, access_of_memory(),
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)start;
}

static bool os_copy_over(void *start, size_t size)
{
    check(is_of_pages(start, size));
    void *copy = os_map(NULL, size);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, start, size);
    if (memory_call(SYS_mremap, (long)copy, (long)size, (long)size, MREMAP_MAYMOVE | MREMAP_FIXED,
                    (long)start, 0) != (long)start) {
        os_unmap(copy, size);
        return false;
    }
    return true;
}

static bool os_purge(void *start, size_t size)
{
    check(is_of_pages(start, size));
    uint8_t answer = atomic_get(&purge_answer);
    if (unlikely(answer == PURGE_IS_IGNORED)) {
        return os_map_over(start, size);
    }
    bool asks = answer == PURGE_UNKNOWN || os_is_confined();
    volatile char *byte = start;
    char before = 0;
    if (unlikely(asks)) {
        before = *byte;
        *byte = 1;
    }
    if (is_error(memory_call(SYS_madvise, (long)start, (long)size, MADV_DONTNEED, 0, 0, 0))) {
        if (unlikely(asks)) {
            *byte = before;
        }
        return false;
    }
    if (unlikely(asks)) {
        bool clears = *byte == 0;
        atomic_set(&purge_answer, clears ? PURGE_CLEARS : PURGE_IS_IGNORED);
        return clears || os_map_over(start, size);
    }
    return true;
}

static bool os_purge_lazy(void *start, size_t size)
{
    check(is_of_pages(start, size));
    return !is_error(memory_call(SYS_madvise, (long)start, (long)size, MADV_FREE, 0, 0, 0));
}

static void *os_remap(void *start, size_t old_size, size_t new_size)
{
    check(is_of_pages(start, old_size) && is_of_pages(start, new_size));
    long address =
        memory_call(SYS_mremap, (long)start, (long)old_size, (long)new_size, MREMAP_MAYMOVE, 0, 0);
    if (is_error(address)) {
        return NULL;
    }
    atomic_add(&os_counts.remaps, 1);
    return (void *)address;
}

/* Whether what runs this program takes the place that os_move_pages leaves for unmapped. qemu-user
 * 7.2 does: what it carries out itself there (a clearing by DC ZVA, a buffer of a system call)
 * faults. A write to no descriptor tells: the kernel looks at the descriptor first. */
enum { MOVE_UNKNOWN, MOVE_LEAVES_PAGES, MOVE_IS_FORGOTTEN };
static _Atomic uint8_t move_answer;

static uint8_t move_ask(void *left)
{
    bool faults = system_call(SYS_write, -1, (long)left, 1, 0, 0, 0) == -EFAULT;
    return faults ? MOVE_IS_FORGOTTEN : MOVE_LEAVES_PAGES;
}

static void *os_move_pages(void *start, size_t size)
{
    check(is_of_pages(start, size));
    long address = memory_call(SYS_mremap, (long)start, (long)size, (long)size,
                               MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0, 0);
    if (is_error(address)) {
        return NULL;
    }
    atomic_add(&os_counts.remaps, 1);
    if (unlikely(atomic_get(&move_answer) == MOVE_UNKNOWN)) {
        atomic_set(&move_answer, move_ask(start));
    }
    if (unlikely(atomic_get(&move_answer) == MOVE_IS_FORGOTTEN)) {
        os_map_over(start, size);
    }
    return (void *)address;
}

/* By a seccomp filter, perhaps. */
static _Atomic bool is_confined;

static bool os_is_confined(void)
{
    return atomic_get(&is_confined);
}

/* A filter that answers, and does not end the program, says nothing of other calls. */
static _Atomic bool is_mincore_refused;

static bool os_tells_resident(void)
{
    return !os_is_confined() && !atomic_get(&is_mincore_refused);
}

static size_t os_resident_pages(void *start, size_t pages)
{
    if (!os_tells_resident()) {
        return pages;
    }
    check(pages <= OS_RESIDENT_MAX && is_of_pages(start, pages << os_page_shift));
    /* An emulator of larger pages answers for each of the host's 4 KiB. */
    unsigned char is_resident[OS_RESIDENT_MAX * (64 * KiB / (4 * KiB))];
    long answer = memory_call(SYS_mincore, (long)start, (long)(pages << os_page_shift),
                              (long)is_resident, 0, 0, 0);
    if (is_error(answer)) {
        if (answer == -EPERM || answer == -ENOSYS) {
            atomic_set(&is_mincore_refused, true);
        }
        return pages;
    }
    size_t count = 0;
    for (size_t i = 0; i < pages; i++) {
        count += is_resident[i] & 1;
    }
    return count;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

/* Of who may not sleep, between two looks at the time: loads, which do not take the line from who writes it. */
#define STRICT_LOOKS 100u

/* Waits without a call: a few looks at the word, or until the time has passed. */
static void os_look(const void *word, uint32_t expected, uint32_t timeout_ms)
{
    uint64_t end_ms = os_now_ms() + timeout_ms;
    do {
        for (unsigned i = 0; i < STRICT_LOOKS; i++) {
            if (atomic_get((const _Atomic uint32_t *)word) != expected) {
                return;
            }
            cpu_relax();
        }
    } while (os_now_ms() < end_ms);
}

static void os_wait(void *word, uint32_t expected, uint32_t timeout_ms)
{
    if (os_refuses_changes()) {
        os_look(word, expected, timeout_ms);
        return;
    }
    struct timespec timeout = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
    system_call(SYS_futex, (long)word, FUTEX_WAIT, (long)expected,
                timeout_ms != 0 ? (long)&timeout : 0, 0, 0);
}

static void os_nap(uint32_t ms)
{
    static uint32_t never_changes;
    check(ms != 0);
    os_wait(&never_changes, 0, ms);
}

static void os_wake_one(void *word)
{
    if (os_refuses_changes()) {
        return;
    }
    system_call(SYS_futex, (long)word, FUTEX_WAKE, 1, 0, 0, 0);
}

/* --- Files and the end ----------------------------------------------------------------------- */

static uint64_t os_set_signal_mask(uint64_t mask)
{
    uint64_t old = 0;
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)&old, sizeof mask, 0, 0);
    return old;
}

static void os_note_confined(void)
{
    atomic_set(&is_confined, true);
}

static int os_prctl(int option, unsigned long second, unsigned long third, unsigned long fourth,
                    unsigned long fifth)
{
    return (int)system_call(SYS_prctl, option, (long)second, (long)third, (long)fourth, (long)fifth,
                            0);
}

static bool os_random(void *buffer, size_t size)
{
    const long no_wait = 1; /* GRND_NONBLOCK */
    return system_call(SYS_getrandom, (long)buffer, (long)size, no_wait, 0, 0, 0) == (long)size;
}

static void os_write(int fd, const char *text, size_t size)
{
    while (size > 0) {
        long written = system_call(SYS_write, fd, (long)text, (long)size, 0, 0, 0);
        if (written == -EINTR) {
            continue;
        }
        if (is_error(written) || written == 0) {
            return;
        }
        text += written;
        size -= (size_t)written;
    }
}

static struct os_file os_file_of(int fd)
{
    struct stat status; /* on these processors the libcs' is the kernel's */
    if (is_error(system_call(SYS_fstat, fd, (long)&status, 0, 0, 0, 0))) {
        return (struct os_file){0, 0};
    }
    return (struct os_file){status.st_dev, status.st_ino};
}

static long os_read_file(const char *path, char *buffer, size_t size)
{
    /* Of a pipe nobody may ever have the other end. */
    long fd =
        system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
    if (is_error(fd)) {
        return fd;
    }
    size_t used = 0;
    while (used < size - 1) {
        long got =
            system_call(SYS_read, fd, (long)(buffer + used), (long)(size - 1 - used), 0, 0, 0);
        if (got == -EINTR) {
            continue;
        }
        if (is_error(got) || got == 0) {
            break;
        }
        used += (size_t)got;
    }
    system_call(SYS_close, fd, 0, 0, 0, 0, 0);
    buffer[used] = 0;
    return (long)used;
}

static void os_read_lines(const char *path, void (*line)(void *context, char *text), void *context)
{
    char text[1024];
    size_t used = 0;
    bool is_cut = false;
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (is_error(fd)) {
        return;
    }
    for (;;) {
        long got =
            system_call(SYS_read, fd, (long)(text + used), (long)(sizeof text - 1 - used), 0, 0, 0);
        if (got == -EINTR) {
            continue;
        }
        if (is_error(got) || got == 0) {
            break;
        }
        used += (size_t)got;
        char *at = text;
        for (char *end; (end = memchr(at, '\n', used - (size_t)(at - text))) != NULL;
             at = end + 1) {
            *end = 0;
            if (!is_cut) {
                line(context, at);
            }
            is_cut = false;
        }
        used -= (size_t)(at - text);
        memmove(text, at, used);
        if (used == sizeof text - 1) { /* the rest of the line is passed over */
            text[used] = 0;
            if (!is_cut) {
                line(context, text);
            }
            is_cut = true;
            used = 0;
        }
    }
    system_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static int os_open_to_append(const char *path)
{
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path,
                          O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600, 0, 0);
    return is_error(fd) ? -1 : (int)fd;
}

static int os_process_number(void)
{
    return (int)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static int os_thread_number(void)
{
    return (int)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static bool os_read_memory(const void *address, void *buffer, size_t size)
{
    struct {
        void *start;
        size_t size;
    } ours = {buffer, size}, theirs = {(void *)(uintptr_t)address, size};
    /* By this thread: the first one may have ended, and then the process has no memory by its number. */
    return system_call(SYS_process_vm_readv, os_thread_number(), (long)&ours, 1, (long)&theirs, 1,
                       0) == (long)size;
}

static long os_read_link_or_file(const char *path, char *buffer, size_t size)
{
    long length =
        system_call(SYS_readlinkat, AT_FDCWD, (long)path, (long)buffer, (long)(size - 1), 0, 0);
    if (length == -EINVAL) {
        return os_read_file(path, buffer, size);
    }
    if (is_error(length)) {
        return -1;
    }
    buffer[length] = 0;
    return length;
}

/* SIGABRT by hand: the libc's abort() may take locks and allocate. */
static void send_abort(void)
{
    long pid = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    long tid = system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
    uint64_t abort_only = (uint64_t)1 << (SIGABRT - 1);
    system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&abort_only, 0, sizeof abort_only, 0, 0);
    system_call(SYS_tgkill, pid, tid, SIGABRT, 0, 0, 0);
}

_Noreturn static void os_abort(void)
{
    /* First as the program wants it: a handler may log. */
    send_abort();
    os_abort_unhandled();
}

_Noreturn static void os_abort_unhandled(void)
{
    uint64_t default_action[4] = {0, 0, 0, 0}; /* which cannot be refused */
    system_call(SYS_rt_sigaction, SIGABRT, (long)default_action, 0, sizeof(uint64_t), 0, 0);
    send_abort();
    for (;;) {
        system_call(SYS_exit_group, 127, 0, 0, 0, 0, 0);
    }
}

/* --- Threads --------------------------------------------------------------------------------- */

static void *os_thread_id(void)
{
    return (void *)thread_pointer();
}
