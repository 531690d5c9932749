/* SPDX-License-Identifier: MIT
 *
 * A write to any byte of a freed slot ends the program before the slot is handed out again, and in the secure build a write
 * to its first 128 bytes though nobody ever asks for it again: each size that is filled and looked at in a way of its own, each byte,
 * a child for each.
 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "promise.h"

enum { CANARY = 8, PAIRS_MOST = 20000, BLOCKS = 4000, LOOKED_AT_LEAVING = 128 };

/* Never returns. Leaves by _exit, so that nobody looks at what is free when the program ends. */
static void write_and_reuse(size_t size, size_t byte)
{
    volatile char *volatile block = malloc(size);
    free((void *)block);
    block[byte] ^= 0x5b; /* differs from the fill in both builds */
    for (int i = 0; i < PAIRS_MOST; i++) {
        char *volatile other = malloc(size);
        if (other == block) {
            _exit(1);
        }
        free(other);
    }
    _exit(2);
}

/* Every second block stays, so that no slab becomes empty. */
static void write_and_leave(size_t size, size_t byte)
{
    static volatile char *volatile blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
    }
    free((void *)blocks[0]);
    blocks[0][byte] ^= 0x5b;
    for (size_t i = 2; i < BLOCKS; i += 2) {
        free((void *)blocks[i]);
    }
    exit(3);
}

static int end_of_child(void (*child_does)(size_t, size_t), size_t size, size_t byte)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO); /* of so many sentences */
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        child_does(size, byte);
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
            int end = end_of_child(write_and_reuse, size, byte);
            CHECK_MSG(end == SIGABRT, "byte %zu of %zu: %d", byte, size, end);
            ended++;
            if (byte < LOOKED_AT_LEAVING && promise_is_mode("secure")) {
                end = end_of_child(write_and_leave, size, byte);
                CHECK_MSG(end == SIGABRT, "byte %zu of %zu, not used again: %d", byte, size, end);
                ended++;
            }
        }
    }
    printf("%d writes were found\n", ended);
    return 0;
}
