/* SPDX-License-Identifier: MIT
 *
 * A thread allocates, frees one block of twenty, and sleeps; others free the rest. Nothing stays resident, after
 * malloc_trim and, with a purge thread, without any call; so too in the child of a fork. The sleeper wakes
 * and uses its slabs again, also those of which a page is locked.
 */
#include <malloc.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "promise.h"

enum {
    BLOCKS = 300000,
    SIZES = 5,
    SMALLEST = 40,
    FEW = 20,
    ROUNDS = 4,
    LEFT_KIB = 24 * 1024,
    LOCKED = 1500
};

static unsigned char *blocks[BLOCKS];
static sem_t may_work, has_worked;

static size_t size_of(size_t index)
{
    return SMALLEST << (index * 2654435761u >> 7) % SIZES;
}

static void *work_and_sleep(void *unused)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        sem_wait(&may_work);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = memset(malloc(size_of(i)), (int)(i % 251), size_of(i));
        }
        for (size_t i = round; i < BLOCKS; i += FEW) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
        sem_post(&has_worked);
    }
    return unused;
}

static void free_the_rest(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL) {
            size_t size = size_of(i);
            CHECK(blocks[i][0] == i % 251 && blocks[i][size - 1] == i % 251);
        }
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static size_t resident_kib(void)
{
    return promise_field("status", "RssAnon:") / KIB;
}

static void free_the_rest_in_a_child(size_t before_kib)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        free_the_rest();
        malloc_trim(0);
        promise_at_most("child of a fork", promise_growth(before_kib, resident_kib()), LEFT_KIB,
                        "KiB");
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void *free_the_rest_and_trim(void *unused)
{
    free_the_rest();
    malloc_trim(0);
    return unused;
}

/* The kernel takes no pages of a process that has locked its memory: malloc_trim ends all the same. */
static void trim_locked_memory_in_a_child(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        pthread_t other;
        alarm(60);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = memset(malloc(size_of(i)), (int)(i % 251), size_of(i));
        }
        for (size_t i = 0; i < BLOCKS; i += FEW) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
        if (mlockall(MCL_CURRENT) != 0) {
            puts("memory cannot be locked here");
        }
        CHECK_EQ(pthread_create(&other, NULL, free_the_rest_and_trim, NULL), 0);
        pthread_join(other, NULL);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* The kernel takes the pages of a slab up to the first that is locked. */
static void trim_around_locked_pages_in_a_child(void)
{
    int status;
    bool (*heap_is_valid)(void) = dlsym(RTLD_DEFAULT, "mw_heap_is_valid");
    pid_t child = fork();
    if (child == 0) {
        pthread_t other;
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = memset(malloc(size_of(i)), (int)(i % 251), size_of(i));
        }
        for (size_t i = 0; i < BLOCKS; i += FEW) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
        bool is_locked = true;
        for (size_t i = 1; is_locked && i < BLOCKS; i += BLOCKS / LOCKED) {
            is_locked = blocks[i] == NULL || mlock(blocks[i], 1) == 0;
        }
        if (!is_locked) {
            puts("pages cannot be locked here");
        }
        CHECK_EQ(pthread_create(&other, NULL, free_the_rest_and_trim, NULL), 0);
        pthread_join(other, NULL);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = memset(malloc(size_of(i)), (int)(i % 251), size_of(i));
        }
        CHECK(heap_is_valid());
        free_the_rest();
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* Waits until the memory has gone, or for a minute. */
static void wait_for_purge(size_t most_kib)
{
    for (unsigned i = 0; i < 600 && resident_kib() > most_kib; i++) {
        usleep(100000);
    }
}

int main(void)
{
    pthread_t thread;
    const char *settings = getenv("MALLOW_CONF");
    bool has_purge_thread = settings != NULL && strstr(settings, "purge_thread:true") != NULL;
    memset(blocks, 0, sizeof blocks);
    sem_init(&may_work, 0, 0);
    sem_init(&has_worked, 0, 0);
    CHECK_EQ(pthread_create(&thread, NULL, work_and_sleep, NULL), 0);
    size_t before_kib = resident_kib();
    for (unsigned round = 0; round < ROUNDS; round++) {
        sem_post(&may_work);
        sem_wait(&has_worked);
        if (round == 0) {
            free_the_rest_in_a_child(before_kib);
        }
        free_the_rest();
        if (has_purge_thread) {
            wait_for_purge(before_kib + LEFT_KIB);
        } else {
            malloc_trim(0);
        }
        promise_at_most("left when all is freed", promise_growth(before_kib, resident_kib()),
                        LEFT_KIB, "KiB");
    }
    pthread_join(thread, NULL);
    trim_locked_memory_in_a_child();
    trim_around_locked_pages_in_a_child();
    return 0;
}
