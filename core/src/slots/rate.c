/* SPDX-License-Identifier: MIT */
#include "rate.h"

#include "../base/atomic.h"
#include "../memory/decay.h"

/* One word each, so that no lock is needed: 63 .. 32 when time was added last, in ms; 31 .. 0 what was spent,
 * in KiB. */
static struct {
    _Atomic uint64_t accounts[RATE_ACCOUNTS];
} __attribute__((aligned(CACHE_LINE))) rate_spent;

static uint64_t spent_by(uint64_t account, uint32_t now_ms)
{
    uint64_t spent = (uint32_t)account;
    uint64_t passed_ms = now_ms - (uint32_t)(account >> 32);
    uint64_t gained = passed_ms * (strength.rate_per_ms / KiB);
    return spent > gained ? spent - gained : 0;
}

static bool can_spend(uint64_t spent, uint64_t price)
{
    uint64_t most = strength.rate_account / KiB;
    return most != 0 && (spent == 0 || spent + price <= most);
}

static bool rate_allows(enum rate_account account, size_t price)
{
    return strength.rate_account == NO_LIMIT ||
           can_spend(spent_by(atomic_get(&rate_spent.accounts[account]), (uint32_t)clock_ms()),
                     price / KiB);
}

static bool rate_pay(enum rate_account account, size_t price)
{
    if (strength.rate_account == NO_LIMIT) {
        return true;
    }
    uint32_t now_ms = (uint32_t)clock_ms();
    uint64_t old = atomic_get(&rate_spent.accounts[account]);
    uint64_t new;
    do {
        uint64_t spent = spent_by(old, now_ms);
        if (!can_spend(spent, price / KiB)) {
            return false;
        }
        spent = size_min(spent + price / KiB, strength.rate_account / KiB);
        new = (uint64_t)now_ms << 32 | spent;
    } while (!atomic_replace(&rate_spent.accounts[account], &old, new));
    return true;
}
