/* SPDX-License-Identifier: MIT
 *
 * Requests that no allocator may serve (CWE-128, 789), and blocks that are lost (CWE-401). A request
 * that gets NULL or, where it returns a number, an error, was refused, which counts as caught.
 */
#include "suite.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void expect_refused(void *block)
{
    if (opaque(block) == NULL) {
        end_refused();
    }
}

static void request_max(struct scene *scene)
{
    expect_refused(scene->entry->allocate(SIZE_MAX - 8));
}

static void request_half(struct scene *scene)
{
    expect_refused(scene->entry->allocate((size_t)PTRDIFF_MAX + 1));
}

static size_t wrapping_count(void)
{
    volatile size_t count = ((size_t)1 << 60) + 1;
    return count;
}

static void request_wrapped_calloc(struct scene *scene)
{
    (void)scene;
    expect_refused(calloc(wrapping_count(), 16));
}

static void request_wrapped_reallocarray(struct scene *scene)
{
    (void)scene;
    expect_refused(reallocarray(NULL, wrapping_count(), 16));
}

static void request_wrapped_pvalloc(struct scene *scene)
{
    (void)scene;
    expect_refused(pvalloc(SIZE_MAX - 100));
}

static void request_odd_alignment(struct scene *scene)
{
    void *block = NULL;
    volatile size_t alignment = 24;
    if (posix_memalign(&block, alignment, scene->size) == EINVAL) {
        end_refused();
    }
}

static void request_vast_alignment(struct scene *scene)
{
    volatile size_t alignment = (size_t)1 << 63;
    expect_refused(memalign(alignment, scene->size));
}

static void lose(struct scene *scene)
{
    fill(allocate(scene->entry, scene->size), scene->size, MARK_BLOCK);
    memset(opaque(&(char[512]){0}), 0, 512); /* no copy of the address stays on the stack */
}

/* p = realloc(p, n) where n cannot be had. */
static void lose_by_realloc(struct scene *scene)
{
    unsigned char *block = allocate(scene->entry, scene->size);
    fill(block, scene->size, MARK_BLOCK);
    block = realloc(opaque(block), PTRDIFF_MAX);
    free(block);
}

/* A list whose head is lost. */
static void lose_list(struct scene *scene)
{
    void **head = NULL;
    for (int i = 0; i < 10; i++) {
        void **node = allocate(scene->entry, scene->size);
        *node = head;
        head = node;
    }
}

const struct fault request_faults[] = {
    {"request-max", NULL, request_max, true},
    {"request-half", NULL, request_half, true},
    {"request-wrapped-calloc", NULL, request_wrapped_calloc, true},
    {"request-wrapped-reallocarray", NULL, request_wrapped_reallocarray, true},
    {"request-wrapped-pvalloc", NULL, request_wrapped_pvalloc, true},
    {"request-odd-alignment", NULL, request_odd_alignment, true},
    {"request-vast-alignment", NULL, request_vast_alignment, true},
    {"lose", NULL, lose, true},
    {"lose-by-realloc", NULL, lose_by_realloc, true},
    {"lose-list", NULL, lose_list, true},
    {NULL, NULL, NULL, false},
};
