/* SPDX-License-Identifier: MIT
 *
 * The contract with the kernel and with the two C libraries. Nothing above this layer makes a
 * system call or names a function of a libc, except memcpy, memmove and memset.
 *
 * Sizes and addresses given to the mapping functions are multiples of the page size. Functions
 * that may fail return NULL or false and leave errno alone.
 */
#ifndef MALLOW_OS_H
#define MALLOW_OS_H

#include "../base/atomic.h"
#include "../base/base.h"

/* --- Facts about the system, constant after os_init ------------------------------------------ */

static size_t os_page_size;    /* bytes */
static unsigned os_page_shift; /* log2 of it */

static void os_init(void);

/* Part of os_init: where the time is read without entering the kernel. */
static void os_find_clock(void);

/* CPUs that this process may use: its affinity as it was at first or, where that has many, the least quota of now of its
 * cgroup and of those around it (cpu.max; cpu.cfs_quota_us in version 1) if that is less. */
static unsigned os_cpu_count(void);

/* The number of the CPU that the calling thread is on; -1 if the kernel does not say, or is not asked since it may
 * end the program for that. */
static int os_cpu_now(void);

/* What the cgroups of this process say of memory. */
struct memory_of_group {
    size_t
        limit; /* bytes: the least limit of its own and of those around it, of version 2 (memory.max,
                     memory.high) or 1; SIZE_MAX: none */
    size_t
        room; /* bytes: the least that one of these limits leaves, with what the kernel keeps of files,
                    which it can drop; SIZE_MAX: not known */
    unsigned pressure_percent; /* of the last ten seconds: some thread waited for memory (PSI) */
    bool is_seen;              /* some cgroup can be looked at, if only one without a limit */
    bool is_cut;               /* not all could be read: there may be lower limits */
};

/* Reads several files. */
static struct memory_of_group os_cgroup_memory(void);

/* Tells threads apart: the thread pointer, which is even. */
static void *os_thread_id(void);

/* Whether large mappings are to stay without transparent huge pages; set before the first is made. */
static bool os_refuses_huge_pages;

/* Whether the kernel is asked for them, for blocks of the program; set at the same time. */
static bool os_wants_huge_pages;

/* Whether that is done for a mapping of so many bytes when it is made. */
static bool os_asks_for_huge_pages(size_t size);

/* Asks the kernel for huge pages in a range, unless they are refused. Returns whether it will. */
static bool os_ask_for_huge_pages(void *start, size_t size);

/* Tells the kernel to make no huge pages in a range from now on; those that are there stay. */
static void os_refuse_huge_pages(void *start, size_t size);

/* Whether mappings are made such that their memory can have tags; see tags.h. */
static bool os_maps_tagged;

/* --- What is const after the start ------------------------------------------------------------ */

#if MW_SEALS
#define SEALED IN_RELRO
#else
#define SEALED
#endif

/* What is marked SEALED can be written between these two alone, before there is a second thread. */
static void seal_open(void);
static void seal_close(void);

/* --- Memory ---------------------------------------------------------------------------------- */

/* Calls that the kernel has carried out, since the start of the process. In a line of their own: what lies beside
 * them all threads read. */
static struct {
    _Atomic uint64_t maps;
    _Atomic uint64_t unmaps;
    _Atomic uint64_t remaps;
} __attribute__((aligned(CACHE_LINE))) os_counts;

/* New zero pages, readable and writable, at `hint` if that is free. */
static void *os_map(void *hint, size_t size);

/* As os_map, at a multiple of `alignment` (a power of two), for blocks of the program. */
static void *os_map_aligned(void *hint, size_t size, size_t alignment);

/* Takes all access away, for guard pages. False if the kernel refused. */
static bool os_protect(void *start, size_t size);

/* Where the memory is a private mapping of a file, what is written becomes the process's own. */
UNUSED static bool os_make_writable(void *start, size_t size);
UNUSED static bool os_make_readonly(void *start, size_t size);

