/* SPDX-License-Identifier: MIT
 *
 * In a memory cgroup, a program whose free memory lies in pieces that its next phase cannot use is
 * killed if that memory stays; with memory_soft_limit it goes back in time, and the program lives. So
 * does one that needs it for something else than malloc.
 * The debug build takes access and memory away from large blocks when they are freed, if the kernel
 * can do both at once, so there the program may live without the limit too. Needs the right to make a cgroup; else the test is skipped.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "promise.h"

enum { GROUP_LIMIT = 184 * MIB, SKIPPED = 77 };
enum { SMALL = 40 * KIB, LARGE = 120 * KIB, FIRST_BYTES = 160 * MIB, SECOND_BYTES = 80 * MIB };

static char *first[FIRST_BYTES / SMALL], *second[SECOND_BYTES / LARGE];

/* Half of the first blocks are freed, every second one, then larger ones are needed. */
static int work(void)
{
    for (size_t i = 0; i < FIRST_BYTES / SMALL; i++) {
        first[i] = malloc(SMALL);
        memset(first[i], 1, SMALL);
    }
    for (size_t i = 0; i < FIRST_BYTES / SMALL; i += 2) {
        free(first[i]);
    }
    for (size_t i = 0; i < SECOND_BYTES / LARGE; i++) {
        second[i] = malloc(LARGE);
        memset(second[i], 2, LARGE);
    }
    return 0;
}

/* All of them are freed, then the program maps as much itself, some 100 MiB a second. */
static int work_outside(void)
{
    for (size_t i = 0; i < FIRST_BYTES / 2 / SMALL; i++) {
        first[i] = malloc(SMALL);
        memset(first[i], 1, SMALL);
    }
    for (size_t i = 0; i < FIRST_BYTES / 2 / SMALL; i++) {
        free(first[i]);
    }
    for (size_t mapped = 0; mapped < GROUP_LIMIT - 50 * MIB; mapped += MIB) {
        void *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages != MAP_FAILED);
        memset(pages, 3, MIB);
        for (int i = 0; i < 10; i++) {
            free(malloc(LARGE));
            usleep(1000);
        }
    }
    return 0;
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

/* How the work ended in the group, with these settings: a status as of waitpid. */
static int status_in(const char *group, const char *self, const char *what, const char *settings)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (!write_file(group, "cgroup.procs", "0")) {
            _exit(SKIPPED);
        }
        setenv("MALLOW_CONF", settings, 1);
        execl(self, self, what, NULL);
        _exit(SKIPPED);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

static int skip(const char *reason)
{
    fprintf(stderr, "skipped: %s: %s\n", reason, strerror(errno));
    return SKIPPED;
}

/* Without the limit: else the test would not show what the limit does. */
static void check_is_killed(int status)
{
    bool may_live = promise_is_mode("debug") && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK_MSG(may_live || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
              "the test does not need the limit: status %x", status);
}

int main(int count, char **words)
{
    if (count > 1) {
        return strcmp(words[1], "outside") == 0 ? work_outside() : work();
    }
    char parent[256], group[300], limit[32];
    if (!find_group(parent, sizeof parent)) {
        return skip("no memory cgroup");
    }
    snprintf(group, sizeof group, "%s/mallow-%d", parent, (int)getpid());
    if (mkdir(group, 0755) != 0) {
        return skip("no cgroup can be made here");
    }
    snprintf(limit, sizeof limit, "%d", GROUP_LIMIT);
    bool is_limited =
        write_file(group, "memory.max", limit) || write_file(group, "memory.limit_in_bytes", limit);
    /* Swap would hide what the limit does; where it cannot be limited there is mostly none. */
    bool has_no_swap = write_file(group, "memory.swap.max", "0") ||
                       write_file(group, "memory.memsw.limit_in_bytes", limit);
    (void)has_no_swap;
    int without = is_limited ? status_in(group, words[0], "inside", "dirty_decay_ms:10000") : 0;
    int with = is_limited ? status_in(group, words[0], "inside", "memory_soft_limit:90%") : 0;
    int outside = is_limited ? status_in(group, words[0], "outside", "memory_soft_limit:90%") : 0;
    int outside_without =
        is_limited ? status_in(group, words[0], "outside", "dirty_decay_ms:10000") : 0;
    rmdir(group);
    if (!is_limited || (WIFEXITED(without) && WEXITSTATUS(without) == SKIPPED)) {
        return skip("the cgroup cannot be limited or joined");
    }
    CHECK_MSG(WIFEXITED(with) && WEXITSTATUS(with) == 0, "with the soft limit: status %x", with);
    CHECK_MSG(WIFEXITED(outside) && WEXITSTATUS(outside) == 0,
              "with the soft limit, mapped outside malloc: status %x", outside);
    check_is_killed(without);
    check_is_killed(outside_without);
    return 0;
}
