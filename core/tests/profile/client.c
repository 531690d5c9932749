/* SPDX-License-Identifier: MIT
 *
 * A program with a profile: what it does is its argument, run.py knows what must come out.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* The preloaded library's, or that of the archive. */
__attribute__((weak)) int mallctl(const char *name, void *old_value, size_t *old_size,
                                  void *new_value, size_t new_size);
__attribute__((weak)) void *mallocx(size_t size, int flags);
__attribute__((weak)) void dallocx(void *block, int flags);
__attribute__((weak)) void *rallocx(void *block, size_t size, int flags);
__attribute__((weak)) size_t xallocx(void *block, size_t size, size_t extra, int flags);
size_t malloc_usable_size(void *block);

#define FLAG_ARENA(number) ((int)(((number) + 1) << 20))
#define FLAG_CACHE(number) ((int)(((number) + 2) << 8))
#define FLAG_NO_CACHE FLAG_CACHE(-1)

#define NOINLINE __attribute__((noinline))
#define BLOCKS 4000

static void *volatile held[BLOCKS];

/* With these blocks come from an arena of the program's. */
static int fill_flags;

static NOINLINE void fill(size_t size, int count)
{
    for (int i = 0; i < count; i++) {
        held[i] = fill_flags != 0 ? mallocx(size, fill_flags) : malloc(size);
    }
    __asm__ volatile("" ::: "memory");
}

static NOINLINE void drop(int count)
{
    for (int i = 0; i < count; i++) {
        if (fill_flags != 0) {
            dallocx(held[i], fill_flags);
        } else {
            free(held[i]);
        }
        held[i] = NULL;
    }
    __asm__ volatile("" ::: "memory");
}

NOINLINE void small_blocks(void)
{
    fill(48, 4000);
    drop(4000);
    __asm__ volatile("");
}

NOINLINE void medium_blocks(void)
{
    fill(5000, 400);
    drop(400);
    __asm__ volatile("");
}

NOINLINE void large_blocks(void)
{
    fill(60000, 40);
    drop(40);
    __asm__ volatile("");
}

/* Each block is freed before the next: of the medium ones always the same. */
NOINLINE void one_at_a_time(void)
{
    for (int i = 0; i < 4000; i++) {
        fill(2000, 1);
        drop(1);
    }
    __asm__ volatile("");
}

NOINLINE void many_sizes(void)
{
    for (int i = 0; i < 4000; i++) {
        held[i] = malloc(1 + (size_t)i * 7 % 3000);
    }
    for (int i = 0; i < 4000; i += 2) {
        held[i] = realloc(held[i], 100 + (size_t)i);
    }
    drop(4000);
    __asm__ volatile("");
}

NOINLINE void aligned_blocks(void)
{
    for (int i = 0; i < 1000; i++) {
        void *block = NULL;
        if (posix_memalign(&block, 256, 512) != 0 || (uintptr_t)block % 256 != 0) {
            abort();
        }
        held[i] = block;
    }
    drop(1000);
    __asm__ volatile("");
}

NOINLINE void grown_blocks(void)
{
    for (int i = 0; i < 5; i++) {
        void *block = malloc(100000);
        for (size_t size = 200000; size <= 1600000; size *= 2) {
            block = realloc(block, size);
        }
        free(block);
    }
    __asm__ volatile("");
}

/* One of 64 blocks at a time is replaced by the next; each size comes as often as the others. */
static NOINLINE void replace(const size_t *sizes, size_t count, size_t calls)
{
    enum { ALIVE = 64 };
    uint32_t random = 1;
    for (size_t i = 0; i < calls; i++) {
        random = random * 1664525 + 1013904223;
        free(held[random >> 26]);
        held[random >> 26] = malloc(sizes[i % count]);
    }
    drop(ALIVE);
}

/* In the secure build slots of the same classes have room for eight bytes less. */
static const size_t replaced_sizes[] = {2040,  5112,  10232, 20472,  40960,  49152,
                                        65536, 81920, 98304, 131072, 196608, 262144};

