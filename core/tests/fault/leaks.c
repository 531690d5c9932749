/* SPDX-License-Identifier: MIT
 *
 * Blocks that something points to, from everywhere that the leak check looks at, and blocks that
 * nothing points to: leaks.py reads what the debug build says at the end. With the word "thread" on the command line
 * another thread calls exit, and the first one has ended; with "signal" a handler does, whose stack lies among globals.
 * With "refused" the kernel does not read memory, with "nothing" it opens no file.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../promise/refused.h"

struct node {
    struct node *next;
    char bytes[24];
};

static void *global;
static char *no_elements[2];
static _Thread_local void *of_thread;

static volatile int is_ready;

static struct {
    void *below;
    char stack[512 * 1024];
} signals;

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

/* Shared, of the kernel's kinds, and such as are read alone in the end; the larger ones are not read as a whole. */
static void point_from_memory(void)
{
    int file = (int)syscall(SYS_memfd_create, "roots", 0);
    struct {
        size_t size;
        int flags, file, protection;
    } ways[] = {{4096, MAP_SHARED | MAP_ANONYMOUS, -1, PROT_READ | PROT_WRITE},
                {4 << 20, MAP_SHARED | MAP_ANONYMOUS, -1, PROT_READ | PROT_WRITE},
                {4096, MAP_SHARED, file, PROT_READ | PROT_WRITE},
                {4096, MAP_PRIVATE | MAP_ANONYMOUS, -1, PROT_READ}};
    for (int i = 0; i < 4; i++) {
        if ((ways[i].flags & MAP_ANONYMOUS) == 0 && ftruncate(file, ways[i].size) != 0) {
            continue; /* a kernel without memfd_create */
        }
        char *mapping =
            mmap(NULL, ways[i].size, PROT_READ | PROT_WRITE, ways[i].flags, ways[i].file, 0);
        if (mapping != MAP_FAILED) {
            *(void **)(mapping + ways[i].size / 2) = malloc(100000 + i);
            mprotect(mapping, ways[i].size, ways[i].protection);
        }
    }
}

static void *lose_all(void *argument)
{
    (void)argument;
    lose();
    lose_rings();
    point_from_memory(); /* last: the rings lie in the order in which they were allocated */
    clear_stack();
    exit(0);
}

static void lose_all_in_handler(int number)
{
    (void)number;
    lose_all(NULL);
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

/* Blocks of an arena that is named, in a slot and in pages, which are not tracked. */
static __attribute__((noinline)) void point_from_an_arena(void)
{
    void *(*mallocx)(size_t, int) = dlsym(RTLD_DEFAULT, "mallocx");
    void **slot = mallocx(64, 1 << 20), **pages = mallocx(100000, 1 << 20); /* MALLOCX_ARENA(0) */
    slot[3] = malloc(107);
    pages[10000] = malloc(108);
}

int main(int count, char **words)
{
    const char *way = count > 1 ? words[1] : "";
    signals.below = malloc(106);
    global = malloc(103);
    *(void **)global = (char *)malloc(104) + 50; /* an interior pointer keeps a block too */
    of_thread = malloc(105);
    no_elements[0] = (char *)calloc(1, 8) + 8;   /* as new T[0] has it, behind the count */
    no_elements[1] = (char *)calloc(1, 16) + 16; /* of a T whose alignment is 16 */
    point_from_mappings();
    point_from_an_arena();
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    while (!is_ready) {
        usleep(1000);
    }
    if ((strcmp(way, "refused") == 0 && !refuse_call(SYS_process_vm_readv)) ||
        (strcmp(way, "nothing") == 0 && !refuse_call(SYS_openat))) {
        return 77;
    }
    if (strcmp(way, "thread") == 0) {
        pthread_create(&thread, NULL, lose_all, NULL);
        pthread_exit(NULL);
    }
    if (strcmp(way, "signal") == 0) {
        stack_t stack = {.ss_sp = signals.stack, .ss_size = sizeof signals.stack};
        struct sigaction action = {.sa_handler = lose_all_in_handler, .sa_flags = SA_ONSTACK};
        sigaltstack(&stack, NULL);
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
    }
    lose_all(NULL);
}
