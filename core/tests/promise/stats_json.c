/* SPDX-License-Identifier: MIT
 *
 * Writes what malloc_stats_print says of a heap that several threads have worked with: as JSON, with
 * the options that are its argument, to standard output. stats_json.py reads it. The arguments "-"
 * and "message" check that the program's own function gets the text.
 */
#include "promise.h"

#include <dlfcn.h>

enum { COUNT = 20000, KEPT_LARGE = 30, THREADS = 6 };

static void (*print)(void (*)(void *, const char *), void *, const char *);
static void *kept[THREADS][COUNT];

static void write_piece(void *context, const char *text)
{
    CHECK(context == kept);
    CHECK_EQ(write(1, text, strlen(text)), (long)strlen(text));
}

static unsigned messages;

static void take_message(void *context, const char *text)
{
    CHECK(context == kept && text[0] != 0);
    messages++;
}

static void *work(void *argument)
{
    void **own = argument;
    for (unsigned i = 0; i < COUNT; i++) {
        own[i] = malloc(16 + i % 3000);
    }
    for (unsigned i = 0; i < COUNT; i += 2) {
        free(own[i]);
    }
    for (unsigned i = 0; i < KEPT_LARGE; i++) {
        CHECK(malloc(40000 + 10000 * i) != NULL);
    }
    CHECK(malloc(20 * MIB) != NULL);
    return NULL;
}

int main(int count, char **arguments)
{
    *(void **)&print = dlsym(RTLD_DEFAULT, "malloc_stats_print");
    CHECK(print != NULL && count == 2);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, work, kept[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    if (strcmp(arguments[1], "message") == 0) {
        void (**message)(void *, const char *) = dlsym(RTLD_DEFAULT, "malloc_message");
        CHECK(message != NULL && *message == NULL);
        *message = take_message;
        print(NULL, kept, NULL);
        CHECK(messages > 0);
        return 0;
    }
    print(write_piece, kept, arguments[1]);
    return 0;
}
