/* SPDX-License-Identifier: MIT
 *
 * What the process may use, as its cgroups say: CPUs, memory, and whether memory is short. Version 2 of
 * cgroups, and version 1 where that is what there is. The files are those of the moment: nothing is kept.
 */
#include "os.h"
#include "syscall.h"

#include <errno.h>
#include <string.h>

/* Parses a decimal number; moves *text behind it. */
static uint64_t parse_decimal(const char **text)
{
    uint64_t value = 0;
    while (**text >= '0' && **text <= '9') {
        value = value * 10 + (uint64_t)(*(*text)++ - '0');
    }
    return value;
}

/* --- Which cgroups ---------------------------------------------------------------------------- */

#define CGROUP_FILE_MOST 512u

/* Reads FOLDER/FILE as os_read_file does. */
static long cgroup_ask(const char *folder, size_t length, const char *file, char *text,
                       size_t text_size)
{
    char path[CGROUP_FILE_MOST];
    size_t file_length = strlen(file);
    if (length + file_length >= sizeof path) {
        return -ENOENT;
    }
    memcpy(path, folder, length);
    memcpy(path + length, file, file_length + 1);
    return os_read_file(path, text, text_size);
}

/* False if it is not there. */
static bool cgroup_read(const char *folder, size_t length, const char *file, char *text,
                        size_t text_size)
{
    return cgroup_ask(folder, length, file, text, text_size) > 0;
}

/* The number that a file says; SIZE_MAX if it is none, or means that there is no limit. */
static size_t number_in(const char *text)
{
    if (*text < '0' || *text > '9') {
        return SIZE_MAX; /* "max", in version 2 */
    }
    uint64_t number = parse_decimal(&text);
    return number >> 60 == 0 ? (size_t)number : SIZE_MAX; /* version 1 writes nearly 2^63 */
}

/* The number in FOLDER/FILE; SIZE_MAX if there is none. */
static size_t cgroup_number(const char *folder, size_t length, const char *file)
{
    char text[64];
    return cgroup_read(folder, length, file, text, sizeof text) ? number_in(text) : SIZE_MAX;
}

/* The cgroups of a process, by /proc/PID/cgroup: paths below where the hierarchies are mounted. */
struct membership {
    char text[2048];
    const char *unified; /* version 2; NULL: none */
    size_t unified_length;
    const char *memory; /* version 1 */
    size_t memory_length;
    const char *cpu; /* version 1 */
    size_t cpu_length;
};

/* Whether one of the words of "WORD,WORD" is this one. */
static bool list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (; *list != 0; list += *list != 0) {
        size_t next = strcspn(list, ",");
        if (next == length && strncmp(list, word, length) == 0) {
            return true;
        }
        list += next;
    }
    return false;
}

/* A line is "NUMBER:CONTROLLER,CONTROLLER:PATH"; version 2 has no controllers. Without /proc, and of what is not in a file
 * that is too long, what is mounted is taken for the process's own, as it is in a container. False: there is no such file. */
static bool membership_read(struct membership *of, const char *file)
{
    memset(of, 0, sizeof *of);
    long size = os_read_file(file, of->text, sizeof of->text);
    bool is_whole = size > 0 && (size_t)size < sizeof of->text - 1;
    of->unified = of->memory = of->cpu = is_whole ? NULL : "";
    if (size <= 0) {
        return false;
    }
    for (char *line = of->text; *line != 0;) {
        char *end = line + strcspn(line, "\n");
        char *controllers = memchr(line, ':', (size_t)(end - line));
        char *path = controllers != NULL
                         ? memchr(controllers + 1, ':', (size_t)(end - controllers - 1))
                         : NULL;
        line = end + (*end != 0);
        if (path == NULL) {
            continue;
        }
        *path++ = 0;
        size_t length = (size_t)(end - path);
        if (*++controllers == 0) {
            of->unified = path;
            of->unified_length = length;
        }
        if (list_has(controllers, "memory")) {
            of->memory = path;
            of->memory_length = length;
        }
        if (list_has(controllers, "cpu")) {
            of->cpu = path;
            of->cpu_length = length;
        }
    }
    return true;
}

/* Looks at one cgroup, whose folder has so many characters, and lowers `least` to what it says. */
typedef void cgroup_look(const char *folder, size_t length, void *least);

