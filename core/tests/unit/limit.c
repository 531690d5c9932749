/* SPDX-License-Identifier: MIT
 *
 * The limits on memory: from options and cgroups to pages, who may grow, and what goes back.
 */
#include "unit.h"

#include <sys/stat.h>

enum { PAGES = 256 };

static void set_limits(long hard, long soft)
{
    option_set(OPTION_memory_limit, hard);
    option_set(OPTION_memory_soft_limit, soft);
    limit_look();
}

static size_t pages_of(size_t bytes)
{
    return bytes >> os_page_shift;
}

TEST(limits_come_from_options)
{
    process_init();
    CHECK(!limit_is_set());
    set_limits(100 * (long)MiB, 0);
    CHECK_EQ(atomic_get(&memory_limit.hard_pages), pages_of(100 * MiB));
    CHECK_EQ(atomic_get(&memory_limit.soft_pages), pages_of(100 * MiB) / 10 * 9);
    set_limits(100 * (long)MiB, 200 * (long)MiB);
    CHECK_EQ(atomic_get(&memory_limit.soft_pages), pages_of(100 * MiB));
    set_limits(0, 50 * (long)MiB);
    CHECK_EQ(atomic_get(&memory_limit.hard_pages), SIZE_MAX);
    CHECK_EQ(atomic_get(&memory_limit.soft_pages), pages_of(50 * MiB));
    CHECK(limit_allows(SIZE_MAX));
    set_limits(0, 0);
    CHECK(!limit_is_set());
}

TEST(growth_ends_at_the_limit)
{
    process_init();
    struct arena *arena = arena_init(0);
    arena_free(arena, arena_alloc(arena, 3 * PAGES, os_page_size)); /* its metadata is there now */
    arena_purge(arena, 0);
    size_t before = holding_now().all;
    set_limits((long)((before + 2 * PAGES) << os_page_shift), 0);
    struct extent *first = arena_alloc(arena, PAGES, os_page_size);
    struct extent *second = arena_alloc(arena, PAGES, os_page_size);
    CHECK(first != NULL && second != NULL);
    CHECK(arena_alloc(arena, 1, os_page_size) == NULL);
    CHECK(!arena_try_expand(arena, second, PAGES + 1));
    CHECK(!lock_is_mine(&memory_limit.lock));
    /* What is free goes back when another shape is needed, and is used as it is else. */
    arena_free(arena, first);
    struct extent *again = arena_alloc(arena, PAGES, os_page_size);
    CHECK(again != NULL);
    arena_free(arena, again);
    CHECK_EQ(holding_now().free, PAGES);
    struct extent *larger = arena_alloc(arena, PAGES + 1, os_page_size);
    CHECK(larger == NULL);
    CHECK(holding_now().all <= before + 2 * PAGES);
    set_limits(0, 0);
    larger = arena_alloc(arena, PAGES + 1, os_page_size);
    CHECK(larger != NULL);
    arena_free(arena, larger);
    arena_free(arena, second);
    arena_purge(arena, 0);
}

TEST(free_memory_fills_half_of_the_room)
{
    process_init();
    struct arena *arena = arena_init(0);
    arena_purge(arena, 0);
    struct extent *used = arena_alloc(arena, PAGES, os_page_size);
    struct extent *rest = arena_alloc(arena, PAGES, os_page_size);
    arena_free(arena, rest);
    size_t in_use = holding_now().all - holding_now().free;
    CHECK_EQ(holding_now().free, PAGES);
    set_limits(0, (long)((in_use + 4 * PAGES) << os_page_shift));
    limit_tick(clock_look());
    CHECK_EQ(holding_now().free, PAGES); /* twice as much might stay */
    set_limits(0, (long)((in_use + PAGES) << os_page_shift));
    limit_tick(clock_look());
    CHECK(holding_now().free <= PAGES / 2);
    set_limits(0, 0);
    arena_free(arena, used);
}

/* --- Cgroups ---------------------------------------------------------------------------------- */

static char mount[] = "/tmp/mallow-cgroup-XXXXXX";

static void write_number(const char *file, const char *number)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", mount, file);
    FILE *stream = fopen(path, "w");
    CHECK(stream != NULL);
    fputs(number, stream);
    fclose(stream);
}

static size_t least(const char *path)
{
    return cgroup_memory_under(mount, path, strlen(path));
}

TEST(least_limit_of_all_cgroups_around)
{
    char path[256];
    CHECK(mkdtemp(mount) != NULL);
    static const char *const folders[] = {"/a", "/a/b"};
    for (size_t i = 0; i < array_count(folders); i++) {
        snprintf(path, sizeof path, "%s%s", mount, folders[i]);
        CHECK_EQ(mkdir(path, 0700), 0);
    }
    CHECK_EQ(least("/a/b"), SIZE_MAX);
    write_number("/a/b/memory.max", "max\n");
    write_number("/a/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_EQ(least("/a/b"), SIZE_MAX);
    write_number("/a/memory.max", "104857600\n");
    CHECK_EQ(least("/a/b"), 100 * MiB);
    CHECK_EQ(least("/a"), 100 * MiB);
    CHECK_EQ(least("/"), SIZE_MAX);
    write_number("/a/b/memory.high", "52428800\n");
    CHECK_EQ(least("/a/b"), 50 * MiB);
    write_number("/memory.limit_in_bytes", "1048576\n");
    CHECK_EQ(least("/a/b"), 1 * MiB);
    CHECK_EQ(least("/not/there"), 1 * MiB);
    char deep[1000];
    memset(deep, '/', sizeof deep);
    CHECK_EQ(cgroup_memory_under(mount, deep, sizeof deep), 1 * MiB);
    static const char *const files[] = {"/a/b/memory.max", "/a/memory.limit_in_bytes",
                                        "/a/memory.max", "/a/b/memory.high",
                                        "/memory.limit_in_bytes"};
    for (size_t i = 0; i < array_count(files); i++) {
        snprintf(path, sizeof path, "%s%s", mount, files[i]);
        CHECK_EQ(unlink(path), 0);
    }
    for (size_t i = array_count(folders); i-- > 0;) {
        snprintf(path, sizeof path, "%s%s", mount, folders[i]);
        CHECK_EQ(rmdir(path), 0);
    }
    CHECK_EQ(rmdir(mount), 0);
}
