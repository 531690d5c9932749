// expect: secure=abort "which is free" fast=any debug=abort "free"
/* SPDX-License-Identifier: MIT
 * A thread that still runs has freed the block. */
#include "freed_by_thread.h"

#include <malloc.h>

int main(void)
{
    return malloc_usable_size(block_freed_by_thread()) == 0;
}
