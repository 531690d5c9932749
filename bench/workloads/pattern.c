/* SPDX-License-Identifier: MIT
 *
 * pattern: a use of memory that its arguments describe, for bench/search, which draws them by chance, and for
 * bench/scaling, which makes them with more and more threads. Each thread has `live` places for blocks, and `count` of
 * calls to make. ns of CPU time for each, and of the wall clock (wall), where all threads' calls are counted together.
 *
 *   random     the block of a random place is freed, and another one allocated
 *   stack      up to a random depth and down again
 *   queue      the oldest is freed
 *   phases     all are allocated, and freed in random order
 *   reverse    all are allocated, and freed last in first out
 *   survivors  half of all is freed and allocated anew; every place has its turn by chance
 *   rare       all are freed but a sixteenth, which stays for sixteen rounds
 *   resize     realloc to another size
 *   grow       realloc by a half, up to the largest size
 *   build      realloc by an eighth up to a size, then cut to it
 *   exchange   a block for one of a random thread's places, which is freed
 *   ring       blocks for the next thread's places; its own are emptied by each thread
 *   brief      threads that live for four rounds, and leave a sixteenth of their blocks to others
 *
 * Arguments: the form, one of these, then `sizes` (even, log, eight: of so many sizes, small: one of sixteen drawn from
 * the range and the others of 16 to 271 bytes, powers: of two, each half as often as the one below), `calls` (malloc,
 * calloc, aligned: to 16 to 4,096 bytes, mixed), `writes` (first: byte, pages, all), the pause in ms after each
 * 2,000 calls, threads, live, count, and the least and the largest size in bytes.
 */
#include "bench.h"

#include <malloc.h>
#include <stdatomic.h>

enum { DRAWN = 4096, THREADS_MAX = 64, CALLS_BETWEEN_PAUSES = 2000, BRIEF_ROUNDS = 4 };

static const char *const orders[] = {"random", "stack", "queue", "phases", "reverse", "survivors", "rare",
                                     "resize", "grow", "build", "exchange", "ring", "brief"};
static enum { RANDOM, STACK, QUEUE, PHASES, REVERSE, SURVIVORS, RARE, RESIZE, GROW, BUILD, EXCHANGE, RING, BRIEF } order;
static const char *const size_words[] = {"even", "log", "eight", "small", "powers"};
enum { EVEN, LOG, EIGHT, SMALL, POWERS };
static const char *const call_words[] = {"malloc", "calloc", "aligned", "mixed"};
static enum { MALLOC, CALLOC, ALIGNED, MIXED } calls;
static const char *const write_words[] = {"first", "pages", "all"};
static enum { FIRST, PAGES, ALL } writes;
static size_t threads, live, low, high;
static long count, pause_ms;
static uint32_t sizes[DRAWN];
static _Atomic(void *) *shared; /* of each thread `live` places */
static atomic_size_t ready;

/* The number of a word; ends the program if it is none of them. */
static unsigned number_of(const char *word, const char *const *words, size_t words_count) {
    for (unsigned i = 0; i < words_count; i++)
        if (strcmp(word, words[i]) == 0) return i;
    _exit(2);
}

static uint32_t size_of_powers(uint64_t *seed) {
    size_t size = low;
    while (size * 2 <= high && (random_next(seed) & 1) != 0) size *= 2;
    return (uint32_t)size;
}

static void draw(unsigned how) {
    uint64_t seed = 12345;
    if (how == LOG) {
        draw_log_uniform(sizes, DRAWN, (double)low, (double)high, seed);
        return;
    }
    draw_uniform(sizes, DRAWN, low, high, seed);
    for (size_t i = 0; i < DRAWN; i++) {
        if (how == EIGHT) sizes[i] = sizes[i % 8];
        if (how == SMALL && i % 16 != 0) sizes[i] = 16 + random_next(&seed) % 256;
        if (how == POWERS) sizes[i] = size_of_powers(&seed);
    }
}

static void write_to(char *block, size_t size) {
    if (writes == ALL) memset(block, 1, size);
    else if (writes == PAGES) write_pages(block, size);
    else if (size > 0) block[0] = 1;
}

static char *take(uint64_t *seed) {
    uint32_t random = random_next(seed);
    size_t size = sizes[random % DRAWN];
    unsigned kind = calls == MIXED ? random >> 16 & 7 : 2;
    char *block;
    if (calls == CALLOC || kind == 0) block = calloc(1, size);
    else if (calls == ALIGNED || kind == 1) block = memalign((size_t)16 << (random >> 20) % 9, size);
    else block = malloc(size);
    write_to(must(block), size);
    return block;
}

struct thread {
    uint64_t seed;
    size_t number;
    char **blocks; /* `live`, NULL where there is none */
    size_t *filled; /* bytes, of `grow` */
    size_t oldest;
};

static void drop(struct thread *own, size_t i) {
    free(own->blocks[i]);
    own->blocks[i] = NULL;
}

static void fill(struct thread *own) {
    for (size_t i = 0; i < live; i++)
        if (own->blocks[i] == NULL) own->blocks[i] = take(&own->seed);
}

static void mix(struct thread *own) {
    for (size_t i = live - 1; i > 0; i--) {
        size_t other = random_next(&own->seed) % (i + 1);
        char *block = own->blocks[i];
        own->blocks[i] = own->blocks[other];
        own->blocks[other] = block;
    }
}

