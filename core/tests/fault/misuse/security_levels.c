// expect: secure=ok fast=any debug=any
/* SPDX-License-Identifier: MIT
 * What each level of the option security does and does not do; the levels run in processes of their
 * own. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 500, LARGE = 200 << 10, MEDIUM = 16000, PAGE = 4000 };

static int level;
static int failures;

static void expect(int is_so, const char *what)
{
    if (!is_so) {
        printf("level %d: %s\n", level, what);
        failures++;
    }
}

/* Whether a byte can be read: the kernel says so without a signal. */
static int is_readable(const char *at)
{
    int ends[2];
    if (pipe(ends) != 0) {
        exit(2);
    }
    int readable = write(ends[1], at, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return readable;
}

/* Nothing is freed in the meantime, so what waits goes on waiting. */
static int is_used_again(size_t size)
{
    char *volatile block = malloc(size);
    uintptr_t freed = (uintptr_t)block;
    free(block);
    int again = 0;
    for (int i = 0; i < 5000; i++) {
        again |= (uintptr_t)malloc(size) == freed;
    }
    return again;
}

/* Whether a byte of a block's middle is cleared when it is freed. Its slab has another block. */
static int is_cleared(size_t size)
{
    char *volatile other = malloc(size);
    char *volatile block = malloc(size);
    memset(block, 1, size);
    free(block);
    int is_zero = block[size / 2] == 0;
    free(other);
    return is_zero;
}

static int guarded_ends(void)
{
    int guarded = 0;
    for (int i = 0; i < BLOCKS; i++) {
        char *block = malloc(LARGE);
        guarded += !is_readable(block + LARGE);
    }
    return guarded;
}

static int check_level(void)
{
    int guarded = guarded_ends();
    if (level == 1) {
        expect(guarded < BLOCKS / 10, "large blocks have guards");
    } else if (level < 4) {
        expect(guarded >= 20, "the first large blocks have no guards");
    } else {
        expect(guarded == BLOCKS, "a large block has no guards");
    }
    expect(is_used_again(64) == (level == 1), "quarantine");
    expect(is_cleared(900), "what a small block held is there after its free");
    expect(is_cleared(PAGE) == (level > 1), "a block of 4,000 bytes is cleared by its free");
    expect(is_cleared(MEDIUM) == (level > 1),
           "the first blocks of 16,000 bytes are cleared by their free");
    return failures != 0;
}

int main(int count, char **words)
{
    if (count > 1) {
        level = atoi(words[1]);
        return check_level();
    }
    int failed = 0;
    for (level = 1; level <= 4; level++) {
        char setting[64];
        char number[] = {(char)('0' + level), 0};
        snprintf(setting, sizeof setting, "security:%d,guard_sample:0", level);
        setenv("MALLOW_CONF", setting, 1);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", words[0], number, (char *)NULL);
            _exit(2);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) {
            failed = 1;
        }
    }
    return failed;
}