NOINLINE void replaced_slots(size_t calls)
{
    replace(replaced_sizes, 4, calls);
    __asm__ volatile("");
}

NOINLINE void replaced_blocks(size_t calls)
{
    replace(replaced_sizes + 4, 8, calls);
    __asm__ volatile("");
}

NOINLINE void replaced_any(size_t calls)
{
    replace(replaced_sizes, 12, calls);
    __asm__ volatile("");
}

static void check(bool is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "client: %s\n", what);
        _exit(9);
    }
}

static void dump_as(const char *name)
{
    check(mallctl("prof.dump", NULL, NULL, &name, sizeof name) == 0, "prof.dump");
}

static unsigned make_arena(void)
{
    unsigned arena = 0;
    size_t size = sizeof arena;
    check(mallctl("arenas.create", &arena, &size, NULL, 0) == 0, "arenas.create");
    return arena;
}

/* Rounds of the same work, in each of which other blocks are samples. `of` says whose they are: an arena's
 * that each call names, or that the thread is bound to; or each call names a cache. */
static NOINLINE void estimate(int rounds, const char *of)
{
    unsigned arena = strcmp(of, "") != 0 ? make_arena() : 0, cache = 0;
    size_t size = sizeof cache;
    if (strcmp(of, "named") == 0) {
        fill_flags = FLAG_ARENA((int)arena);
    } else if (strcmp(of, "bound") == 0) {
        check(mallctl("thread.arena", NULL, NULL, &arena, sizeof arena) == 0, "thread.arena");
    } else if (strcmp(of, "cached") == 0) {
        check(mallctl("tcache.create", &cache, &size, NULL, 0) == 0, "tcache.create");
        fill_flags = FLAG_CACHE((int)cache);
    }
    for (int i = 0; i < rounds; i++) {
        small_blocks();
        medium_blocks();
        large_blocks();
        one_at_a_time();
        many_sizes();
        aligned_blocks();
        grown_blocks();
    }
    dump_as("estimate.heap");
}

static NOINLINE void replaced(size_t calls)
{
    replaced_slots(calls);
    replaced_blocks(calls);
    replaced_any(calls);
    dump_as("replaced.heap");
}

NOINLINE void leaking(void)
{
    fill(1000, 4000);
    __asm__ volatile("");
}

NOINLINE void not_leaking(void)
{
    fill(3000, 4000);
    drop(4000);
    __asm__ volatile("");
}

static void *in_thread(void *argument)
{
    for (int i = 0; i < 300; i++) {
        void *blocks[50];
        for (int j = 0; j < 50; j++) {
            blocks[j] = malloc(10 + (size_t)(i * j) % 9000);
        }
        for (int j = 0; j < 50; j++) {
            free(blocks[j]);
        }
    }
    return argument;
}

static void *passed[BLOCKS];

static void *free_passed(void *argument)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(passed[i]);
    }
    return argument;
}

/* What one thread gets and another frees is not held. */
static NOINLINE void threads(void)
{
    pthread_t all[8];
    for (int i = 0; i < BLOCKS; i++) {
        passed[i] = malloc(1 + (size_t)i * 13 % 20000);
    }
    for (int i = 0; i < 8; i++) {
        pthread_create(&all[i], NULL, i == 0 ? free_passed : in_thread, NULL);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(all[i], NULL);
    }
    dump_as("threads.heap");
}

static volatile bool dumping = true;

static void *dump_again_and_again(void *argument)
{
    while (dumping) {
        dump_as("again.heap");
    }
    return argument;
}

/* The child has no thread that dumps, and writes its own profile. */
static NOINLINE void forks(void)
{
    pthread_t thread;
    leaking();
    pthread_create(&thread, NULL, dump_again_and_again, NULL);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            drop(4000);
            dump_as("child.heap");
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        check(status == 0, "a child did not write its profile");
    }
    dumping = false;
    pthread_join(thread, NULL);
    dump_as("parent.heap");
}

