/* SPDX-License-Identifier: MIT
 *
 * Settings: what is understood, what is refused, and that a wrong key names the nearest.
 */
#include "unit.h"

#include <sys/stat.h>

static bool parse(const char *text)
{
    return parse_settings(text, "test");
}

TEST(options_take_values)
{
    CHECK(parse("dirty_decay_ms:1234"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 1234);
    CHECK(parse("dirty_decay_ms:-1,muzzy_decay_ms:2k"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), -1);
    CHECK_EQ(option(OPTION_muzzy_decay_ms), 2048);
    CHECK(parse("purge_thread:true"));
    CHECK_EQ(option(OPTION_purge_thread), 1);
    CHECK(parse("purge_thread:false"));
    CHECK_EQ(option(OPTION_purge_thread), 0);
    CHECK(parse("memory_limit:64M,memory_soft_limit:80%"));
    CHECK_EQ(option(OPTION_memory_limit), 64 * MiB);
    CHECK_EQ(option(OPTION_memory_soft_limit), -80);
    CHECK(parse("memory_limit:0,memory_soft_limit:100%"));
    CHECK_EQ(option(OPTION_memory_limit), 0);
    CHECK_EQ(option(OPTION_memory_soft_limit), -100);
    CHECK(parse("memory_soft_limit:0,foreign:next"));
    CHECK_EQ(option(OPTION_foreign), FOREIGN_NEXT);
}

TEST(options_take_blanks_lines_and_comments)
{
    CHECK(parse(
        "# a comment, with a comma\n dirty_decay_ms : 10 \n\n\tarenas:2 # more\nforeign:ignore\n"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 10);
    CHECK_EQ(option(OPTION_arenas), 2);
    CHECK_EQ(option(OPTION_foreign), FOREIGN_IGNORE);
    CHECK(parse(""));
    CHECK(parse(",,,"));
    CHECK(parse("arenas:3,# no,arenas:4\narenas:5,#arenas:6"));
    CHECK_EQ(option(OPTION_arenas), 5);
}

TEST(options_take_names_of_files_with_any_sign)
{
    CHECK(parse("prof_prefix:/tmp/job#7,dirty_decay_ms:11"));
    CHECK(!strcmp(prof_prefix(), "/tmp/job#7"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 11);
    CHECK(parse("prof_prefix:#/a##b# # a comment\ndirty_decay_ms:12"));
    CHECK(!strcmp(prof_prefix(), "#/a##b#"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 12);
}

TEST(options_refuse_and_keep_the_old_value)
{
    static const char *const bad[] = {
        "dirty_decay_ms:",
        "dirty_decay_ms:abc",
        "dirty_decay_ms:12x",
        "dirty_decay_ms:--1",
        "dirty_decay_ms:-2",
        "dirty_decay_ms:3600001",
        "dirty_decay_ms:9999999999g",
        "dirty_decay_ms:18446744073709551716", /* 2^64 + 100 */
        "dirty_decay_ms:99999999999999999999999999999999999999",
        "dirty_decay_ms: ",
        "dirty_decay_ms:k",
        "dirty_decay_ms:-m",
        "memory_limit:G",
        "memory_limit:k%",
        "memory_limit:-1",
        "memory_limit:%",
        "memory_limit:0%",
        "memory_limit:101%",
        "memory_limit:-5%",
        "arenas:-1",
        "arenas:65",
        "purge_thread:yes",
        "purge_thread:",
        "foreign:nex",
        "foreign:next|abort",
        "nonsense:1",
        "experimental_hpa_start_huge_if_thp_always:true", /* longer than any name of ours */
        "dirty_decay_ms",
        ":",
        ":5",
    };
    option_set(OPTION_dirty_decay_ms, 77);
    option_set(OPTION_arenas, 3);
    option_set(OPTION_foreign, FOREIGN_ABORT);
    for (size_t i = 0; i < array_count(bad); i++) {
        CHECK_MSG(!parse(bad[i]), "'%s' was taken", bad[i]);
        CHECK_MSG(option(OPTION_dirty_decay_ms) == 77, "'%s' set %ld", bad[i],
                  option(OPTION_dirty_decay_ms));
        CHECK_EQ(option(OPTION_arenas), 3);
        CHECK_EQ(option(OPTION_foreign), FOREIGN_ABORT);
    }
}

TEST(options_take_the_good_ones_beside_a_bad_one)
{
    CHECK(!parse("nonsense:1,dirty_decay_ms:55"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 55);
}

TEST(options_name_the_nearest)
{
    static const char *const pairs[][2] = {{"dirty_decay", "dirty_decay_ms"},
                                           {"muzy_decay_ms", "muzzy_decay_ms"},
                                           {"arena", "arenas"},
                                           {"abortconf", "abort_conf"},
                                           {"forein", "foreign"}};
    for (size_t i = 0; i < array_count(pairs); i++) {
        struct word key = {pairs[i][0], strlen(pairs[i][0])};
        CHECK_MSG(!strcmp(nearest_option(key), pairs[i][1]), "%s: %s", pairs[i][0],
                  nearest_option(key));
    }
}

/* As the file of settings: every program of the system would wait for who writes. */
TEST(a_pipe_that_nobody_writes_to_is_empty)
{
    char path[64], text[8];
    snprintf(path, sizeof path, "/tmp/mallow-options-%d", getpid());
    CHECK_EQ(mkfifo(path, 0600), 0);
    alarm(20);
    CHECK_EQ(os_read_file(path, text, sizeof text), 0);
    alarm(0);
    unlink(path);
}

TEST(what_is_cut_off_is_no_setting)
{
    char text[] = "arenas:2,dirty_decay_ms:10";
    drop_cut_setting(text, strlen(text), sizeof text + 1, "test");
    CHECK_EQ(strlen(text), sizeof text - 1);
    drop_cut_setting(text, strlen(text), sizeof text, "test");
    CHECK(!strcmp(text, "arenas:2"));
    char one[] = "dirty_decay_ms:10";
    drop_cut_setting(one, strlen(one), sizeof one, "test");
    CHECK_EQ(one[0], 0);
}

static void load_with_abort(void)
{
    setenv("MALLOW_CONF", "abort_conf:true,nonsense:1", 1);
    options_load();
}

static void load_with_warning(void)
{
    setenv("MALLOW_CONF", "dirty_decay:5", 1);
    options_load();
    abort();
}

static void load_with_report(void)
{
    setenv("MALLOW_CONF", "dirty_decay_ms:4321,confirm_conf:true", 1);
    options_load();
    abort();
}

TEST(options_from_the_environment)
{
    check_aborts(load_with_abort, "a setting was not understood");
    check_aborts(load_with_warning, "the nearest name is 'dirty_decay_ms'");
    check_aborts(load_with_report, "mallow: ");
}

static void complain_of_many(void)
{
    static char text[30000 * 4 + 1];
    for (size_t i = 0; i < sizeof text - 1; i += 4) {
        memcpy(text + i, "x:1,", 4);
    }
    parse(text);
    os_abort();
}

TEST(options_complain_of_a_few_and_count_the_rest)
{
    check_aborts(complain_of_many, "mallow: test: 29995 more settings were not understood");
}
