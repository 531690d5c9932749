/* SPDX-License-Identifier: MIT
 *
 * The table of names: every one can be read, by name and by MIB, and hostile names, MIBs and lengths
 * do no harm.
 */
#include "unit.h"

/* The pattern with a number in the place of each slot, or the word of that index. */
static void name_of(unsigned id, unsigned number, char *name)
{
    for (const char *at = ctl_at(id)->pattern; *at != 0; at++) {
        if (*at != '<') {
            *name++ = *at;
            continue;
        }
        const char *end = strchr(at, '>');
        const char *words = ctl_slot_words((struct word){at, (size_t)(end - at) + 1});
        struct word word = words != NULL ? word_at(words, number) : (struct word){NULL, 0};
        if (words != NULL && word.start == NULL) {
            word = word_at(words, 0);
        }
        name += words != NULL ? sprintf(name, "%.*s", (int)word.length, word.start)
                              : sprintf(name, "%u", number);
        at = end;
    }
    *name = 0;
}

static void check_read(unsigned id, const char *name)
{
    size_t length = type_size((enum ctl_type)ctl_at(id)->type);
    size_t mib[CTL_DEPTH], depth = CTL_DEPTH, size = length;
    uint64_t value = 0, by_mib = 0;
    CHECK_MSG(mw_mallctl(name, &value, &size, NULL, 0) == 0, "%s", name);
    CHECK_EQ(size, length);
    CHECK_MSG(mw_mallctlnametomib(name, mib, &depth) == 0, "%s", name);
    CHECK_MSG(mw_mallctlbymib(mib, depth, &by_mib, &size, NULL, 0) == 0, "%s", name);
    CHECK_MSG(value == by_mib || id == CTL_thread_allocated || id == CTL_approximate_active, "%s",
              name);
    if (ctl_at(id)->type == CTL_TYPE_TEXT || ctl_at(id)->type == CTL_TYPE_WORD) {
        CHECK_MSG(value != 0 && strlen((const char *)value) < 100, "%s", name);
    }
    size = 1000;
    CHECK_EQ(mw_mallctl(name, &(char[1000]){0}, &size, NULL, 0), EINVAL);
    CHECK_EQ(size, length);
}

/* core/tests/jemalloc reads these. */
static bool is_of_its_own_kind(enum ctl_type type)
{
    return type == CTL_TYPE_LOOKUP || type == CTL_TYPE_CREATE || type == CTL_TYPE_NAME ||
           type == CTL_TYPE_RAW;
}

TEST(a_ratio_is_an_unsigned_in_parts_of_65536_as_in_jemalloc)
{
    uint32_t ratio = 7;
    size_t size = sizeof ratio;
    CHECK_EQ(mw_mallctl("opt.hpa_dirty_mult", &ratio, &size, NULL, 0), 0);
    CHECK_EQ(ratio, UINT32_MAX); /* -1: nothing is purged by it */
    CHECK_EQ(mw_mallctl("opt.hpa_purge_threshold_ratio", &ratio, &size, NULL, 0), 0);
    CHECK_EQ(ratio, 0);
    size = sizeof(uint64_t);
    CHECK_EQ(mw_mallctl("opt.hpa_dirty_mult", &(uint64_t){0}, &size, NULL, 0), EINVAL);
}

TEST(a_program_may_ask_of_its_first_arena_before_it_allocates)
{
    ssize_t decay_ms = -2;
    size_t size = sizeof decay_ms;
    CHECK(arena_numbered(0) == NULL);
    CHECK_EQ(mw_mallctl("arena.0.dirty_decay_ms", &decay_ms, &size, NULL, 0), 0);
    CHECK(decay_ms >= 0);
}

static void *name_itself(void *name)
{
    struct heap *heap = thread_enter();
    CHECK_EQ(heap->profile_name[0], 0);
    CHECK_EQ(thread_name_set(heap, name), 0);
    thread_leave(heap);
    return heap;
}

TEST(a_thread_does_not_begin_with_the_name_of_another)
{
    static char name[] = "worker";
    void *heaps[3];
    for (size_t i = 0; i < array_count(heaps); i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, name_itself, name), 0);
        CHECK_EQ(pthread_join(thread, &heaps[i]), 0);
        CHECK(heaps[i] == heaps[0]); /* used again */
    }
}