/* Ways in which pages can be without access: as marks in the page tables, which cost no mapping and
 * give the memory back (Linux 6.13), or as a mapping of their own. */
enum { GUARD_MARKED = 1, GUARD_PROTECTED = 2 };

/* Takes all access away from pages whose content is no longer wanted, and the memory if that is
 * possible. Returns how it was done, 0 if the kernel refused: then there is access. os_unguard undoes the ways in a
 * set; false if the kernel refused: then there may be no access to some. */
static unsigned os_guard(void *start, size_t size);
static bool os_unguard(void *start, size_t size, unsigned ways);

/* New zero pages in the place of old ones, which may be without access. */
static bool os_map_over(void *start, size_t size);

/* New pages with the same bytes in the place of old ones, which can be read. False if the kernel refused. */
UNUSED static bool os_copy_over(void *start, size_t size);

/* False if the kernel refused: it has no room for one more mapping. Then nothing has changed. */
static bool os_unmap(void *start, size_t size);

/* Gives the pages back at once; they read as zero afterwards. False if the kernel refused: then they are as before. */
static bool os_purge(void *start, size_t size);

/* Lets the kernel take the pages when it wants to; content undefined. False if not supported. */
static bool os_purge_lazy(void *start, size_t size);

/* Grows or shrinks a mapping, moving it if need be: page tables move, bytes do not. */
static void *os_remap(void *start, size_t old_size, size_t new_size);

/* Moves the pages of a part of a mapping into a new mapping; the old place stays mapped and reads
 * as zero. NULL if the kernel cannot (before Linux 5.7). */
static void *os_move_pages(void *start, size_t size);

/* How many of at most OS_RESIDENT_MAX pages are resident; all of them if the kernel does not
 * say, or is not asked since it may end the program for that. */
#define OS_RESIDENT_MAX 64u
static size_t os_resident_pages(void *start, size_t pages);

/* Whether the kernel is asked, and said so when it was asked last. */
static bool os_tells_resident(void);

/* Whether the 8 bytes at an address, a multiple of 8, can be read: a question to the kernel. False where it is not asked
 * since it may end the program for that, or does not say. */
static bool os_is_readable(uintptr_t address);

/* --- Time, waiting, input and output --------------------------------------------------------- */

/* Milliseconds of a clock that never runs backwards, with a resolution of a few of them. Another library's
 * clock_gettime has no say in it. */
static uint64_t os_now_ms(void);

/* Nanoseconds of the same clock, exactly; to some milliseconds in a thread in the strict mode of seccomp. */
static uint64_t os_now_ns(void);

/* Sleeps while *word == expected, until a wake or, with timeout_ms != 0, at most that long. It may return for no
 * reason. A thread in the strict mode of seccomp looks instead, for a moment or as long, and wakes nobody: whoever may
 * wait for one (os_some_are_strict) gives a time. */
static void os_wait(void *word, uint32_t expected, uint32_t timeout_ms);
static void os_wake_one(void *word);

/* Sleeps for so long, or until a signal comes. */
static void os_nap(uint32_t ms);

/* Fills the buffer with the kernel's random bytes. False if it has none, or refuses. */
static bool os_random(void *buffer, size_t size);

static void os_write(int fd, const char *text, size_t size);

/* Waits until something can be written at once, or writing fails: 1; 0 if that takes longer. Below 0 where the kernel
 * does not say, or is not asked since it may end the program for that. */
static int os_wait_to_write(int fd, uint32_t timeout_ms);

/* What a descriptor stands for: equal for two only if they are the same file. All zeros if
 * closed. */
struct os_file {
    uint64_t device;
    uint64_t inode;
};

static struct os_file os_file_of(int fd);

/* Reads at most size - 1 bytes of a file and ends them with 0. Returns the bytes read or, if the file cannot be opened,
 * an error number, negated. */
static long os_read_file(const char *path, char *buffer, size_t size);

/* The same of the text that a symbolic link leads to; of the file itself where it is no link. */
static long os_read_link_or_file(const char *path, char *buffer, size_t size);

