/* SPDX-License-Identifier: MIT
 *
 * Promise 6: memory freed by a burst is back at the kernel within the decay time as long as the
 * program makes any allocator call, and with purge_thread also when it makes none. The test tells the time, and fails
 * if it is not back after a minute.
 *
 * The notes that the debug build keeps of blocks stay for those that come next, so they do not count. So do
 * descriptors, which in the secure build have bits for each slot: it may keep 2 MiB more.
 *
 *   MALLOW_CONF=dirty_decay_ms:N[,purge_thread:true] idle
 */
#include "promise.h"

#include <sys/wait.h>

enum { SMALL = 400000, LARGE = 300, THREADS = 4 };

static const struct {
    const char *name;
    size_t small, large, large_size; /* blocks, blocks, bytes */
    bool by_threads;                 /* calls after the burst come from threads that end at once */
} shapes[] = {
    {"small and large blocks", SMALL, LARGE, 800000, false},
    {"blocks of 2 MiB", 0, LARGE / 2, 2 * MIB, false},
    {"small blocks, calls of short threads", SMALL, 0, 0, true},
};

static size_t shape;

/* Four of them: about 40 MB in small blocks and 60 MB in large ones each, or 75 MB in larger ones. */
static void *burst(void *unused)
{
    size_t small = shapes[shape].small / THREADS, large = shapes[shape].large / THREADS;
    void **blocks = malloc((small + large) * sizeof *blocks);
    size_t count = 0;
    for (size_t i = 0; i < small; i++) {
        blocks[count++] = memset(malloc(100 + i % 800), 1, 100);
    }
    for (size_t i = 0; i < large; i++) {
        size_t size = shapes[shape].large_size;
        blocks[count++] = memset(malloc(size), 1, size);
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    free(blocks);
    return unused;
}

static void *call(void *unused)
{
    char *volatile block = malloc(100);
    block[0] = 1;
    free(block);
    return unused;
}

static void call_once(void)
{
    pthread_t thread;
    if (shapes[shape].by_threads) {
        CHECK_EQ(pthread_create(&thread, NULL, call, NULL), 0);
        pthread_join(thread, NULL);
    } else {
        call(NULL);
    }
}

/* Until no more than that is resident, or for long. Returns what is. */
static size_t wait_until(size_t at_most, bool calls)
{
    size_t now = SIZE_MAX;
    for (long end = promise_now_ms() + PROMISE_PATIENCE_MS;
         now > at_most && promise_now_ms() < end;) {
        promise_sleep_ms(50);
        if (calls) {
            call_once();
        }
        now = promise_field("status", "VmRSS:");
    }
    return now;
}

static void run(const char *settings)
{
    long decay_ms = atol(settings + strlen("dirty_decay_ms:"));
    bool calls = strstr(settings, "purge_thread:true") == NULL;
    free(malloc(1));
    if (!calls) {
        promise_sleep_ms(decay_ms * 2); /* so that the thread sleeps until something is free */
    }
    size_t before = promise_field("status", "VmRSS:"), notes_before = promise_stat("metadata");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, burst, NULL), 0);
        if (i == 0 && !shapes[shape].by_threads) {
            burst(NULL);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    size_t peak = promise_field("status", "VmHWM:");
    size_t may_keep = promise_is_mode("secure") ? 10 * MIB : 8 * MIB;
    before += promise_is_mode("debug") ? promise_stat("metadata") - notes_before : 0;
    long start = promise_now_ms();
    size_t after = wait_until(before + may_keep, calls);
    printf("%s, %s: %zu KiB before the burst, %zu at its peak, waited %ld ms\n", settings,
           shapes[shape].name, before / KIB, peak / KIB, promise_now_ms() - start);
    promise_at_most("memory kept", promise_growth(before, after) / KIB, may_keep / KIB, "KiB");
}

int main(void)
{
    const char *settings = getenv("MALLOW_CONF");
    CHECK(settings != NULL);
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    for (shape = 0; shape < SHAPES; shape++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            run(settings);
            fflush(NULL);
            _exit(0);
        }
    }
    bool all_kept = true;
    int status;
    while (wait(&status) > 0) {
        all_kept &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    CHECK(all_kept);
    return 0;
}
