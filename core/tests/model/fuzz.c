/* SPDX-License-Identifier: MIT
 *
 * The model test under libFuzzer: clang -fsanitize=fuzzer. The heap lives on from input to input,
 * as it does in a program. A saved input replays with the plain driver: model --file INPUT.
 */
#include "run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    enum { MOST = 4096 };
    static struct op ops[MOST];
    size_t count = ops_decode(bytes, length, ops, MOST);
    struct model_options options = {.valid_every = 64};
    model_run(ops, count, &options);
    return 0;
}
