// expect: secure=abort "which is free" fast=any debug=abort "free"
/* SPDX-License-Identifier: MIT
 * A thread that still runs has freed the block. */
#include "freed_by_thread.h"

int main(void)
{
    return realloc(block_freed_by_thread(), 200) == NULL;
}
