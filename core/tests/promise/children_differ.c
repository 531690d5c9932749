/* SPDX-License-Identifier: MIT
 *
 * The children of one server do not allocate at the same addresses: what one of them gives away says nothing of
 * the others.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "promise.h"

enum { CHILDREN = 8, BLOCKS = 64 };

static uint64_t addresses_of_child(size_t size)
{
    int ends[2];
    uint64_t sum = 0;
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            sum = sum * 31 + (uintptr_t)malloc(size);
        }
        _exit(write(ends[1], &sum, sizeof sum) != sizeof sum);
    }
    CHECK_EQ(waitpid(child, NULL, 0), child);
    CHECK_EQ(read(ends[0], &sum, sizeof sum), sizeof sum);
    close(ends[0]);
    close(ends[1]);
    return sum;
}

int main(void)
{
    static const size_t sizes[] = {48, 4000, 300000};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t first = addresses_of_child(sizes[i]);
        unsigned others = 0;
        for (unsigned n = 1; n < CHILDREN; n++) {
            others += addresses_of_child(sizes[i]) != first;
        }
        CHECK_MSG(others > 0, "%d children have the same blocks of %zu bytes", CHILDREN, sizes[i]);
    }
    return 0;
}
