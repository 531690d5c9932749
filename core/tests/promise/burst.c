/* SPDX-License-Identifier: MIT
 *
 * Promise 6 with its figures: of a burst of 1 GiB that a thread has freed, 95 % are back at the kernel one decay time
 * later, while another thread allocates and frees; with purge_thread also where no thread does.
 *
 * What is checked is how much goes back. When it was back is told, beside the decay time and the 250 ms that a busy machine
 * takes to look at the clock; the test fails if it is not back when five more seconds have passed and 500 looks were taken.
 *
 *   MALLOW_CONF=dirty_decay_ms:N[,purge_thread:true] burst
 */
#include "promise.h"

enum { SMALL = 1000, LARGE = 100000, HALF = 512 * MIB };
enum { SMALL_BLOCKS = HALF / SMALL, LARGE_BLOCKS = HALF / LARGE };
enum { GRACE_MS = 250, PATIENCE_MS = 5000, LOOKS = 500, LOOK_MS = 10 };

static void *small[SMALL_BLOCKS], *large[LARGE_BLOCKS];

static void take(void *blocks[], size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
}

static void give(void *blocks[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

static _Atomic bool is_over;

/* A few megabytes a second, in blocks of both sizes. */
static void *work(void *unused)
{
    while (!is_over) {
        for (int i = 0; i < 20; i++) {
            void *volatile block = malloc(i % 2 ? SMALL : LARGE);
            free(block);
        }
        promise_sleep_ms(5);
    }
    return unused;
}

/* Resident, or in swap, beside the notes that the debug build keeps of blocks, which stay for those that come next. */
static long resident(void)
{
    size_t notes = promise_is_mode("debug") ? promise_stat("metadata") : 0;
    size_t pages = promise_field("status", "VmRSS:") + promise_field("status", "VmSwap:");
    return (long)pages - (long)notes;
}

int main(void)
{
    const char *settings = getenv("MALLOW_CONF");
    CHECK(settings != NULL && strncmp(settings, "dirty_decay_ms:", 15) == 0);
    long decay_ms = atol(settings + 15);
    bool has_traffic = strstr(settings, "purge_thread:true") == NULL;
    pthread_t worker;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (has_traffic) {
        CHECK_EQ(pthread_create(&worker, NULL, work, NULL), 0);
    }
    memset(small, 0, sizeof small); /* so that these pages are no part of the burst */
    memset(large, 0, sizeof large);
    free(malloc(1));
    long before = resident();
    take(small, SMALL_BLOCKS, SMALL);
    take(large, LARGE_BLOCKS, LARGE);
    long burst = resident() - before;
    CHECK_GE(burst, 2 * (long)HALF / 100 * 99);
    give(small, SMALL_BLOCKS);
    give(large, LARGE_BLOCKS);

    long freed_ms = promise_now_ms(), waited_ms = 0, kept = resident() - before;
    for (int looks = 0; kept > burst / 20; looks++) {
        if (waited_ms >= decay_ms + GRACE_MS + PATIENCE_MS && looks >= LOOKS) {
            break;
        }
        promise_sleep_ms(LOOK_MS);
        kept = resident() - before;
        waited_ms = promise_now_ms() - freed_ms;
    }
    is_over = true;
    if (has_traffic) {
        pthread_join(worker, NULL);
    }
    printf("%s: %ld MiB, 95 %% %s after %ld ms (promised: %ld)\n", settings, burst / MIB,
           kept <= burst / 20 ? "back" : "not back", waited_ms, decay_ms + GRACE_MS);
    promise_at_most("kept of the burst", kept > 0 ? (size_t)kept / KIB : 0,
                    (size_t)burst / 20 / KIB, "KiB");
    return 0;
}
