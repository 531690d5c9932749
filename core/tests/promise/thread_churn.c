/* SPDX-License-Identifier: MIT
 *
 * Promise 5: memory of dead threads is reusable by the living. 100,000 threads that each allocate
 * come and go without growth; the short form takes 10,000.
 */
#include "promise.h"

enum { WARM_UP = 1000, AT_ONCE = 8 };

static void *allocate(void *barrier)
{
    void *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = malloc(i * 16 + 1);
        memset(blocks[i], 1, i * 16 + 1);
    }
    if (barrier != NULL) {
        pthread_barrier_wait(barrier);
    }
    for (size_t i = 0; i < 100; i++) {
        free(blocks[i]);
    }
    return barrier;
}

static void run(int count, pthread_barrier_t *barrier)
{
    for (int done = 0; done < count; done += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            CHECK_EQ(pthread_create(&threads[i], NULL, allocate, barrier), 0);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            pthread_join(threads[i], NULL);
        }
    }
}

int main(void)
{
    /* All of them hold their blocks at the same time, which later may or may not happen. */
    pthread_barrier_t barrier;
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, AT_ONCE), 0);
    run(WARM_UP, &barrier);
    size_t resident = promise_field("status", "VmRSS:"), space = promise_field("status", "VmSize:");
    int count = promise_rounds(10000, 100000);
    run(count, NULL);
    size_t more = promise_field("status", "VmRSS:"),
           more_space = promise_field("status", "VmSize:");
    printf("%d threads came and went\n", count);
    /* The debug build's slabs are larger, and by how much they are left partly used differs from run to run;
     * it does not depend on how many threads there were. */
    size_t most = promise_is_mode("debug") ? 6144 : 2048;
    promise_at_most("growth of RSS", more > resident ? (more - resident) / KIB : 0, most, "KiB");
    promise_at_most("growth of VIRT", more_space > space ? (more_space - space) / KIB : 0, 16 * KIB,
                    "KiB");
    return 0;
}
