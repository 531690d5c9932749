/* SPDX-License-Identifier: MIT
 *
 * Runs one case of the fault suite (suite.h), or a correct program of one family:
 *
 *   driver FAULT ENTRY SIZE THREAD
 *   driver --correct FAMILY
 *
 * THREAD says who commits the fault: `same`, the thread that allocated the block; `other`, a second
 * thread; `dead`, the main thread after the one that allocated has ended.
 */
#include "suite.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "correct.h"

enum { ALIGNMENT = 64, PAGE_MOST = 65536, CHURN_BYTES = 64 << 20, CHURN_LIVE = 32 };

void free_sized(void *block, size_t size) __attribute__((weak));
void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));

void *opaque(void *pointer)
{
    void *volatile hidden = pointer;
    return hidden;
}

static void say(const char *text)
{
    (void)!write(STDOUT_FILENO, text, strlen(text));
}

void end_damaged(const char *how)
{
    say("damaged: ");
    say(how);
    say("\n");
    _exit(0);
}

void end_refused(void)
{
    say("refused\n");
    _exit(0);
}

void end_absent(const char *what)
{
    say("absent: ");
    say(what);
    say("\n");
    _exit(0);
}

void free_sized_or_absent(void *block, size_t size)
{
    if (free_sized == NULL) {
        end_absent("free_sized");
    }
    free_sized(block, size);
}

void free_aligned_sized_or_absent(void *block, size_t alignment, size_t size)
{
    if (free_aligned_sized == NULL) {
        end_absent("free_aligned_sized");
    }
    free_aligned_sized(block, alignment, size);
}

/* The entries. */

static void *by_malloc(size_t size)
{
    return malloc(size);
}

static void *by_calloc(size_t size)
{
    return calloc(1, size);
}

static void *by_realloc(size_t size)
{
    return realloc(malloc(size / 2), size + (size == 0));
}

static void *by_reallocarray(size_t size)
{
    return reallocarray(NULL, 1, size);
}

static void *by_aligned_alloc(size_t size)
{
    return aligned_alloc(ALIGNMENT, size);
}

static void *by_posix_memalign(size_t size)
{
    void *block = NULL;
    return posix_memalign(&block, ALIGNMENT, size) == 0 ? block : NULL;
}

static void *by_memalign(size_t size)
{
    return memalign(4 * ALIGNMENT, size);
}

static void *by_new(size_t size)
{
    return _Znwm(size);
}

static void *by_new_array(size_t size)
{
    return _Znam(size);
}

static void *by_new_nothrow(size_t size)
{
    return _ZnwmRKSt9nothrow_t(size, "");
}

static void *by_new_aligned(size_t size)
{
    return _ZnwmSt11align_val_t(size, ALIGNMENT);
}

static void *by_new_array_aligned(size_t size)
{
    return _ZnamSt11align_val_t(size, ALIGNMENT);
}

static void release_free(void *block, size_t size)
{
    (void)size;
    free(block);
}

static void release_delete(void *block, size_t size)
{
    (void)size;
    _ZdlPv(block);
}

static void release_delete_array(void *block, size_t size)
{
    (void)size;
    _ZdaPv(block);
}

static void release_delete_aligned(void *block, size_t size)
{
    (void)size;
    _ZdlPvSt11align_val_t(block, ALIGNMENT);
}

static void release_delete_array_aligned(void *block, size_t size)
{
    (void)size;
    _ZdaPvSt11align_val_t(block, ALIGNMENT);
}

static void release_delete_sized(void *block, size_t size)
{
    _ZdlPvm(block, size);
}

static void release_delete_array_sized(void *block, size_t size)
{
    _ZdaPvm(block, size);
}

static void release_delete_aligned_sized(void *block, size_t size)
{
    _ZdlPvmSt11align_val_t(block, size, ALIGNMENT);
}

const struct entry entries[] = {
    {"malloc", by_malloc, release_free},
    {"calloc", by_calloc, release_free},
    {"realloc", by_realloc, release_free},
    {"reallocarray", by_reallocarray, release_free},
    {"aligned_alloc", by_aligned_alloc, release_free},
    {"posix_memalign", by_posix_memalign, release_free},
    {"memalign", by_memalign, release_free},
    {"new", by_new, release_delete},
    {"new[]", by_new_array, release_delete_array},
    {"new-nothrow", by_new_nothrow, release_delete},
    {"new-aligned", by_new_aligned, release_delete_aligned},
    {"new[]-aligned", by_new_array_aligned, release_delete_array_aligned},
    {"new-sized", by_new, release_delete_sized},
    {"new[]-sized", by_new_array, release_delete_array_sized},
    {"new-aligned-sized", by_new_aligned, release_delete_aligned_sized},
    {NULL, NULL, NULL},
};

const struct entry *entry_named(const char *name)
{
    for (const struct entry *entry = entries; entry->name != NULL; entry++) {
        if (strcmp(entry->name, name) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* The scene. */

void *allocate(const struct entry *entry, size_t size)
{
    void *block = opaque(entry->allocate(size));
    if (block == NULL) {
        end_absent("there is no block of that size");
    }
    return block;
}

void fill(unsigned char *block, size_t size, int mark)
{
    size_t part = size < PAGE_MOST ? size : PAGE_MOST;
    memset(block, mark, part);
    memset(block + size - part, mark, part);
}

static bool all_are(const unsigned char *bytes, size_t size, int mark)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != mark) {
            return false;
        }
    }
    return true;
}

