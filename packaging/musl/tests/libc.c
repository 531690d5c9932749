/* SPDX-License-Identifier: MIT
 *
 * What the libc itself does with malloc, and where the two meet: start, threads, fork, exit, no memory.
 * Compiled for a musl with Mallow inside, shared, static and static position-independent.
 */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <stdatomic.h>
#include <threads.h>
#include <time.h>
#include <wchar.h>

#include "test.h"

void mw_collect(bool force);

extern char **environ;

/* More than the loader has room for before it knows the program: the first thread's structure moves
 * after the loader has called malloc. */
static _Thread_local char large_tls[64 * 1024] = {1};

enum { THREADS = 8, ROUNDS = 20000, BLOCKS = 200 };

static unsigned long read_status(const char *field)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long value = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            value = strtoul(line + strlen(field), NULL, 10);
        }
    }
    CHECK(file != NULL && fclose(file) == 0);
    return value;
}

/* Allocates, fills, resizes and frees; a block that two hold at once shows as a wrong byte. */
static void churn(unsigned rounds, uint64_t seed)
{
    static _Thread_local struct {
        unsigned char *start;
        size_t size;
        unsigned char byte;
    } blocks[BLOCKS];
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t random = test_random(&seed);
        size_t at = random % BLOCKS;
        size_t size = 1 + (random >> 8 & (random & 1 << 20 ? 0x7fff : 0x1ff));
        for (size_t i = 0; i < blocks[at].size; i += 1 + blocks[at].size / 7) {
            CHECK_EQ(blocks[at].start[i], blocks[at].byte);
        }
        if (random >> 60 < 12) {
            free(blocks[at].start);
            blocks[at].start = random >> 60 < 4 ? calloc(1, size) : malloc(size);
        } else {
            blocks[at].start = realloc(blocks[at].start, size);
        }
        CHECK(blocks[at].start != NULL);
        blocks[at].size = size;
        blocks[at].byte = (unsigned char)random;
        memset(blocks[at].start, blocks[at].byte, size);
    }
    for (size_t at = 0; at < BLOCKS; at++) {
        free(blocks[at].start);
        blocks[at].start = NULL;
        blocks[at].size = 0;
    }
}

static void *churn_thread(void *argument)
{
    churn(ROUNDS, (uintptr_t)argument + 1);
    return NULL;
}

static void wait_for(pid_t child)
{
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
}

/* --- Start ------------------------------------------------------------------------------------ */

TEST(first_thread_keeps_its_heap)
{
    CHECK_EQ(large_tls[0], 1);
    churn(ROUNDS, 7);
    pid_t child = fork();
    if (child == 0) {
        churn(ROUNDS, 8);
        _exit(0);
    }
    wait_for(child);
}

TEST(zero_bytes_are_a_block)
{
    void *one = malloc(0), *other = malloc(0);
    CHECK(one != NULL && other != NULL && one != other);
    free(one);
    other = realloc(other, 0);
    CHECK(other != NULL); /* musl frees nothing here */
    free(other);
}

/* --- Threads ---------------------------------------------------------------------------------- */

TEST(threads)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, churn_thread, (void *)i), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

static void *hold_a_little(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < 100; i++) {
        char *block = malloc(1 + i * 100);
        memset(block, 1, 1 + i * 100);
        free(block);
    }
    return NULL;
}

/* What a thread had is free for the next: by return, pthread_exit, cancellation, C11, detached. */
static void *end_by_exit(void *argument)
{
    hold_a_little(argument);
    pthread_exit(NULL);
}

static void *end_by_cancel(void *argument)
{
    hold_a_little(argument);
    pause();
    return NULL;
}

static int end_of_c11(void *argument)
{
    hold_a_little(argument);
    return 0;
}

static void end_each_way_once(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, hold_a_little, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, end_by_exit, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, end_by_cancel, NULL), 0);
    CHECK_EQ(pthread_cancel(thread), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    thrd_t c11;
    CHECK_EQ(thrd_create(&c11, end_of_c11, NULL), thrd_success);
    CHECK_EQ(thrd_join(c11, NULL), thrd_success);
}

TEST(memory_of_threads_that_ended)
{
    for (unsigned i = 0; i < 10; i++) {
        end_each_way_once();
    }
    unsigned long before = read_status("VmRSS:");
    for (unsigned i = 0; i < 500; i++) {
        end_each_way_once();
    }
    CHECK_LE(read_status("VmRSS:"), before + 1024);
}

/* The hook at a thread's end takes no key of the program's, and destructors still allocate. */
static void destructor(void *argument)
{
    free(argument);
    churn(100, 3);
}

static void *use_every_key(void *keys)
{
    for (unsigned i = 0; i < PTHREAD_KEYS_MAX; i++) {
        CHECK_EQ(pthread_setspecific(((pthread_key_t *)keys)[i], malloc(100)), 0);
    }
    return NULL;
}

