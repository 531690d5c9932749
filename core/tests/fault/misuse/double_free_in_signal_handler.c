// expect: fast=any secure=abort "double free" debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * Misuse in a signal handler is told of like any other. */
#include <signal.h>
#include <stdlib.h>

static void *volatile block;

static void handler(int number)
{
    (void)number;
    free(block);
    free(block);
}

int main(void)
{
    block = malloc(48);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    return 0;
}
