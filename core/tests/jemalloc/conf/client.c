/* SPDX-License-Identifier: MIT
 *
 * Shows what a setting does: run with an argument, it prints one word or number. conf/run.py runs it
 * with and without the setting. A second argument is the size of the blocks that it uses.
 */
#include <jemalloc/jemalloc.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef OWN_CONF
const char *malloc_conf = "dirty_decay_ms:4711,narenas:3";
#endif

/* Found where the library is preloaded; the program is not linked with it. */
#pragma weak mallctl
#pragma weak mallocx
#pragma weak dallocx
#pragma weak xallocx
#pragma weak sallocx

static long field_kib(const char *path, const char *name)
{
    char line[256];
    long value = -1;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, name, strlen(name))) {
            value = atol(line + strlen(name));
        }
    }
    fclose(file);
    return value;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

enum { USED = 100000000, SMALLEST_BLOCK = 10000 };

static size_t block_size = 100000;

static void use_100_mb(void)
{
    static void *blocks[USED / SMALLEST_BLOCK];
    size_t count = USED / block_size;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = memset(malloc(block_size), 1, block_size);
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

static void use_block(void)
{
    void *volatile block = malloc(block_size);
    free(block);
}

/* What is left of it after a second with a few calls. */
static void use_and_wait(int calls)
{
    use_100_mb();
    for (int i = 0; i < calls; i++) {
        sleep_ms(1000 / calls);
        use_block();
    }
}

/* In MiB; without a call of the allocator, as stdio makes one. */
static long resident(void)
{
    static char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *at = strstr(text, "Rss:");
    return at != NULL ? atol(at + strlen("Rss:")) / 1024 : -1;
}

/* In MiB. */
static long address_space(void)
{
    return field_kib("/proc/self/status", "VmSize:") / 1024;
}

static pthread_barrier_t all_here;

static void *arena_of_thread(void *unused)
{
    (void)unused;
    unsigned arena = 0;
    size_t size = sizeof arena;
    mallctl("thread.arena", &arena, &size, NULL, 0);
    pthread_barrier_wait(&all_here);
    return (void *)(uintptr_t)arena;
}

/* How many arenas sixteen threads have. */
static int arenas_of_threads(void)
{
    pthread_t threads[16];
    int seen[4096] = {0}, count = 0;
    pthread_barrier_init(&all_here, NULL, 16);
    for (int i = 0; i < 16; i++) {
        pthread_create(&threads[i], NULL, arena_of_thread, NULL);
    }
    for (int i = 0; i < 16; i++) {
        void *arena;
        pthread_join(threads[i], &arena);
        count += !seen[(uintptr_t)arena]++;
    }
    return count;
}

/* Of each CPU that it may use, up to four: how many arenas four threads have that begin there; and how many there
 * are of all. */
static void show_arenas_of_cpus(void)
{
    cpu_set_t usable, one;
    unsigned seen_anywhere[4096] = {0}, anywhere = 0;
    sched_getaffinity(0, sizeof usable, &usable);
    for (int cpu = 0, shown = 0; cpu < CPU_SETSIZE && shown < 4; cpu++) {
        unsigned seen[4096] = {0}, count = 0;
        pthread_t threads[4];
        if (!CPU_ISSET(cpu, &usable)) {
            continue;
        }
        shown++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        pthread_barrier_init(&all_here, NULL, 4);
        for (int i = 0; i < 4; i++) {
            pthread_create(&threads[i], NULL, arena_of_thread, NULL);
        }
        for (int i = 0; i < 4; i++) {
            void *arena;
            pthread_join(threads[i], &arena);
            count += !seen[(uintptr_t)arena]++;
            anywhere += !seen_anywhere[(uintptr_t)arena]++;
        }
        printf("%u ", count);
    }
    printf("of %u\n", anywhere);
}

static void *be_here(void *unused)
{
    use_block();
    pthread_barrier_wait(&all_here);
    pthread_barrier_wait(&all_here);
    return unused;
}

/* How many threads there are where nine of them have each called malloc, with an arena of its own if there are so
 * many. */
static long threads_of_nine(void)
{
    pthread_t threads[8];
    pthread_barrier_init(&all_here, NULL, 9);
    for (int i = 0; i < 8; i++) {
        pthread_create(&threads[i], NULL, be_here, NULL);
    }
    use_block();
    pthread_barrier_wait(&all_here);
    long count = field_kib("/proc/self/status", "Threads:");
    pthread_barrier_wait(&all_here);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    return count;
}

static const char *fill_of(const unsigned char *block, size_t size)
{
    static char text[8];
    for (size_t i = 16; i < size; i++) {
        if (block[i] != block[16]) {
            return "mixed";
        }
    }
    snprintf(text, sizeof text, "%02x", block[16]);
    return text;
}

/* A fresh block, and one that is freed and, for it is kept by its slab, can still be read. */
static void show_fill(void)
{
    unsigned char *blocks[8];
    for (int i = 0; i < 8; i++) {
        blocks[i] = malloc(200);
        memset(blocks[i], 0x33, 200);
    }
    for (int i = 0; i < 8; i++) {
        free(blocks[i]);
    }
    const volatile unsigned char *freed = blocks[3];
    char after_free = (char)freed[100];
    unsigned char *block = malloc(200);
    printf("%s %02x\n", fill_of(block, 200), (unsigned char)after_free);
}

/* Fresh blocks of an arena that are asked for as zeros: by name, and by a thread that is bound to it. */
static void show_zeros_of_arena(void)
{
    enum { BYTES = 300000 };
    char named[8];
    unsigned arena = 0;
    size_t size = sizeof arena;
    mallctl("arenas.create", &arena, &size, NULL, 0);
    snprintf(named, sizeof named, "%s",
             fill_of(mallocx(BYTES, MALLOCX_ARENA(arena) | MALLOCX_ZERO), BYTES));
    mallctl("thread.arena", NULL, NULL, &arena, sizeof arena);
    printf("%s %s\n", named, fill_of(calloc(1, BYTES), BYTES));
}

static unsigned char *dirty(void *block, size_t size)
{
    return memset(block, 0x33, size);
}

static void note_tail(char *text, const unsigned char *block, size_t from, size_t to)
{
    snprintf(text, 8, "%s", to > from ? fill_of(block + from - 16, to - from + 16) : "none");
}

/* A large block that was cut, and left its bytes behind it; what can be used of it is dirty. */
static unsigned char *cut_block(size_t size, size_t less)
{
    unsigned char *block = realloc(dirty(malloc(size), size), less);
    return dirty(block, sallocx(block, 0));
}

/* What a block has new that realloc makes larger, and xallocx if it can, a slot that is larger within its class, and one
 * out of a cache. */
static void show_fill_of_grown(void)
{
    enum { ALL = 400000, LESS = 100000 };
    char moved[8], stays[8], slot[8];
    unsigned char *block = cut_block(ALL, LESS);
    size_t kept = sallocx(block, 0);
    note_tail(stays, block, kept, xallocx(block, ALL, 0, 0));
    block = cut_block(ALL, LESS);
    kept = sallocx(block, 0);
    block = realloc(block, ALL);
    note_tail(moved, block, kept, ALL);
    block = realloc(dirty(malloc(600), 600), 620);
    note_tail(slot, block, 600, 620);
    unsigned cache = 0;
    size_t size = sizeof cache;
    mallctl("tcache.create", &cache, &size, NULL, 0);
    dallocx(dirty(mallocx(2000, MALLOCX_TCACHE(cache)), 2000), MALLOCX_TCACHE(cache));
    const char *cached = fill_of(mallocx(2000, MALLOCX_TCACHE(cache)), 2000);
    printf("%s %s %s %s\n", moved, strcmp(stays, "none") ? stays : moved, slot, cached);
}

/* What is left of blocks that went into a cache, and past all caches. */
static void show_fill_of_freed(void)
{
    unsigned char *blocks[4];
    unsigned cache = 0;
    size_t size = sizeof cache;
    mallctl("tcache.create", &cache, &size, NULL, 0);
    for (int i = 0; i < 4; i++) {
        blocks[i] = dirty(malloc(3000), 3000);
    }
    const volatile unsigned char *cached = blocks[1], *uncached = blocks[2];
    dallocx(blocks[1], MALLOCX_TCACHE(cache));
    dallocx(blocks[2], MALLOCX_TCACHE_NONE);
    printf("%02x %02x\n", cached[100], uncached[100]);
}

/* A number or a truth value of opt.*, whatever its length. */
static long number_of(const char *name)
{
    for (size_t size = 1; size <= 8; size *= 2) {
        unsigned long value = 0;
        size_t length = size;
        if (mallctl(name, &value, &length, NULL, 0) == 0) {
            return (long)value;
        }
    }
    return -9;
}

static const char *text_of(const char *name)
{
    const char *text = NULL;
    size_t size = sizeof text;
    return mallctl(name, &text, &size, NULL, 0) == 0 ? text : "?";
}

enum { LISTED_BLOCKS = 100 };

/* Allocates and frees more and more blocks at a time: lists become as long as they may. */
static void *fill_lists(void *size)
{
    static void *blocks[LISTED_BLOCKS];
    pthread_barrier_wait(&all_here);
    pthread_barrier_wait(&all_here);
    for (int round = 0; round < 8 * LISTED_BLOCKS; round++) {
        for (int i = 0; i < round / 8; i++) {
            blocks[i] = malloc((size_t)size);
        }
        for (int i = 0; i < round / 8; i++) {
            free(blocks[i]);
        }
    }
    pthread_barrier_wait(&all_here);
    pthread_barrier_wait(&all_here);
    return NULL;
}

static long bytes_of_slots(void)
{
    mallctl("epoch", NULL, NULL, &(uint64_t){1}, sizeof(uint64_t));
    return number_of("stats.arenas.4096.small.allocated");
}

/* How many blocks lie in the lists of a thread that holds none. */
static long blocks_in_lists(size_t size)
{
    pthread_t thread;
    pthread_barrier_init(&all_here, NULL, 2);
    pthread_create(&thread, NULL, fill_lists, (void *)size);
    pthread_barrier_wait(&all_here); /* what the C library needs for it is there */
    long before = bytes_of_slots();
    pthread_barrier_wait(&all_here);
    pthread_barrier_wait(&all_here);
    long after = bytes_of_slots();
    pthread_barrier_wait(&all_here);
    pthread_join(thread, NULL);
    return (after - before) / (long)size;
}

static long slabs_made(void)
{
    long made = 0;
    mallctl("epoch", NULL, NULL, &(uint64_t){1}, sizeof(uint64_t));
    for (long bin = 0; bin < number_of("arenas.nbins"); bin++) {
        char name[64];
        snprintf(name, sizeof name, "stats.arenas.4096.bins.%ld.nslabs", bin);
        made += number_of(name);
    }
    return made;
}

/* How many slabs are made for 10,000 blocks. */
static long slabs_for_blocks(size_t size)
{
    static void *blocks[10000];
    long before = slabs_made();
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        blocks[i] = malloc(size);
        *(char *volatile)blocks[i] = 1;
    }
    long made = slabs_made() - before;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        free(blocks[i]);
    }
    return made;
}

