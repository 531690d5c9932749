/* SPDX-License-Identifier: MIT
 *
 * A program behind a seccomp filter that refuses mprotect, as memory-hardened services have it, gets its memory all the
 * same: without a guard where the kernel has no other way to make one.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "promise.h"

static void refuse_protection(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        printf("skipped: no seccomp filters here (%s)\n", strerror(errno));
        _exit(0);
    }
}

int main(void)
{
    static const size_t sizes[] = {0, 16, 1000, 30000, 40000, 300000, 9000000};
    static char *blocks[400];
    refuse_protection();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t count = sizes[i] > 100000 ? 8 : sizeof blocks / sizeof blocks[0];
        for (size_t at = 0; at < count; at++) {
            blocks[at] = malloc(sizes[i]);
            CHECK_MSG(blocks[at] != NULL, "%zu blocks of %zu bytes", at, sizes[i]);
            memset(blocks[at], 1, sizes[i]);
        }
        for (size_t at = 0; at < count; at++) {
            free(blocks[at]);
        }
    }
    return 0;
}
