/* SPDX-License-Identifier: MIT
 *
 * Fault injection: a workload that touches every part of the allocator is run once for each
 * memory system call that it makes (mmap, munmap, mprotect, madvise, mremap), or for some of those
 * that are alike, with that call failing, and once more with it and all that follow failing. What must hold:
 *
 *   the program gets NULL with ENOMEM or goes on; blocks that it has keep their content
 *   with the fault gone, every kind of allocation works again
 *   when all is freed, nothing is in use and no more is mapped than after a run without a fault
 *
 *   injection [--quick]    --quick: with one setting instead of three
 *
 * The call paths that were visited are printed as return addresses; sites.py compares them with
 * the calls that the program contains.
 */
#define MW_EXPORT_LIBC 0
#define MW_TEST_SYSCALLS 1
#include <string.h>
#include <time.h>
static long test_syscall(long number, long a, long b, long c, long d, long e, long f);

/* Only the start of a block is written, and so only that is copied: most of the time of a run is page faults. */
enum { WRITTEN = 4000 };

static void *copy_start(void *to, const void *from, size_t size)
{
    return memmove(to, from, size < WRITTEN ? size : WRITTEN);
}
#define memmove copy_start
#include "../../src/mallow.c"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../pattern.h"
#include "../real_call.h"

enum { SITES_MOST = 4096, FRAMES = 3, NUMBERS_MOST = 4096 };

/* What a run with a fault may leave mapped beyond regions and metadata. */
enum { SLACK = 64 << 10 };

/* Written by the child that runs the workload, read by the parent. */
struct results {
    long calls;        /* memory calls made while armed */
    long failed_calls; /* of these, how many were made to fail */
    long refused;      /* allocations that returned NULL */
    long balance;      /* bytes mapped by the allocator */
    long unaccounted;  /* of these, bytes in no region and no metadata when all is freed: a leak */
    long lost;         /* bytes of munmap calls that were made to fail: the kernel's fault */
    size_t in_use;     /* bytes in use when all is freed */
    unsigned repeats[NUMBERS_MOST]; /* how many calls of the same site came before this one */
    size_t site_count;
    struct site {
        uintptr_t frames[FRAMES];
        unsigned calls; /* in this run */
    } sites[SITES_MOST];
};

static struct results *results;
static long fail_at;   /* the number of the first call to fail; 0: none */
static bool fails_all; /* all later ones, too */
static bool is_armed;
static pthread_barrier_t *race;     /* two threads wait here for each other before each mmap */
static _Thread_local long injected; /* failures that this thread met, to judge a NULL */

/* Decay is part of the workload: ten milliseconds pass from look to look, so that nothing waits for it and
 * every run sees the same times. */
static void test_clock(struct timespec *time)
{
    static atomic_long now_ms = 1000;
    long ms = atomic_fetch_add(&now_ms, 10);
    *time = (struct timespec){ms / 1000, ms % 1000 * 1000000};
}

static bool is_memory_call(long number)
{
    return number == SYS_mmap || number == SYS_munmap || number == SYS_mprotect ||
           number == SYS_madvise || number == SYS_mremap;
}

/* Frame pointers are on in this file, so the callers of test_syscall can be told. */
#define RETURN_ADDRESS(level) (uintptr_t) __builtin_return_address(level)

/* Returns how many calls of the same site came before, in this run. */
static unsigned note_site(uintptr_t first, uintptr_t second, uintptr_t third)
{
    struct site *site = results->sites, *end = site + results->site_count;
    while (site < end &&
           !(site->frames[0] == first && site->frames[1] == second && site->frames[2] == third)) {
        site++;
    }
    if (site == end) {
        CHECK(results->site_count < SITES_MOST);
        results->site_count++;
        *site = (struct site){{first, second, third}, 0};
    }
    return site->calls++;
}