static NOINLINE void modules(const char *path)
{
    void *module = dlopen(path, RTLD_NOW);
    check(module != NULL, "the module cannot be loaded");
    void *(*get)(size_t, int) = (void *(*)(size_t, int))dlsym(module, "module_get");
    get(500, 4000);
    dump_as("module.heap");
    dlclose(module);
    fill(100, 4000);
    dump_as("unloaded.heap");
}

/* Sampled blocks are as good as others. `is_exact`: no block has more bytes than were asked for. */
static NOINLINE void blocks(bool is_exact)
{
    for (size_t size = 1; size < 100000; size += size / 5 + 1) {
        for (int i = 0; i < 20; i++) {
            char *block = malloc(size);
            check(malloc_usable_size(block) >= size && malloc_usable_size(block) < 2 * size + 32,
                  "malloc_usable_size");
            check(!is_exact || malloc_usable_size(block) == size, "malloc_usable_size is exact");
            memset(block, 'x', size);
            block = realloc(block, 2 * size);
            check(block[0] == 'x' && block[size - 1] == 'x', "realloc does not keep the content");
            block = realloc(block, size / 2 + 1);
            check(block[size / 2] == 'x', "realloc does not keep the content");
            free(block);
            block = calloc(1, size);
            for (size_t j = 0; j < size; j++) {
                check(block[j] == 0, "calloc is not zero");
            }
            free(block);
        }
    }
    dump_as("blocks.heap");
}

static bool get_bool(const char *name)
{
    bool value = false;
    size_t size = sizeof value;
    check(mallctl(name, &value, &size, NULL, 0) == 0, name);
    return value;
}

static void set_bool(const char *name, bool value)
{
    check(mallctl(name, NULL, NULL, &value, sizeof value) == 0, name);
}

/* On and off while the program runs; prof_active is false at the start. */
static NOINLINE void controls(void)
{
    check(get_bool("config.prof") && get_bool("opt.prof") && !get_bool("prof.active"), "prof");
    not_leaking();
    leaking();
    set_bool("prof.active", true);
    small_blocks();
    fill(777, 4000);
    set_bool("prof.active", false);
    many_sizes();
    dump_as("controls.heap");
    uint64_t interval = 0;
    size_t length = sizeof interval;
    check(mallctl("prof.interval", &interval, &length, NULL, 0) == 0 && interval == (uint64_t)1
                                                                                        << 40,
          "prof.interval");
    check(mallctl("prof.reset", NULL, NULL, NULL, 0) == 0, "prof.reset");
    dump_as("reset.heap");
    size_t rate = 10, size = sizeof rate;
    check(mallctl("prof.reset", NULL, NULL, &rate, sizeof rate) == 0, "prof.reset");
    check(mallctl("prof.lg_sample", &rate, &size, NULL, 0) == 0 && rate == 10, "prof.lg_sample");
    set_bool("thread.prof.active", false);
    set_bool("prof.active", true);
    not_leaking();
    fill(888, 2000);
    dump_as("thread_off.heap");
    set_bool("thread.prof.active", true);
    const char *name = "worker", *read = NULL;
    size = sizeof read;
    check(mallctl("thread.prof.name", NULL, NULL, &name, sizeof name) == 0, "thread.prof.name");
    check(mallctl("thread.prof.name", &read, &size, NULL, 0) == 0 && strcmp(read, name) == 0,
          "thread.prof.name");
    check(mallctl("thread.prof.name", &read, &size, &name, sizeof name) == EPERM, "read and set");
    name = "with\ttab";
    check(mallctl("thread.prof.name", NULL, NULL, &name, sizeof name) == 0, "a tab in a name");
    name = NULL;
    check(mallctl("thread.prof.name", NULL, NULL, &name, sizeof name) == EFAULT, "no name");
    check(mallctl("prof.dump", NULL, NULL, NULL, 0) == 0, "prof.dump without a name");
    check(mallctl("prof.log_start", NULL, NULL, &name, sizeof name) != 0 &&
              mallctl("prof.log_stop", NULL, NULL, NULL, 0) != 0,
          "a log of samples is refused");
    name = "/nowhere/at/all.heap";
    check(mallctl("prof.dump", NULL, NULL, &name, sizeof name) != 0, "a dump into no folder");
    name = "/dev/full";
    check(mallctl("prof.dump", NULL, NULL, &name, sizeof name) != 0, "a dump to a full disk");
}

