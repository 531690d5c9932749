/* SPDX-License-Identifier: MIT
 *
 * The limits on memory: from options and cgroups to pages, who may grow, and what goes back.
 */
#include "unit.h"

#include <sched.h>
#include <sys/resource.h>
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

/* Another thread may find that there is one, or none any more, while this one grows. */
TEST(growth_ends_well_where_the_limit_comes_or_goes_meanwhile)
{
    process_init();
    set_limits(100 * (long)MiB, 0);
    CHECK(limit_enter(1));
    CHECK(lock_is_mine(&memory_limit.lock));
    set_limits(0, 0);
    limit_leave();
    CHECK(!lock_is_mine(&memory_limit.lock));
    CHECK(limit_enter(1));
    set_limits(100 * (long)MiB, 0);
    limit_leave();
    CHECK(!lock_is_mine(&memory_limit.lock));
    CHECK(limit_enter(1));
    limit_leave();
    set_limits(0, 0);
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

static struct memory_of_group least_of(const char *path, size_t length)
{
    struct memory_of_group group = {SIZE_MAX, SIZE_MAX, 0, false, false};
    cgroups_around(mount, path, length, look_at_memory, &group);
    return group;
}

static size_t least(const char *path)
{
    return least_of(path, strlen(path)).limit;
}

/* What the cgroups below `mount` say of a process in /a/b of version 2. */
static struct memory_of_group group_now(void)
{
    char own[256], machine[256];
    snprintf(own, sizeof own, "%s/membership", mount);
    snprintf(machine, sizeof machine, "%s/machine", mount);
    return cgroup_memory(own, mount, machine);
}

static void make_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", mount, name);
    CHECK_EQ(mkdir(path, 0700), 0);
}

/* The cgroups, of 300 MiB (/a) and 400 (/memory/c), fill with what is not ours. */
static void check_room(struct arena *arena)
{
    write_number("/machine/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n");
    CHECK_EQ(group_now().room, SIZE_MAX);
    write_number("/memory/c/memory.usage_in_bytes",
                 "398458880\n"); /* 380 MiB, 60 of them of files */
    write_number(
        "/memory/c/memory.stat",
        "cache 9\nrss 1\nrss_huge 0\nshmem 3\ntotal_cache 104857600\n"
        "total_rss 1\ntotal_shmem 41943040\n"); /* the cgroup's own, and with those below */
    struct memory_of_group group = group_now();
    CHECK_EQ(group.room, 80 * MiB);
    limit_apply(&group);
    CHECK(!atomic_get(&memory_limit.is_narrow));
    arena_free(arena, arena_alloc(arena, PAGES, os_page_size));
    limit_tick(clock_look());
    CHECK_EQ(holding_now().free, PAGES);

    write_number("/a/memory.current",
                 "306184192\n"); /* 292 MiB, 15 of them of files, 2 of slab caches */
    write_number("/a/memory.stat", "anon 1\nfile 20971520\nkernel 5\nshmem 5242880\nfile_mapped 1\n"
                                   "slab_reclaimable 2097152\nslab_unreclaimable 7\n");
    group = group_now();
    CHECK_EQ(group.room, 25 * MiB);
    limit_apply(&group);
    CHECK(atomic_get(&memory_limit.is_narrow));
    limit_tick(clock_look());
    CHECK_EQ(holding_now().free, 0);

    write_number("/a/memory.current", "999999999\n");
    CHECK_EQ(group_now().room, 0);
}