__attribute__((noinline)) static long test_syscall(long number, long a, long b, long c, long d,
                                                   long e, long f)
{
    if (number == SYS_clock_gettime) {
        test_clock((struct timespec *)b);
        return 0;
    }
    if (!is_memory_call(number) || results == NULL) { /* or before main */
        return real_call(number, a, b, c, d, e, f);
    }
    unsigned repeats = note_site(RETURN_ADDRESS(0), RETURN_ADDRESS(1), RETURN_ADDRESS(2));
    if (race && number == SYS_mmap) {
        pthread_barrier_wait(race);
    }
    if (is_armed) {
        long call = ++results->calls;
        if (call < NUMBERS_MOST) {
            results->repeats[call] = repeats;
        }
        if (fail_at && (call == fail_at || (fails_all && call > fail_at))) {
            results->failed_calls++;
            results->lost += number == SYS_munmap ? b : 0;
            injected++;
            return -ENOMEM;
        }
    }
    long result = real_call(number, a, b, c, d, e, f);
    if (result >= 0 || result < -4095) {
        results->balance += number == SYS_mmap ? (d & MAP_FIXED ? 0 : b) /* over what is there */
                            : number == SYS_munmap ? -b
                            : number == SYS_mremap ? (d & MREMAP_DONTUNMAP ? c : c - b)
                                                   : 0;
    }
    return result;
}

/* --- The workload -----------------------------------------------------------------------------*/

enum { KEPT = 64 };

struct kept {
    void *bytes;
    size_t size;
};

static size_t written(size_t size)
{
    return size < WRITTEN ? size : WRITTEN;
}

/* A refusal is right only where a call was made to fail, and must say ENOMEM. */
static void *judged(void *bytes, size_t size)
{
    if (bytes == NULL) {
        CHECK_MSG(results->failed_calls > 0, "%zu bytes refused without a fault", size);
        CHECK_EQ(errno, ENOMEM);
        results->refused++;
    }
    return bytes;
}

static void keep(struct kept *kept, void *bytes, size_t size)
{
    kept->bytes = judged(bytes, size);
    kept->size = size;
    if (bytes) {
        pattern_write(bytes, written(size), 1);
    }
}

static void drop(struct kept *kept)
{
    if (kept->bytes) {
        pattern_check(kept->bytes, written(kept->size), 1);
        errno = 4242;
        mw_free(kept->bytes);
        CHECK_EQ(errno, 4242);
        kept->bytes = NULL;
    }
}

static void resize(struct kept *kept, size_t size)
{
    void *old = kept->bytes;
    void *moved = judged(mw_realloc(old, size), size);
    if (moved == NULL) {
        if (old) {
            pattern_check(old, written(kept->size), 1); /* the block stays as it was */
        }
        return;
    }
    CHECK(!MW_CANARY || mw_malloc_usable_size(moved) == size);
    if (old) {
        pattern_check_moved(moved, old, written(kept->size), 1,
                            written(size < kept->size ? size : kept->size));
    }
    keep(kept, moved, size);
}

/* Every kind of block, each kept in a place of its own. */
static void allocate_all(struct kept *kept)
{
    size_t n = 0;
    for (size_t size = 8; size < 6u << 20; size = size * 3 + 8) {
        keep(&kept[n++], mw_malloc(size), size);
        mw_free(mw_malloc(0));
        unsigned char *zeros = judged(mw_calloc(1, size + 100), size + 100);
        for (size_t i = 0; zeros && i < size + 100; i += size < 4096 ? 1 : size / 16) {
            CHECK_EQ(zeros[i], 0);
        }
        keep(&kept[n++], zeros, size + 100);
    }
    for (size_t alignment = 64; alignment <= 8u << 20; alignment *= 8) {
        keep(&kept[n++], mw_aligned_alloc(alignment, 3000), 3000);
        void *out = NULL;
        int code = mw_posix_memalign(&out, alignment, 70000);
        CHECK(code == 0 || (code == ENOMEM && out == NULL));
        errno = ENOMEM;
        keep(&kept[n++], out, 70000);
    }
    keep(&kept[n++], mw_valloc(100), 100);
    keep(&kept[n++], mw_pvalloc(100), 100);
    keep(&kept[n++], mw_malloc((size_t)1200 << 20),
         (size_t)1200 << 20); /* more than a leaf covers */
    CHECK_LE(n, KEPT);
}