/* Three times more and more memory; profiles at peaks are asked for the second time. */
static NOINLINE void peaks(void)
{
    for (int i = 0; i < 3; i++) {
        set_bool("prof.gdump", i == 1);
        check(get_bool("prof.gdump") == (i == 1), "prof.gdump");
        fill((size_t)9 << 20, 3);
    }
}

static volatile int handled;

/* What a program may ask for wherever it is interrupted. */
static void asks(int number)
{
    (void)number;
    bool value = (handled & 1) != 0;
    size_t rate = 8 + (size_t)(handled & 7);
    mallctl("prof.active", NULL, NULL, &value, sizeof value);
    mallctl("thread.prof.active", NULL, NULL, &value, sizeof value);
    if (handled % 8 == 0) {
        mallctl("prof.reset", NULL, NULL, &rate, sizeof rate);
        dump_as("handler.heap");
    }
    handled++;
}

static NOINLINE void handler(void)
{
    struct itimerval each = {{0, 500}, {0, 500}};
    signal(SIGPROF, asks);
    check(setitimer(ITIMER_PROF, &each, NULL) == 0, "setitimer");
    for (size_t i = 0; handled < 300; i++) {
        free(held[i * 7 % 500]);
        held[i * 7 % 500] = malloc(i % 10 != 0 ? 1 + i * 13 % 9000 : 100000);
    }
    each.it_value.tv_usec = 0;
    setitimer(ITIMER_PROF, &each, NULL);
    drop(500);
    dump_as("handler.heap");
}

static NOINLINE void signals(void)
{
    leaking();
    raise(SIGUSR2);
    fill(640, 4000);
    raise(SIGUSR2);
    many_sizes();
}

/* What comes from an arena by its number. */
NOINLINE void direct_blocks(int flags)
{
    for (int i = 0; i < 3; i++) {
        held[i] = mallocx((size_t[]){100, 5000, 50000}[i], flags);
        memset(held[i], 1, malloc_usable_size(held[i]));
    }
    __asm__ volatile("");
}

/* Blocks of every kind that realloc and xallocx resize where they are. */
NOINLINE void direct_resized(int flags)
{
    for (size_t size = 10; size < 3000000; size *= 3) {
        char *block = mallocx(size, flags);
        check(xallocx(block, size, size, 0) >= size, "xallocx");
        block = memset(rallocx(block, 2 * size, flags), 1, 2 * size);
        block = realloc(block, size);
        check(block[size - 1] == 1, "the contents");
        dallocx(block, 0);
    }
    __asm__ volatile("");
}

/* What an arena takes back is held no longer. */
NOINLINE void blocks_of_reset(unsigned arena)
{
    static const char *const ends[] = {"arena.%u.reset", "arena.%u.destroy"};
    for (int i = 0; i < 2; i++) {
        char name[32];
        for (size_t size = 10; size < 3000000; size *= 3) {
            mallocx(size, FLAG_ARENA((int)arena));
        }
        snprintf(name, sizeof name, ends[i], arena);
        check(mallctl(name, NULL, NULL, NULL, 0) == 0, name);
    }
    __asm__ volatile("");
}

/* Blocks that pass by the cache when they are freed. */
NOINLINE void uncached_blocks(int flags)
{
    for (size_t size = 10; size < 200000; size *= 3) {
        dallocx(malloc(size), flags);
        dallocx(mallocx(size, flags), flags);
    }
    __asm__ volatile("");
}

static uint64_t get_number(const char *name)
{
    uint64_t value = 0;
    size_t size = sizeof value;
    check(mallctl(name, &value, &size, NULL, 0) == 0, name);
    return value;
}

