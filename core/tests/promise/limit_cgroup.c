/* SPDX-License-Identifier: MIT
 *
 * In a memory cgroup, a program whose free memory lies in pieces that its next phase cannot use is
 * killed if that memory stays, with glibc's malloc as with Mallow; with memory_soft_limit as a share of the cgroup's limit it goes
 * back in time, and the program lives. So does one that needs it for something else than malloc, and one whose cgroup's
 * limit is lowered while it runs.
 * The debug build takes access and memory away from large blocks when they are freed, if the kernel
 * can do both at once, so there the program may live without the limit too. Needs the right to make a cgroup; else the test is skipped.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROMISE_RUNS_WITHOUT
#include "promise.h"

enum { GROUP_LIMIT = 184 * MIB, LIMIT_BEFORE = 400 * MIB, SKIPPED = 77 };
enum { SMALL = 40 * KIB, LARGE = 120 * KIB, FIRST_BYTES = 160 * MIB, SECOND_BYTES = 80 * MIB };

static char *first[FIRST_BYTES / SMALL], *second[SECOND_BYTES / LARGE];

static void take_first(size_t bytes)
{
    for (size_t i = 0; i < bytes / SMALL; i++) {
        first[i] = malloc(SMALL);
        memset(first[i], 1, SMALL);
    }
}

static void free_every(size_t step, size_t bytes)
{
    for (size_t i = 0; i < bytes / SMALL; i += step) {
        free(first[i]);
    }
}

static void take_second(void)
{
    for (size_t i = 0; i < SECOND_BYTES / LARGE; i++) {
        second[i] = malloc(LARGE);
        memset(second[i], 2, LARGE);
    }
}

/* Half of the first blocks are freed, every second one, then larger ones are needed. */
static void work(void)
{
    take_first(FIRST_BYTES);
    free_every(2, FIRST_BYTES);
    take_second();
}

/* All of them are freed, then the program maps as much itself, some 100 MiB a second. */
static void work_outside(void)
{
    take_first(FIRST_BYTES / 2);
    free_every(1, FIRST_BYTES / 2);
    for (size_t mapped = 0; mapped < GROUP_LIMIT - 50 * MIB; mapped += MIB) {
        void *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages != MAP_FAILED);
        memset(pages, 3, MIB);
        for (int i = 0; i < 10; i++) {
            free(malloc(LARGE));
            usleep(1000);
        }
    }
}

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_WRONLY);
    if (file < 0) {
        return false;
    }
    bool done = write(file, text, strlen(text)) == (ssize_t)strlen(text);
    close(file);
    return done;
}

static bool set_limit(const char *group, size_t bytes)
{
    char limit[32];
    snprintf(limit, sizeof limit, "%zu", bytes);
    bool is_limited =
        write_file(group, "memory.max", limit) || write_file(group, "memory.limit_in_bytes", limit);
    /* Swap would hide what the limit does; where it cannot be limited there is mostly none. */
    bool has_no_swap = write_file(group, "memory.swap.max", "0") ||
                       write_file(group, "memory.memsw.limit_in_bytes", limit);
    (void)has_no_swap;
    return is_limited;
}

/* The same work, but before larger blocks are needed the limit falls, which then leaves room for the blocks alone. The
 * program waits until free memory has gone back, or for two seconds. */
static void work_lowered(const char *group)
{
    take_first(FIRST_BYTES);
    free_every(2, FIRST_BYTES);
    CHECK(set_limit(group, GROUP_LIMIT));
    size_t before = promise_field("status", "VmRSS:");
    for (int i = 0; i < 200 && promise_field("status", "VmRSS:") + 20 * MIB > before; i++) {
        free(malloc(LARGE));
        usleep(10000);
    }
    take_second();
}