bool is_filled(const unsigned char *block, size_t size, int mark)
{
    size_t part = size < PAGE_MOST ? size : PAGE_MOST;
    return all_are(block, part, mark) && all_are(block + size - part, part, mark);
}

static void stage(struct scene *scene)
{
    for (int i = 0; i < NEIGHBOURS; i++) {
        if (i == BEFORE) {
            scene->block = allocate(scene->entry, scene->size);
            fill(scene->block, scene->size, MARK_BLOCK);
        }
        scene->neighbours[i] = allocate(scene->entry, scene->size);
        fill(scene->neighbours[i], scene->size, MARK_NEIGHBOUR);
    }
}

void churn(const struct scene *scene, size_t rounds)
{
    struct {
        unsigned char *block;
        int mark;
    } live[CHURN_LIVE] = {{NULL, 0}};
    size_t fits = CHURN_BYTES / (scene->size + 1);
    rounds = rounds < fits ? rounds : fits;
    for (size_t i = 0; i < rounds + CHURN_LIVE; i++) {
        size_t place = i % CHURN_LIVE;
        unsigned char *old = live[place].block;
        if (old != NULL) {
            if (!is_filled(old, scene->size, live[place].mark)) {
                end_damaged("two blocks overlap, or one was written by another's owner");
            }
            scene->entry->release(old, scene->size);
            live[place].block = NULL;
        }
        if (i < rounds) {
            live[place].block = allocate(scene->entry, scene->size);
            live[place].mark = (int)(i % 200) + 1;
            fill(live[place].block, scene->size, live[place].mark);
        }
    }
}

/* An overlap ends the program where it is seen: whoever steers two owners to one block has won by
 * then. An overflow is told at the end only, because what notices it best, a check at free, comes
 * after the write. */
static void go_on(struct scene *scene)
{
    bool is_damaged = scene->is_damaged;
    for (int i = 0; i < NEIGHBOURS; i++) {
        is_damaged |= !is_filled(scene->neighbours[i], scene->size, MARK_NEIGHBOUR);
    }
    if (scene->block != NULL) {
        scene->entry->release(scene->block, scene->size);
    }
    churn(scene, 4096);
    for (int i = 0; i < NEIGHBOURS; i++) {
        scene->entry->release(scene->neighbours[i], scene->size);
    }
    churn(scene, 64);
    if (is_damaged) { /* and the program ends as others do: perhaps the allocator looks then */
        say("damaged: the fault read or changed what is not its own\n");
    }
}

/* Threads. */

struct step {
    void (*take)(struct scene *scene);
    struct scene *scene;
};

static void *take_step(void *argument)
{
    struct step *step = argument;
    free(opaque(malloc(100))); /* this thread is known to the allocator */
    step->take(step->scene);
    return NULL;
}

static void in_thread(void (*take)(struct scene *scene), struct scene *scene)
{
    pthread_t thread;
    struct step step = {take, scene};
    if (pthread_create(&thread, NULL, take_step, &step) != 0 || pthread_join(thread, NULL) != 0) {
        fprintf(stderr, "driver: no thread\n");
        _exit(2);
    }
}

static void in_place(void (*take)(struct scene *scene), struct scene *scene)
{
    take(scene);
}

static const struct fault *fault_named(const char *name)
{
    static const struct fault *const families[] = {bounds_faults, use_faults, free_faults,
                                                   request_faults};
    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
        for (const struct fault *fault = families[i]; fault->name != NULL; fault++) {
            if (strcmp(fault->name, name) == 0) {
                return fault;
            }
        }
    }
    return NULL;
}

static bool size_named(const char *name, size_t *size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct {
        const char *name;
        size_t size;
    } sizes[] = {
        {"0", 0},
        {"1", 1},
        {"16", 16},
        {"24", 24},
        {"odd", 61},
        {"page-1", page - 1},
        {"page", page},
        {"page+1", page + 1},
        {"2040", 2040},
        {"medium", 20000},
        {"pages", 40000},
        {"slack", 66000},
        {"large", 300 << 10},
        {"huge", 8 << 20},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        if (strcmp(sizes[i].name, name) == 0) {
            *size = sizes[i].size;
            return true;
        }
    }
    return false;
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "--correct") == 0) {
        return correct_family(words[2]);
    }
    struct scene scene = {0};
    const struct fault *fault = count == 5 ? fault_named(words[1]) : NULL;
    scene.entry = count == 5 ? entry_named(words[2]) : NULL;
    if (fault == NULL || scene.entry == NULL || !size_named(words[3], &scene.size)) {
        fprintf(stderr, "usage: driver FAULT ENTRY SIZE same|other|dead, as in cases.txt\n");
        return 2;
    }
    bool is_other = strcmp(words[4], "other") == 0, is_dead = strcmp(words[4], "dead") == 0;
    void (*first)(void (*)(struct scene *), struct scene *) = is_dead ? in_thread : in_place;
    void (*then)(void (*)(struct scene *), struct scene *) = is_other ? in_thread : in_place;
    if (!fault->is_alone) {
        first(stage, &scene);
    }
    if (fault->prepare != NULL) {
        first(fault->prepare, &scene);
    }
    then(fault->commit, &scene);
    if (!fault->is_alone) {
        go_on(&scene);
    }
    return 0;
}
