/* SPDX-License-Identifier: MIT
 *
 * jemalloc's settings: what is understood, the messages about what is not, and which source wins.
 * The kernel's answers about /etc/malloc.conf are made up, see kernel.h.
 */
#include "unit.h"

static bool load(const char *text)
{
    struct conf_source source = {text, "test", "test"};
    return conf_load(&source, 1);
}

TEST(conf_takes_values)
{
    CHECK(load("dirty_decay_ms:1234,muzzy_decay_ms:-1"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 1234);
    CHECK_EQ(option(OPTION_muzzy_decay_ms), -1);
    CHECK(load("narenas:3,background_thread:true,zero:true,junk:alloc,xmalloc:true,retain:false"));
    CHECK_EQ(option(OPTION_arenas), 3);
    CHECK_EQ(option(OPTION_purge_thread), true);
    CHECK_EQ(option(OPTION_zero), true);
    CHECK_EQ(option(OPTION_junk), JUNK_ALLOC);
    CHECK_EQ(option(OPTION_xmalloc), true);
    CHECK_EQ(option(OPTION_retain), false);
    CHECK(load("narenas:default,background_thread:false,junk:free,zero_realloc:alloc"));
    CHECK_EQ(option(OPTION_arenas), 0);
    CHECK_EQ(option(OPTION_purge_thread), false);
    CHECK_EQ(option(OPTION_junk), JUNK_FREE);
    CHECK_EQ(option(OPTION_zero_realloc), ZERO_REALLOC_ALLOC);
    CHECK(load("dirty_decay_ms:0x10"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 16);
    CHECK(load("dirty_decay_ms:010"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 8);
    CHECK(load(""));
}

/* As strtoumax does. */
TEST(conf_takes_blanks_and_a_sign_before_a_number)
{
    CHECK(load("narenas: 4,dirty_decay_ms: \t+7,tcache_ncached_max: 16- 64: 5"));
    CHECK_EQ(option(OPTION_arenas), 4);
    CHECK_EQ(option(OPTION_dirty_decay_ms), 7);
    CHECK(load("dirty_decay_ms: -1"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), -1);
}

TEST(conf_takes_what_is_negative_for_very_much_where_there_is_no_sign)
{
    CHECK(load("narenas:-1,hpa_sec_nshards:-1"));
    CHECK_EQ(option(OPTION_arenas), 64);
}

TEST(conf_goes_to_the_nearest_value_that_there_is)
{
    CHECK(load("narenas:1000,dirty_decay_ms:9999999999999"));
    CHECK_EQ(option(OPTION_arenas), 64);
    CHECK_EQ(option(OPTION_dirty_decay_ms), 3600000);
}

TEST(conf_takes_abbreviations_where_jemalloc_does)
{
    CHECK(load("metadata:auto,metadata_thp:al,dss:sec,percpu:phy,thp:n"));
    CHECK_EQ(option(OPTION_thp), THP_NEVER);
    CHECK(load("thp:,zero:true")); /* its first word */
    CHECK_EQ(option(OPTION_thp), THP_DEFAULT);
    CHECK_EQ(option(OPTION_zero), true);
    CHECK(load("metadata_thp:,dss:"));
    CHECK_EQ(conf_value(conf_at(CONF_metadata_thp)), 0);
    CHECK(!load("zero_realloc:ab"));
    CHECK(!load("zer:true"));
    CHECK(!load("zero:t"));
    CHECK(!load("junk:al"));
}

/* Whether jemalloc goes on after a value that it can not read: of an experiment, or of an option that it
 * has given up. */
static bool jemalloc_goes_on(const char *name)
{
    return strncmp(name, "experimental_", 13) == 0 ||
           strcmp(name, "hpa_sec_bytes_after_flush") == 0 ||
           strcmp(name, "hpa_sec_batch_fill_extra") == 0;
}

TEST(conf_takes_every_option)
{
    for (unsigned i = 0; i < conf_count(); i++) {
        const struct conf_option *conf = conf_at(i);
        char text[100];
        const char *value = conf->type == CONF_TYPE_TEXT   ? "1-2:3|4-5:6"
                            : conf->type == CONF_TYPE_BOOL ? "false"
                            : conf->type == CONF_TYPE_WORD ? word_ended(word_at(conf->words, 0))
                                                           : "1";
        snprintf(text, sizeof text, "%s:%s", conf->name, value);
        CHECK_MSG(load(text), "%s", text);
        snprintf(text, sizeof text, "%s:nonsense", conf->name);
        bool is_text = conf->type == CONF_TYPE_TEXT && i != CONF_tcache_ncached_max &&
                       i != CONF_bin_shards && i != CONF_slab_sizes;
        bool is_taken = is_text || jemalloc_goes_on(conf->name);
        CHECK_MSG(load(text) == is_taken, "%s", text);
    }
}

/* What has its effect, and no option of Mallow's own. */
TEST(conf_keeps_what_was_set)
{
    CHECK_EQ(conf_value(conf_at(CONF_tcache)), true);
    CHECK_EQ(conf_value(conf_at(CONF_tcache_max)), 32768);
    CHECK_EQ(conf_value(conf_at(CONF_stats_interval)), -1);
    CHECK(load("tcache:false,stats_interval:1000,narenas_ratio:2,oversize_threshold:0x100000"));
    CHECK_EQ(conf_value(conf_at(CONF_tcache)), false);
    CHECK_EQ(conf_value(conf_at(CONF_stats_interval)), 1000);
    CHECK_EQ(conf_value(conf_at(CONF_narenas_ratio)), 2 * CONF_ONE);
    CHECK_EQ(conf_value(conf_at(CONF_oversize_threshold)), 1 << 20);
    CHECK(!load("tcache:maybe,stats_interval:-2,narenas_ratio:1.x"));
    CHECK_EQ(conf_value(conf_at(CONF_tcache)), false);
    CHECK_EQ(conf_value(conf_at(CONF_stats_interval)), 1000);
    CHECK_EQ(conf_value(conf_at(CONF_narenas_ratio)), 2 * CONF_ONE);
}

TEST(conf_reads_ranges)
{
    static const char *const wrong[] = {"",        "1",      "1-2",    "1-2:",      "1:2",
                                        "1-2:3||", "|",      "|1-2:3", "1-2:3|4-5", "1-2-3",
                                        "a-2:3",   "1-2:-3", "1-2:3 "};
    const char *text = "16-64:20|3000-0x2000:0";
    struct conf_range range;
    CHECK(load("tcache_ncached_max:16-64:20|3000-0x2000:0"));
    CHECK_EQ(strcmp(conf_text(conf_at(CONF_tcache_ncached_max)), text), 0);
    CHECK(conf_next_range(&text, &range) && range.first == 16 && range.last == 64);
    CHECK_EQ(range.value, 20);
    CHECK(conf_next_range(&text, &range) && range.first == 3000 && range.last == 8192);
    CHECK_EQ(range.value, 0);
    CHECK(!conf_next_range(&text, &range) && *text == 0);
    for (size_t i = 0; i < array_count(wrong); i++) {
        char setting[64];
        snprintf(setting, sizeof setting, "tcache_ncached_max:%s", wrong[i]);
        CHECK_MSG(!load(setting), "%s", setting);
        CHECK_EQ(conf_text(conf_at(CONF_tcache_ncached_max))[0], '1'); /* as it was */
    }
}

TEST(conf_reads_a_ratio)
{
    static const struct {
        const char *text;
        long ratio;
    } ratios[] = {{"1.5", 98304}, {"0.25", 16384}, {"2.0", 131072}, {".5", 32768},
                  {"0", 0},       {"3", 196608},   {"02", 131072},  {"1.00002", 65537}};
    static const char *const wrong[] = {".", "", "2.", "1.2.3", "-1", "0x2", "65536", "default"};
    for (size_t i = 0; i < array_count(ratios); i++) {
        char text[64];
        snprintf(text, sizeof text, "narenas_ratio:%s", ratios[i].text);
        CHECK_MSG(load(text), "%s", text);
        CHECK_EQ(conf_value(conf_at(CONF_narenas_ratio)), ratios[i].ratio);
    }
    for (size_t i = 0; i < array_count(wrong); i++) {
        char text[64];
        snprintf(text, sizeof text, "narenas_ratio:%s", wrong[i]);
        CHECK_MSG(!load(text), "%s", text);
    }
    CHECK_EQ(conf_value(conf_at(CONF_narenas_ratio)), 65537);
}

/* What has no effect is read all the same: who mistypes it is told, and may be ended by it. */
TEST(conf_refuses_what_jemalloc_refuses_of_what_has_no_effect)
{
    static const char *const good[] = {"bin_shards:1-160:64",
                                       "bin_shards:1-160:16|200-300:2",
                                       "slab_sizes:default",
                                       "slab_sizes:1-2:3|4-4096:17",
                                       "slab_sizes:5-3:2",
                                       "slab_sizes:1-2:3|",
                                       "bin_shards:5-3:2",
                                       "bin_shards:1-2:3|",
                                       "hpa_dirty_mult:-1",
                                       "hpa_dirty_mult:0.25",
                                       "hpa_dirty_mult:.5",
                                       "hpa_dirty_mult:65535",
                                       "hpa_dirty_mult:0",
                                       "slab_sizes:1-2:3,zero:true",
                                       "bin_shards:1-2:3,zero:true",
                                       "hpa_dirty_mult:1,zero:true",
                                       "hpa_purge_threshold_ratio:1.0"};
    static const char *const bad[] = {"bin_shards:",
                                      "bin_shards:default",
                                      "bin_shards:1-2",
                                      "bin_shards:1-2:0",
                                      "bin_shards:1-2:65",
                                      "bin_shards:1-2:3|4",
                                      "bin_shards:1-2,zero:true",
                                      "slab_sizes:",
                                      "slab_sizes:defaul",
                                      "slab_sizes:1-2",
                                      "slab_sizes:1-2:x",
                                      "slab_sizes:|",
                                      "slab_sizes:1-2:3||",
                                      "bin_shards:1-2:3||4-5:6",
                                      "slab_sizes:1-2:,zero:true",
                                      "hpa_dirty_mult:",
                                      "hpa_dirty_mult:-2",
                                      "hpa_dirty_mult:5.",
                                      "hpa_dirty_mult:.",
                                      "hpa_dirty_mult:0x1",
                                      "hpa_dirty_mult:0.5x",
                                      "hpa_dirty_mult:1.2.3",
                                      "hpa_dirty_mult:65536",
                                      "hpa_hugification_threshold_ratio:1.5",
                                      "hpa_hugification_threshold_ratio:-1"};
    for (size_t i = 0; i < array_count(good); i++) {
        CHECK_MSG(load(good[i]), "%s", good[i]);
    }
    for (size_t i = 0; i < array_count(bad); i++) {
        CHECK_MSG(!load(bad[i]), "%s", bad[i]);
    }
}

TEST(conf_reads_parts)
{
    static const struct {
        const char *text;
        long value;
    } parts[] = {{"-1", -1}, {"0.25", 16384}, {".5", 32768}, {"1", 65536}, {"2.75", 180224}};
    for (size_t i = 0; i < array_count(parts); i++) {
        long value = -9;
        struct word word = {parts[i].text, strlen(parts[i].text)};
        CHECK_MSG(conf_parse_part(word, &value) && value == parts[i].value, "%s", parts[i].text);
    }
}

/* Of some options jemalloc takes the nearest of what it can do. */
TEST(conf_clips_what_jemalloc_clips)
{
    CHECK(
        load("max_background_threads:0,tcache_nslots_small_min:0,process_madvise_max_batch:99999"));
    CHECK_EQ(conf_value(conf_at(CONF_max_background_threads)), 1);
    CHECK_EQ(conf_value(conf_at(CONF_tcache_nslots_small_min)), 1);
    CHECK(load("max_background_threads:9999,lg_tcache_max:99"));
    CHECK_EQ(conf_value(conf_at(CONF_max_background_threads)), 4096);
    CHECK_EQ(conf_value(conf_at(CONF_lg_tcache_max)), 63);
    CHECK(load("lg_tcache_max:-1,lg_prof_sample:-1"));
    CHECK_EQ(conf_value(conf_at(CONF_lg_tcache_max)), 63);
    CHECK_EQ(conf_value(conf_at(CONF_lg_prof_sample)), 40);
    CHECK(load("tcache_max:-1"));
    CHECK_EQ(conf_value(conf_at(CONF_tcache_max)), LONG_MAX);
    CHECK(!load("dirty_decay_ms:99999999999999999999"));
    CHECK(!load("lg_extent_max_active_fit:65"));
}

TEST(lines_of_a_file_are_settings)
{
    char text[] = "\n\nnarenas:6\r\n\r\n\ndirty_decay_ms:666,\nthp:never\n\n";
    lines_to_settings(text);
    CHECK_MSG(strcmp(text, "narenas:6,dirty_decay_ms:666,thp:never") == 0, "%s", text);
    char nothing[] = "\n\n";
    lines_to_settings(nothing);
    CHECK_EQ(nothing[0], 0);
}

TEST(conf_knows_two_names_of_one_size)
{
    CHECK(load("lg_tcache_max:12"));
    CHECK_EQ(conf_value(conf_at(CONF_tcache_max)), 4096);
    CHECK(load("tcache_max:20000"));
    CHECK_EQ(conf_value(conf_at(CONF_lg_tcache_max)), 14);
    CHECK(load("tcache_max:0"));
    CHECK_EQ(conf_value(conf_at(CONF_lg_tcache_max)), 0);
    CHECK(load("lg_tcache_max:63"));
    CHECK_EQ(conf_value(conf_at(CONF_tcache_max)), 1L << 62);
}

TEST(conf_takes_letters_once_and_only_those)
{
    CHECK(load("stats_print_opts:JJgzgm-x,stats_interval_opts:Jgmdablxehhexlbadmg"));
    CHECK(!strcmp(conf_text(conf_at(CONF_stats_print_opts)), "Jgmx"));
    CHECK(!strcmp(conf_text(conf_at(CONF_stats_interval_opts)), STATS_LETTERS));
    CHECK(load("stats_print_opts:"));
    CHECK(!strcmp(conf_text(conf_at(CONF_stats_print_opts)), ""));
}

TEST(conf_sets_huge_pages)
{
    CHECK(load("thp:always"));
    CHECK_EQ(option(OPTION_thp), THP_ALWAYS);
    CHECK(load("thp:never"));
    CHECK_EQ(option(OPTION_thp), THP_NEVER);
    CHECK(load("thp:default"));
    CHECK_EQ(option(OPTION_thp), THP_DEFAULT);
    CHECK(parse_settings("thp:false", "test"));
    CHECK_EQ(option(OPTION_thp), THP_NEVER);
    CHECK(parse_settings("thp:true", "test"));
    CHECK_EQ(option(OPTION_thp), THP_DEFAULT);
}

TEST(conf_refuses_and_keeps_the_old_value)
{
    static const char *const bad[] = {"dirty_decay_ms:",
                                      "dirty_decay_ms:1k",
                                      "dirty_decay_ms:1 ",
                                      "dirty_decay_ms: ",
                                      "dirty_decay_ms:- 1",
                                      "dirty_decay_ms:+-1",
                                      "dirty_decay_ms:-2",
                                      "dirty_decay_ms:0x",
                                      "dirty_decay_ms:08",
                                      "dirty_decay_ms:1:2",
                                      "dirty_decay_ms",
                                      "dirty decay_ms:1",
                                      " dirty_decay_ms:1",
                                      "narenas:0",
                                      "oversize_threshold:-1",
                                      "calloc_madvise_threshold:-1",
                                      "lg_extent_max_active_fit:-1",
                                      "background_thread: true",
                                      "background_thread:yes",
                                      "background_thread:1",
                                      "background_thread:",
                                      "nonsense:1",
                                      "nonsense:1,",
                                      ",",
                                      "dirty_decay_ms\n:1",
                                      ":1"};
    option_set(OPTION_dirty_decay_ms, 77);
    for (size_t i = 0; i < array_count(bad); i++) {
        CHECK_MSG(!load(bad[i]), "'%s' was taken", bad[i]);
        CHECK_MSG(option(OPTION_dirty_decay_ms) == 77, "'%s'", bad[i]);
        CHECK_EQ(option(OPTION_arenas), 0);
        CHECK_EQ(option(OPTION_purge_thread), false);
    }
    CHECK(!load("nonsense:1,dirty_decay_ms:5"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 5);
    CHECK(!load("dirty_decay_ms:6,"));
    CHECK_EQ(option(OPTION_dirty_decay_ms), 6);
}

/* Of jemalloc 3 and 4. */
TEST(conf_refuses_options_that_jemalloc_has_given_up)
{
    static const char *const old[] = {"lg_dirty_mult:3", "lg_chunk:22", "decay_time:10",
                                      "purge:decay", "tcache_gc:true"};
    for (size_t i = 0; i < array_count(old); i++) {
        CHECK_MSG(!load(old[i]), "%s", old[i]);
    }
}

TEST(conf_tolerates_experiments)
{
    CHECK(load("experimental_nonsense:1,hpa_sec_bytes_after_flush:5,hpa_sec_batch_fill_extra:x"));
}

static const char *loaded;

static void load_and_abort(void)
{
    load(loaded);
    os_abort();
}

TEST(conf_complains_in_jemallocs_words)
{
    static const char *const pairs[][2] = {
        {"dirty_decay_ms:abc", "<jemalloc>: Invalid conf value: dirty_decay_ms:abc\n"},
        {"nonsense:1", "<jemalloc>: Invalid conf pair: nonsense:1\n"},
        {"purge_thread:true", "<jemalloc>: Set in MALLOW_CONF, not here: purge_thread:true\n"},
        {"experimental_x:1", "<jemalloc>: Invalid conf pair: experimental_x:1\n"},
        {"slab_sizes:bad", "<jemalloc>: Invalid settings for slab_sizes: slab_sizes:bad\n"},
        {"bin_shards:1-2", "<jemalloc>: Invalid settings for bin_shards: bin_shards:1-2\n"},
        {"tcache_ncached_max:x", "<jemalloc>: Invalid settings for tcache_ncached_max: "},
        {"hpa_dirty_mult:abc", "<jemalloc>: Invalid conf value: hpa_dirty_mult:abc\n"},
        {"hpa_hugification_threshold_ratio:2", "<jemalloc>: Invalid conf value: hpa_hug"},
        {"narenas:0", "<jemalloc>: Out-of-range conf value: narenas:0\n"},
        {"narenas_ratio:65536", "<jemalloc>: Invalid conf value: narenas_ratio:65536\n"},
        {"zero", "<jemalloc>: Conf string ends with key\n"},
        {"ze ro:true", "<jemalloc>: Malformed conf string\n"},
        {"zero:true,", "<jemalloc>: Conf string ends with comma\n"},
        {"abort_conf:true,dss:disabled,bin_shards:1-2:3",
         "<jemalloc>: Conf value without effect: bin_shards:1-2:3\n"},
        {"confirm_conf:true,dss:sec", "<jemalloc>: -- Set conf value: dss:sec (accepted"},
        {"zero:true,confirm_conf:true", "<jemalloc>: -- Set conf value: zero:true\n"},
    };
    for (size_t i = 0; i < array_count(pairs); i++) {
        loaded = pairs[i][0];
        check_aborts(load_and_abort, pairs[i][1]);
    }
}

static void load_many(void)
{
    static char text[4 * 30000];
    for (size_t i = 0; i < sizeof text; i += 4) {
        memcpy(text + i, "x:1,", 4);
    }
    text[sizeof text - 1] = 0;
    load(text);
    os_abort();
}

TEST(conf_complains_of_a_few_and_counts_the_rest)
{
    check_aborts(load_many, "mallow: test: 29995 more settings were not understood");
}

TEST(conf_sources_in_jemallocs_order)
{
    unsetenv("MALLOC_CONF");
    unsetenv("MALLOW_CONF");
    mw_malloc_conf = "dirty_decay_ms:1";
    options_load();
    CHECK_EQ(option(OPTION_dirty_decay_ms), 1);
    link_text = "dirty_decay_ms:2";
    options_load();
    CHECK_EQ(option(OPTION_dirty_decay_ms), 2);
    setenv("MALLOC_CONF", "dirty_decay_ms:3", 1);
    options_load();
    CHECK_EQ(option(OPTION_dirty_decay_ms), 3);
    mw_malloc_conf_2_conf_harder = "dirty_decay_ms:4";
    options_load();
    CHECK_EQ(option(OPTION_dirty_decay_ms), 4);
    setenv("MALLOW_CONF", "dirty_decay_ms:5", 1);
    options_load();
    CHECK_EQ(option(OPTION_dirty_decay_ms), 5);
}

TEST(conf_of_the_system_may_be_a_file)
{
    unsetenv("MALLOC_CONF");
    file_text = "dirty_decay_ms:11,narenas:2\nzero:true\n\n";
    options_load();
    CHECK_EQ(option(OPTION_dirty_decay_ms), 11);
    CHECK_EQ(option(OPTION_arenas), 2);
    CHECK_EQ(option(OPTION_zero), true);
}

TEST(conf_of_the_environment_is_not_for_privileged_programs)
{
    setenv("MALLOC_CONF", "dirty_decay_ms:3", 1);
    setenv("MALLOW_CONF", "dirty_decay_ms:4", 1);
    link_text = "dirty_decay_ms:2";
    is_secure = true;
    options_load();
    CHECK_EQ(option(OPTION_dirty_decay_ms), 2);
}

static void load_nonsense(void)
{
    setenv("MALLOC_CONF", "abort_conf:true,nonsense:1", 1);
    options_load();
}

TEST(conf_may_end_the_program)
{
    check_aborts(load_nonsense, "abort_conf is on");
    check_aborts(load_nonsense, "<jemalloc>: Abort (abort_conf:true) on invalid conf value");
    setenv("MALLOC_CONF", "abort_conf:true,experimental_nonsense:1", 1);
    options_load();
}

static void load_with_conf_report(void)
{
    link_text = "narenas:2";
    setenv("MALLOC_CONF", "confirm_conf:true", 1);
    options_load();
    os_abort();
}

/* jemalloc takes the nearest, or any at all. */
TEST(conf_takes_what_jemalloc_takes_of_options_without_effect)
{
    setenv(
        "MALLOC_CONF",
        "abort_conf:true,lg_tcache_flush_small_div:0,lg_tcache_flush_large_div:99,san_guard_small:-1,"
        "san_guard_large:-1,tcache_gc_incr_bytes:-1,tcache_gc_delay_bytes:-1",
        1);
    options_load();
}

static void load_from_variable(void)
{
    options_load();
}

TEST(conf_refuses_times_and_words_as_jemalloc_does)
{
    setenv("MALLOC_CONF",
           "dirty_decay_ms:18446744072000,muzzy_decay_ms:18446744072000,abort_conf:true", 1);
    options_load();
    setenv("MALLOC_CONF", "dirty_decay_ms:18446744072001,abort_conf:true", 1);
    check_aborts(load_from_variable, "Out-of-range conf value: dirty_decay_ms:18446744072001\n");
    setenv("MALLOC_CONF", "zero_realloc:f,abort_conf:true", 1);
    check_aborts(load_from_variable, "Invalid conf value: zero_realloc:f\n");
}

TEST(conf_has_room_for_a_range_of_each_class)
{
    static char conf[1200] = "abort_conf:true,slab_sizes:16-16:1";
    for (unsigned size = 32; size <= 14336; size += size < 2048 ? 64 : 512) {
        text_print_behind(conf, sizeof conf, "|%u-%u:16", size, size);
    }
    CHECK_GE(strlen(conf), 600);
    setenv("MALLOC_CONF", conf, 1);
    options_load();
}

TEST(conf_reports_every_source)
{
    check_aborts(load_with_conf_report, "<jemalloc>: malloc_conf #1 (string specified via "
                                        "--with-malloc-conf): \"\"\n");
    check_aborts(load_with_conf_report,
                 "<jemalloc>: malloc_conf #3 (\"name\" of the file referenced by "
                 "the symbolic link named /etc/malloc.conf): \"narenas:2\"\n");
    check_aborts(load_with_conf_report,
                 "<jemalloc>: malloc_conf #4 (value of the environment variable "
                 "MALLOC_CONF): \"confirm_conf:true\"\n");
    check_aborts(load_with_conf_report, "<jemalloc>: -- Set conf value: narenas:2\n");
}
