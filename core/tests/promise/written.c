/* SPDX-License-Identifier: MIT
 *
 * A write to any byte of a freed slot ends the program before the slot is handed out again: each size that is filled
 * and looked at in a way of its own, each byte, a child for each.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "promise.h"

enum { CANARY = 8, PAIRS_MOST = 20000 };

/* Never returns. Leaves by _exit, so that nobody looks at what is free when the program ends. */
static void write_and_reuse(size_t size, size_t byte)
{
    char *volatile block = malloc(size);
    free(block);
    block[byte] ^= 0x5b; /* of both fills another byte */
    for (int i = 0; i < PAIRS_MOST; i++) {
        char *volatile other = malloc(size);
        if (other == block) {
            _exit(1);
        }
        free(other);
    }
    _exit(2);
}

static int end_of_child(size_t size, size_t byte)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO); /* of so many sentences */
        write_and_reuse(size, byte);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

int main(void)
{
    static const size_t slots[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 256, 320, 512, 640};
    int ended = 0;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        size_t size = slots[i] - CANARY;
        for (size_t byte = 0; byte < size; byte++) {
            int end = end_of_child(size, byte);
            CHECK_MSG(end == SIGABRT, "byte %zu of %zu: %d", byte, size, end);
            ended++;
        }
    }
    printf("%d writes were found\n", ended);
    return 0;
}
