/* SPDX-License-Identifier: MIT
 *
 * The destructor of a thread key runs while the thread ends, before or after the allocator's own:
 * what it frees and allocates must work in both cases, several times over.
 */
#include "stress.h"

static pthread_key_t key;

static void allocate_at_exit(void *value)
{
    size_t round = *(size_t *)value;
    t_free(value);
    for (size_t i = 0; i < 100; i++) {
        struct stress_block block = stress_allocate(i * 30, i);
        stress_free(&block);
    }
    if (round < 3) {
        size_t *next = t_malloc(sizeof *next);
        *next = round + 1;
        pthread_setspecific(key, next);
    }
}

static void *end_with_key(void *unused)
{
    size_t *value = t_malloc(sizeof *value);
    *value = 0;
    pthread_setspecific(key, value);
    return unused;
}

TEST(key_destructors_may_allocate)
{
    CHECK_EQ(pthread_key_create(&key, allocate_at_exit), 0);
    size_t early = 0;
    for (int i = 0; i < 3000; i++) {
        stress_join(stress_start(end_with_key, NULL));
        if (i == 1000) {
            early = stress_memory(1);
        }
    }
    CHECK_MSG(stress_memory(1) < early + (4u << 20), "%zu to %zu resident", early,
              stress_memory(1));
    CHECK(mw_heap_is_valid());
}