/* Limits and pressure of cgroups that change while the program runs, from the files to what goes back. */
TEST(cgroups_are_followed)
{
    char command[300];
    process_init();
    CHECK(mkdtemp(mount) != NULL);
    static const char *const folders[] = {"/a", "/a/b", "/memory", "/memory/c", "/machine"};
    for (size_t i = 0; i < array_count(folders); i++) {
        make_folder(folders[i]);
    }
    write_number("/membership", "7:cpu,cpuacct:/x\n4:memory:/c\n0::/a/b\n");
    CHECK_EQ(group_now().limit, SIZE_MAX);
    CHECK_EQ(group_now().pressure_percent, 0);
    write_number("/memory/c/memory.limit_in_bytes", "419430400\n");
    CHECK_EQ(group_now().limit, 400 * MiB); /* version 1 */
    write_number("/a/memory.max", "314572800\n");
    CHECK_EQ(group_now().limit, 300 * MiB);

    struct arena *arena = arena_init(0);
    arena_purge(arena, 0);
    struct extent *used = arena_alloc(arena, PAGES, os_page_size);
    arena_free(arena, arena_alloc(arena, PAGES, os_page_size));
    CHECK_EQ(holding_now().free, PAGES);
    option_set(OPTION_memory_soft_limit, -50);
    struct memory_of_group group = group_now();
    limit_apply(&group);
    CHECK_EQ(atomic_get(&memory_limit.soft_pages), pages_of(150 * MiB));
    /* limit_tick does not read the files of the machine for a while. */
    atomic_set(&memory_limit.looked_ms, clock_look());
    limit_tick(clock_look());
    CHECK_EQ(holding_now().free, PAGES);

    size_t in_use = holding_now().all - holding_now().free;
    char text[32];
    snprintf(text, sizeof text, "%zu\n", 2 * ((in_use + PAGES) << os_page_shift));
    write_number("/a/b/memory.high", text);
    group = group_now();
    limit_apply(&group);
    limit_tick(clock_look());
    CHECK(holding_now().free <= PAGES / 2); /* memory.high has fallen */

    write_number("/a/b/memory.high", "max\n");
    write_number("/machine/memory", "some avg10=33.10 avg60=0.00 avg300=0.00 total=1\n");
    CHECK_EQ(group_now().pressure_percent, 33); /* the cgroup does not say */
    write_number("/a/b/memory.pressure", "some avg10=9.99 avg60=80.00 avg300=0.00 total=1\n");
    CHECK_EQ(group_now().pressure_percent, 9);
    group = group_now();
    limit_apply(&group);
    arena_free(arena, arena_alloc(arena, PAGES, os_page_size));
    limit_tick(clock_look());
    CHECK_EQ(holding_now().free, PAGES);
    write_number("/a/b/memory.pressure", "some avg10=12.50 avg60=80.00 avg300=0.00 total=1\n");
    group = group_now();
    limit_apply(&group);
    limit_tick(clock_look());
    CHECK_EQ(holding_now().free, 0); /* memory is short */
    write_number("/a/b/memory.pressure", "nonsense\n");
    CHECK_EQ(group_now().pressure_percent, 33);
    check_room(arena);

    set_limits(0, 0);
    CHECK(!limit_is_short());
    arena_free(arena, used);
    snprintf(command, sizeof command, "rm -r '%s'", mount);
    CHECK_EQ(system(command), 0);
    memcpy(mount + strlen(mount) - 6, "XXXXXX", 6);
}

static void look_once_more(void)
{
    struct memory_of_group group = group_now();
    limit_apply(&group);
}

