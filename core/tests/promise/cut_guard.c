/* SPDX-License-Identifier: MIT
 *
 * A huge block that lies where a larger one lay, of which the rest keeps its memory, ends at a page without
 * access, also after it has grown into that rest.
 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "promise.h"

enum { ROUNDS = 40, FREED = 15 * MIB, TAKEN = 9 * MIB, GROWN = 11 * MIB };

/* Whether a child that writes there is ended. */
static bool traps(volatile char *at)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        *at = 1;
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
}

int main(void)
{
    unsigned reused = 0;
    unsigned grown = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char *volatile larger = memset(malloc(FREED), 1, FREED);
        char *old = larger;
        free(larger);
        char *block = malloc(TAKEN);
        bool is_reused = block == old;
        reused += is_reused;
        CHECK_MSG(!is_reused || traps(block + TAKEN), "a write behind a block of %d", TAKEN);
        char *longer = realloc(block, GROWN);
        CHECK(longer != NULL);
        memset(longer, 2, GROWN);
        grown += is_reused && longer == old;
        CHECK_MSG(traps(longer + GROWN), "a write behind a block of %d", GROWN);
        free(longer);
    }
    printf("%u of %d blocks were reused, %u grew in their place\n", reused, ROUNDS, grown);
    CHECK(reused > 0 && grown > 0);
    return 0;
}
