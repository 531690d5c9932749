/* SPDX-License-Identifier: MIT
 *
 * Promise 6: memory freed by a burst is back at the kernel within the decay time as long as the
 * program makes any allocator call, and with purge_thread also when it makes none.
 *
 *   MALLOW_CONF=dirty_decay_ms:N[,purge_thread:true] idle
 */
#include "promise.h"

enum { SMALL = 400000, LARGE = 300, THREADS = 4 };

/* 4 x (about 40 MB in small blocks and 60 MB in large ones). */
static void *burst(void *unused)
{
    void **blocks = malloc((SMALL + LARGE) / THREADS * 4 * sizeof *blocks);
    size_t count = 0;
    for (size_t i = 0; i < SMALL / THREADS; i++) {
        blocks[count++] = memset(malloc(100 + i % 800), 1, 100);
    }
    for (size_t i = 0; i < LARGE / THREADS; i++) {
        blocks[count++] = memset(malloc(800000), 1, 800000);
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    free(blocks);
    return unused;
}

static void wait_for(long decay_ms, bool calls)
{
    for (long waited = 0; waited < decay_ms * 2 + 1500; waited += 50) {
        promise_sleep_ms(50);
        if (calls) {
            char *volatile block = malloc(100);
            block[0] = 1;
            free(block);
        }
    }
}

int main(void)
{
    const char *settings = getenv("MALLOW_CONF");
    CHECK(settings != NULL);
    long decay_ms = atol(settings + strlen("dirty_decay_ms:"));
    bool calls = strstr(settings, "purge_thread:true") == NULL;
    free(malloc(1));
    size_t before = promise_field("status", "VmRSS:");
    pthread_t threads[THREADS];
    for (int i = 1; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, burst, NULL), 0);
    }
    burst(NULL);
    for (int i = 1; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    size_t peak = promise_field("status", "VmHWM:");
    wait_for(decay_ms, calls);
    size_t after = promise_field("status", "VmRSS:");
    printf("%s: %zu KiB before the burst, %zu at its peak\n", settings, before / KIB, peak / KIB);
    promise_at_most("memory kept after twice the decay time",
                    after > before ? (after - before) / KIB : 0, 8 * KIB, "KiB");
    return 0;
}
