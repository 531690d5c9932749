/* SPDX-License-Identifier: MIT
 *
 * Something happens between any two instructions of the library: a worker allocates and frees with the processor's trap
 * flag set, and stops after instructions at which it has not stopped yet.
 *
 *   fork     the first thread forks. In the child the worker is missing: what it held is as it was, what it left free
 *            is given out once, and nothing that it was in the middle of is taken for a mistake of the program
 *   handler  the worker forks, in the handler of the trap; its child goes on with the interrupted call
 *   calls    the first thread frees the worker's blocks, allocates, and has caches given back
 *
 *   each_instruction WAY [SIZE]
 *
 * Of the instructions that are new one in so many is taken, by chance from MALLOW_SEED, and more of them for one size
 * alone; with MALLOW_LONG each. Exit status 77: this processor has no such flag.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "../pattern.h"
#include "promise.h"

#ifndef __x86_64__
int main(void)
{
    return 77;
}
#else

enum { ONE_IN = 64, STEPS = 12000, OF_ONE_SIZE = 4 };
enum { HELD = 256, GIVEN = 64, FRESH = 1500, PATTERN_MAX = 200 };

enum way { WAY_FORK, WAY_HANDLER, WAY_CALLS };

static const char *const ways[] = {"fork", "handler", "calls"};

/* What the worker does with blocks of one size. */
struct load {
    size_t size;
    int calls;    /* enough to fill and empty lists, slabs and stacks */
    size_t held;  /* blocks at most */
    size_t fresh; /* blocks in a child: more than the worker left free */
};

static const struct load loads[] = {
    {0, 1600, HELD, FRESH}, {8, 1600, HELD, FRESH}, {40, 1600, HELD, FRESH}, {200, 1600, HELD, 800},
    {700, 1200, HELD, 400}, {1500, 800, HELD, 300}, {5000, 600, 64, 100},    {20000, 480, 32, 60},
    {100000, 400, 16, 24},  {600000, 240, 8, 10},   {3 * MIB, 160, 4, 6},    {20 * MIB, 80, 3, 4},
};

struct block {
    unsigned char *bytes;
    size_t size;
};

static struct block held[HELD];   /* of the worker */
static struct block given[GIVEN]; /* of the first thread, for the worker to free */
static uint64_t choices;          /* of the worker */
static pthread_mutex_t moves = PTHREAD_MUTEX_INITIALIZER;
static bool is_child; /* where the lock may be held by a thread that is missing */
static int (*control)(const char *, void *, size_t *, void *, size_t);
static void (*collect)(bool);
static bool (*heap_is_valid)(void);

static size_t pattern_size(size_t size)
{
    return size < PATTERN_MAX ? size : PATTERN_MAX;
}

static struct block block_of(void *bytes, size_t size)
{
    CHECK_MSG(bytes != NULL, "%zu bytes", size);
    pattern_write(bytes, pattern_size(size), size);
    return (struct block){bytes, size};
}

static void block_check(struct block block)
{
    if (block.bytes != NULL) {
        pattern_check(block.bytes, pattern_size(block.size), block.size);
    }
}

/* A child may be made at any moment of either, and finds the block whole or not at all. */
static struct block block_take(struct block *place)
{
    if (!is_child) {
        pthread_mutex_lock(&moves);
    }
    struct block block = *place;
    __atomic_store_n(&place->bytes, NULL, __ATOMIC_SEQ_CST);
    if (!is_child) {
        pthread_mutex_unlock(&moves);
    }
    block_check(block);
    return block;
}

static void block_put(struct block *place, struct block block)
{
    if (!is_child) {
        pthread_mutex_lock(&moves);
    }
    struct block old = *place;
    __atomic_store_n(&place->bytes, NULL, __ATOMIC_SEQ_CST);
    place->size = block.size;
    __atomic_store_n(&place->bytes, block.bytes, __ATOMIC_SEQ_CST);
    if (!is_child) {
        pthread_mutex_unlock(&moves);
    }
    block_check(old);
    free(old.bytes);
}

static void block_free(struct block *place)
{
    free(block_take(place).bytes);
}

static size_t any_size(uint64_t *random, size_t size)
{
    return test_random(random) % 4 != 0 ? size : size / 2 + test_random(random) % (size + 1);
}

static struct block any_block(uint64_t *random, size_t wanted)
{
    size_t size = any_size(random, wanted);
    switch (test_random(random) % 8) {
    case 0:
        return block_of(calloc(1, size), size);
    case 1:
        return block_of(aligned_alloc(64, size), size);
    default:
        return block_of(malloc(size), size);
    }
}

