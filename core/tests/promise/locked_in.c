/* SPDX-License-Identifier: MIT
 *
 * A program that forbids itself, by a seccomp filter, every system call but those that threads and
 * glibc's malloc need, before it allocates at all. Then it allocates, in other threads as well: what
 * the allocator wants to know of the system it has asked before main, or does not ask from then on. A
 * child allocates before the filter too; what it has then grows and goes. Another is in the strict mode of
 * seccomp, with blocks of memory that it has.
 */
#include <sys/wait.h>
#include <time.h>

#include "promise.h"
#include "refused.h"

static const int allowed[] = {
    SYS_mmap,   SYS_munmap,     SYS_mprotect, SYS_mremap,         SYS_madvise,
    SYS_brk,    SYS_futex,      SYS_clone,    SYS_rt_sigprocmask, SYS_rt_sigaction,
    SYS_exit,   SYS_exit_group, SYS_write,    SYS_getrandom,      SYS_set_robust_list,
#ifdef SYS_clone3
    SYS_clone3,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
};

/* Whatever is not allowed ends the process by SIGSYS. */
static void lock_in(void)
{
    if (!allow_calls(allowed, sizeof allowed / sizeof allowed[0])) {
        printf("skipped: no seccomp filters here (%s)\n", strerror(errno));
        _exit(0);
    }
}

/* Asks for zeros where others wrote, for more than is free, and for the same over and over. */
static void allocate_large(void)
{
    static char *blocks[64];
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
            size_t size = ((size_t)1 << 18) << i % 5;
            char *block = calloc(1, size);
            CHECK(block != NULL && block[0] == 0 && block[size / 2] == 0 && block[size - 1] == 0);
            memset(block, 1, round % 2 != 0 ? size : size / 64);
            block = realloc(block, size + size / 2);
            CHECK(block != NULL && block[0] == 1);
            blocks[i] = block;
        }
        for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
            free(blocks[i]);
        }
    }
}

static void *allocate(void *unused)
{
    static const size_t sizes[] = {8, 100, 1000, 5000, 40000, 300000, 3000000, 50000000};
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            char *volatile block = malloc(sizes[i]);
            CHECK(block != NULL);
            block[0] = 1;
            block = realloc(block, sizes[i] * 2);
            CHECK(block != NULL && block[0] == 1);
            free(block);
        }
    }
    allocate_large();
    return unused;
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE,
                  &now); /* no system call, and no counter that is forbidden too */
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum { SMALL_BLOCKS = 100 };

static void allocate_small(void)
{
    static char *blocks[SMALL_BLOCKS];
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        blocks[i] = malloc((size_t)16 + i % 50);
        CHECK(blocks[i] != NULL);
        blocks[i][0] = (char)i;
    }
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        blocks[i] = realloc(blocks[i], (size_t)30 + i % 60);
        CHECK(blocks[i] != NULL && blocks[i][0] == (char)i);
    }
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        free(blocks[i]);
    }
}

/* Until it has been time, more than once, for what the allocator does now and then. */
static void allocate_for_a_while(void)
{
    enum { FOR_MS = 400 };
    for (long end = now_ms() + FOR_MS; now_ms() < end;) {
        allocate_small();
    }
}

/* A filter comes after blocks that then grow and go: what the kernel knows of these stays as it is, or
 * changes by calls that are allowed. */
static _Noreturn void lock_in_late(void)
{
    enum { BLOCKS = 300, DOUBLINGS = 20 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)16 << i % DOUBLINGS);
        CHECK(blocks[i] != NULL);
        blocks[i][0] = 1;
    }
    lock_in();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = realloc(blocks[i], (size_t)48 << i % DOUBLINGS);
        CHECK(blocks[i] != NULL && blocks[i][0] == 1);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    allocate(NULL);
    allocate_for_a_while();
    _exit(0);
}

/* Only read, write and exit: as the C library's malloc, ours needs none of the kernel for small blocks whose
 * memory it has. Guards and the return of free memory, of which it has some, wait. */
static _Noreturn void lock_in_strictly(void)
{
    enum { LARGE = 300000 };
    allocate_small();
    for (int i = 0; i < 8; i++) {
        void *block = malloc(LARGE);
        CHECK(block != NULL);
        memset(block, 1, LARGE);
        free(block);
    }
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        _exit(0);
    }
    allocate_for_a_while();
    syscall(SYS_exit, 0); /* not that of the group */
    __builtin_unreachable();
}

static void check_child(void (*run)(void))
{
    pid_t child = fork();
    if (child == 0) {
        run();
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* The library has a prctl of its own, which is to be as the C library's. */
static void check_prctl(void)
{
    char name[16] = "";
    CHECK_EQ(prctl(PR_SET_NAME, "locked", 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_GET_NAME, name, 0, 0, 0), 0);
    CHECK(strcmp(name, "locked") == 0);
    CHECK_EQ(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 1);
    errno = 0;
    CHECK_EQ(prctl(-1, 0, 0, 0, 0), -1);
    CHECK_EQ(errno, EINVAL);
}

int main(void)
{
    enum { THREADS = 4 };
    check_prctl();
    check_child(lock_in_strictly);
    check_child(lock_in_late);
    lock_in();
    allocate(NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    static const char done[] = "allocated in five threads without other system calls\n";
    return write(1, done, sizeof done - 1) != sizeof done - 1;
}
