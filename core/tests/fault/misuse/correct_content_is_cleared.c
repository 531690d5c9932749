// expect: secure=ok fast=any debug=any
/* SPDX-License-Identifier: MIT
 * From level 3 on a block's content is gone when the memory is another block's, also where the kernel can neither
 * make guards (before Linux 6.13) nor take the memory back, as it is locked; and where guards are made in name only,
 * as by qemu-user. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 20, SIZE = 40000, CLEARED_FROM = 64, GUARD_INSTALL = 102 };

/* And what was added to madvise after them. */
static void answer_guards(unsigned error)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, GUARD_INSTALL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof lines / sizeof *lines, lines};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* Exit code 0 if nothing is left. */
static int look(void)
{
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        memset(blocks[i], 'S', SIZE);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        char *volatile block = malloc(SIZE);
        if (memchr(block + CLEARED_FROM, 'S', SIZE - CLEARED_FROM) != NULL) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (getenv("MALLOW_CONF") == NULL) {
        setenv("MALLOW_CONF", "security:3", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        answer_guards(0);
        _exit(look());
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) {
        return 2;
    }
    answer_guards(22 /* EINVAL */);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    return look();
}