TEST(every_key_is_the_programs)
{
    static pthread_key_t keys[PTHREAD_KEYS_MAX];
    for (unsigned i = 0; i < PTHREAD_KEYS_MAX; i++) {
        CHECK_EQ(pthread_key_create(&keys[i], destructor), 0);
    }
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, use_every_key, keys), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* The last thread's pthread_exit runs atexit's functions, after its heap is gone. */
static void at_end(void)
{
    churn(1000, 5);
    _exit(0);
}

TEST(last_thread_ends_the_process)
{
    pid_t child = fork();
    if (child == 0) {
        for (unsigned i = 0; i < 100; i++) { /* more than libc has room for without calloc */
            CHECK_EQ(atexit(at_end), 0);
        }
        churn(1000, 4);
        pthread_exit(NULL);
    }
    wait_for(child);
}

/* --- Fork ------------------------------------------------------------------------------------- */

static atomic_bool ends;

static void *churn_until_end(void *argument)
{
    while (!ends) {
        churn(500, (uintptr_t)argument + 11);
    }
    return NULL;
}

static void in_fork(void)
{
    free(malloc(5000));
}

TEST(fork_beside_threads)
{
    pthread_t threads[3];
    CHECK_EQ(pthread_atfork(in_fork, in_fork, in_fork), 0);
    for (uintptr_t i = 0; i < 3; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, churn_until_end, (void *)i), 0);
    }
    for (unsigned i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) {
            churn(2000, i + 1);
            pthread_t thread;
            CHECK_EQ(pthread_create(&thread, NULL, hold_a_little, NULL), 0);
            CHECK_EQ(pthread_join(thread, NULL), 0);
            pid_t grandchild = fork();
            if (grandchild == 0) {
                churn(200, i + 1);
                _exit(0);
            }
            wait_for(grandchild);
            _exit(0);
        }
        wait_for(child);
        churn(100, i + 1);
    }
    ends = true;
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

/* Beside threads a handler may call _Fork, which takes no lock, but not fork: another thread's fork may
 * hold the libc's locks and wait for the allocator's. */
static pid_t (*fork_of_handler)(void) = fork;

static void fork_in_handler(int signal)
{
    (void)signal;
    int saved = errno;
    pid_t child = fork_of_handler();
    if (child == 0) {
        _exit(0);
    }
    while (waitpid(child, NULL, 0) < 0) {
    }
    errno = saved;
}

TEST(fork_in_a_signal_handler)
{
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    pthread_t thread;
    CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
    churn(ROUNDS, 21);
    fork_of_handler = _Fork;
    CHECK_EQ(pthread_create(&thread, NULL, churn_thread, NULL), 0);
    churn(ROUNDS, 22);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
}

TEST(other_programs_are_started)
{
    char *const arguments[] = {"true", NULL};
    for (unsigned i = 0; i < 20; i++) {
        pid_t child;
        CHECK_EQ(posix_spawnp(&child, "true", NULL, NULL, arguments, environ), 0);
        wait_for(child);
        CHECK_EQ(system("true"), 0);
        pid_t borrowed = vfork();
        if (borrowed == 0) {
            _exit(0);
        }
        wait_for(borrowed);
        FILE *pipe = popen("echo word", "r");
        char *line = NULL;
        size_t size = 0;
        CHECK_EQ(getline(&line, &size, pipe), 5);
        CHECK_EQ(pclose(pipe), 0);
        free(line);
    }
}

/* --- The libc's own use ------------------------------------------------------------------------ */

static int compare_addresses(const void *left, const void *right)
{
    return ((uintptr_t)left > (uintptr_t)right) - ((uintptr_t)left < (uintptr_t)right);
}

static void forget(void *key)
{
    (void)key;
}

static void use_libc(void)
{
    char *text = NULL, *copy;
    size_t size = 0;
    CHECK_EQ(asprintf(&text, "%s %d", "a text", 5), 8);
    copy = strdup(text);
    FILE *stream = open_memstream(&text, &size);
    for (unsigned i = 0; i < 1000; i++) {
        fprintf(stream, "%s\n", copy);
    }
    CHECK_EQ(fclose(stream), 0);
    CHECK_EQ(size, 9000);
    FILE *lines = fmemopen(text, size, "r");
    char *line = NULL;
    size_t room = 0;
    unsigned count = 0;
    while (getline(&line, &room, lines) > 0) {
        count++;
    }
    CHECK_EQ(count, 1000);
    CHECK_EQ(fclose(lines), 0);
    glob_t found;
    CHECK_EQ(glob("/*", 0, NULL, &found), 0);
    globfree(&found);
    regex_t pattern;
    CHECK_EQ(regcomp(&pattern, "(a|b)*c{2,40}[[:alpha:]]+", REG_EXTENDED), 0);
    CHECK_EQ(regexec(&pattern, "xxabaccd", 0, NULL, 0), 0);
    regfree(&pattern);
    void *root = NULL;
    for (uintptr_t i = 1; i < 50; i++) {
        CHECK(tsearch((void *)(i * 7 % 53), &root, compare_addresses) != NULL);
    }
    tdestroy(root, forget);
    for (unsigned i = 0; i < 100; i++) {
        char name[20];
        snprintf(name, sizeof name, "NAME%u", i);
        CHECK_EQ(setenv(name, copy, 1), 0);
    }
    CHECK(strcmp(getenv("NAME99"), copy) == 0);
    locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
    CHECK(locale != NULL);
    freelocale(locale);
    wchar_t *wide = wcsdup(L"wide");
    free(wide);
    free(line);
    free(text);
    free(copy);
}

