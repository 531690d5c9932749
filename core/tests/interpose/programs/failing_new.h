// SPDX-License-Identifier: MIT
// What operator new does when there is no memory: it calls a handler, or throws.
#ifndef FAILING_NEW_H
#define FAILING_NEW_H

#include <new>

static int handler_calls = 0;

static void give_up_at_third_call()
{
    if (++handler_calls == 3) {
        std::set_new_handler(nullptr);
    }
}

template <typename Action> static bool throws_bad_alloc(Action action)
{
    try {
        action();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

#endif