/* Looks at a cgroup and at all around it, up to where the hierarchy is mounted. */
static void cgroups_around(const char *mount, const char *path, size_t path_length,
                           cgroup_look *look, void *least)
{
    char folder[448];
    size_t mount_length = strlen(mount);
    if (mount_length + path_length >= sizeof folder) {
        path_length = 0;
    }
    path_length -= path_length != 0 && path[path_length - 1] == '/'; /* the root alone ends so */
    memcpy(folder, mount, mount_length);
    memcpy(folder + mount_length, path, path_length);
    size_t length = mount_length + path_length;
    for (;;) {
        look(folder, length, least);
        if (length <= mount_length) {
            return;
        }
        while (folder[--length] != '/' && length > mount_length) {
        }
    }
}

/* The same where the mount point is one below a folder: version 2 may be mounted beside version 1. Nothing if there is
 * no such cgroup. */
static void cgroups_below(const char *folder, const char *mount, const char *path,
                          size_t path_length, cgroup_look *look, void *least)
{
    char whole[CGROUP_FILE_MOST / 2];
    size_t length = strlen(folder), mount_length = strlen(mount);
    if (path == NULL || length + mount_length >= sizeof whole) {
        return;
    }
    memcpy(whole, folder, length);
    memcpy(whole + length, mount, mount_length + 1);
    cgroups_around(whole, path, path_length, look, least);
}

/* --- CPUs ------------------------------------------------------------------------------------- */

/* CPUs that a quota of `quota` microseconds in each `period` amounts to, rounded up; 0: no
 * quota. */
static unsigned quota_cpus(uint64_t quota, uint64_t period)
{
    return quota == 0 || period == 0 ? 0 : (unsigned)((quota + period - 1) / period);
}

static void look_at_quota(const char *folder, size_t length, void *least)
{
    char text[64];
    uint64_t quota = 0, period = 0;
    if (cgroup_read(folder, length, "/cpu.max", text, sizeof text)) {
        const char *at = text;
        quota = parse_decimal(&at); /* the word "max" parses as 0 */
        at += *at == ' ';
        period = parse_decimal(&at);
    } else {
        size_t number = cgroup_number(folder, length, "/cpu.cfs_quota_us");
        quota = number != SIZE_MAX ? number : 0;
        period = quota != 0 ? cgroup_number(folder, length, "/cpu.cfs_period_us") : 0;
    }
    unsigned cpus = quota_cpus(quota, period), *fewest = least;
    *fewest = cpus != 0 && (*fewest == 0 || cpus < *fewest) ? cpus : *fewest;
}

/* The least quota of the cgroups of a process and of those around them, in CPUs; 0: none. */
static unsigned cgroup_cpus_of(const struct membership *of, const char *folder)
{
    unsigned fewest = 0;
    cgroups_below(folder, "", of->unified, of->unified_length, look_at_quota, &fewest);
    cgroups_below(folder, "/unified", of->unified, of->unified_length, look_at_quota, &fewest);
    cgroups_below(folder, "/cpu", of->cpu, of->cpu_length, look_at_quota, &fewest);
    return fewest;
}

static unsigned cgroup_cpus(void)
{
    struct membership of;
    membership_read(&of, "/proc/self/cgroup");
    return cgroup_cpus_of(&of, "/sys/fs/cgroup");
}

/* With so few CPUs a quota changes little, and its files, which cost more to read than all else at
 * the start of a program, are left alone. */
#define QUOTA_CPUS_MIN 8u

static unsigned affinity_cpus(void)
{
    uint64_t mask[128] = {0}; /* 8,192 CPUs, the most that Linux can be built for */
    long size = system_call(SYS_sched_getaffinity, 0, sizeof mask, (long)mask, 0, 0, 0);
    unsigned count = 0;
    for (size_t i = 0; !is_error(size) && i < array_count(mask); i++) {
        for (uint64_t left = mask[i]; left != 0; left &= left - 1) {
            count++;
        }
    }
    return count != 0 ? count : 1;
}

/* The affinity is that of the thread that asks first: one that asks later may be pinned to a CPU, which says
 * nothing of the others. */
static unsigned os_cpu_count(void)
{
    static _Atomic unsigned usable;
    unsigned count = atomic_get(&usable);
    if (count == 0) {
        count = affinity_cpus();
        atomic_set(&usable, count);
    }
    unsigned quota = count > QUOTA_CPUS_MIN && !MW_IN_LIBC ? cgroup_cpus() : 0;
    return quota != 0 && quota < count ? quota : count;
}

static int os_cpu_now(void)
{
    unsigned cpu = 0;
    bool may_ask = !os_is_confined() && !os_refuses_changes();
    return may_ask && !is_error(system_call(SYS_getcpu, (long)&cpu, 0, 0, 0, 0, 0)) ? (int)cpu : -1;
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* The number behind `name` in lines of "NAME NUMBER"; 0 if there is none. */
static size_t stat_number(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; *line != 0; line += *line != 0) {
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            const char *at = line + length + 1;
            return (size_t)parse_decimal(&at);
        }
        line += strcspn(line, "\n");
    }
    return 0;
}