/* opt.* is what was set at the start. */
TEST(a_prefix_that_the_program_sets_is_no_setting)
{
    const char *prefix = "/tmp/of-the-program", *found = NULL;
    size_t size = sizeof found;
    CHECK(parse_settings("prof_prefix:/tmp/of-a-setting", "test"));
    mw_free(mw_malloc(1));
    atomic_set(&profile.is_enabled, true);
    CHECK_EQ(mw_mallctl("prof.prefix", NULL, NULL, &prefix, sizeof prefix), 0);
    CHECK(!strcmp(prof_prefix(), prefix));
    CHECK_EQ(mw_mallctl("opt.prof_prefix", &found, &size, NULL, 0), 0);
    CHECK(!strcmp(found, "/tmp/of-a-setting"));
    static char longer[PREFIX_MOST + 1];
    memset(longer, 'x', PREFIX_MOST);
    prefix = longer;
    CHECK_EQ(mw_mallctl("prof.prefix", NULL, NULL, &prefix, sizeof prefix), EINVAL);
    CHECK(!strcmp(prof_prefix(), "/tmp/of-the-program"));
    atomic_set(&profile.is_enabled, false);
}

TEST(mallctl_reads_every_name)
{
    mw_free(mw_malloc(1));
    atomic_set(&profile.is_enabled, true); /* without profiles, names of theirs are not there */
    unsigned read = 0, called = 0, others = 0;
    for (unsigned id = 0; id < ctl_count(); id++) {
        char name[100];
        name_of(id, 0, name);
        if (ctl_at(id)->access == CTL_ACCESS_CALL) {
            /* Arena 0 is not the program's, to end it. */
            int expected = id == CTL_arena_reset || id == CTL_arena_destroy ? EFAULT : 0;
            CHECK_MSG(mw_mallctl(name, NULL, NULL, NULL, 0) == expected, "%s", name);
            called++;
        } else if (ctl_at(id)->access == CTL_ACCESS_WRITE) {
            CHECK_MSG(mw_mallctl(name, name, &(size_t){4}, NULL, 0) == EPERM, "%s", name);
            CHECK_MSG(mw_mallctl(name, NULL, NULL, name, 3) == EINVAL, "%s", name);
            others++;
        } else if (is_of_its_own_kind((enum ctl_type)ctl_at(id)->type)) {
            others++;
        } else {
            check_read(id, name);
            read++;
        }
        if (ctl_at(id)->access == CTL_ACCESS_READ) {
            CHECK_MSG(mw_mallctl(name, NULL, NULL, name, 8) == EPERM, "%s", name);
        }
    }
    CHECK_EQ(read + called + others, ctl_count());
    CHECK_EQ(others, 11);
    atomic_set(&profile.is_enabled, false);
}

/* Each mutex has each counter, whatever the words. */
TEST(mallctl_reads_every_word)
{
    mw_free(mw_malloc(1));
    unsigned read = 0;
    for (unsigned id = 0; id < ctl_count(); id++) {
        bool has_words =
            ctl_at(id)->group == CTL_GROUP_STATS_LOCK || ctl_at(id)->group == CTL_GROUP_STATS_HPA;
        if (!has_words || ctl_at(id)->access != CTL_ACCESS_READ) {
            continue;
        }
        for (unsigned number = 0; number < 13; number++) {
            char name[100], all[100];
            name_of(id, number, name);
            uint64_t value = 0;
            size_t size = type_size((enum ctl_type)ctl_at(id)->type);
            char *arena = strstr(name, "arenas.");
            if (arena != NULL) { /* the number of the arena is no index of a word */
                sprintf(all, "stats.arenas.4096%s", strchr(arena + 7, '.'));
            } else {
                strcpy(all, name);
            }
            CHECK_MSG(mw_mallctl(all, &value, &size, NULL, 0) == 0, "%s", all);
            read++;
        }
    }
    CHECK_EQ(read, 11 * 13);
}

TEST(mallctl_names_begin_alike_side_by_side)
{
    for (unsigned id = 0; id < ctl_count(); id++) {
        size_t length = strcspn(ctl_at(id)->pattern, ".");
        for (unsigned other = 0; other < id; other++) {
            if (strncmp(ctl_at(other)->pattern, ctl_at(id)->pattern, length + 1) == 0) {
                CHECK_LE(first_alike(id, 1), other);
            }
        }
        CHECK_LT(strlen(ctl_at(id)->pattern), sizeof ctl_at(id)->pattern);
    }
}

TEST(mallctl_has_every_word_of_every_option)
{
    for (unsigned i = 0; i < conf_count(); i++) {
        const struct conf_option *conf = conf_at(i);
        for (long w = 0; conf->type == CONF_TYPE_WORD && word_at(conf->words, w).start; w++) {
            CHECK_MSG(word_is(word_at(conf->words, w), word_ended(word_at(conf->words, w))),
                      "%s of %s", conf->words, conf->name);
        }
    }
}

