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
    CHECK_EQ(trap_previous.mask, (uint64_t)1 << (SIGUSR1 - 1));
    CHECK_EQ(sigaction(SIGSEGV, NULL, &now), 0);
    CHECK(now.sa_handler != handle && sigismember(&now.sa_mask, SIGUSR1));
    CHECK(!sigismember(&now.sa_mask, SIGUSR2) && (now.sa_flags & SA_RESTART) != 0);
    raise(SIGSEGV);
    CHECK_EQ(signals_passed_on, 1);
    CHECK_EQ(traps_seen, 0); /* nothing trapped: it was sent */
    signal(SIGSEGV, SIG_DFL);
}