/* Of the worker. */
static void one_call(const struct load *load)
{
    struct block *place = &held[test_random(&choices) % load->held];
    unsigned kind = (unsigned)(test_random(&choices) % 64);
    if (kind == 0) {
        CHECK_EQ(control("thread.idle", NULL, NULL, NULL, 0), 0);
    } else if (kind < 5) {
        block_free(&given[test_random(&choices) % GIVEN]);
    } else if (place->bytes == NULL) {
        block_put(place, any_block(&choices, load->size));
    } else if (kind < 9) {
        size_t size = any_size(&choices, load->size) + 1; /* of 0 would free it */
        block_put(place, block_of(realloc(block_take(place).bytes, size), size));
    } else {
        block_free(place);
    }
}

/* --- What a child checks --- */

static void use_all_that_is_free(const struct load *load)
{
    static struct block fresh[FRESH];
    uint64_t random = 7;
    for (size_t i = 0; i < load->fresh; i++) {
        fresh[i] = any_block(&random, load->size);
    }
    for (size_t i = 0; i < HELD; i++) {
        block_check(held[i]);
    }
    for (size_t i = 0; i < load->fresh; i++) {
        block_free(&fresh[i]);
    }
    for (size_t i = 0; i < HELD; i++) {
        block_free(&held[i]);
    }
    for (size_t i = 0; i < GIVEN; i++) {
        block_free(&given[i]);
    }
    for (size_t i = 0; i < load->fresh / 2; i++) {
        fresh[i] = any_block(&random, load->size);
    }
    for (size_t i = 0; i < load->fresh / 2; i++) {
        block_free(&fresh[i]);
    }
    CHECK(heap_is_valid());
    _exit(0);
}

/* --- Where to stop --- */

static enum way way;
static const struct load *now;
static unsigned one_in;          /* of the new instructions */
static uintptr_t code, code_end; /* of the library */
static bool *is_known;           /* an instruction of it */
static uintptr_t place;          /* of the worker's last stop */
static int stops, steps, most_steps;

static void find_code(void)
{
    static char text[1 << 20];
    promise_read("/proc/self/maps", text, sizeof text);
    uintptr_t at = (uintptr_t)heap_is_valid;
    for (char *line = text; *line != 0; line = strchr(line, '\n') + 1) {
        char *end;
        uintptr_t from = strtoul(line, &end, 16), to = strtoul(end + 1, NULL, 16);
        if (from <= at && at < to) {
            code = from;
            code_end = to;
        }
    }
    CHECK(code != 0);
    is_known = calloc(code_end - code, 1);
    CHECK(is_known != NULL);
}

static uint64_t chance; /* of the stops */

static bool is_wanted(uintptr_t at)
{
    if (at < code || at >= code_end || is_known[at - code] || test_random(&chance) % one_in != 0) {
        return false;
    }
    is_known[at - code] = true;
    place = at;
    return true;
}

static void wait_for(pid_t child)
{
    int status = -1;
    CHECK(child > 0);
    while (waitpid(child, &status, 0) != child) {
        CHECK_EQ(errno, EINTR);
    }
    CHECK_MSG(status == 0, "%zu bytes, before %#zx of the library: status %#x of the child",
              now->size, place - code, (unsigned)status);
}

static sem_t asked, done;
static bool is_pending; /* what the first thread was asked for */
static bool is_over;

/* The first thread may need a lock that the worker holds: if it takes long, the worker goes on until that is done. */
static void let_the_other_act(void)
{
    if (is_pending) {
        sched_yield();
        is_pending = sem_trywait(&done) != 0;
        return;
    }
    sem_post(&asked);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 4000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    is_pending = sem_timedwait(&done, &until) != 0;
}