/* What a thread counts as allocated it counts as freed; `waits`: but not at once, as in the debug build. */
NOINLINE void counted_blocks(bool waits)
{
    uint64_t before = get_number("thread.allocated") - get_number("thread.deallocated");
    for (size_t size = 10; size < 2000000; size *= 3) {
        free(realloc(malloc(size), 2 * size));
        free(realloc(calloc(1, size), size / 2));
        free(aligned_alloc(4096, size));
    }
    check(waits || get_number("thread.allocated") - get_number("thread.deallocated") == before,
          "thread.allocated and thread.deallocated");
}

static NOINLINE void explicit(bool waits)
{
    unsigned arena = make_arena(), cache = 0;
    size_t size = sizeof arena;
    check(mallctl("tcache.create", &cache, &size, NULL, 0) == 0, "tcache.create");
    uncached_blocks(FLAG_NO_CACHE);
    uncached_blocks(FLAG_CACHE((int)cache));
    check(mallctl("tcache.destroy", NULL, NULL, &cache, sizeof cache) == 0, "tcache.destroy");
    direct_blocks(FLAG_ARENA((int)arena));
    direct_resized(FLAG_ARENA((int)arena));
    blocks_of_reset(make_arena());
    counted_blocks(waits);
    check(mallctl("thread.arena", NULL, NULL, &arena, sizeof arena) == 0, "thread.arena");
    counted_blocks(waits);
    dump_as("explicit.heap");
    drop(3);
}

static NOINLINE void overflow(size_t size)
{
    char *volatile block = malloc(size);
    block[size] = 'x';
    free(block);
}

/* The counters of what was given, with samples among it: as many as the program asked for, and those that lie in
 * lists. */
static void counted(void)
{
    enum { ALIVE = 64, CALLS = 400000 };
    static const char *const names[] = {"stats.arenas.4096.small.nmalloc",
                                        "stats.arenas.4096.large.nmalloc"};
    uint64_t given[2] = {0, 0};
    for (int round = 0; round < 2; round++) {
        uint64_t epoch = 1, value;
        size_t size = sizeof value;
        check(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) == 0, "epoch");
        for (int i = 0; i < 2; i++) {
            check(mallctl(names[i], &value, &size, NULL, 0) == 0, names[i]);
            given[round] += value;
        }
        for (size_t i = 0; round == 0 && i < CALLS; i++) {
            free(held[i % ALIVE]);
            held[i % ALIVE] = malloc(1500 + i * 7919 % 20000);
        }
    }
    uint64_t calls = given[1] - given[0];
    check(calls >= CALLS && calls < CALLS + CALLS / 50, "blocks are counted beside samples");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "estimate") == 0) {
        estimate(argc > 2 ? atoi(argv[2]) : 1, argc > 3 ? argv[3] : "");
    } else if (strcmp(what, "replaced") == 0) {
        replaced((size_t)atol(argv[2]));
    } else if (strcmp(what, "leak") == 0) {
        not_leaking();
        leaking();
    } else if (strcmp(what, "threads") == 0) {
        threads();
    } else if (strcmp(what, "counted") == 0) {
        counted();
    } else if (strcmp(what, "fork") == 0) {
        forks();
    } else if (strcmp(what, "module") == 0) {
        modules(argv[2]);
    } else if (strcmp(what, "blocks") == 0) {
        blocks(argc > 2 && strcmp(argv[2], "exact") == 0);
    } else if (strcmp(what, "explicit") == 0) {
        explicit(argc > 2 && strcmp(argv[2], "debug") == 0);
    } else if (strcmp(what, "overflow") == 0) {
        overflow((size_t)atoi(argv[2]));
    } else if (strcmp(what, "controls") == 0) {
        controls();
    } else if (strcmp(what, "peaks") == 0) {
        peaks();
    } else if (strcmp(what, "handler") == 0) {
        handler();
    } else if (strcmp(what, "signal") == 0) {
        signals();
    }
    return 0;
}