/* Calls `line` for each line of a file, which it may change; lines are cut to what the stack holds. */
static void os_read_lines(const char *path, void (*line)(void *context, char *text), void *context);

/* A file to write behind its end; below 0 if it cannot be opened. */
static int os_open_to_append(const char *path);

/* The first bytes of a file, which who else maps it shares; NULL if it is shorter, or cannot be opened. */
static void *os_map_shared(const char *path, size_t size);

/* Keeps other processes from the file until it is unlocked, or closed here and in each child that has it; or gives up
 * after a second: then nobody waits for one that was stopped. */
static void os_lock_file(int fd);
static void os_unlock_file(int fd);

/* Reads memory that may not be there. False if not all of it can be read. */
static bool os_read_memory(const void *address, void *buffer, size_t size);

/* The numbers by which the kernel knows this process and the calling thread. */
static int os_process_number(void);
static int os_thread_number(void);

/* A descriptor, or below 0: in the second function an error number, negated. */
static int os_open_to_read(const char *path);
static int os_create_file(const char *path);
static bool os_close(int fd);

/* As many bytes as there are, at most `size`; 0 at the end, below 0 if there is an error. */
static long os_read_some(int fd, char *buffer, size_t size);

/* Reads all of `size` bytes, or says false. */
static bool os_read_at(int fd, size_t offset, void *buffer, size_t size);

/* The program may forbid itself system calls from now on: none is made that the libc's malloc does not make.
 * From any thread or signal handler. */
UNUSED static void os_note_confined(void);

static bool os_is_confined(void);

/* Whether the calling thread is in the strict mode of seccomp, where the kernel ends it for any call but read,
 * write and exit. No call about memory is made then: they fail. What lies above in the layers knows; it is asked once
 * os_note_strict said that there are such threads. */
static bool (*const os_thread_is_strict)(void);
UNUSED static void os_note_strict(void);
ALWAYS_INLINE bool os_refuses_changes(void);
ALWAYS_INLINE bool os_some_are_strict(void);

/* As the kernel: the result, or less than 0, an error number. */
UNUSED static int os_prctl(int option, unsigned long second, unsigned long third,
                           unsigned long fourth, unsigned long fifth);

/* Makes a file empty; what is no file stays as it is. */
static void os_empty_file(int fd);

/* Writes all; 0 or an error number. */
static int os_write_all(int fd, const char *text, size_t size);

/* Ends the process at once. */
_Noreturn static void os_exit(int status);

/* By SIGABRT: first to the program's handler, if it has one. */
_Noreturn static void os_abort(void);
_Noreturn static void os_abort_unhandled(void);

/* A signal in a mask of the kernel's. */
#define SIGNAL_BIT(number) ((uint64_t)1 << ((number)-1))

/* Sets which signals the calling thread does not take, a bit each, and returns the old set. */
static uint64_t os_set_signal_mask(uint64_t mask);

/* --- The C library --------------------------------------------------------------------------- */

/* The value of an environment variable; NULL if unset, or if the program has more privileges than
 * who started it. `buffer` may be used to hold it. */
static const char *libc_getenv(const char *name, char *buffer, size_t size);

/* Once, before the next: what to call when a thread ends that asked for it. Allocates nothing. */
static void libc_watch_threads(void (*at_exit)(void *));

/* Calls `at_exit` with the argument when the calling thread ends. False if that is impossible. */
static bool libc_watch_this_thread(void *argument);

/* Calls the three functions around each fork() of this process. May allocate, and must not be
 * called from within an allocation: the libc allocates while it holds the lock that this takes. */
static void libc_watch_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* What guards the libc's list of streams: fork takes it before it takes the allocator's locks, as a
 * thread that holds it may wait for a stream whose user waits for malloc. Nothing where the libc
 * does not export it. */
static void libc_lock_streams(void);
static void libc_unlock_streams(void);
static void libc_reset_streams_in_child(void);

