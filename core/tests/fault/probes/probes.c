/* SPDX-License-Identifier: MIT
 *
 * probes NAME runs one probe; probes --list names them.
 */
#include "probes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned char target[8192] __attribute__((aligned(4096)));

void reach(const char *goal)
{
    static const char start[] = "reached: ";
    (void)!write(STDOUT_FILENO, start, sizeof(start) - 1);
    (void)!write(STDOUT_FILENO, goal, strlen(goal));
    (void)!write(STDOUT_FILENO, "\n", 1);
    _exit(0);
}

void win(void)
{
    reach("a function pointer is the attacker's");
}

int is_in_target(const void *pointer)
{
    return (uintptr_t)pointer - (uintptr_t)target < sizeof(target);
}

void *opaque(void *pointer)
{
    void *volatile hidden = pointer;
    return hidden;
}

void *take(size_t size)
{
    void *block = opaque(malloc(size));
    if (block == NULL) {
        fprintf(stderr, "probes: no memory\n");
        _exit(2);
    }
    return block;
}

void give(void *block)
{
    free(opaque(block));
}

void in_thread(void *(*run)(void *argument), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument) != 0 || pthread_join(thread, NULL) != 0) {
        fprintf(stderr, "probes: no thread\n");
        _exit(2);
    }
}

static void harmless(void)
{
}

typedef void (*action)(void);

static size_t words_of(size_t size)
{
    return size / sizeof(action);
}

void set_up(void *object, size_t size)
{
    volatile action *actions = object;
    actions[0] = actions[words_of(size) / 2] = actions[words_of(size) - 1] = harmless;
}

void call(void *object, size_t size)
{
    volatile action *actions = object;
    actions[0]();
    actions[words_of(size) / 2]();
    actions[words_of(size) - 1]();
}

void fill_with_win(void *memory, size_t size)
{
    volatile action *actions = memory;
    for (size_t i = 0; i < words_of(size); i++) {
        actions[i] = win;
    }
}

int main(int count, char **words)
{
    static const struct probe *const families[] = {overflow_probes, list_probes, reuse_probes,
                                                   forge_probes};
    for (size_t i = 0; count == 2 && i < sizeof(families) / sizeof(*families); i++) {
        for (const struct probe *probe = families[i]; probe->name != NULL; probe++) {
            if (strcmp(words[1], "--list") == 0) {
                puts(probe->name);
            } else if (strcmp(words[1], probe->name) == 0) {
                probe->run();
                puts("missed");
                return 0;
            }
        }
    }
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        return 0;
    }
    fprintf(stderr, "usage: probes NAME | --list\n");
    return 2;
}
