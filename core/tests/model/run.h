/* SPDX-License-Identifier: MIT
 *
 * Runs an operation list against the allocator and a shadow map side by side.
 */
#ifndef MODEL_RUN_H
#define MODEL_RUN_H

#include "ops.h"

struct model_options {
    bool is_concurrent; /* threads run freely, each its own operations in order */
    bool may_fork;
    size_t valid_every; /* heap_is_valid() after so many operations; 0: only at the end */
};

/* Returns when every operation has been run and every block been freed, or prints what went wrong
 * with the operations that led to it, and aborts. */
void model_run(const struct op *ops, size_t count, const struct model_options *options);

#endif
