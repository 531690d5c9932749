/* SPDX-License-Identifier: MIT
 * Guarded blocks: a fault each, by the name in the first argument, and programs without a fault. Run by
 * sampled.py with guard_sample:1, where every block is guarded while there is room. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../include/mallow.h"

__attribute__((weak)) int mallctl(const char *name, void *old, size_t *old_size, void *new_value,
                                  size_t new_size);
__attribute__((weak)) bool mw_heap_is_valid(void);
__attribute__((weak)) size_t nallocx(size_t size, int flags);
__attribute__((weak)) size_t xallocx(void *block, size_t size, size_t extra, int flags);

#define NEVER_INLINE __attribute__((noinline))

static volatile char sink;

NEVER_INLINE static char *make_block(size_t size)
{
    char *volatile block = malloc(size);
    if (block == NULL) {
        exit(9);
    }
    memset(block, 'm', size);
    return block;
}

NEVER_INLINE static void give_back(void *block)
{
    free(block);
    __asm__ volatile("");
}

static void *make_in_thread(void *unused)
{
    (void)unused;
    return make_block(40);
}

static void *give_back_in_thread(void *block)
{
    give_back(block);
    return NULL;
}

static void *by_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, run, argument) != 0 || pthread_join(thread, &result) != 0) {
        exit(9);
    }
    return result;
}

/* --- Faults ----------------------------------------------------------------------------------- */

static void read_after_free(void)
{
    char *volatile block = make_block(48);
    give_back(block);
    sink = block[5];
}

static void write_after_free(void)
{
    char *volatile block = make_block(30000);
    give_back(block);
    block[20000] = 1;
}

/* All other places are used in between. */
static void read_long_after_free(void)
{
    char *volatile block = make_block(48);
    give_back(block);
    for (int i = 0; i < 100; i++) {
        give_back(make_block(100));
    }
    sink = block[47];
}

static void use_after_realloc(void)
{
    char *volatile block = make_block(100);
    char *volatile moved = realloc(block, 200);
    sink = moved[0];
    block[99] = 1;
}

/* Where there is no memory for another block it shrinks in its place. */
static char *shrunk_block(size_t size)
{
    char *volatile block = make_block(30000);
    setrlimit(RLIMIT_AS, &(struct rlimit){1, 1});
    while (malloc(size) != NULL) {
    }
    char *volatile shrunk = realloc(block, size);
    if (shrunk != block || malloc_usable_size(shrunk) != size) {
        exit(9);
    }
    return shrunk;
}

static void write_behind_shrunk(void)
{
    char *volatile block = shrunk_block(10000);
    block[10000] = 1;
    give_back(block);
}

/* What the program had written behind its new end is no fault. */
static void shrunk(void)
{
    give_back(shrunk_block(10000));
}

static void use_of_dead_thread(void)
{
    char *volatile block = by_thread(make_in_thread, NULL);
    by_thread(give_back_in_thread, block);
    sink = block[0];
}

static void read_behind_page(void)
{
    char *volatile block = make_block((size_t)sysconf(_SC_PAGESIZE));
    sink = block[sysconf(_SC_PAGESIZE)];
}

static void write_in_front_of_page(void)
{
    char *volatile block = make_block((size_t)sysconf(_SC_PAGESIZE));
    block[-1] = 1;
}

static void read_far_behind(void)
{
    char *volatile block = make_block(100);
    sink = block[sysconf(_SC_PAGESIZE) + 200];
}

static void write_behind(void)
{
    char *volatile block = make_block(41);
    block[41] = 0;
    give_back(block);
}

static void write_behind_then_realloc(void)
{
    char *volatile block = make_block(41);
    block[42] = 0;
    block = realloc(block, 1000);
}

static void write_behind_then_look(void)
{
    char *volatile block = make_block(41);
    block[43] = 0;
    mw_heap_is_valid();
}

