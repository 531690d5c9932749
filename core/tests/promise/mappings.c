/* SPDX-License-Identifier: MIT
 *
 * Promise 2: few VMAs. A million live objects of mixed sizes stay under 1,000 mappings, also after
 * half of them were freed and memory went back to the kernel.
 */
#include "promise.h"

#include <malloc.h>

enum { OBJECTS = 1000000 };

static void *objects[OBJECTS];

static size_t size_of_object(uint64_t *random)
{
    uint64_t choice = test_random(random) >> 20;
    return choice % 1000 == 0 ? 40000 + choice % 100000
           : choice % 20 == 0 ? choice % 4000
                              : choice % 200;
}

int main(void)
{
    uint64_t random = 20;
    for (size_t i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(size_of_object(&random));
        CHECK(objects[i] != NULL);
        *(volatile char *)objects[i] = 1;
    }
    size_t full = promise_mappings();
    promise_at_most("mappings with a million live objects", full, 1000, "mappings");
    for (size_t i = 0; i < OBJECTS; i++) {
        if (test_random(&random) % 2) {
            free(objects[i]);
            objects[i] = NULL;
        }
    }
    malloc_trim(0);
    promise_at_most("mappings after half of them were freed and trimmed", promise_mappings(), 1000,
                    "mappings");
    for (size_t i = 0; i < OBJECTS; i++) {
        if (!objects[i]) {
            objects[i] = malloc(size_of_object(&random));
        }
    }
    promise_at_most("mappings when they were replaced", promise_mappings(), 1000, "mappings");
    return 0;
}
