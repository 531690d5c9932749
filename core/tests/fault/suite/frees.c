/* SPDX-License-Identifier: MIT
 *
 * Releases that must not be: CWE-415, 590, 761, 762, 763 and 825.
 */
#include "suite.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

static char static_memory[4096] __attribute__((aligned(64)));
static __thread char thread_memory[256] __attribute__((aligned(64)));

static void release(struct scene *scene, void *pointer)
{
    scene->entry->release(opaque(pointer), scene->size);
}

static void free_block(struct scene *scene)
{
    scene->stale = scene->block;
    scene->block = NULL;
    release(scene, scene->stale);
}

static void free_and_others(struct scene *scene)
{
    free_block(scene);
    release(scene, allocate(scene->entry, scene->size + 1));
    release(scene, scene->neighbours[0]);
    scene->neighbours[0] = allocate(scene->entry, scene->size);
    fill(scene->neighbours[0], scene->size, MARK_NEIGHBOUR);
}

static void free_long_ago(struct scene *scene)
{
    free_block(scene);
    churn(scene, 1000);
}

/* A block that is allocated next, perhaps where the first was, must outlive the second free. */
static void reuse(struct scene *scene)
{
    free_block(scene);
    for (int i = 0; i < NEIGHBOURS; i++) {
        release(scene, scene->neighbours[i]);
    }
    for (int i = 0; i < NEIGHBOURS; i++) {
        scene->neighbours[i] = allocate(scene->entry, scene->size);
        fill(scene->neighbours[i], scene->size, MARK_NEIGHBOUR);
    }
}

static void move_block(struct scene *scene)
{
    scene->stale = scene->block;
    scene->block = NULL;
    free(opaque(realloc(scene->stale, 3 * scene->size + 64)));
}

static void release_stale(struct scene *scene)
{
    release(scene, scene->stale);
}

static void realloc_stale(struct scene *scene)
{
    free(opaque(realloc(opaque(scene->stale), scene->size + 100)));
}

static void realloc_stale_to_zero(struct scene *scene)
{
    void *rest = realloc(opaque(scene->stale), 0);
    free(rest);
}

static void reallocarray_stale(struct scene *scene)
{
    free(opaque(reallocarray(opaque(scene->stale), 2, scene->size)));
}

static void usable_size_of_stale(struct scene *scene)
{
    (void)malloc_usable_size(opaque(scene->stale));
}

static void free_sized_stale(struct scene *scene)
{
    free_sized_or_absent(opaque(scene->stale), scene->size);
}

/* Not the start of a block. */

static void release_at_1(struct scene *scene)
{
    release(scene, scene->block + 1);
}

static void release_at_16(struct scene *scene)
{
    release(scene, scene->block + 16);
}

static void release_middle(struct scene *scene)
{
    release(scene, scene->block + (scene->size / 2 & ~(size_t)15));
}

static void release_page_on(struct scene *scene)
{
    release(scene, scene->block + sysconf(_SC_PAGESIZE));
}

/* What strtok and pointers that run through a buffer leave behind. */
static void release_end(struct scene *scene)
{
    release(scene, scene->block + scene->size);
}

static void release_before(struct scene *scene)
{
    release(scene, scene->block - 16);
}

static void realloc_at_16(struct scene *scene)
{
    free(opaque(realloc(opaque(scene->block + 16), 2 * scene->size + 100)));
}

static void usable_size_at_16(struct scene *scene)
{
    (void)malloc_usable_size(opaque(scene->block + 16));
}

/* Not a block of the heap. */

static void release_stack(struct scene *scene)
{
    char memory[256] __attribute__((aligned(64))) = "on the stack";
    release(scene, memory);
}

static void release_static(struct scene *scene)
{
    release(scene, static_memory + 64);
}

static void release_thread_local(struct scene *scene)
{
    release(scene, thread_memory);
}

static void release_literal(struct scene *scene)
{
    static const char literal[64] __attribute__((aligned(64))) = "never on a heap";
    release(scene, (void *)(uintptr_t)literal);
}

static void release_code(struct scene *scene)
{
    release(scene, (void *)((uintptr_t)&release_code & ~(uintptr_t)15));
}

static void release_environment(struct scene *scene)
{
    release(scene, environ[0]);
}