/* The flags of the mapping that a block lies in. */
static void show_flags_of_mapping(void)
{
    size_t size = 16 << 20;
    char line[512], *block = malloc(size);
    bool is_it = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            is_it = start <= (uintptr_t)block && (uintptr_t)block < end;
        } else if (is_it && !strncmp(line, "VmFlags:", 8)) {
            printf("%s%s", strstr(line, " hg") ? "wanted" : "",
                   strstr(line, " nh") ? "refused" : "");
        }
    }
    printf(".\n");
    free(block);
}

/* The bookkeeping of 20 blocks that are never written to, a GiB of address space each, and whether the kernel
 * was asked for huge pages. */
static void show_huge_metadata(void)
{
    static void *volatile blocks[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = malloc(1 << 30);
    }
    if (blocks[19] == NULL) {
        printf("no memory ");
    }
    char line[512];
    bool is_asked = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && fgets(line, sizeof line, file)) {
        is_asked |= !strncmp(line, "VmFlags:", 8) && strstr(line, " hg");
    }
    bytes_of_slots();
    long told = number_of("stats.metadata_thp");
    bool is_all = told == number_of("stats.arenas.4096.metadata_thp");
    printf("%s%s%s\n", is_asked ? "asked " : "", told > 0 ? "told " : "", is_all ? "." : "?");
}

