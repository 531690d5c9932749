// expect: fast=any secure=abort "double free of " debug=any
/* SPDX-License-Identifier: MIT
 * A second free of a block whose first one is under way: the thread has taken the canary and does not run, until the
 * other one waits for it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { SIZE = 20000, SLOT = 20480 };

static char *block;
static char state_file[64];
static _Atomic int may_free, frees;

static void *free_second(void *unused)
{
    snprintf(state_file, sizeof state_file, "/proc/self/task/%ld/stat", syscall(SYS_gettid));
    while (!atomic_load(&may_free)) {
        sched_yield();
    }
    atomic_store(&frees, 1);
    free(block);
    return unused;
}

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };

static uint64_t canary;

static uint64_t word_behind(void)
{
    uint64_t word;
    memcpy(&word, block + SLOT - sizeof word, sizeof word);
    return word;
}

/* Or has ended, which it should not. */
static int second_sleeps(void)
{
    char text[64] = "";
    int file = open(state_file, O_RDONLY);
    if (file < 0) {
        return 1;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    const char *name_end = length > 0 ? strrchr(text, ')') : NULL;
    return name_end != NULL && name_end[2] == 'S';
}

static void after_instruction(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    if (word_behind() == canary) {
        return;
    }
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    atomic_store(&may_free, 1);
    while (!atomic_load(&frees) || !second_sleeps()) {
        sched_yield();
    }
}

extern const char *mw_version(void) __attribute__((weak));

static void free_first(void)
{
    if (mw_version == NULL || strstr(mw_version(), "secure") == NULL) {
        free(block); /* what lies behind it is anybody's */
        atomic_store(&may_free, 1);
        return;
    }
    struct sigaction action = {.sa_sigaction = after_instruction, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    canary = word_behind();
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    free(block);
    atomic_store(&may_free, 1); /* there was no canary to take */
}
#else
static void free_first(void)
{
    free(block);
    atomic_store(&may_free, 1);
}
#endif

int main(void)
{
    pthread_t second;
    block = malloc(SIZE);
    pthread_create(&second, NULL, free_second, NULL);
    while (strlen(state_file) == 0) {
        sched_yield();
    }
    free_first();
    pthread_join(second, NULL);
    return 0;
}
