/* SPDX-License-Identifier: MIT
 *
 * Runs the registered tests, each in a child process with a time limit.
 *
 *   PROGRAM [--list] [--no-fork] [NAME ...]
 *
 * With MALLOW_LONG in the environment, where tests run as long as told, there is no limit.
 * NAME is a test or the stem of a file (realloc_contents). Exit code 0: all passed; 1: one failed;
 * 2: no test of that name, so that a misspelt name does not pass for a success.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "test.h"

enum { TIME_LIMIT_S = 300 };

#ifdef TEST_EMULATED
enum { IS_EMULATED = 1 };
#else
enum { IS_EMULATED = 0 };
#endif

static struct test *tests;

/* Keeps the list sorted by name, so that the order does not hang on the linker. */
void test_register(struct test *test)
{
    struct test **link = &tests;
    while (*link && strcmp((*link)->name, test->name) < 0) {
        link = &(*link)->next;
    }
    test->next = *link;
    *link = test;
}

static bool is_selected(const struct test *test, int count, char **names)
{
    const char *base = strrchr(test->file, '/');
    base = base ? base + 1 : test->file;
    size_t stem = strcspn(base, ".");
    bool any_name = false;
    for (int i = 0; i < count; i++) {
        if (names[i][0] == '-') {
            continue;
        }
        any_name = true;
        if (!strcmp(names[i], test->name) ||
            (strlen(names[i]) == stem && !strncmp(names[i], base, stem))) {
            return true;
        }
    }
    return !any_name;
}

static bool run_in_child(const struct test *test)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!getenv("MALLOW_LONG")) {
            alarm(TIME_LIMIT_S);
        }
        test->run();
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        return false;
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "%s: ended by signal %d (%s)\n", test->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        return false;
    }
    return WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    bool list = false, in_process = false;
    for (int i = 1; i < argc; i++) {
        list |= !strcmp(argv[i], "--list");
        in_process |= !strcmp(argv[i], "--no-fork");
    }
    int run = 0, failed = 0, skipped = 0;
    for (struct test *test = tests; test; test = test->next) {
        if (!is_selected(test, argc - 1, argv + 1)) {
            continue;
        }
        run++;
        if (list) {
            printf("%s\n", test->name);
            continue;
        }
        if (IS_EMULATED && test->needs_kernel) {
            printf("skip %s\n", test->name);
            skipped++;
            continue;
        }
        bool passed = true;
        if (in_process) {
            test->run();
        } else {
            passed = run_in_child(test);
        }
        printf("%s %s\n", passed ? "ok  " : "FAIL", test->name);
        failed += !passed;
    }
    if (run == 0) {
        fprintf(stderr, "%s: no such test\n", argv[0]);
        return 2;
    }
    if (!list) {
        printf("%d tests, %d failed, %d skipped\n", run, failed, skipped);
    }
    return failed != 0;
}
