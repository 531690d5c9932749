// SPDX-License-Identifier: MIT
// A C++ library that a C program opens late: the program itself knows nothing of C++.
#include "failing_new.h"

#include <cstdint>
#include <cstdio>

static void *volatile sink;

static void throw_at_once()
{
    handler_calls++;
    throw std::bad_alloc();
}

// 0: all is as the language wants it; else the line of what is not.
#define EXPECT(condition) \
    if (!(condition)) {   \
        return __LINE__;  \
    }

extern "C" int run_cxx()
{
    volatile size_t huge = SIZE_MAX / 4;
    const auto page = static_cast<std::align_val_t>(4096);
    EXPECT(throws_bad_alloc([&] { sink = ::operator new(huge); }));
    EXPECT(throws_bad_alloc([&] { sink = ::operator new[](huge, page); }));
    EXPECT(throws_bad_alloc([&] { sink = new char[huge]; }));
    EXPECT(::operator new(huge, std::nothrow) == nullptr);

    std::set_new_handler(give_up_at_third_call);
    EXPECT(throws_bad_alloc([&] { sink = ::operator new(huge); }));
    EXPECT(handler_calls == 3);

    std::set_new_handler(throw_at_once);
    EXPECT(::operator new(huge, std::nothrow) == nullptr);
    EXPECT(::operator new[](huge, std::nothrow) == nullptr);
    EXPECT(::operator new(huge, page, std::nothrow) == nullptr);
    EXPECT(handler_calls == 6);
    EXPECT(throws_bad_alloc([&] { sink = ::operator new(huge); }));
    std::set_new_handler(nullptr);

    int *numbers = new int[1000];
    numbers[999] = 7;
    sink = numbers;
    delete[] numbers;
    return 0;
}

#ifdef WITH_MAIN
int main()
{
    std::printf("%d\n", run_cxx());
}
#endif