TEST(mallctl_survives_hostile_names)
{
    static const char *const names[] = {
        "",
        ".",
        "..",
        "arenas.",
        ".arenas",
        "arenas..page",
        "arenas.page.",
        "arenas.bin..size",
        "arenas.bin.<j>.size",
        "arena.<i>.purge",
        "arena.-1.initialized",
        "arena.99999999999999999999999.initialized",
        "arena.4294967296.initialized",
        "arena.0x1.initialized",
        "arenas.bin.0.size.a.b.c.d.e.f.g.h.i.j",
        "0",
        "0.0.0.0.0.0.0.0",
        "opt.",
        "stats.arenas.0.mutexes.num_ops",
        "stats.arenas.0.mutexes.3.num_ops",
        "stats.arenas.0.mutexes.large|extent_avail.num_ops",
        "stats.mutexes.ctl.",
        "stats.mutexes..num_ops",
        "stats.mutexes.ct.num_ops",
        "stats.mutexes.ctll.num_ops",
        "stats.mutexes.<mutex>.num_ops",
        "stats.arenas.merged.small.allocated",
        "stats.arenas.0.bins.0.mutex.num_ops.more",
    };
    size_t mib[20], depth;
    for (size_t i = 0; i < array_count(names); i++) {
        char old[64];
        size_t size = sizeof old;
        CHECK_MSG(mw_mallctl(names[i], old, &size, NULL, 0) == ENOENT, "'%s'", names[i]);
        depth = 20;
        CHECK_MSG(mw_mallctlnametomib(names[i], mib, &depth) == ENOENT, "'%s'", names[i]);
    }
    static const char *const indices[] = {
        "stats.arenas.4097.small.allocated",
        "stats.arenas.4098.small.allocated",
        "stats.arenas.999999999.small.allocated",
        "stats.arenas.18446744073709551616.pactive",
        "stats.arenas.0.bins.999999999.nmalloc",
        "stats.arenas.4096.bins.4096.nmalloc",
        "stats.arenas.0.lextents.500.curlextents",
        "stats.arenas.0.extents.64.ndirty",
        "stats.arenas.0.hpa_shard.nonfull_slabs.64.ndirty_huge",
    };
    for (size_t i = 0; i < array_count(indices); i++) {
        uint64_t old;
        size_t size = sizeof old;
        CHECK_MSG(mw_mallctl(indices[i], &old, &size, NULL, 0) == ENOENT, "'%s'", indices[i]);
    }
    CHECK_EQ(mw_mallctl("opt", NULL, NULL, NULL, 0), ENOENT); /* a beginning, which has a MIB */
    depth = 20;
    CHECK_EQ(mw_mallctlnametomib("opt", mib, &depth), 0);
    CHECK_EQ(depth, 1);
    depth = 0;
    CHECK_EQ(mw_mallctlnametomib("arenas.page", mib, &depth), 0);
    CHECK_EQ(depth, 0);
    CHECK_EQ(mw_mallctl(NULL, NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mw_mallctlnametomib(NULL, mib, &depth), EINVAL);
    CHECK_EQ(mw_mallctlbymib(NULL, 3, NULL, NULL, NULL, 0), ENOENT);
}

/* Random names of parts that exist, random MIBs near those that exist, random lengths. */
TEST(mallctl_survives_random_requests)
{
    uint64_t state = 88172645463325252u;
    unsigned good = 0;
    for (int round = 0; round < 200000; round++) {
        size_t mib[8];
        size_t depth = test_random(&state) % 9, size = test_random(&state) % 12;
        for (size_t i = 0; i < 8; i++) {
            mib[i] = test_random(&state) % 8 == 0 ? test_random(&state)
                                                  : test_random(&state) % (2 * ctl_count());
        }
        unsigned id = (unsigned)(test_random(&state) % ctl_count());
        bool is_call = ctl_at(id)->access == CTL_ACCESS_CALL;
        if (round % 2 == 0 && !is_call) {
            depth = mib_complete(id, mib);
            mib[test_random(&state) % 8] ^= test_random(&state) % 4;
        }
        if (depth != 0 &&
            ctl_at((unsigned)(mib[depth - 1] % ctl_count()))->access == CTL_ACCESS_CALL) {
            continue; /* does no harm, but takes long */
        }
        char old[16], text[ARENA_NAME_SIZE + 1], *name = text;
        memset(old, 0x77, sizeof old);
        memset(text, 0x77, sizeof text);
        if (size == sizeof name) {
            memcpy(old, &name, sizeof name); /* the name of an arena is written where this leads */
        }
        size_t asked = size;
        good += mw_mallctlbymib(mib, depth, old, &size, NULL, 0) == 0;
        for (size_t i = asked; i < sizeof old; i++) {
            CHECK_EQ(old[i], 0x77);
        }
        CHECK_EQ(text[ARENA_NAME_SIZE], 0x77);
    }
    CHECK(good > 1000);
    CHECK(mw_heap_is_valid());
}
