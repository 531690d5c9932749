/* SPDX-License-Identifier: MIT
 *
 * Who handled SIGSEGV before the allocator looks at it goes on: his mask and his flags hold, and he gets
 * the signals that are none of ours.
 */
#include "unit.h"

static int traps_seen, signals_passed_on;

static void look(const struct trap *trap)
{
    (void)trap;
    traps_seen++;
}

static void handle(int number)
{
    CHECK_EQ(number, SIGSEGV);
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
    signals_passed_on++;
}

TEST(a_handler_from_before_is_kept)
{
    struct sigaction before = {.sa_handler = handle, .sa_flags = SA_RESTART}, now;
    sigemptyset(&before.sa_mask);
    sigaddset(&before.sa_mask, SIGUSR1);
    CHECK_EQ(sigaction(SIGSEGV, &before, NULL), 0);
    trap_watch(look);
    CHECK_EQ(trap_previous[TRAP_FIRST].mask, (uint64_t)1 << (SIGUSR1 - 1));
    CHECK_EQ(sigaction(SIGSEGV, NULL, &now), 0);
    CHECK(now.sa_handler != handle && sigismember(&now.sa_mask, SIGUSR1));
    CHECK(!sigismember(&now.sa_mask, SIGUSR2) && (now.sa_flags & SA_RESTART) != 0);
    CHECK_EQ(now.sa_flags & SA_ONSTACK, 0);
    raise(SIGSEGV);
    CHECK_EQ(signals_passed_on, 1);
    CHECK_EQ(traps_seen, 0); /* nothing trapped: it was sent */
    signal(SIGSEGV, SIG_DFL);
}

static volatile int others_seen;
static struct sigaction others_previous;

/* As Java's machine does: what it does not know goes on to who was there before. */
static void handle_and_hand_on(int number, siginfo_t *info, void *context)
{
    others_seen++;
    others_previous.sa_sigaction(number, info, context);
}

static void leave(int number)
{
    (void)number;
    _exit(traps_seen == 2 && others_seen == 1 ? 42 : 1);
}

/* Looked at by both of ours, and no third time. */
static void trap_between_handlers(void)
{
    struct sigaction first = {.sa_handler = leave};
    struct sigaction other = {.sa_sigaction = handle_and_hand_on, .sa_flags = SA_SIGINFO};
    traps_seen = 0;
    sigaction(SIGSEGV, &first, NULL);
    trap_watch(look);
    trap_keep(); /* nobody replaced it */
    sigaction(SIGSEGV, &other, &others_previous);
    trap_keep();
    trap_keep();
    *(volatile int *)16 = 1;
}

static int ending_of(void (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(who_replaces_the_handler_comes_after_it_where_a_report_is_asked_for)
{
    fault_path[0] = 'r';
    CHECK_EQ(ending_of(trap_between_handlers), 42);
    fault_path[0] = 0;
    CHECK_EQ(ending_of(trap_between_handlers), 1); /* it is left alone: seen by the first only */
}
