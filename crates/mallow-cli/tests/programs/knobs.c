/* SPDX-License-Identifier: MIT */
// A program whose memory depends on one setting of its allocator.
//   knobs arenas   threads that one after the other fill and free their arenas
//   knobs beside   frees much, and takes as much without its allocator
//   knobs plain    the same blocks at the same time, whatever the settings are
//   knobs fill     writes once to each of many blocks
//   knobs huge     the same, and takes as much again without its allocator unless they are in huge pages
//   knobs fail     works only without GLIBC_TUNABLES
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 8, BLOCKS = 4000, SIZE = 1000, MIB = 48 };

/* With another word: long enough at the peak for a recorder to see it. */
static int rests;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin, end;

static void *fill(void *unused)
{
    (void)unused;
    static __thread char *blocks[BLOCKS];
    void *volatile first = malloc(24); /* an arena of its own, while all are here */
    pthread_barrier_wait(&begin);
    pthread_mutex_lock(&turn);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        memset(blocks[i], 1, SIZE);
    }
    /* The last block stays until all had their turn: what lies below it cannot be trimmed. */
    for (int i = 0; i < BLOCKS - 1; i++)
        free(blocks[i]);
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&end);
    free(blocks[BLOCKS - 1]);
    free(first);
    return NULL;
}

/* Bytes of this process in huge pages. */
static size_t huge_bytes(void)
{
    char line[200];
    long kib = 0;
    FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
    while (rollup && fgets(line, sizeof line, rollup))
        if (sscanf(line, "AnonHugePages: %ld", &kib) == 1)
            break;
    if (rollup)
        fclose(rollup);
    return (size_t)kib << 10;
}

/* As much memory again, that its allocator knows nothing of. */
static int take_beside(void)
{
    size_t length = (size_t)MIB << 20;
    char *own = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return 1;
    memset(own, 1, length);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "plain";
    rests = argc > 2;
    if (strcmp(what, "arenas") == 0) {
        pthread_t threads[THREADS];
        pthread_barrier_init(&begin, NULL, THREADS);
        pthread_barrier_init(&end, NULL, THREADS);
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, fill, NULL);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    } else if (strcmp(what, "beside") == 0) {
        static char *blocks[MIB];
        for (int i = 0; i < MIB; i++) {
            blocks[i] = malloc(1 << 20);
            memset(blocks[i], 1, 1 << 20);
        }
        for (int i = 0; i < MIB; i++)
            free(blocks[i]);
        return take_beside();
    } else if (strcmp(what, "fill") == 0 || strcmp(what, "huge") == 0) {
        static char *blocks[MIB << 10];
        for (int i = 0; i < MIB << 10; i++) {
            blocks[i] = malloc(SIZE);
            memset(blocks[i], 1, SIZE);
        }
        bool is_huge = huge_bytes() >= (size_t)MIB << 19;
        return strcmp(what, "huge") == 0 && !is_huge ? take_beside() : 0;
    } else if (strcmp(what, "fail") == 0) {
        return getenv("GLIBC_TUNABLES") ? 3 : 0;
    } else {
        /* As much at the same time whatever the settings are. */
        static char *blocks[20000];
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 20000; i++) {
                blocks[i] = malloc(SIZE);
                memset(blocks[i], 1, SIZE);
            }
            if (rests)
                usleep(400000);
            for (int i = 0; i < 20000; i++)
                free(blocks[i]);
        }
    }
    return 0;
}
