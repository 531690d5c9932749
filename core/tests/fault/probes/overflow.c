/* SPDX-License-Identifier: MIT
 *
 * The attacker writes beyond the end of a live block, or in front of it.
 */
#include "probes.h"

#include <string.h>

enum { SPRAY = 64, SECRET = 'S' };

/* The block that the program allocates next to the buffer. */
static void overflow_next(size_t size)
{
    char *buffer = take(size), *victim = take(size);
    set_up(victim, size);
    fill_with_win(buffer, 2 * size + 32);
    call(victim, size);
}

static void next_small(void)
{
    overflow_next(SMALL);
}

static void next_page(void)
{
    overflow_next(PAGE_SIZED);
}

static void next_large(void)
{
    overflow_next(LARGE);
}

/* Many of both, so that one of them follows a buffer wherever blocks come to lie. */
static void overflow_sprayed(size_t size, size_t length)
{
    char *buffers[SPRAY], *victims[SPRAY];
    for (int i = 0; i < SPRAY; i++) {
        buffers[i] = take(size);
        victims[i] = take(size);
        set_up(victims[i], size);
    }
    fill_with_win(buffers[SPRAY / 2], length);
    for (int i = 0; i < SPRAY; i++) {
        call(victims[i], size);
    }
}

static void sprayed_small(void)
{
    overflow_sprayed(SMALL, 2 * SMALL + 32);
}

static void sprayed_small_by_a_kilobyte(void)
{
    overflow_sprayed(SMALL, 1024);
}

static void sprayed_page(void)
{
    overflow_sprayed(PAGE_SIZED, 2 * PAGE_SIZED + 32);
}

/* A NUL too many cuts the low byte of the pointer at the start of the next block off, which then
 * points in front of its object: to what the attacker has put there. */
static void cut_pointer(void)
{
    enum { BLOCK = 64 };
    char *buffers[SPRAY], **victims[SPRAY], *objects[SPRAY];
    for (int i = 0; i < SPRAY; i++) {
        buffers[i] = take(BLOCK);
        victims[i] = take(BLOCK);
        objects[i] = take(BLOCK);
        victims[i][0] = objects[i];
    }
    for (int i = 0; i < SPRAY; i++) {
        ((volatile char *)opaque(buffers[i]))[BLOCK] = 0;
    }
    for (int i = 0; i < SPRAY; i++) {
        if (victims[i][0] != objects[i]) {
            reach("part of a pointer was overwritten");
        }
    }
}

static void in_front_small(void)
{
    char *victims[SPRAY], *buffer = NULL;
    for (int i = 0; i < SPRAY; i++) {
        victims[i] = take(SMALL);
        set_up(victims[i], SMALL);
        if (i == SPRAY / 2) {
            buffer = take(SMALL);
        }
    }
    fill_with_win(buffer - SMALL, SMALL);
    for (int i = 0; i < SPRAY; i++) {
        call(victims[i], SMALL);
    }
}

static void in_front_large(void)
{
    char *before = take(LARGE), *buffer = take(LARGE), *after = take(LARGE);
    set_up(before, LARGE);
    set_up(after, LARGE);
    fill_with_win(buffer - 64, 64);
    call(before, LARGE);
    call(after, LARGE);
}

/* A message {length, text} is made longer, and then shows what lies behind it. */
static void lengthen(void)
{
    struct message {
        size_t length;
        char text[SMALL - sizeof(size_t)];
    };
    struct message *messages[SPRAY];
    char *buffers[SPRAY], *secrets[SPRAY];
    for (int i = 0; i < SPRAY; i++) {
        buffers[i] = take(SMALL);
        messages[i] = take(SMALL);
        secrets[i] = take(SMALL);
        messages[i]->length = sizeof(messages[i]->text);
        memset(secrets[i], SECRET, SMALL);
    }
    volatile size_t *beyond = (size_t *)opaque(buffers[SPRAY / 2]);
    for (int i = 0; i < 4; i++) {
        beyond[SMALL / sizeof(size_t) + (size_t)i] = 4 * SMALL;
    }
    for (int i = 0; i < SPRAY; i++) {
        const volatile char *text = opaque(messages[i]->text);
        if (messages[i]->length > sizeof(messages[i]->text)) {
            for (size_t k = 0; k < messages[i]->length; k++) {
                if (text[k] == SECRET) {
                    reach("a secret was read");
                }
            }
        }
    }
}

/* A read as long as a message says it is: no write at all. */
static void over_read(void)
{
    char *secrets[SPRAY], *message = NULL;
    for (int i = 0; i < SPRAY; i++) {
        secrets[i] = take(SMALL);
        memset(secrets[i], SECRET, SMALL);
        if (i == SPRAY / 2) {
            message = take(SMALL);
        }
    }
    const volatile char *text = opaque(message);
    for (size_t i = SMALL; i < 16384; i++) {
        if (text[i] == SECRET) {
            reach("a secret was read");
        }
    }
}

static void over_read_large(void)
{
    char *message = take(LARGE), *secret = take(LARGE), *other = take(LARGE);
    memset(secret, SECRET, LARGE);
    memset(other, SECRET, LARGE);
    const volatile char *text = opaque(message);
    for (size_t i = LARGE; i < LARGE + 65536; i++) {
        if (text[i] == SECRET) {
            reach("a secret was read");
        }
    }
}

const struct probe overflow_probes[] = {
    {"overflow-next-small", next_small},
    {"overflow-next-page", next_page},
    {"overflow-next-large", next_large},
    {"overflow-sprayed-small", sprayed_small},
    {"overflow-sprayed-small-1k", sprayed_small_by_a_kilobyte},
    {"overflow-sprayed-page", sprayed_page},
    {"overflow-cuts-pointer", cut_pointer},
    {"underflow-small", in_front_small},
    {"underflow-large", in_front_large},
    {"overflow-lengthens", lengthen},
    {"over-read-small", over_read},
    {"over-read-large", over_read_large},
    {NULL, NULL},
};