static void write_behind_aligned(void)
{
    char *volatile block = aligned_alloc(64, 100);
    block[100] = 0;
    give_back(block);
}

static void write_behind_calloc(void)
{
    char *volatile block = calloc(5, 5);
    block[25] = 1;
    give_back(block);
}

static void write_to_zero_size(void)
{
    char *volatile block = malloc(0);
    block[0] = 1;
    give_back(block);
}

static void double_free(void)
{
    char *volatile block = make_block(40);
    give_back(block);
    give_back(block);
}

static void double_free_by_thread(void)
{
    char *volatile block = make_block(40);
    by_thread(give_back_in_thread, block);
    give_back(block);
}

static void double_free_in_child(void)
{
    char *volatile block = make_block(40);
    give_back(block);
    pid_t child = fork();
    if (child == 0) {
        give_back(block);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        raise(WTERMSIG(status));
    }
}

static void free_inside(void)
{
    give_back(make_block(100) + 16);
}

static void free_misaligned(void)
{
    give_back(make_block(100) + 3);
}

static void free_of_guard(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    give_back(make_block(page) + page);
}

static void realloc_of_freed(void)
{
    char *volatile block = make_block(40);
    give_back(block);
    block = realloc(block, 100);
}

static void size_of_freed(void)
{
    char *volatile block = make_block(40);
    give_back(block);
    sink = (char)malloc_usable_size(block);
}

static void crash(void)
{
    *(volatile int *)16 = 1;
}

static void sent(void)
{
    kill(getpid(), SIGSEGV);
    pause();
}

/* --- The program's own handler ---------------------------------------------------------------- */

static sigjmp_buf back;
static volatile int handled;

static void own_handler(int number, siginfo_t *info, void *context)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    handled += number == SIGSEGV && info->si_addr == (void *)16 && context != NULL &&
               sigismember(&blocked, SIGUSR1) && sigismember(&blocked, SIGSEGV);
    siglongjmp(back, 1);
}

static void set_own_handler(void)
{
    struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
}

static void crash_thrice(void)
{
    for (int i = 0; i < 3; i++) {
        if (sigsetjmp(back, 1) == 0) {
            crash();
        }
    }
    if (handled != 3) {
        printf("the program's handler was called %d times as it should be\n", handled);
        exit(1);
    }
}

/* It is there first: the allocator is a module. */
static void earlier_handler(const char *library)
{
    set_own_handler();
    void *module = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *(*take)(size_t) = (void *(*)(size_t))dlsym(module, "mw_malloc");
    void (*give)(void *) = (void (*)(void *))dlsym(module, "mw_free");
    if (take == NULL || give == NULL) {
        exit(9);
    }
    char *volatile block = take(48);
    crash_thrice();
    give(block);
    sink = block[5];
}

static void later_handler(void)
{
    set_own_handler();
    crash_thrice();
}

