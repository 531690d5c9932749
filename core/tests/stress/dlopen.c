/* SPDX-License-Identifier: MIT
 *
 * Libraries come and go by dlopen and dlclose while threads allocate. The module allocates in its
 * constructor and in a thread-local variable, and frees in its destructor.
 */
#include <dlfcn.h>

#include "stress.h"

enum { THREADS = 3 };

static atomic_bool is_over;
static uint64_t seed;

static void *allocate_until_over(void *argument)
{
    uint64_t random = stress_thread_random(seed, (size_t)(uintptr_t)argument);
    struct stress_block blocks[100] = {0};
    for (uint64_t step = 0; !atomic_load(&is_over); step++) {
        struct stress_block *block = &blocks[test_random(&random) % 100];
        stress_free(block);
        *block = stress_allocate(stress_size(&random), step);
    }
    for (size_t i = 0; i < 100; i++) {
        stress_free(&blocks[i]);
    }
    return NULL;
}

TEST(dlopen_while_threads_allocate)
{
    seed = stress_seed("dlopen_while_threads_allocate");
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        threads[i] = stress_start(allocate_until_over, (void *)i);
    }
    int64_t start = stress_now_ms();
    for (int round = 0; stress_goes_on(start, round, 500); round++) {
        void *module = dlopen(STRESS_MODULE, RTLD_NOW | RTLD_LOCAL);
        CHECK_MSG(module != NULL, "%s", dlerror());
        int (*sum)(void) = (int (*)(void))dlsym(module, "module_sum");
        CHECK(sum != NULL);
        CHECK_EQ(sum(), 4950);
        CHECK_EQ(dlclose(module), 0);
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < THREADS; i++) {
        stress_join(threads[i]);
    }
}