static void release_mapping(struct scene *scene)
{
    release(scene, mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void release_inside_mapping(struct scene *scene)
{
    char *mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    release(scene, mapping + 4096 + 64);
}

static void release_small_number(struct scene *scene)
{
    release(scene, (void *)16);
}

static void release_noncanonical(struct scene *scene)
{
    release(scene, (void *)(((uintptr_t)0xdead << 48) + 4096));
}

static void release_unmapped(struct scene *scene)
{
    release(scene, (void *)((uintptr_t)1 << 44));
}

static void release_minus_one(struct scene *scene)
{
    release(scene, (void *)-1);
}

/* As far behind the block as no block was ever allocated, with a little luck within a slab. */
static void release_never_allocated(struct scene *scene)
{
    size_t stride = scene->size < 16 ? 16 : (scene->size + 15) & ~(size_t)15;
    release(scene, scene->neighbours[NEIGHBOURS - 1] + 20 * stride);
}

static void realloc_stack(struct scene *scene)
{
    char memory[256] __attribute__((aligned(64))) = "on the stack";
    free(opaque(realloc(opaque(memory), scene->size)));
}

static void realloc_static(struct scene *scene)
{
    free(opaque(realloc(opaque(static_memory + 64), scene->size)));
}

static void usable_size_of_static(struct scene *scene)
{
    (void)scene;
    (void)malloc_usable_size(opaque(static_memory + 64));
}

/* A release of another family than the allocation, or with a size or an alignment that is not the
 * block's. */

static unsigned char *take(struct scene *scene)
{
    unsigned char *block = scene->block;
    scene->block = NULL;
    return opaque(block);
}

static void by_free(struct scene *scene)
{
    free(take(scene));
}

static void by_realloc(struct scene *scene)
{
    free(opaque(realloc(take(scene), 2 * scene->size)));
}

static void by_delete(struct scene *scene)
{
    _ZdlPv(take(scene));
}

static void by_delete_array(struct scene *scene)
{
    _ZdaPv(take(scene));
}

static void by_delete_aligned(struct scene *scene)
{
    _ZdlPvSt11align_val_t(take(scene), 64);
}

static void by_delete_of_other_alignment(struct scene *scene)
{
    _ZdlPvSt11align_val_t(take(scene), 4096);
}

static void by_delete_of_half_the_size(struct scene *scene)
{
    _ZdlPvm(take(scene), scene->size / 2);
}

static void by_delete_of_twice_the_size(struct scene *scene)
{
    _ZdlPvm(take(scene), 2 * scene->size);
}

static void by_delete_array_of_twice_the_size(struct scene *scene)
{
    _ZdaPvm(take(scene), 2 * scene->size);
}

static void by_delete_aligned_of_twice_the_size(struct scene *scene)
{
    _ZdlPvmSt11align_val_t(take(scene), 2 * scene->size, 64);
}

static void by_free_sized_of_twice_the_size(struct scene *scene)
{
    free_sized_or_absent(take(scene), 2 * scene->size);
}

static void by_free_sized_of_half_the_size(struct scene *scene)
{
    free_sized_or_absent(take(scene), scene->size / 2);
}

static void by_free_of_other_alignment(struct scene *scene)
{
    free_aligned_sized_or_absent(take(scene), 4096, scene->size);
}

const struct fault free_faults[] = {
    {"double-free", free_block, release_stale, false},
    {"double-free-later", free_and_others, release_stale, false},
    {"double-free-long-ago", free_long_ago, release_stale, false},
    {"double-free-reused", reuse, release_stale, false},
    {"free-moved", move_block, release_stale, false},
    {"realloc-freed", free_block, realloc_stale, false},
    {"realloc-freed-to-zero", free_block, realloc_stale_to_zero, false},
    {"reallocarray-freed", free_block, reallocarray_stale, false},
    {"usable-size-of-freed", free_block, usable_size_of_stale, false},
    {"free-sized-freed", free_block, free_sized_stale, false},
    {"free-at-1", NULL, release_at_1, false},
    {"free-at-16", NULL, release_at_16, false},
    {"free-middle", NULL, release_middle, false},
    {"free-page-on", NULL, release_page_on, false},
    {"free-end", NULL, release_end, false},
    {"free-before", NULL, release_before, false},
    {"realloc-at-16", NULL, realloc_at_16, false},
    {"usable-size-at-16", NULL, usable_size_at_16, false},
    {"free-stack", NULL, release_stack, false},
    {"free-static", NULL, release_static, false},
    {"free-thread-local", NULL, release_thread_local, false},
    {"free-literal", NULL, release_literal, false},
    {"free-code", NULL, release_code, false},
    {"free-environment", NULL, release_environment, false},
    {"free-mapping", NULL, release_mapping, false},
    {"free-inside-mapping", NULL, release_inside_mapping, false},
    {"free-small-number", NULL, release_small_number, false},
    {"free-noncanonical", NULL, release_noncanonical, false},
    {"free-unmapped", NULL, release_unmapped, false},
    {"free-minus-one", NULL, release_minus_one, false},
    {"free-never-allocated", NULL, release_never_allocated, false},
    {"realloc-stack", NULL, realloc_stack, false},
    {"realloc-static", NULL, realloc_static, false},
    {"usable-size-of-static", NULL, usable_size_of_static, false},
    {"by-free", NULL, by_free, false},
    {"by-realloc", NULL, by_realloc, false},
    {"by-delete", NULL, by_delete, false},
    {"by-delete[]", NULL, by_delete_array, false},
    {"by-delete-aligned", NULL, by_delete_aligned, false},
    {"by-delete-other-alignment", NULL, by_delete_of_other_alignment, false},
    {"by-delete-half-size", NULL, by_delete_of_half_the_size, false},
    {"by-delete-twice-size", NULL, by_delete_of_twice_the_size, false},
    {"by-delete[]-twice-size", NULL, by_delete_array_of_twice_the_size, false},
    {"by-delete-aligned-twice-size", NULL, by_delete_aligned_of_twice_the_size, false},
    {"by-free_sized-twice-size", NULL, by_free_sized_of_twice_the_size, false},
    {"by-free_sized-half-size", NULL, by_free_sized_of_half_the_size, false},
    {"by-free-other-alignment", NULL, by_free_of_other_alignment, false},
    {NULL, NULL, NULL, false},
};