static void after_instruction(int signal, siginfo_t *info, void *context)
{
    enum { TRAP_FLAG = 0x100 };
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    int saved = errno;
    (void)signal;
    (void)info;
    /* A string instruction traps for each of its words: the rest of such a call is not stepped. */
    static uintptr_t last;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    bool is_repeated = at == last;
    last = at;
    if ((++steps >= most_steps || is_repeated) && !is_pending) {
        registers[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    if (!is_pending && !is_wanted(at)) {
        return;
    }
    if (way != WAY_HANDLER) {
        let_the_other_act();
        errno = saved;
        return;
    }
    pid_t child = fork();
    stops++;
    if (child == 0) {
        alarm(60);
        is_child = true;
        registers[REG_EFL] &= ~TRAP_FLAG;
    } else {
        wait_for(child);
    }
    errno = saved;
}

/* Below the stack's red zone. */
#define CHANGE_FLAGS(instruction)                                   \
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; " instruction \
                     "; popfq; lea 128(%%rsp), %%rsp" ::            \
                         : "memory", "cc")

static void *work(void *argument)
{
    for (size_t i = 0; i < now->held / 2; i++) {
        one_call(now);
    }
    for (int i = 0; i < now->calls && steps < most_steps && !is_child; i++) {
        bool is_stepped =
            test_random(&choices) % 4 == 0; /* a step takes 25 us on a virtual machine */
        if (is_stepped) {
            CHANGE_FLAGS("orq $0x100, (%%rsp)");
        }
        one_call(now);
        if (is_stepped) {
            CHANGE_FLAGS("andq $~0x100, (%%rsp)");
        }
    }
    if (is_child) {
        use_all_that_is_free(now);
    }
    if (is_pending) {
        sem_wait(&done);
        is_pending = false;
    }
    is_over = true;
    sem_post(&asked);
    return argument;
}

/* --- What the first thread does --- */

static void fork_once(void)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        is_child = true;
        use_all_that_is_free(now);
    }
    wait_for(child);
}

static void call_some(void)
{
    static uint64_t random = 3;
    for (int i = 0; i < 6; i++) {
        struct block *place_of_worker = &held[test_random(&random) % now->held];
        switch (test_random(&random) % 4) {
        case 0:
            block_put(&given[test_random(&random) % GIVEN], any_block(&random, now->size));
            break;
        case 1:
            block_put(place_of_worker, any_block(&random, now->size));
            break;
        default:
            block_free(place_of_worker);
        }
    }
    unsigned rare = (unsigned)(test_random(&random) % 64);
    if (rare < 4) {
        collect(rare == 0);
    } else if (rare < 12) {
        CHECK(heap_is_valid());
    }
}

static void answer_until_over(void)
{
    while (sem_wait(&asked) == 0 && !is_over) {
        if (way == WAY_FORK) {
            fork_once();
        } else {
            call_some();
        }
        stops++;
        sem_post(&done);
    }
}

static void run(const struct load *load)
{
    pthread_t worker;
    now = load;
    stops = steps = 0;
    is_over = false;
    memset(is_known, 0, code_end - code);
    for (size_t i = 0; i < GIVEN && load->size * i < 64 * MIB; i++) {
        block_put(&given[i], any_block(&choices, load->size));
    }
    CHECK_EQ(pthread_create(&worker, NULL, work, NULL), 0);
    answer_until_over();
    CHECK_EQ(pthread_join(worker, NULL), 0);
    for (size_t i = 0; i < HELD; i++) {
        block_free(&held[i]);
    }
    for (size_t i = 0; i < GIVEN; i++) {
        block_free(&given[i]);
    }
    CHECK(stops > 0);
    printf("%s: %zu bytes, %d steps, %d stops\n", ways[way], load->size, steps, stops);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = after_instruction,
                               .sa_flags = SA_SIGINFO | SA_RESTART};
    const char *seed = getenv("MALLOW_SEED");
    size_t only = argc > 2 ? strtoul(argv[2], NULL, 10) : SIZE_MAX;
    CHECK(argc > 1);
    while (way < WAY_CALLS && strcmp(argv[1], ways[way]) != 0) {
        way++;
    }
    choices = 2 * (seed != NULL ? strtoull(seed, NULL, 10) : 0) + 1;
    chance = choices;
    printf("MALLOW_SEED=%s\n", seed != NULL ? seed : "0");
    int more = only == SIZE_MAX ? 1 : OF_ONE_SIZE;
    one_in = (unsigned)promise_rounds(ONE_IN / more, 1);
    most_steps = promise_rounds(STEPS * more, INT_MAX);
    control = dlsym(RTLD_DEFAULT, "mallctl");
    collect = dlsym(RTLD_DEFAULT, "mw_collect");
    heap_is_valid = dlsym(RTLD_DEFAULT, "mw_heap_is_valid");
    find_code();
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    CHECK_EQ(sem_init(&asked, 0, 0) + sem_init(&done, 0, 0), 0);
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        if (only == SIZE_MAX || loads[i].size == only) {
            run(&loads[i]);
        }
    }
    return 0;
}
#endif
