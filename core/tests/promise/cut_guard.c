/* SPDX-License-Identifier: MIT
 *
 * A huge block that lies where a larger one lay, of which the rest keeps its memory, ends at a page without
 * access, also after it has grown into that rest, in steps, and has become shorter again. Each byte of it can be
 * written then.
 */
#include "promise.h"

enum { ROUNDS = 40, FREED = 15 * MIB, TAKEN = 9 * MIB, GUARDED = 512 * KIB };
static const size_t STEPS[] = {10 * MIB, 11 * MIB, TAKEN, 12 * MIB};

/* A free block keeps its memory if it cannot pay for giving it back. Guards of others are paid from the same account,
 * which time fills. */
static void use_up_the_account(void)
{
    for (unsigned i = 0; i < 64; i++) {
        char *volatile block = malloc(GUARDED);
        CHECK(block != NULL);
        free(block);
    }
}

int main(void)
{
    unsigned reused = 0;
    unsigned grown = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char *volatile larger = memset(malloc(FREED), 1, FREED);
        char *old = larger;
        use_up_the_account();
        free(larger);
        char *block = malloc(TAKEN);
        bool is_reused = block == old;
        reused += is_reused;
        CHECK_MSG(!is_reused || promise_traps(block + TAKEN), "a write behind a block of %d",
                  TAKEN);
        bool has_grown = is_reused;
        for (size_t step = 0; step < sizeof STEPS / sizeof *STEPS; step++) {
            block = realloc(block, STEPS[step]);
            CHECK(block != NULL);
            memset(block, 2, STEPS[step]);
            has_grown = has_grown && block == old;
            CHECK_MSG(promise_traps(block + STEPS[step]), "a write behind a block of %zu",
                      STEPS[step]);
        }
        grown += has_grown;
        free(block);
    }
    printf("%u of %d blocks were reused, %u grew in their place\n", reused, ROUNDS, grown);
    CHECK(reused > 0 && grown > 0);
    return 0;
}
