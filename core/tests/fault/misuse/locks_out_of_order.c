// expect: debug=abort "by a thread that holds arena" secure=any fast=any
/* The allocator is called from a signal handler that interrupts it while it holds a lock: a filter
 * makes the first munmap a signal, and the allocator unmaps a region under the lock of its arena. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void call_again(int signal)
{
    mallopt(M_ARENA_MAX, 4);
    _exit(signal == SIGSYS);
}

int main(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    free(malloc(800 << 10)); /* a region of its own, with its guards; free again */
    signal(SIGSYS, call_again);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    return malloc_trim(0) > 1;
}