/* --- Without a fault -------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 3000, KEPT = 64 };

static void require(int is_so, const char *what)
{
    if (!is_so) {
        printf("not so: %s\n", what);
        fflush(stdout);
        _exit(1);
    }
}

static int has_only(const unsigned char *block, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++) {
        if (block[i] != value) {
            return 0;
        }
    }
    return 1;
}

static unsigned char *volatile shared[KEPT];

static unsigned char *any_block(unsigned random, size_t size)
{
    unsigned char *block;
    size_t alignment = (size_t)16 << random % 9;
    switch (random / 16 % 5) {
    case 0:
        block = calloc(1, size);
        require(has_only(block, size, 0), "calloc gives zeros");
        return block;
    case 1:
        block = aligned_alloc(alignment, size);
        require((uintptr_t)block % alignment == 0, "aligned_alloc aligns");
        return block;
    case 2:
        block = realloc(malloc(size / 2 + 1), size);
        return block;
    default:
        return malloc(size);
    }
}

static void work(unsigned seed)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned random = seed >> 8;
        size_t size = random % 7 == 0 ? random % 60000 : random % 700;
        unsigned char *block = any_block(random, size);
        require(block != NULL && (uintptr_t)block % 16 == 0, "a block is aligned");
        require(malloc_usable_size(block) >= size, "a block has its size");
        size = malloc_usable_size(block);
        memset(block, (int)(size & 255), size);
        block = realloc(block, size + 100);
        require(has_only(block, size, size & 255), "realloc keeps what a block had");
        memset(block, 0, 1);
        block = __atomic_exchange_n(&shared[random / 3 % KEPT], block, __ATOMIC_ACQ_REL);
        free(block);
    }
}

static void *work_in_thread(void *argument)
{
    work((unsigned)(uintptr_t)argument);
    return NULL;
}

static void clean(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        require(pthread_create(&threads[i], NULL, work_in_thread, (void *)(i + 1)) == 0, "threads");
    }
    for (unsigned i = 0; i < 8; i++) {
        pid_t child = fork();
        if (child == 0) {
            work(i + 100);
            by_thread(work_in_thread, (void *)(uintptr_t)(i + 200));
            require(mw_heap_is_valid(), "the heap of a child is valid");
            exit(0);
        }
        int status = 1;
        work(i + 300);
        require(waitpid(child, &status, 0) == child && status == 0, "a child ends well");
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    require(mw_heap_is_valid(), "the heap is valid");
}

/* --- Figures ---------------------------------------------------------------------------------- */

static uint64_t figure(const char *name)
{
    uint64_t value = 1;
    size_t size = sizeof value;
    mallctl("epoch", &value, &size, &value, size);
    require(mallctl(name, &value, &size, NULL, 0) == 0, name);
    return value;
}

static void figures(void)
{
    char *blocks[20];
    struct mallinfo2 info_before = mallinfo2();
    uint64_t before = figure("stats.allocated");
    uint64_t given = figure("thread.allocated");
    uint64_t returned = figure("thread.deallocated");
    for (int i = 0; i < 20; i++) {
        blocks[i] = make_block(1001);
        require(malloc_usable_size(blocks[i]) == 1001, "a guarded block has its exact size");
    }
    require(figure("thread.allocated") - given == 20 * 1001, "thread.allocated");
    require(figure("stats.allocated") - before == 20 * 1024, "stats.allocated");
    require(mallinfo2().uordblks - info_before.uordblks >= 20 * 1001, "mallinfo2");
    require(figure("stats.active") >= figure("stats.allocated"), "stats.active");
    require(figure("stats.mapped") >= figure("stats.active"), "stats.mapped");
    require(nallocx(1001, 0) == 1001, "nallocx");
    require(xallocx(blocks[0], 2000, 0, 0) == 1001, "xallocx");
    for (int i = 0; i < 20; i++) {
        give_back(blocks[i]);
    }
    require(figure("thread.deallocated") - returned == 20 * 1001, "thread.deallocated");
    require(figure("stats.allocated") == before, "stats.allocated after free");
    require(mw_heap_is_valid(), "the heap is valid");
}

/* What counts as in use fits into what counts as there, at each size about a page. */
static void sizes(void)
{
    for (size_t page = 4096; page <= 28672; page += 4096) {
        for (size_t size = page - 20; size < page + 20; size++) {
            char *block = make_block(size);
            require(mw_heap_is_valid(), "the heap is valid");
            give_back(block);
        }
    }
}

/* Whether the kernel may read there. */
static int is_readable(uintptr_t address)
{
    static int ends[2];
    if (ends[1] == 0 && pipe(ends) != 0) {
        return 1;
    }
    char byte;
    return write(ends[1], (void *)address, 1) == 1 && read(ends[0], &byte, 1) == 1;
}

