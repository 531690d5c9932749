/* SPDX-License-Identifier: MIT
 *
 * Text without allocation, stdio or locks: messages to standard error, and reports into a sink.
 *
 * The formats know %s %c %d %u %zu %x %p %% only, with an optional width, and 'l' before d, u, x.
 */
#ifndef MALLOW_LOG_H
#define MALLOW_LOG_H

#include "../base/check.h"
#include "os.h"

#include <stdarg.h>

/* Where the pieces of a long text go. */
struct sink {
    void (*write)(void *context, const char *text, size_t size);
    void *context;
};

/* Writes one piece of at most 511 characters. */
static PRINTF_LIKE(2, 3) void sink_print(struct sink *sink, const char *format, ...);

/* Formats into a buffer, cut to its size. */
static void text_print(char *buffer, size_t size, const char *format, va_list *arguments);

/* Appends to a text that ends in 0. */
static PRINTF_LIKE(3, 4) void text_print_behind(char *text, size_t size, const char *format, ...);

/* The number in hexadecimal digits at *text, which moves behind it. */
static uintptr_t text_parse_hex(char **text);

/* A sink that ends at standard error. */
static struct sink log_sink(void);

/* "mallow: ...\n" to standard error. */
static COLD PRINTF_LIKE(1, 2) void log_warn(const char *format, ...);

/* The same, then SIGABRT: the program broke a rule of the interface. */
_Noreturn static COLD PRINTF_LIKE(1, 2) void log_fatal(const char *format, ...);

#endif