static void look_without_descriptors(void)
{
    struct rlimit files, none;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = 0;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    look_once_more();
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* A file that cannot be opened says nothing, and one that is gone with all cgroups as little. */
TEST(limits_stay_where_the_cgroup_cannot_be_read)
{
    char command[300];
    process_init();
    option_set(OPTION_memory_limit, -50);
    CHECK(mkdtemp(mount) != NULL);
    look_once_more();
    CHECK(!limit_is_set());
    make_folder("/a");
    write_number("/membership", "0::/a\n");
    write_number("/a/memory.max", "209715200\n");
    write_number("/a/memory.current", "209715199\n");
    look_once_more();
    CHECK_EQ(atomic_get(&memory_limit.hard_pages), pages_of(100 * MiB));
    CHECK(atomic_get(&memory_limit.is_pressed));

    look_without_descriptors();
    CHECK_EQ(atomic_get(&memory_limit.hard_pages), pages_of(100 * MiB));
    CHECK_EQ(atomic_get(&memory_limit.soft_pages), pages_of(100 * MiB) / 10 * 9);
    CHECK(!atomic_get(&memory_limit.is_pressed)); /* that is not known */

    write_number("/a/memory.max", "max\n");
    look_once_more();
    CHECK(!limit_is_set());
    write_number("/a/memory.max", "209715200\n");
    look_once_more();
    snprintf(command, sizeof command, "rm -r '%s/a'", mount);
    CHECK_EQ(system(command), 0);
    look_once_more(); /* as after chroot, to where /proc is and cgroups are not */
    CHECK_EQ(atomic_get(&memory_limit.hard_pages), pages_of(100 * MiB));
    write_number("/cgroup.controllers", "cpu memory\n");
    look_once_more(); /* the process is in the root now, which has no limit */
    CHECK(!limit_is_set());
    snprintf(command, sizeof command, "rm -r '%s'", mount);
    CHECK_EQ(system(command), 0);
    memcpy(mount + strlen(mount) - 6, "XXXXXX", 6);
    set_limits(0, 0);
}

/* Nor where one file never could be, and then all cannot. */
TEST(limits_stay_where_a_part_of_the_cgroup_could_never_be_read)
{
    char command[300];
    process_init();
    option_set(OPTION_memory_limit, -50);
    atomic_set(&memory_limit.is_known, false); /* as it begins */
    CHECK(mkdtemp(mount) != NULL);
    make_folder("/a");
    make_folder("/a/b");
    make_folder("/a/b/memory.max"); /* which is no file */
    write_number("/membership", "0::/a/b\n");
    look_without_descriptors();
    CHECK(!limit_is_set());
    write_number("/a/memory.max", "209715200\n");
    look_once_more();
    CHECK(!atomic_get(&memory_limit.is_known));
    CHECK_EQ(atomic_get(&memory_limit.hard_pages), pages_of(100 * MiB));
    look_without_descriptors();
    CHECK_EQ(atomic_get(&memory_limit.hard_pages), pages_of(100 * MiB));
    write_number("/a/memory.max", "104857600\n");
    look_once_more();
    CHECK_EQ(atomic_get(&memory_limit.hard_pages), pages_of(50 * MiB));
    snprintf(command, sizeof command, "rm -r '%s'", mount);
    CHECK_EQ(system(command), 0);
    memcpy(mount + strlen(mount) - 6, "XXXXXX", 6);
    set_limits(0, 0);
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
    CHECK_EQ(least_of(deep, sizeof deep).limit, 1 * MiB);
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

/* --- CPUs ------------------------------------------------------------------------------------- */

/* By the cgroups below `mount`, of a process with these lines in /proc/PID/cgroup. */
static unsigned cpus_of(const char *lines)
{
    static struct membership of;
    char path[256];
    write_number("/membership", lines);
    snprintf(path, sizeof path, "%s/membership", mount);
    membership_read(&of, path);
    return cgroup_cpus_of(&of, mount);
}

/* What a service of systemd, or one in a container that has the names of the host, may use. */
TEST(least_quota_of_all_cgroups_around)
{
    char command[300];
    CHECK(mkdtemp(mount) != NULL);
    static const char *const folders[] = {"/a", "/a/b", "/cpu", "/cpu/c", "/cpu/c/d"};
    for (size_t i = 0; i < array_count(folders); i++) {
        make_folder(folders[i]);
    }
    static const char own[] = "1:name=systemd:/x\n0::/a/b\n";
    CHECK_EQ(cpus_of(own), 0);
    write_number("/a/b/cpu.max", "max 100000\n");
    CHECK_EQ(cpus_of(own), 0);
    write_number("/a/b/cpu.max", "250000 100000\n");
    CHECK_EQ(cpus_of(own), 3);
    CHECK_EQ(cpus_of("0::/a\n"), 0); /* that is below */
    write_number("/a/cpu.max", "max 100000\n");
    CHECK_EQ(cpus_of(own), 3);
    write_number("/a/cpu.max", "150000 100000\n");
    CHECK_EQ(cpus_of(own), 2);
    write_number("/a/cpu.max", "950000 100000\n");
    CHECK_EQ(cpus_of(own), 3);
    write_number("/cpu.max", "100000 100000\n"); /* as a container sees its own */
    CHECK_EQ(cpus_of(own), 1);
    CHECK_EQ(cpus_of("0::/\n"), 1);
    CHECK_EQ(cpus_of("0::/not/there\n"), 1);
    CHECK_EQ(cpus_of(""), 1); /* without /proc */
    write_number("/cpu.max", "max 100000\n");

    static const char first[] = "5:cpuset:/c/d\n4:cpu,cpuacct:/c/d\n3:memory:/a/b\n";
    CHECK_EQ(cpus_of(first), 0);
    write_number("/cpu/c/d/cpu.cfs_quota_us", "-1\n");
    write_number("/cpu/c/d/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(cpus_of(first), 0);
    write_number("/cpu/c/d/cpu.cfs_quota_us", "450000\n");
    CHECK_EQ(cpus_of(first), 5);
    write_number("/cpu/c/cpu.cfs_quota_us", "200000\n");
    write_number("/cpu/c/cpu.cfs_period_us", "50000\n");
    CHECK_EQ(cpus_of(first), 4);
    CHECK_EQ(cpus_of("4:cpuset,cpuacct:/c/d\n"), 0);
    write_number("/cpu/cpu.cfs_quota_us", "300000\n");
    write_number("/cpu/cpu.cfs_period_us", "100000\n");
    static char many[4 * KiB]; /* of which only the begin is read */
    memset(many, 'x', sizeof many - 1);
    memcpy(many, "5:cpuset:/", strlen("5:cpuset:/"));
    CHECK_EQ(cpus_of(many), 3);
    snprintf(command, sizeof command, "rm -r '%s'", mount);
    CHECK_EQ(system(command), 0);
    memcpy(mount + strlen(mount) - 6, "XXXXXX", 6);
}

/* What the cgroup allows is read where a limit is a share of it, and counts for threads to come. */
TEST(arenas_follow_the_cpus)
{
    process_init();
    CHECK_EQ(limit_cpus(), 0); /* nobody has looked */
    unsigned before = thread_arenas();
    arenas_follow_cpus();
    CHECK_EQ(process.cpus, 0);
    option_set(OPTION_memory_soft_limit, -50);
    limit_look();
    CHECK_EQ(limit_cpus(), os_cpu_count());
    arenas_follow_cpus();
    CHECK_EQ(thread_arenas(), before);
    atomic_set(&memory_limit.cpus, before + 7); /* the quota has grown */
    arenas_follow_cpus();
    unsigned most = thread_arenas();
    CHECK_EQ(most, size_min(before + 7, ARENAS_MAX));
    atomic_set(&memory_limit.cpus, 1);
    arenas_follow_cpus();
    CHECK_EQ(process.arenas_wanted, 1);
    CHECK_EQ(thread_arenas(), most); /* a number that the program was told stays one */
    CHECK(thread_direct_numbered(most - 1) != NULL);
    uint64_t of_program = 0;
    CHECK_EQ(arena_create(NULL, &of_program), 0);
    CHECK_EQ(of_program, most);
    CHECK_EQ(number_count(), most + 1);
    CHECK_EQ(mw_mallopt(-8, 3), 1); /* M_ARENA_MAX: the program has the last word */
    atomic_set(&memory_limit.cpus, 9);
    arenas_follow_cpus();
    CHECK_EQ(process.arenas_wanted, 3);
}

/* A thread that is pinned says nothing of the others. */
TEST(cpus_are_those_that_the_process_began_with)
{
    cpu_set_t all, one;
    unsigned before = os_cpu_count();
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
        }
    }
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    CHECK_EQ(affinity_cpus(), 1);
    CHECK_EQ(os_cpu_count(), before);
}

TEST(purge_thread_looks_what_the_cgroup_allows_of_cpus)
{
    process_init();
    CHECK_EQ(limit_cpus(), 0);
    mw_free(mw_malloc(1));
    option_set(OPTION_dirty_decay_ms, 100);
    option_set(OPTION_purge_thread, true);
    atomic_set(&purge_thread.may_start, true);
    purge_thread_want();
    while (limit_cpus() == 0) {
        sched_yield();
    }
    CHECK_EQ(limit_cpus(), os_cpu_count());
    option_set(OPTION_purge_thread, false);
}

TEST(cpus_are_looked_at_now_and_then)
{
    process_init();
    limit_look_at_cpus(5000);
    CHECK_EQ(limit_cpus(), os_cpu_count());
    atomic_set(&memory_limit.cpus, 99);
    limit_look_at_cpus(5999);
    CHECK_EQ(limit_cpus(), 99);
    os_note_confined();
    limit_look_at_cpus(6000);
    CHECK_EQ(limit_cpus(), 99);
}

/* From a filter on no file is opened: the limits are those of the last look, and nobody knows of pressure. */
TEST(limits_stay_where_the_program_forbids_itself_calls)
{
    process_init();
    option_set(OPTION_memory_soft_limit, -50);
    limit_tick(5000);
    CHECK_EQ(atomic_get(&memory_limit.looked_ms), 5000);
    atomic_set(&memory_limit.soft_pages, pages_of(100 * MiB));
    atomic_set(&memory_limit.is_pressed, true);
    os_note_confined();
    limit_tick(10000);
    CHECK_EQ(atomic_get(&memory_limit.looked_ms), 5000);
    CHECK_EQ(atomic_get(&memory_limit.soft_pages), pages_of(100 * MiB));
    struct arena *arena = arena_init(0);
    arena_free(arena, arena_alloc(arena, PAGES, os_page_size));
    limit_tick(15000);
    CHECK_EQ(holding_now().free, PAGES);
}

/* A filter that refuses one call, and does not end the program for it, says nothing of others. */
TEST(limits_are_followed_where_the_kernel_does_not_tell_what_is_resident)
{
    process_init();
    option_set(OPTION_memory_soft_limit, -50);
    void *page = os_map(NULL, os_page_size);
    CHECK(page != NULL && os_tells_resident());
    mincore_refused = true;
    CHECK_EQ(os_resident_pages(page, 1), 1);
    CHECK(!os_tells_resident() && !os_is_confined());
    limit_tick(5000);
    CHECK_EQ(atomic_get(&memory_limit.looked_ms), 5000);
}