/* Whether the process has only ever had the calling thread, as far as the libc knows; false where it
 * does not tell. glibc 2.32 and later and the musl around us do, and say so until just before the second
 * thread is made. */
#if MW_IN_LIBC
extern const volatile char __libc[] __attribute__((visibility("hidden")));
#define LIBC_THREADED 1 /* of `threaded` in there; the libc's side holds it to this */
ALWAYS_INLINE bool libc_has_one_thread(void)
{
    return __libc[LIBC_THREADED] == 0;
}

ALWAYS_INLINE void libc_learn_threads(void)
{
}
#else
__attribute__((weak)) extern char __libc_single_threaded;
static const char libc_threads_unknown;
static const char *libc_one_thread = &libc_threads_unknown; /* const after start */
ALWAYS_INLINE bool libc_has_one_thread(void)
{
    return *libc_one_thread != 0;
}

/* At the start of the process. */
ALWAYS_INLINE void libc_learn_threads(void)
{
    if (&__libc_single_threaded != NULL) {
        libc_one_thread = &__libc_single_threaded;
    }
}
#endif

/* The mappings of the process. /proc/self has none once the first thread has ended, though others go on. */
#define OS_MAPS "/proc/thread-self/maps"
#define OS_SMAPS "/proc/thread-self/smaps"
#define OS_PAGE_STATES "/proc/thread-self/pagemap"

/* Starts a detached thread that takes no signals of the program. *mask becomes what the caller's signal mask is. */
static bool libc_start_thread(void *(*run)(void *), _Atomic uint64_t *mask);

/* os_thread_number() without a system call, if the libc can tell: a program may have forbidden it. */
UNUSED static int libc_thread_number(void);

/* The next definition of a function behind this library's own; NULL if there is none. */
static void *libc_next_symbol(const char *name);

/* The definition that the program itself gets; NULL if there is none. */
UNUSED static void *libc_symbol(const char *name);

/* Makes names in the table of functions of the loaded object that has the address `inside` lead to others:
 * for modules that ask this object before all others. Returns false, and has changed nothing, where that
 * cannot be done. It allocates nothing. One thread at a time. */
struct symbol_lead {
    const char *name;
    void *to;
};
UNUSED static bool os_lead_symbols(const void *inside, const struct symbol_lead *leads,
                                   size_t count);

/* Whether the loaded object that has `inside` in it takes any of these names from other objects: then it
 * has none of that name itself, not even a hidden one. False if that is not known. */
UNUSED static bool os_object_takes(const void *inside, const char *const *names, size_t count);

/* Whether the loaded object that has `inside` in it has to do with names of C++. False if that is not known. */
UNUSED static bool os_object_is_cxx(const void *inside);

/* The function that was called by the instruction in front of `pc`, if that is a plain call through the
 * object's table of other objects' functions, and not whatever a function that it called went on to; else
 * NULL. */
UNUSED static const void *os_called_before(uintptr_t pc);

/* A function that the object with `address` in it sees, itself and its dependencies; NULL if there
 * is none. Objects that dlopen loaded are not seen by all. */
static void *libc_symbol_near(const void *address, const char *name);

/* A loaded object, and its .eh_frame_hdr: NULL if it has none. */
struct code_object {
    uintptr_t start;
    uintptr_t end;
    const uint8_t *frames;
};

/* The loaded object that has `pc`; all zero if there is none. */
static struct code_object libc_find_code(uintptr_t pc);
static const uint8_t *libc_find_frames(uintptr_t pc);

/* The .eh_frame of a program that was linked without the table that finds its parts, as static ones
 * are: from the program's file. */
static bool os_program_frames(const uint8_t **start, size_t *size);

/* Calls a function at a signal. False if that is impossible. */
static bool libc_watch_signal(int signal, void (*handler)(int));

/* Writes out what streams of the libc still hold. */
static void libc_flush_streams(void);

/* Writes text to a FILE * of the libc. */
static void libc_write_stream(void *stream, const char *text, size_t size);

#endif
