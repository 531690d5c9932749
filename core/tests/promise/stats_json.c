/* SPDX-License-Identifier: MIT
 *
 * Writes what malloc_stats_print says of a heap that several threads have worked with: as JSON, with
 * the options that are its argument, to standard output. stats_json.py reads it. The arguments "-"
 * and "message" check that the program's own function gets the text. With "poor:" before the options, the kernel gives no
 * memory from the moment at which the heap is there: `epoch` can be written all the same, as often as one likes.
 */
#include "promise.h"

#include <dlfcn.h>
#include <sys/resource.h>

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
    for (unsigned i = 0; i < KEPT_LARGE; i++) { /* pages of their own, and no larger than a slot */
        void *aligned;
        CHECK_EQ(posix_memalign(&aligned, 8192, 4096), 0);
    }
    return NULL;
}

static size_t figure(const char *name)
{
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    *(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
    uint64_t epoch = 1;
    size_t value = 0, size = sizeof value;
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static void become_poor(void)
{
    struct rlimit least = {1 << 20, 1 << 20};
    CHECK_EQ(setrlimit(RLIMIT_AS, &least), 0);
    for (int i = 0; i < 5; i++) {
        size_t allocated = figure("stats.allocated");
        CHECK(allocated > 50 * MIB);
        CHECK_EQ(figure("stats.arenas.0.small.allocated") +
                     figure("stats.arenas.0.large.allocated"),
                 allocated);
    }
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
    const char *options = arguments[1];
    if (strncmp(options, "poor:", 5) == 0) {
        become_poor();
        options += 5;
    }
    print(write_piece, kept, options);
    return 0;
}