static void show_arena_of_large(void)
{
    size_t megabytes[] = {1, 4, 40};
    for (int i = 0; i < 3; i++) {
        void *block = malloc(megabytes[i] << 20);
        memset(block, 1, megabytes[i] << 20);
        block = realloc(block, (megabytes[i] << 20) + 100000);
        unsigned arena;
        size_t size = sizeof arena;
        mallctl("arenas.lookup", &arena, &size, &block, sizeof block);
        char name[32] = "", query[64], *to = name;
        snprintf(query, sizeof query, "arena.%u.name", arena);
        size = sizeof to;
        mallctl(query, &to, &size, NULL, 0);
        free(block);
        printf("%s%s", strcmp(name, "auto_oversize") ? "shared" : "oversize", i < 2 ? " " : "\n");
    }
}

/* So many bytes in blocks of several sizes, all freed again. */
static void churn(size_t bytes)
{
    static const size_t sizes[] = {100, 3000, 100000, 20000};
    for (size_t done = 0, i = 0; done < bytes; done += sizes[i++ % 4]) {
        void *volatile block = malloc(sizes[i % 4]);
        free(block);
    }
}

/* How many threads the program may ask for. */
static size_t most_background_threads(void)
{
    size_t most = 0, next = 1;
    while (mallctl("max_background_threads", NULL, NULL, &next, sizeof next) == 0) {
        most = next++;
    }
    return most;
}

