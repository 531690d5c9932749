/* SPDX-License-Identifier: MIT
 *
 * Eight threads put small blocks where others take and free them, so that each keeps what is not its own. Each of the
 * sizes comes as often as the others; run.py knows how many bytes that is.
 * exchanged CALLS
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { THREADS = 8, SHARED = 256, SIZES = 4 };

__attribute__((weak)) int mallctl(const char *name, void *old_value, size_t *old_size,
                                  void *new_value, size_t new_size);

/* In the secure build slots of the same classes have room for eight bytes less. */
static const size_t sizes[SIZES] = {24, 184, 504, 1016};
static _Atomic(void *) shared[SHARED];
static size_t calls;

__attribute__((noinline)) void exchanged_blocks(uint32_t random)
{
    for (size_t i = 0; i < calls / THREADS; i++) {
        random = random * 1664525 + 1013904223;
        void *block = malloc(sizes[i % SIZES]);
        if (block == NULL) {
            abort();
        }
        free(atomic_exchange(&shared[random >> 24], block));
    }
    __asm__ volatile("");
}

static void *work(void *number)
{
    exchanged_blocks((uint32_t)(uintptr_t)number);
    return number;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    calls = argc > 1 ? (size_t)atol(argv[1]) : THREADS;
    for (uintptr_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < SHARED; i++) {
        free(shared[i]);
    }
    const char *name = "exchanged.heap";
    return mallctl("prof.dump", NULL, NULL, &name, sizeof name);
}
