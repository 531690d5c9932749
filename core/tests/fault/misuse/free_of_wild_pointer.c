// expect: secure=abort "which mallow did not allocate" fast=abort "which mallow did not allocate" debug=abort "which mallow did not allocate"
/* SPDX-License-Identifier: MIT
 * Addresses that no process has: small, negative, not canonical. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    static const uintptr_t wild[] = {16,
                                     4096,
                                     0x123456789ab0,
                                     0x7fffffffffff,
                                     0xdeadbeefdeadbeef,
                                     UINTPTR_MAX,
                                     UINTPTR_MAX - 15,
                                     (uintptr_t)1 << 63};
    int aborted = 0;
    for (int i = 0; i < 8; i++) {
        int status = 0;
        if (fork() == 0) {
            free((void *)wild[i]);
            _exit(0);
        }
        wait(&status);
        aborted += WIFSIGNALED(status) && WTERMSIG(status) == 6;
    }
    if (aborted == 8) {
        abort();
    }
    return 100 + aborted;
}
