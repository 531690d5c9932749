/* One fault, by the name in the first argument. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *volatile kept;

__attribute__((noinline)) static char *make_block(size_t size)
{
    char *block = malloc(size);
    memset(block, 'm', size);
    return block;
}

/* A name that is a type to who takes it for one of C++. */
__attribute__((noinline)) static char *i(void)
{
    char *block = malloc(100);
    __asm__ volatile("");
    return block;
}

struct node {
    struct node *next;
    long number;
};

__attribute__((noinline)) static struct node *add_node(struct node *next, long number)
{
    struct node *node = malloc(sizeof *node);
    *node = (struct node){next, number};
    return node;
}

__attribute__((noinline)) static struct node *add_to_both(void)
{
    struct node *node = malloc(2 * sizeof *node);
    memset(node, 0, 2 * sizeof *node);
    return node;
}

__attribute__((noinline)) static struct node **make_list(size_t heads)
{
    struct node **list = calloc(heads, sizeof *list);
    __asm__ volatile("");
    return list;
}

__attribute__((noinline)) static struct node **make_other(size_t heads)
{
    struct node **list = calloc(heads, sizeof *list);
    __asm__ volatile("");
    return list;
}

/* A list whose nodes somebody else makes, and another one that shares a node with it. */
__attribute__((noinline)) static void lose_lists(int has_other)
{
    struct node **list = make_list(30);
    for (long number = 0; number < 5; number++) {
        list[0] = add_node(list[0], number);
    }
    if (has_other) {
        struct node **other = make_other(50);
        list[1] = other[0] = add_to_both();
    }
}

__attribute__((noinline)) static void clear_stack(void)
{
    volatile char bytes[8192];
    for (size_t at = 0; at < sizeof bytes; at++) {
        bytes[at] = 0;
    }
}

__attribute__((noinline)) static void give_back(char *block)
{
    free(block);
    __asm__ volatile("");
}

static void *give_back_kept(void *unused)
{
    give_back(kept);
    return unused;
}

/* The access is its first instruction. */
__attribute__((noinline)) static int look_into(const int *block)
{
    return *block;
}

int main(int count, char **words)
{
    const char *fault = count > 1 ? words[1] : "none";
    kept = make_block(40);
    char *volatile block = kept;
    puts("begun");
    fflush(stdout);
    if (!strcmp(fault, "leaks")) {
        i();
    }
    if (!strcmp(fault, "double")) {
        give_back(block);
        give_back(block);
    } else if (!strcmp(fault, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, give_back_kept, NULL);
        pthread_join(thread, NULL);
        give_back(block);
    } else if (!strcmp(fault, "interior")) {
        give_back(block + 16);
    } else if (!strcmp(fault, "overflow")) {
        memcpy(block + 40, "XY", 2);
        give_back(block);
    } else if (!strcmp(fault, "after")) {
        give_back(block);
        block[3] = 'X';
        for (int i = 0; i < 1000000; i++) {
            char *volatile other = malloc(40);
            free(other);
        }
    } else if (!strcmp(fault, "after-once")) {
        give_back(block);
        block[3] = 'X';
    } else if (!strcmp(fault, "look")) {
        give_back(block);
        return look_into((int *)block);
    } else if (!strcmp(fault, "fork")) {
        give_back(block);
        if (fork() == 0) {
            give_back(block);
        }
        sleep(1);
    } else if (!strcmp(fault, "files")) {
        give_back(block);
        if (fork() == 0) {
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
            give_back(block);
        }
        wait(NULL);
    } else if (!strcmp(fault, "children")) {
        for (int i = 0; i < 8; i++) {
            if (fork() == 0) {
                give_back(block);
                give_back(block);
            }
        }
        sleep(1);
    } else if (!strcmp(fault, "user")) {
        if (setgid(65534) == 0 && setuid(65534) == 0) {
            give_back(block);
            give_back(block);
        }
    } else if (!strncmp(fault, "list", 4)) {
        lose_lists(!strcmp(fault, "lists"));
        clear_stack();
    } else if (!strncmp(fault, "leak", 4)) {
        kept = NULL;
        block = NULL;
        for (int i = 0; i < 3; i++) {
            make_block(1000);
        }
    } else if (!strcmp(fault, "crash")) {
        *(volatile int *)16 = 1;
    } else {
        give_back(block);
        return 7;
    }
    return 0;
}