TEST(libc_uses_malloc)
{
    for (unsigned i = 0; i < 50; i++) {
        use_libc();
    }
}

/* --- No memory --------------------------------------------------------------------------------- */

KERNEL_TEST(out_of_memory)
{
    struct rlimit limit = {256 << 20, 256 << 20};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    for (size_t size = 1 << 20; size >= 16; size /= 16) {
        void **list = NULL;
        for (;;) {
            errno = 0;
            void **block = malloc(size);
            if (block == NULL) {
                break;
            }
            *block = list;
            list = block;
        }
        CHECK_EQ(errno, ENOMEM);
        CHECK(calloc(1, 1 << 26) == NULL && errno == ENOMEM);
        CHECK(realloc(NULL, SIZE_MAX) == NULL && calloc(SIZE_MAX / 2, 3) == NULL);
        while (list != NULL) {
            void **next = *list;
            free(list);
            list = next;
        }
        mw_collect(true);
    }
    churn(1000, 9);
}

TEST(collect_gives_memory_back)
{
    enum { BIG = 64 << 20 };
    void *blocks[1000];
    for (unsigned i = 0; i < 1000; i++) {
        blocks[i] = memset(malloc(BIG / 1000), 1, BIG / 1000);
    }
    unsigned long full = read_status("VmRSS:");
    for (unsigned i = 0; i < 1000; i++) {
        free(blocks[i]);
    }
    mw_collect(true);
    CHECK_LE(read_status("VmRSS:"), full - BIG / 1024 / 2);
}

TEST(calloc_is_zero_and_not_touched)
{
    enum { BIG = 64 << 20 };
    unsigned long before = read_status("VmRSS:");
    char *block = calloc(1, BIG);
    CHECK_LE(read_status("VmRSS:"), before + 1024);
    for (size_t i = 0; i < BIG; i += 4096) {
        CHECK_EQ(block[i], 0);
        block[i] = 1;
    }
    free(block);
    block = calloc(BIG, 1);
    for (size_t i = 0; i < BIG; i += 4096) {
        CHECK_EQ(block[i], 0);
    }
    free(block);
}

TEST(aligned)
{
    for (size_t alignment = 1; alignment <= 1 << 22; alignment *= 2) {
        for (size_t size = 1; size < 100000; size = size * 7 + 1) {
            char *block = aligned_alloc(alignment, size);
            CHECK(block != NULL && (uintptr_t)block % alignment == 0);
            CHECK(malloc_usable_size(block) >= size);
            memset(block, 1, size);
            free(block);
            void *other;
            CHECK_EQ(posix_memalign(&other, alignment, size),
                     alignment < sizeof(void *) ? EINVAL : 0);
            if (alignment >= sizeof(void *)) {
                CHECK((uintptr_t)other % alignment == 0);
                free(other);
            }
            block = memalign(alignment, size);
            CHECK((uintptr_t)block % alignment == 0);
            free(block);
        }
    }
    CHECK(aligned_alloc(48, 100) == NULL && errno == EINVAL);
}

/* --- What the libc's build sets up ------------------------------------------------------------- */

/* The lines of /proc/self/smaps of mappings that hold `address`. */
static bool mapping_has_flag(const void *address, const char *flag)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    bool is_it = false, has_flag = false;
    while (fgets(line, sizeof line, file) != NULL) {
        uintptr_t start, end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) == 2) {
            is_it = start <= (uintptr_t)address && (uintptr_t)address < end;
        } else if (is_it && strncmp(line, "VmFlags:", 8) == 0) {
            has_flag = strstr(line, flag) != NULL;
        }
    }
    fclose(file);
    return has_flag;
}

KERNEL_TEST(huge_pages_only_if_asked_for)
{
    bool is_asked_for = getenv("MALLOW_CONF") != NULL && strstr(getenv("MALLOW_CONF"), "thp:true");
    void *small = malloc(10), *huge = malloc(40 << 20);
    CHECK(mapping_has_flag(small, " nh")); /* a small heap has none in any case */
    CHECK_EQ(mapping_has_flag(huge, " nh"), !is_asked_for);
    free(small);
    free(huge);
}

static void expect_abort(void (*misuse)(char *block))
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        close(2);
        misuse(malloc(100));
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void free_twice(char *block)
{
    free(block);
    free(block);
}

static void free_inside(char *block)
{
    free(block + 16);
}

static void free_foreign(char *block)
{
    static char own[64];
    (void)block;
    free(own + 16);
}

static void free_large_twice(char *block)
{
    (void)block;
    char *large = malloc(1 << 20);
    free(large);
    free(large);
}

TEST(misuse_ends_the_program)
{
    expect_abort(free_twice);
    expect_abort(free_inside);
    expect_abort(free_foreign);
    expect_abort(free_large_twice);
}