/* One step of a pattern; returns how many calls it was. */
static size_t step(struct thread *own, size_t round) {
    size_t some = random_next(&own->seed) % live;
    if (order == RANDOM || order == QUEUE) {
        if (order == QUEUE) some = own->oldest = (own->oldest + 1) % live;
        free(own->blocks[some]);
        own->blocks[some] = take(&own->seed);
        return 1;
    }
    if (order == STACK) {
        size_t depth = own->oldest, made = depth > some ? depth - some : some - depth;
        while (own->oldest < some) own->blocks[own->oldest++] = take(&own->seed);
        while (own->oldest > some) drop(own, --own->oldest);
        return made + 1;
    }
    if (order == EXCHANGE) {
        size_t to = random_next(&own->seed) % threads;
        free(atomic_exchange(&shared[to * live + some], take(&own->seed)));
        return 1;
    }
    if (order == RESIZE || order == GROW) {
        size_t size = sizes[random_next(&own->seed) % DRAWN], old = own->filled[some];
        if (order == GROW) size = old == 0 ? low : old + old / 2 + 1;
        if (size > high) {
            drop(own, some);
            size = 0;
        } else {
            own->blocks[some] = must(realloc(own->blocks[some], size));
            write_to(own->blocks[some], size);
        }
        own->filled[some] = size;
        return 1;
    }
    if (order == BUILD) {
        size_t goal = sizes[random_next(&own->seed) % DRAWN], size = low, made = 2;
        drop(own, some);
        char *block = must(malloc(size));
        for (; size < goal; made++) {
            size += size / 8 + 16;
            block = must(realloc(block, size));
            block[size - 1] = 1;
        }
        own->blocks[some] = must(realloc(block, goal));
        return made;
    }
    if (order == RING) {
        _Atomic(void *) *mine = &shared[own->number * live];
        _Atomic(void *) *others = &shared[(own->number + 1) % threads * live];
        for (size_t i = 0; i < live; i++) free(atomic_exchange(&others[i], take(&own->seed)));
        for (size_t i = 0; i < live; i++) free(atomic_exchange(&mine[i], NULL));
        return live;
    }
    fill(own);
    if (order == PHASES) mix(own);
    for (size_t i = live; i-- > 0;) {
        bool stays = (order == SURVIVORS && (random_next(&own->seed) & 1) != 0) ||
                     (order == RARE && i % 16 == round % 16);
        if (!stays) drop(own, i);
    }
    return order == SURVIVORS ? live / 2 + 1 : live;
}

static void *work(void *argument) {
    struct thread own = {.number = (size_t)(uintptr_t)argument};
    own.seed = 0x9E3779B97F4A7C15 * (own.number + 1);
    own.blocks = must(calloc(live, sizeof *own.blocks));
    own.filled = must(calloc(live, sizeof *own.filled));
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < threads) sched_yield();
    long until_pause = CALLS_BETWEEN_PAUSES;
    size_t round = 0;
    for (long done = 0; done < count; round++) {
        long made = (long)step(&own, round);
        done += made;
        until_pause -= made;
        if (pause_ms > 0 && until_pause < 0) {
            nanosleep(&(struct timespec){0, pause_ms * 1000000}, NULL);
            until_pause = CALLS_BETWEEN_PAUSES;
        }
    }
    return NULL;
}

static void *work_briefly(void *argument) {
    struct thread own = {.seed = 0x9E3779B97F4A7C15 * ((uintptr_t)argument + 1)};
    own.blocks = must(calloc(live, sizeof *own.blocks));
    for (int round = 0; round < BRIEF_ROUNDS; round++) {
        fill(&own);
        for (size_t i = 0; i < live; i++) {
            if (round == BRIEF_ROUNDS - 1 && i % 16 == 0) free(atomic_exchange(&shared[i], own.blocks[i]));
            else drop(&own, i);
        }
    }
    free(own.blocks);
    return NULL;
}

static void run_numbered(void *(*body)(void *), size_t first) {
    pthread_t made[THREADS_MAX];
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&made[i], NULL, body, (void *)(first + i)) != 0) _exit(1);
    for (size_t i = 0; i < threads; i++) pthread_join(made[i], NULL);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    if (argc != 12) return 2;
    order = number_of(argv[2], orders, LENGTH(orders));
    calls = number_of(argv[4], call_words, LENGTH(call_words));
    writes = number_of(argv[5], write_words, LENGTH(write_words));
    pause_ms = strtol(argv[6], NULL, 10);
    threads = strtoul(argv[7], NULL, 10);
    live = strtoul(argv[8], NULL, 10);
    count = strtol(argv[9], NULL, 10);
    low = strtoul(argv[10], NULL, 10);
    high = strtoul(argv[11], NULL, 10);
    if (threads < 1 || threads > THREADS_MAX || live < 1 || low < 1 || high < low || pause_ms > 999) return 2;
    draw(number_of(argv[3], size_words, LENGTH(size_words)));
    shared = must(calloc(threads * live, sizeof *shared));
    double before = cpu_ns(), wall_before = now_ns();
    double calls_made = (double)count * (double)threads;
    if (order == BRIEF) {
        size_t rounds = (size_t)count / (BRIEF_ROUNDS * live) + 1;
        for (size_t i = 0; i < rounds; i++) run_numbered(work_briefly, i * threads);
        calls_made = (double)(rounds * BRIEF_ROUNDS * live * threads);
    } else if (threads == 1) {
        work(NULL);
    } else {
        run_numbered(work, 0);
    }
    report("pattern", (cpu_ns() - before) / calls_made, "ns");
    report("pattern/wall", (now_ns() - wall_before) / calls_made, "ns");
    bench_end("pattern");
    return 0;
}