static void show(const char *what)
{
    if (!strncmp(what, "text:", 5)) {
        printf("%s\n", text_of(what + 5));
    } else if (strchr(what, '.') || !strcmp(what, "max_background_threads")) {
        printf("%ld\n", number_of(what));
    } else if (!strncmp(what, "in_lists:", 9)) {
        printf("%ld\n", blocks_in_lists((size_t)atol(what + 9)));
    } else if (!strncmp(what, "slabs_for:", 10)) {
        printf("%ld\n", slabs_for_blocks((size_t)atol(what + 10)));
    } else if (!strcmp(what, "huge_pages")) {
        show_flags_of_mapping();
    } else if (!strcmp(what, "arenas_of_cpus")) {
        show_arenas_of_cpus();
    } else if (!strcmp(what, "threads_of_nine")) {
        printf("%ld\n", threads_of_nine());
    } else if (!strcmp(what, "most_background_threads")) {
        printf("%zu\n", most_background_threads());
    } else if (!strcmp(what, "huge_metadata")) {
        show_huge_metadata();
    } else if (!strcmp(what, "arena_of_large")) {
        show_arena_of_large();
    } else if (!strcmp(what, "churn")) {
        churn(400000000);
        printf("done\n");
    } else if (!strcmp(what, "dirty_decay_ms")) {
        ssize_t value = -9;
        size_t size = sizeof value;
        mallctl("opt.dirty_decay_ms", &value, &size, NULL, 0);
        printf("%zd\n", value);
    } else if (!strcmp(what, "narenas")) {
        printf("%d\n", arenas_of_threads());
    } else if (!strcmp(what, "resident")) {
        use_and_wait(100);
        printf("%ld\n", resident());
    } else if (!strcmp(what, "lazy")) {
        use_and_wait(100);
        printf("%ld\n", field_kib("/proc/self/smaps_rollup", "LazyFree:") / 1024);
    } else if (!strcmp(what, "resident_at_rest")) {
        /* As long as it takes, where a thread gives it back. */
        int looks = number_of("opt.background_thread") == 1 ? 600 : 25;
        use_100_mb();
        for (int i = 0; i < looks && resident() > 40; i++) {
            sleep_ms(100);
        }
        printf("%ld\n", resident());
    } else if (!strcmp(what, "threads")) {
        printf("%ld\n", field_kib("/proc/self/status", "Threads:"));
    } else if (!strcmp(what, "address_space")) {
        use_and_wait(10);
        /* On a machine with much to do it takes as long as it takes. */
        for (int i = 0; number_of("opt.retain") == 0 && i < 200 && address_space() > 90; i++) {
            use_block();
            sleep_ms(100);
        }
        printf("%ld\n", address_space());
    } else if (!strcmp(what, "fill")) {
        show_fill();
    } else if (!strcmp(what, "zeros_of_arena")) {
        show_zeros_of_arena();
    } else if (!strcmp(what, "fill_of_grown")) {
        show_fill_of_grown();
    } else if (!strcmp(what, "fill_of_freed")) {
        show_fill_of_freed();
    } else if (!strcmp(what, "zero_realloc")) {
        printf("%s\n", realloc(malloc(10), 0) == NULL ? "null" : "block");
    } else if (!strcmp(what, "out_of_memory")) {
        void *volatile block = malloc((size_t)1 << 60);
        printf("%s\n", block == NULL ? "null" : "block");
    } else {
        printf("\n");
    }
}

int main(int count, char **arguments)
{
    free(malloc(1));
    if (count > 2) {
        block_size = (size_t)atol(arguments[2]);
        block_size = block_size < SMALLEST_BLOCK ? SMALLEST_BLOCK : block_size;
    }
    show(count > 1 ? arguments[1] : "");
    return 0;
}
