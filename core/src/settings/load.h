/* SPDX-License-Identifier: MIT
 *
 * Where settings come from, from the weakest to the strongest; each key by itself:
 *
 *   malloc_conf                 a string that the program defines, for jemalloc
 *   /etc/malloc.conf            the text that this link leads to, or what is in the file
 *   MALLOC_CONF                 of the environment
 *   malloc_conf_2_conf_harder   as the first
 *   /etc/mallow.conf            a file
 *   MALLOW_CONF                 of the environment
 *
 * The first four have the syntax of jemalloc. The environment does not count in a program that has
 * more privileges than who started it.
 */
#ifndef MALLOW_LOAD_H
#define MALLOW_LOAD_H

static void options_load(void);

/* What the sources of jemalloc's settings say; empty where there is nothing. Of the variable, what it said at the start,
 * as much as there is room for. */
static const char *conf_of_program(void);
static const char *conf_of_program_harder(void);
static const char *conf_of_system(void);
static const char *conf_of_variable(void);

#endif
