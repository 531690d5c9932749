/* SPDX-License-Identifier: MIT
 *
 * One mistake by its name, in a program of a musl with Mallow inside; returns 0 if nobody notices it.
 * Without a name the names, one a line.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The compiler would tell of these at home. */
static void *volatile hidden;

static void *hide(void *pointer)
{
    hidden = pointer;
    return hidden;
}

static void double_free(void)
{
    char *block = malloc(100);
    free(block);
    free(hide(block));
}

static void double_free_among_others(void)
{
    char *block = malloc(100), *other = malloc(100), *third = malloc(100);
    free(block);
    free(other);
    free(third);
    free(hide(block));
}

static void double_free_of_large(void)
{
    char *block = malloc(300000);
    free(block);
    free(hide(block));
}

static void realloc_of_free(void)
{
    char *block = malloc(100), *other = malloc(100);
    free(block);
    free(other);
    free(realloc(hide(block), 200));
}

static void free_inside(void)
{
    char *block = malloc(100);
    free(hide(block + 16));
}

static void free_misaligned(void)
{
    char *block = malloc(100);
    free(hide(block + 5));
}

static void free_of_stack(void)
{
    char local[64];
    free(hide(local + (-(uintptr_t)local & 15)));
}

static void overflow(size_t size)
{
    char *block = hide(malloc(size));
    block[size] = 1;
}

static void overflow_seen_by_free(void)
{
    overflow(100);
    free(hidden);
}

static void overflow_of_whole_slot(void)
{
    overflow(128);
    free(hidden);
}

static void overflow_of_large(void)
{
    overflow(100001);
    free(hidden);
}

static void overflow_seen_by_realloc(void)
{
    overflow(100);
    free(realloc(hidden, 5000));
}

static void write_after_free(void)
{
    char *block = malloc(100);
    free(block);
    memset(hide(block), 'x', 100);
    for (int i = 0; i < 10000; i++) {
        free(hide(malloc(100)));
        hide(malloc(100));
    }
}

static const struct {
    const char *name;
    void (*make)(void);
} mistakes[] = {
    {"double_free", double_free},
    {"double_free_among_others", double_free_among_others},
    {"double_free_of_large", double_free_of_large},
    {"realloc_of_free", realloc_of_free},
    {"free_inside", free_inside},
    {"free_misaligned", free_misaligned},
    {"free_of_stack", free_of_stack},
    {"overflow_seen_by_free", overflow_seen_by_free},
    {"overflow_of_whole_slot", overflow_of_whole_slot},
    {"overflow_of_large", overflow_of_large},
    {"overflow_seen_by_realloc", overflow_seen_by_realloc},
    {"write_after_free", write_after_free},
};

int main(int count, char **words)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        if (count < 2) {
            puts(mistakes[i].name);
        } else if (strcmp(words[1], mistakes[i].name) == 0) {
            mistakes[i].make();
            return 0;
        }
    }
    return count < 2 ? 0 : 2;
}