/* The memory cgroup of this process, as a folder. */
static bool find_group(char *folder, size_t size)
{
    static char text[4096];
    promise_read("/proc/self/cgroup", text, sizeof text);
    const char *version_1 = strstr(text, ":memory:"), *version_2 = strstr(text, "0::");
    const char *path = version_1 != NULL ? version_1 + 8 : version_2 != NULL ? version_2 + 3 : NULL;
    if (path == NULL) {
        return false;
    }
    snprintf(folder, size, "/sys/fs/cgroup%s%.*s", version_1 != NULL ? "/memory" : "",
             (int)strcspn(path, "\n"), path);
    return true;
}

/* What is done in a cgroup, with which settings, and whether the program lives. "libc" is "inside" without Mallow. */
static const struct {
    const char *what, *settings;
    bool lives;
} cases[] = {
    {"inside", "memory_soft_limit:90%", true},
    {"lowered", "dirty_decay_ms:-1,memory_soft_limit:90%", true},
    {"outside", "memory_soft_limit:90%", true},
    {"inside", "dirty_decay_ms:10000", false},
    {"outside", "dirty_decay_ms:10000", false},
    {"lowered", "dirty_decay_ms:-1,memory_soft_limit:360M", false}, /* bytes follow no cgroup */
#ifdef __GLIBC__
    {"libc", NULL, false},
#endif
};

/* How the work ended in the group: a status as of waitpid. */
static int status_in(const char *group, const char *self, const char *what, const char *settings)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (!write_file(group, "cgroup.procs", "0")) {
            _exit(SKIPPED);
        }
        if (settings != NULL) {
            setenv("MALLOW_CONF", settings, 1);
        } else {
            unsetenv("LD_PRELOAD");
        }
        execl(self, self, what, group, NULL);
        _exit(SKIPPED);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

/* In a cgroup of its own, which is gone afterwards. SKIPPED as the exit status where there can be none. */
static int status_of(const char *parent, const char *self, unsigned number)
{
    char group[320];
    const char *what = cases[number].what;
    int status = SKIPPED << 8;
    snprintf(group, sizeof group, "%s/mallow-%d-%u", parent, (int)getpid(), number);
    if (mkdir(group, 0755) == 0) {
        if (set_limit(group, strcmp(what, "lowered") == 0 ? LIMIT_BEFORE : GROUP_LIMIT)) {
            status = status_in(group, self, what, cases[number].settings);
        }
        int error = errno;
        for (int i = 0; i < 100 && rmdir(group) != 0; i++) {
            usleep(10000); /* the kernel is still taking leave of the process */
        }
        errno = error;
    }
    return status;
}

static int skip(const char *reason)
{
    fprintf(stderr, "skipped: %s: %s\n", reason, strerror(errno));
    return SKIPPED;
}

static void check_ending(unsigned number, int status)
{
    const char *settings =
        cases[number].settings != NULL ? cases[number].settings : "glibc's malloc";
    bool is_whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    printf("%s, %s: %s\n", cases[number].what, settings,
           is_whole    ? "lives"
           : is_killed ? "is killed"
                       : "fails");
    fflush(stdout);
    /* Without the limit: else the test would not show what the limit does. */
    bool may_live = cases[number].settings != NULL && promise_is_mode("debug");
    CHECK_MSG(cases[number].lives ? is_whole : is_killed || (may_live && is_whole),
              "%s, %s: status %x", cases[number].what, settings, status);
}

int main(int count, char **words)
{
    bool is_of_libc = count > 2 && strcmp(words[1], "libc") == 0;
    bool is_mallow = dlsym(RTLD_DEFAULT, "mw_malloc") != NULL;
    CHECK_MSG(is_mallow != is_of_libc, "the library is %s", is_mallow ? "preloaded" : "missing");
    if (count > 2) {
        if (strcmp(words[1], "outside") == 0) {
            work_outside();
        } else if (strcmp(words[1], "lowered") == 0) {
            work_lowered(words[2]);
        } else {
            work();
        }
        return 0;
    }
    char parent[256];
    if (!find_group(parent, sizeof parent)) {
        return skip("no memory cgroup");
    }
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = status_of(parent, words[0], i);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
            return skip("a cgroup cannot be made, limited or joined here");
        }
        check_ending(i, status);
    }
    return 0;
}
