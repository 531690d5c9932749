/* SPDX-License-Identifier: MIT
 *
 * Blocks that something points to, from everywhere that the leak check looks at, and blocks that
 * nothing points to: leaks.py reads what the debug build says at the end. With a word on the command line the first
 * thread ends before.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
    struct node *next;
    char bytes[24];
};

static void *global;
static _Thread_local void *of_thread;
static volatile int is_ready;

static __attribute__((noinline)) void lose(void)
{
    for (int i = 0; i < 3; i++) {
        memset(malloc(40), 0, 40);
    }
    for (int i = 0; i < 2; i++) {
        malloc(0);
    }
    struct node *first = calloc(1, sizeof *first);
    first->next = calloc(1, 500);
    memset(malloc(300000), 0, 300000);
}

/* Two blocks that point to one another, again and again: only the first ones of a call stack lie on pages of their
 * own, and the others in a slab, which is no root. */
static __attribute__((noinline)) void lose_rings(void)
{
    for (int i = 0; i < 300; i++) {
        struct node *one = malloc(56), *other = malloc(56);
        one->next = other;
        other->next = one;
    }
}

static __attribute__((noinline)) void clear_stack(void)
{
    volatile char bytes[8192];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 0;
    }
}

static void *wait_for_ever(void *argument)
{
    void *volatile on_stack = malloc(101);
    of_thread = malloc(102);
    is_ready = 1;
    for (;;) {
        pause();
    }
    return on_stack != argument ? of_thread : NULL;
}

static void *lose_all(void *argument)
{
    (void)argument;
    lose();
    lose_rings();
    clear_stack();
    exit(0);
}

/* Of one page, and of so many that to read them all would take minutes. */
static void point_from_mappings(void)
{
    size_t sizes[] = {4096, (size_t)256 << 30};
    for (int i = 0; i < 2; i++) {
        char *mapping = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping != MAP_FAILED) { /* no overcommitment at all is a setting of Linux */
            *(void **)(mapping + sizes[i] / 2) = malloc(200000);
        }
    }
}

int main(int count, char **words)
{
    (void)words;
    global = malloc(103);
    *(void **)global = (char *)malloc(104) + 50; /* an interior pointer keeps a block too */
    of_thread = malloc(105);
    point_from_mappings();
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    while (!is_ready) {
        usleep(1000);
    }
    if (count > 1) {
        pthread_create(&thread, NULL, lose_all, NULL);
        pthread_exit(NULL);
    }
    lose_all(NULL);
}