/* What the kernel drops when a cgroup needs it, of what lies in it and in those below: files, but not shared
 * memory, which is among them, and the slab caches that can go. In version 1 the words without "total_" are the
 * cgroup's own alone, and come first. */
static size_t droppable_bytes(const char *stat)
{
    size_t files = stat_number(stat, "file") + stat_number(stat, "total_cache");
    size_t shared = strstr(stat, "total_shmem ") != NULL ? stat_number(stat, "total_shmem")
                                                         : stat_number(stat, "shmem");
    return files - size_min(files, shared) + stat_number(stat, "slab_reclaimable");
}

/* What FOLDER's limit leaves. */
static size_t cgroup_room(const char *folder, size_t length, size_t limit)
{
    char text[2048];
    size_t used = size_min(cgroup_number(folder, length, "/memory.current"),
                           cgroup_number(folder, length, "/memory.usage_in_bytes"));
    if (used == SIZE_MAX) {
        return SIZE_MAX;
    }
    if (cgroup_read(folder, length, "/memory.stat", text, sizeof text)) {
        used -= size_min(used, droppable_bytes(text));
    }
    return limit > used ? limit - used : 0;
}

static void look_at_memory(const char *folder, size_t length, void *group)
{
    static const char *const files[] = {"/memory.max", "/memory.high", "/memory.limit_in_bytes"};
    struct memory_of_group *least = group;
    size_t limit = SIZE_MAX;
    char text[64];
    for (size_t i = 0; i < array_count(files); i++) {
        long size = cgroup_ask(folder, length, files[i], text, sizeof text);
        least->is_seen |= size > 0;
        least->is_cut |= size <= 0 && size != -ENOENT;
        limit = size > 0 ? size_min(limit, number_in(text)) : limit;
    }
    /* The root of version 2, and cgroups without the controller, have none of these. */
    if (!least->is_seen) {
        least->is_seen = cgroup_ask(folder, length, "/cgroup.controllers", text, sizeof text) >= 0;
    }
    if (limit != SIZE_MAX) {
        least->limit = size_min(least->limit, limit);
        least->room = size_min(least->room, cgroup_room(folder, length, limit));
    }
}

static void cgroup_memory_of(const struct membership *of, const char *folder,
                             struct memory_of_group *least)
{
    cgroups_below(folder, "", of->unified, of->unified_length, look_at_memory, least);
    cgroups_below(folder, "/unified", of->unified, of->unified_length, look_at_memory, least);
    cgroups_below(folder, "/memory", of->memory, of->memory_length, look_at_memory, least);
}

/* The share of the last ten seconds, in percent, for which some thread waited for memory; the file begins
 * "some avg10=0.00". */
static unsigned pressure_in(const char *folder, size_t length, const char *file, bool *is_there)
{
    static const char before[] = "some avg10=";
    char text[128];
    *is_there = cgroup_read(folder, length, file, text, sizeof text) &&
                strncmp(text, before, sizeof before - 1) == 0;
    const char *at = text + sizeof before - 1;
    return *is_there ? (unsigned)size_min(parse_decimal(&at), 100) : 0;
}

/* Of the process's own cgroup; where cgroups do not say, that of the machine. */
static unsigned cgroup_pressure_of(const struct membership *of, const char *folder,
                                   const char *machine)
{
    char path[CGROUP_FILE_MOST];
    size_t length = strlen(folder);
    bool is_there = false;
    if (of->unified != NULL && length + of->unified_length < sizeof path) {
        memcpy(path, folder, length);
        memcpy(path + length, of->unified, of->unified_length);
        unsigned percent =
            pressure_in(path, length + of->unified_length, "/memory.pressure", &is_there);
        if (is_there) {
            return percent;
        }
    }
    return pressure_in(machine, strlen(machine), "/memory", &is_there);
}

static struct memory_of_group cgroup_memory(const char *own, const char *folder,
                                            const char *machine)
{
    struct membership of;
    struct memory_of_group group = {SIZE_MAX, SIZE_MAX, 0, false, false};
    group.is_cut = !membership_read(&of, own);
    cgroup_memory_of(&of, folder, &group);
    group.pressure_percent = cgroup_pressure_of(&of, folder, machine);
    return group;
}

static struct memory_of_group os_cgroup_memory(void)
{
    return cgroup_memory("/proc/self/cgroup", "/sys/fs/cgroup", "/proc/pressure");
}
