/* SPDX-License-Identifier: MIT
 *
 * The formatting of messages, which allocates nothing.
 */
#include "unit.h"

static char written[2048];
static size_t written_count;

static void collect(void *context, const char *text, size_t size)
{
    (void)context;
    memcpy(written + written_count, text, size);
    written_count += size;
    written[written_count] = 0;
}

static struct sink sink = {collect, NULL};

#define CHECK_PRINTS(expected, ...)                                                 \
    do {                                                                            \
        written_count = 0;                                                          \
        sink_print(&sink, __VA_ARGS__);                                             \
        CHECK_MSG(!strcmp(written, expected), "'%s', not '%s'", written, expected); \
    } while (0)

TEST(log_formats_numbers)
{
    CHECK_PRINTS("0 -1 2147483647 -2147483648", "%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
    CHECK_PRINTS("9223372036854775807 -9223372036854775808", "%ld %ld", LONG_MAX, LONG_MIN);
    CHECK_PRINTS("4294967295 18446744073709551615", "%u %zu", UINT_MAX, SIZE_MAX);
    CHECK_PRINTS("ff 0xdeadbeef", "%x %p", 255, (void *)0xdeadbeef);
    CHECK_PRINTS("    7|abc     |", "%5u|%8s|", 7, "abc");
}

TEST(log_formats_words)
{
    CHECK_PRINTS("a%c", "%c%%%s", 'a', "c");
    CHECK_PRINTS("", "%s", "");
}

TEST(log_cuts_what_is_too_long)
{
    static char text[3000];
    memset(text, 'x', sizeof text - 1);
    written_count = 0;
    sink_print(&sink, "%s", text);
    CHECK_EQ(written_count, 511);
}

static void fatal(void)
{
    log_fatal("the number %d", 42);
}

TEST(log_fatal_aborts_with_one_line)
{
    check_aborts(fatal, "mallow: the number 42\n");
}
