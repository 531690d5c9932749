/* SPDX-License-Identifier: MIT
 *
 * Programs that hold blocks that are mappings of their own, of which a part is touched; each says so, and rests
 * or, if it is busy, goes on.
 *
 *   very_large threads | many | busy
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static pthread_barrier_t made;

static char *touched(size_t size)
{
    char *block = malloc(size);
    return memset(block, 1, MIB);
}

static void *large(void *argument)
{
    for (int i = 0; i < 3; i++) {
        touched(20 * MIB);
    }
    touched(3 * MIB);
    pthread_barrier_wait(&made);
    pause();
    return argument;
}

/* The kernel puts what is mapped beside what was mapped before, and joins the two. */
static void map_own(void)
{
    char *own = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own != MAP_FAILED) {
        memset(own, 1, 8 * MIB);
    }
}

static void threads(void)
{
    enum { COUNT = 8 };
    map_own();
    pthread_barrier_init(&made, NULL, COUNT + 1);
    for (int i = 0; i < COUNT; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, large, NULL);
    }
    pthread_barrier_wait(&made);
}

/* Blocks of pages, a third of them freed, of which one page is touched. */
static void many(void)
{
    for (size_t i = 0; i < 9000; i++) {
        char *block = malloc(20000 + i * 37 % 60000);
        *block = 1;
        if (i % 3 == 0) {
            free(block);
        }
    }
}

/* Frees and allocates for ever, in blocks of all sizes. */
static void *exchange(void *argument)
{
    enum { COUNT = 4000 };
    char **blocks = calloc(COUNT, sizeof *blocks);
    unsigned random = 1;
    for (int turn = 0;; turn++) {
        random = random * 1103515245 + 12345;
        char **place = &blocks[(random >> 8) % COUNT];
        free(*place);
        *place = malloc(16 + (random >> 9) % 90000);
        **place = 1;
        if (turn == 3 * COUNT) {
            pthread_barrier_wait(&made);
        }
        if (turn % 200 == 0) {
            usleep(200);
        }
    }
    return argument;
}

static void busy(void)
{
    enum { COUNT = 4 };
    pthread_barrier_init(&made, NULL, COUNT + 1);
    for (int i = 0; i < COUNT; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, exchange, NULL);
    }
    pthread_barrier_wait(&made);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    const char *which = argc > 1 ? argv[1] : "";
    if (strcmp(which, "threads") == 0) {
        threads();
    } else if (strcmp(which, "busy") == 0) {
        busy();
    } else {
        many();
    }
    puts("{}");
    for (;;) {
        pause();
    }
}
