/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <string.h>

struct text {
    char *buffer;
    size_t size;
    size_t used;
};

static void text_put(struct text *text, char c)
{
    if (text->used + 1 < text->size) {
        text->buffer[text->used++] = c;
    }
}

static void text_put_number(struct text *text, uint64_t value, unsigned base, unsigned width)
{
    char digits[20];
    unsigned count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    for (unsigned i = count; i < width; i++) {
        text_put(text, ' ');
    }
    while (count > 0) {
        text_put(text, digits[--count]);
    }
}

static void text_put_string(struct text *text, const char *string, unsigned width)
{
    size_t length = strlen(string);
    while (*string != 0) {
        text_put(text, *string++);
    }
    for (size_t i = length; i < width; i++) {
        text_put(text, ' ');
    }
}

/* Formats one argument; `at` stands behind the '%'. Returns the position behind the directive. */
static const char *text_put_argument(struct text *text, const char *at, va_list *arguments)
{
    unsigned width = 0;
    while (*at >= '0' && *at <= '9') {
        width = width * 10 + (unsigned)(*at++ - '0');
    }
    bool is_long = *at == 'l' || *at == 'z';
    at += is_long;
    switch (*at) {
    case 's':
        text_put_string(text, va_arg(*arguments, const char *), width);
        break;
    case 'c':
        text_put(text, (char)va_arg(*arguments, int));
        break;
    case 'd': {
        long value = is_long ? va_arg(*arguments, long) : va_arg(*arguments, int);
        if (value < 0) {
            text_put(text, '-');
        }
        text_put_number(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10, width);
        break;
    }
    case 'u':
    case 'x': {
        uint64_t value = is_long ? va_arg(*arguments, unsigned long) : va_arg(*arguments, unsigned);
        text_put_number(text, value, *at == 'x' ? 16 : 10, width);
        break;
    }
    case 'p':
        text_put_string(text, "0x", 0);
        text_put_number(text, (uintptr_t)va_arg(*arguments, void *), 16, 0);
        break;
    default:
        text_put(text, *at);
        break;
    }
    return at + 1;
}

static void text_format(struct text *text, const char *format, va_list *arguments)
{
    while (*format != 0) {
        if (*format == '%') {
            format = text_put_argument(text, format + 1, arguments);
        } else {
            text_put(text, *format++);
        }
    }
    text->buffer[text->used] = 0;
}

static void text_print(char *buffer, size_t size, const char *format, va_list *arguments)
{
    text_format(&(struct text){buffer, size, 0}, format, arguments);
}

static uintptr_t text_parse_hex(char **text)
{
    uintptr_t value = 0;
    for (;; (*text)++) {
        char c = **text;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit == 16) {
            return value;
        }
        value = value << 4 | digit;
    }
}

static void text_print_behind(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    text_print(text + used, size - used, format, &arguments);
    va_end(arguments);
}

static void sink_print(struct sink *sink, const char *format, ...)
{
    char buffer[512];
    struct text text = {buffer, sizeof buffer, 0};
    va_list arguments;
    va_start(arguments, format);
    text_format(&text, format, &arguments);
    va_end(arguments);
    sink->write(sink->context, buffer, text.used);
}

static void write_standard_error(void *context, const char *text, size_t size)
{
    (void)context;
    os_write(2, text, size);
}

static struct sink log_sink(void)
{
    return (struct sink){write_standard_error, NULL};
}

/* One write, so that lines of several threads do not mix. */
static void log_line(const char *format, va_list *arguments)
{
    char buffer[512];
    struct text text = {buffer, sizeof buffer - 1, 0};
    text_put_string(&text, "mallow: ", 0);
    text_format(&text, format, arguments);
    buffer[text.used++] = '\n';
    os_write(2, buffer, text.used);
}

static COLD void log_warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(format, &arguments);
    va_end(arguments);
}

_Noreturn static COLD void log_fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(format, &arguments);
    va_end(arguments);
    os_abort();
}
