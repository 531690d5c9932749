// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * The first free is by a thread that still runs. */
#include "freed_by_thread.h"

int main(void)
{
    free(block_freed_by_thread());
    return 0;
}