/* Whether a block of 41 bytes begins or ends with a page, and has no neighbours. */
static int is_guarded(const char *block)
{
    uintptr_t at = (uintptr_t)block;
    uintptr_t page = (uintptr_t)getpagesize();
    if (at % page != 0 && at % page != ((page - 41) & ~(uintptr_t)15)) {
        return 0;
    }
    at -= at % page;
    /* What nobody may write to has a pattern. A slab of one page between posts may have a byte of its own there,
     * but no half of a page. */
    const char *middle = (const char *)at + page / 4;
    return middle[0] != 0 && middle[0] != 'm' && memcmp(middle, middle + 1, page / 2) == 0 &&
           !is_readable(at - 1) && !is_readable(at + page);
}

/* With guard_sample:100. */
static void rate(void)
{
    int guarded = 0;
    for (int i = 0; i < 200000; i++) {
        char *volatile block = malloc(41);
        guarded += is_guarded(block);
        free(block);
    }
    printf("%d of 200000 blocks were guarded\n", guarded);
    require(guarded > 1600 && guarded < 2400, "one in a hundred is guarded");
}

/* With guard_slots:16: no more than that at a time. */
static void full(void)
{
    char *blocks[200];
    int guarded = 0;
    for (int i = 0; i < 200; i++) {
        blocks[i] = make_block(41);
        guarded += is_guarded(blocks[i]);
    }
    printf("%d of 200 blocks were guarded\n", guarded);
    require(guarded > 0 && guarded <= 16, "as many guarded blocks as there are places");
    for (int i = 0; i < 200; i++) {
        give_back(blocks[i]);
    }
}

/* The secure build's own choice, one in 5,000. */
static void unasked(void)
{
    int guarded = 0;
    for (int i = 0; i < 1000000; i++) {
        char *volatile block = malloc(41);
        guarded += is_guarded(block);
        free(block);
    }
    printf("%d of 1000000 blocks were guarded\n", guarded);
    require(guarded > 100 && guarded < 320, "one in five thousand is guarded");
}

/* Guard off: nothing of it is there. */
static void off(void)
{
    for (int i = 0; i < 1000; i++) {
        char *block = make_block(41);
        require(!is_guarded(block), "no block is guarded");
        give_back(block);
    }
    struct sigaction action;
    sigaction(SIGSEGV, NULL, &action);
    require(action.sa_handler == SIG_DFL, "nobody handles SIGSEGV");
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
#define PROGRAM(name) \
    {                 \
#name, name   \
    }
    PROGRAM(read_after_free),
    PROGRAM(write_after_free),
    PROGRAM(read_long_after_free),
    PROGRAM(use_after_realloc),
    PROGRAM(use_of_dead_thread),
    PROGRAM(read_behind_page),
    PROGRAM(write_in_front_of_page),
    PROGRAM(read_far_behind),
    PROGRAM(write_behind),
    PROGRAM(write_behind_then_realloc),
    PROGRAM(write_behind_then_look),
    PROGRAM(write_behind_shrunk),
    PROGRAM(write_behind_aligned),
    PROGRAM(write_behind_calloc),
    PROGRAM(write_to_zero_size),
    PROGRAM(double_free),
    PROGRAM(double_free_by_thread),
    PROGRAM(double_free_in_child),
    PROGRAM(free_inside),
    PROGRAM(free_misaligned),
    PROGRAM(free_of_guard),
    PROGRAM(realloc_of_freed),
    PROGRAM(size_of_freed),
    PROGRAM(crash),
    PROGRAM(sent),
    PROGRAM(later_handler),
    PROGRAM(clean),
    PROGRAM(shrunk),
    PROGRAM(figures),
    PROGRAM(rate),
    PROGRAM(sizes),
    PROGRAM(full),
    PROGRAM(off),
    PROGRAM(unasked),
};

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "earlier_handler") == 0) {
        earlier_handler(words[2]);
        return 0;
    }
    for (size_t i = 0; count == 2 && i < sizeof programs / sizeof programs[0]; i++) {
        if (strcmp(words[1], programs[i].name) == 0) {
            programs[i].run();
            return 0;
        }
    }
    return 2;
}