static void resize_all(struct kept *kept)
{
    for (size_t i = 0; i < KEPT; i += 3) {
        resize(&kept[i], 300 + i * 5000);
    }
    /* One block through all of them: small, large, with a mapping of its own that can be moved. */
    static const size_t sizes[] = {50,       9000,      200000,    900000,   3u << 20,
                                   5u << 20, 12u << 20, 20u << 20, 4u << 20, 80};
    struct kept growing = {0};
    struct kept neighbour = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        resize(&growing, sizes[i]);
        if (i == 4) {
            keep(&neighbour, mw_malloc(3u << 20), 3u << 20);
        }
    }
    drop(&growing);
    drop(&neighbour);
}

static void drop_all(struct kept *kept)
{
    for (size_t i = 0; i < KEPT; i++) {
        drop(&kept[(i * 7) % KEPT]);
    }
}

/* Many blocks of a few classes: slabs fill, regions grow, descriptors run out. */
static void churn(void)
{
    enum { BLOCKS = 2000 };
    static struct kept blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = i % 3 == 0 ? 5000 : i % 3 == 1 ? 90 : 40;
        blocks[i] = (struct kept){judged(mw_malloc(size), size), 8};
        if (blocks[i].bytes) {
            pattern_write(blocks[i].bytes, 8, 1);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        drop(&blocks[(i * 11) % BLOCKS]);
    }
}

static void *work_in_thread(void *argument)
{
    struct kept *kept = argument;
    drop_all(kept); /* of the thread before: remote frees */
    allocate_all(kept);
    resize_all(kept);
    return NULL;
}

static void in_thread(struct kept *kept)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, work_in_thread, kept), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

enum { LENT = 3000, LENT_STEP = 40 }; /* more slabs than are emptied in one go */
static struct kept lent[LENT];

static void *free_lent(void *unused)
{
    for (size_t i = 0; i < LENT; i++) {
        drop(&lent[i]);
    }
    mw_malloc_trim(0);
    return unused;
}

