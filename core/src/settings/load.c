/* SPDX-License-Identifier: MIT */
#include "load.h"

#include "../os/fault.h"
#include "conf.h"

#include <string.h>

#if MW_IN_LIBC
#define PROGRAM_CONF ((const char *)NULL)
#define PROGRAM_CONF_HARDER ((const char *)NULL)
#else
/* Weak: the definitions of the program, or of a library that it brought, take their place. */
#if MW_EXPORT_LIBC || MW_HAS_PREFIX
#define PROGRAM_CONF PREFIXED(malloc_conf)
#define PROGRAM_CONF_HARDER PREFIXED(malloc_conf_2_conf_harder)
#else
#define PROGRAM_CONF mw_malloc_conf
#define PROGRAM_CONF_HARDER mw_malloc_conf_2_conf_harder
#endif

extern const char *PROGRAM_CONF;
extern const char *PROGRAM_CONF_HARDER;
REPLACEABLE const char *PROGRAM_CONF;
REPLACEABLE const char *PROGRAM_CONF_HARDER;
#endif

/* What the sources are called, in a build with a prefix too. */
#define OF_PROGRAM PREFIX_TEXT "malloc_conf"
#define OF_PROGRAM_HARDER PREFIX_TEXT "malloc_conf_2_conf_harder"
#define OF_SYSTEM "/etc/" PREFIX_TEXT "malloc.conf"

/* Not on the stack, of which most programs have used less when they come here. */
static char options_text[16384] IN_SECTION(options); /* lock: process */
static char options_link[4096] IN_SECTION(options);  /* lock: process; as long as a link can be */

/* A number that is cut off would be another one: what does not fit goes from the last whole setting on. */
static void drop_cut_setting(char *text, size_t length, size_t size, const char *origin)
{
    if (length < size - 1) {
        return;
    }
    while (length > 0 && text[length] != ',' && text[length] != '\n') {
        length--;
    }
    text[length] = 0;
    log_warn("%s: it is too long: what stands behind its first %zu bytes is left out", origin,
             length);
}

static char options_variable[4096] IN_SECTION(options); /* const after init */

static const char *conf_of_program(void)
{
    const char *text = PROGRAM_CONF;
    return text != NULL ? text : "";
}

static const char *conf_of_program_harder(void)
{
    const char *text = PROGRAM_CONF_HARDER;
    return text != NULL ? text : "";
}

static const char *conf_of_system(void)
{
    return options_link;
}

static const char *conf_of_variable(void)
{
    return options_variable;
}

/* Ends of lines become commas, one for all that stand together. */
static void lines_to_settings(char *text)
{
    char *to = text;
    for (const char *from = text; *from != 0; from++) {
        bool ends_line = *from == '\n' || *from == '\r';
        bool is_more = ends_line && (to == text || to[-1] == ',');
        if (!is_more) {
            *to++ = ends_line ? ',' : *from;
        }
    }
    bool has_end = to > text && to[-1] == ',';
    to[has_end ? -1 : 0] = 0;
}

/* What /etc/malloc.conf says. In a file each line may have settings. */
static const char *system_conf(void)
{
    long length = os_read_link_or_file(OF_SYSTEM, options_link, sizeof options_link);
    if (length <= 0) {
        return NULL;
    }
    drop_cut_setting(options_link, (size_t)length, sizeof options_link, OF_SYSTEM);
    lines_to_settings(options_link);
    return options_link;
}

/* The variable of the environment: of a build with a prefix its own, as JE_MALLOC_CONF. */
static const char *conf_variable(void)
{
    static char name[sizeof PREFIX_TEXT "MALLOC_CONF"] =
        PREFIX_TEXT "MALLOC_CONF"; /* lock: process */
    for (char *at = name; MW_HAS_PREFIX && *at != 0; at++) {
        *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    }
    return name;
}

static const char *variable_described(void)
{
    static const char what[] = "value of the environment variable ";
    static char text[sizeof what + sizeof PREFIX_TEXT "MALLOC_CONF"]; /* lock: process */
    memcpy(text, what, sizeof what);
    memcpy(text + sizeof what - 1, conf_variable(), sizeof PREFIX_TEXT "MALLOC_CONF");
    return text;
}

/* A libc asks the environment alone, so that a program's start opens no file. realloc to 0 bytes is what
 * it is in musl. */
static void options_load_of_libc(void)
{
    option_set(OPTION_zero_realloc, ZERO_REALLOC_ALLOC);
    option_set(OPTION_thp, THP_NEVER);
    option_set(OPTION_security, 1);
    const char *text = libc_getenv("MALLOW_CONF", options_text, sizeof options_text);
    if (text != NULL && !parse_settings(text, "MALLOW_CONF") && option(OPTION_abort_conf)) {
        log_fatal("a setting was not understood, and abort_conf is on");
    }
}

static void options_load_of_library(void)
{
    fault_load();
    char *buffer = options_text;
    bool all_good = true;
    const char *text = libc_getenv(conf_variable(), buffer, sizeof options_text);
    if (text != NULL) {
        text_print_behind(options_variable, sizeof options_variable, "%s", text);
    }
    const struct conf_source sources[] = {
        {PROGRAM_CONF, "string pointed to by the global variable " OF_PROGRAM, OF_PROGRAM},
        {system_conf(), "\"name\" of the file referenced by the symbolic link named " OF_SYSTEM,
         OF_SYSTEM},
        {text, variable_described(), conf_variable()},
        {PROGRAM_CONF_HARDER, "string pointed to by the global variable " OF_PROGRAM_HARDER,
         OF_PROGRAM_HARDER},
    };
    bool is_good_of_jemalloc = conf_load(sources, array_count(sources));
    all_good &= is_good_of_jemalloc;
    long length = os_read_file("/etc/mallow.conf", buffer, sizeof options_text);
    if (length > 0) {
        drop_cut_setting(buffer, (size_t)length, sizeof options_text, "/etc/mallow.conf");
        all_good &= parse_settings(buffer, "/etc/mallow.conf");
    }
    text = libc_getenv("MALLOW_CONF", buffer, sizeof options_text);
    if (text != NULL) {
        all_good &= parse_settings(text, "MALLOW_CONF");
    }
    if (!is_good_of_jemalloc && option(OPTION_abort_conf)) {
        conf_say_end();
    }
    if (!all_good && option(OPTION_abort_conf)) {
        log_fatal("a setting was not understood, and abort_conf is on");
    }
}

/* As in jemalloc: who asks for leaks need not ask for profiles, and none is written but that of the end. */
static void options_allow_leaks(void)
{
    bool wants_leaks =
        option(OPTION_prof_leak) || (option(OPTION_prof_leak_error) && option(OPTION_prof_final));
    if (wants_leaks && !option(OPTION_prof)) {
        option_set_from(OPTION_prof, true, "prof_leak");
        option_set_from(OPTION_prof_gdump, false, "prof_leak");
        option_set_from(OPTION_lg_prof_interval, -1, "prof_leak");
    }
}

static void options_load(void)
{
    if (MW_IN_LIBC) {
        options_load_of_libc();
    } else {
        options_load_of_library();
    }
    options_allow_leaks();
    if (option(OPTION_confirm_conf)) {
        print_settings();
    }
    if (!MW_SEED && option(OPTION_seed) != 0) {
        log_warn("seed has no effect: the debug build alone takes one");
    }
    os_refuses_huge_pages = option(OPTION_thp) == THP_NEVER;
    os_wants_huge_pages = option(OPTION_thp) == THP_ALWAYS;
}