/* Another thread frees nearly all of slabs that this one looks at no more. */
static void be_emptied(void)
{
    for (size_t i = 0; i < LENT; i++) {
        lent[i] = (struct kept){judged(mw_malloc(40), 40), 8};
        if (lent[i].bytes) {
            pattern_write(lent[i].bytes, 8, 1);
        }
    }
    for (size_t i = 0; i < LENT; i += LENT_STEP) {
        drop(&lent[i]);
    }
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_lent, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Reads, writes or does what a name of an arena means; false if there was no memory for it, which is
 * right only where a call was made to fail. */
static bool control(unsigned arena, const char *what, void *old_value, void *new_value, size_t size)
{
    char name[64];
    snprintf(name, sizeof name, what, arena);
    int error =
        mw_mallctl(name, old_value, old_value ? &size : NULL, new_value, new_value ? size : 0);
    bool may_fail = results->failed_calls > 0 && strcmp(what, "epoch") != 0;
    CHECK_MSG(error == 0 || (error == EAGAIN && may_fail), "%s: %d", name, error);
    return error == 0;
}

/* An arena of the program's own: blocks of each kind, some freed, the rest taken back with it. */
static void fill_arena(unsigned arena)
{
    static const size_t sizes[] = {40, 5000, 70000, 300000, 3u << 20, 9u << 20};
    enum { SIZES = sizeof sizes / sizeof sizes[0], ROUNDS = 4 };
    struct kept kept[ROUNDS * SIZES];
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    for (size_t i = 0; i < ROUNDS * SIZES; i++) {
        errno = ENOMEM; /* mallocx promises none */
        keep(&kept[i], mw_mallocx(sizes[i % SIZES], flags), sizes[i % SIZES]);
    }
    for (size_t i = 0; i < ROUNDS * SIZES; i += 2) {
        drop(&kept[i]);
    }
    for (int i = 0; i < 40; i++) { /* 10 ms each: it becomes muzzy, and is given back */
        control(arena, "arena.%u.decay", NULL, NULL, 0);
    }
    for (size_t i = 1; i < ROUNDS * SIZES; i += 4) {
        drop(&kept[i]);
    }
    control(arena, "arena.%u.purge", NULL, NULL, 0);
    for (size_t i = 0; i < ROUNDS * SIZES; i++) {
        if (kept[i].bytes) {
            pattern_check(kept[i].bytes, written(kept[i].size), 1);
        }
    }
    control(arena, "arena.%u.destroy", NULL, NULL, 0);
}

/* As a program's hook may ask: for memory at an address where there already is some. */
static void map_where_memory_is(extent_hooks_t *kernel)
{
    size_t size = 3u << 20;
    char *block = judged(mw_malloc(size), size);
    if (block) {
        bool is_zero = false, is_committed = false;
        char *page = (char *)align_up((uintptr_t)block, os_page_size);
        CHECK(kernel->alloc(kernel, page, 4 * os_page_size, os_page_size, &is_zero, &is_committed,
                            0) == NULL);
        mw_free(block);
    }
}

/* Arenas without hooks, with hooks that pass everything on to the kernel's, and with some of these
 * only. */
static void use_arenas(void)
{
    static extent_hooks_t passing, poor;
    extent_hooks_t *kernel, *hooks = &passing;
    unsigned arena;
    if (!control(0, "arenas.create", &arena, NULL, sizeof arena)) {
        return;
    }
    CHECK(control(arena, "arena.%u.extent_hooks", &kernel, NULL, sizeof kernel));
    passing = *kernel;
    poor = (extent_hooks_t){.alloc = kernel->alloc, .destroy = kernel->destroy};
    map_where_memory_is(kernel);
    fill_arena(arena);
    for (int i = 0; i < 2; i++, hooks = &poor) {
        size_t size = sizeof arena;
        int error = mw_mallctl("arenas.create", &arena, &size, &hooks, sizeof hooks);
        CHECK_MSG(error == 0 || (error == EAGAIN && results->failed_calls > 0), "%d", error);
        if (error == 0) {
            fill_arena(arena);
        }
    }
}

/* What is mapped when it is asked for first. */
static void look(void)
{
    uint64_t epoch = 1;
    uintptr_t frames[8];
    control(0, "epoch", NULL, &epoch, sizeof epoch);
    size_t depth = unwind_here(frames, 8);
    CHECK(depth > 0 || results->failed_calls > 0 || fail_at != 0);
}

static void ignore_text(void *context, const char *text)
{
    (void)context;
    (void)text;
}

static void workload(void)
{
    static struct kept kept[KEPT];
    allocate_all(kept);
    resize_all(kept);
    in_thread(kept);
    mw_collect(false);
    churn();
    mw_malloc_trim(0);
    be_emptied();
    in_thread(kept);
    mw_collect(true);
    resize_all(kept);
    drop_all(kept);
    use_arenas();
    look();
    mw_malloc_stats_print(ignore_text, NULL, "J");
    mw_malloc_trim(1u << 20);
}

static void run_workload(void)
{
    is_armed = true;
    workload();
    is_armed = false;
    long refused = results->refused;
    fail_at = 0;
    results->failed_calls = 0; /* from here on no refusal is right */
    workload();
    /* The heap that a thread uses when there was no memory for its own keeps what it has. */
    struct heap *shared = thread_enter_shared();
    heap_collect(shared);
    thread_leave(shared);
    mw_collect(true);
    CHECK_EQ(results->refused, refused);
    CHECK(mw_heap_is_valid());
    struct mw_mallinfo2 info = mw_mallinfo2();
    results->in_use = info.uordblks + info.hblkhd;
    results->unaccounted = results->balance - results->lost - (long)info.arena - (long)meta_bytes();
    CHECK_EQ(info.uordblks + info.fordblks, info.arena);
    _exit(0);
}

/* --- The runs ---------------------------------------------------------------------------------*/

static void in_child(void (*body)(void), const char *what)
{
    size_t site_count = results->site_count;
    memset(results, 0, offsetof(struct results, site_count));
    results->site_count = site_count;
    for (size_t i = 0; i < site_count; i++) {
        results->sites[i].calls = 0;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        body();
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_MSG(status == 0, "%s, failing call %ld%s: signal %d, exit code %d", what, fail_at,
              fails_all ? " and all after it" : "", WTERMSIG(status), WEXITSTATUS(status));
}

static const char *settings_now;

/* The environment is read when the program is loaded, long before this. */
static void run_with_settings(void)
{
    /* Which block is guarded is left to chance, unless it is asked for. */
    CHECK(parse_settings("guard_sample:0", "injection") &&
          parse_settings(settings_now, "injection"));
    is_armed = true;
    guarded_load(); /* reads its options when the program is loaded, too */
    run_workload();
}

/* Which calls to make fail, of those of the run without a fault: of each site the first three and then
 * ever fewer, the 5th, 9th, 17th ..., for what is found there depends on how much there is by then; all
 * with MALLOW_LONG. */
static bool is_tried(unsigned repeats)
{
    return (repeats & (repeats - 1)) == 0 || getenv("MALLOW_LONG");
}

static long run_settings(const char *settings)
{
    settings_now = settings;
    fail_at = 0;
    in_child(run_with_settings, settings);
    static unsigned repeats[NUMBERS_MOST];
    memcpy(repeats, results->repeats, sizeof repeats);
    long calls = results->calls, unaccounted = results->unaccounted, most = 0;
    size_t in_use = results->in_use;
    CHECK_MSG(calls > 0 && results->refused == 0, "%ld calls", calls);
    long runs = 0, refused = 0;
    for (int all = 0; all <= 1; all++) {
        fails_all = all;
        /* A failure changes what comes after, so the number of calls is asked of each run. */
        for (fail_at = 1; fail_at == 1 || results->calls >= fail_at - 1; fail_at++) {
            if (fail_at < NUMBERS_MOST && !is_tried(repeats[fail_at])) {
                continue;
            }
            in_child(run_with_settings, settings);
            runs++;
            refused += results->refused;
            /* The page behind a slab stays in use where the kernel refuses to open it. */
            size_t left = MW_FENCES && all ? 128 * os_page_size : 0;
            CHECK_MSG(results->in_use <= in_use + left,
                      "%s, failing call %ld: %zu bytes in use at the end, without %zu", settings,
                      fail_at, results->in_use, in_use);
            CHECK_MSG(results->unaccounted <= unaccounted + (long)SLACK,
                      "%s, failing call %ld%s: %ld bytes mapped in no region, without fault %ld",
                      settings, fail_at, all ? " and all after it" : "", results->unaccounted,
                      unaccounted);
            most = results->unaccounted > most ? results->unaccounted : most;
        }
    }
    printf(
        "%s: %ld calls, %ld runs, %ld refusals; %ld KiB outside regions, with faults up to %ld\n",
        settings, calls, runs, refused, unaccounted >> 10, most >> 10);
    return runs;
}

/* Two threads cover the same part of the page map at once: the loser gives its leaf back. */
static void *cover(void *unused)
{
    CHECK(pagemap_cover((uintptr_t)1 << 44, os_page_size));
    return unused;
}

static void run_race(void)
{
    mw_free(mw_malloc(1));
    pthread_barrier_t barrier;
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    race = &barrier;
    long before = results->balance;
    CHECK_EQ(pthread_create(&thread, NULL, cover, NULL), 0);
    cover(NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(results->balance - before, PAGEMAP_LEAF_BYTES);
    _exit(0);
}

int main(int argc, char **argv)
{
    results = (void *)syscall(SYS_mmap, NULL, sizeof *results, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    in_child(run_race, "race");
    bool is_quick = argc > 1 && !strcmp(argv[1], "--quick");
    long runs = run_settings("dirty_decay_ms:300,muzzy_decay_ms:300");
    if (!is_quick) {
        runs += run_settings("dirty_decay_ms:0");
        runs += run_settings("dirty_decay_ms:100000");
        runs += run_settings("guard_sample:3,guard_slots:8");
    } else if (MW_FENCES) {
        /* This build guards blocks unasked; what fails then is tried with the fast one. */
        settings_now = "guard_sample:300,guard_slots:8";
        fail_at = 0;
        in_child(run_with_settings, settings_now);
    }
    printf("%ld runs\n", runs);
    for (size_t i = 0; i < results->site_count; i++) {
        uintptr_t *site = results->sites[i].frames;
        printf("site %#jx %#jx %#jx\n", (uintmax_t)site[0], (uintmax_t)site[1], (uintmax_t)site[2]);
    }
    return 0;
}
