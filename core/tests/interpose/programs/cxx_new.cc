// SPDX-License-Identifier: MIT
// Calls each form of operator new and delete by name, checks alignment and contents, lets new fail,
// and works with containers in threads. Prints what it found.
#include "failing_new.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

static int failures = 0;

static void expect(bool holds, const char *what)
{
    if (!holds) {
        std::printf("FAILED: %s\n", what);
        failures++;
    }
}

static void *filled(void *block, size_t size, size_t alignment, const char *what)
{
    expect(block != nullptr, what);
    expect(reinterpret_cast<std::uintptr_t>(block) % alignment == 0, what);
    std::memset(block, 0x5a, size);
    return block;
}

static void use_plain_forms(size_t size)
{
    const size_t usual = size <= 8 ? 8 : 16;
    ::operator delete(filled(::operator new(size), size, usual, "new"));
    ::operator delete[](filled(::operator new[](size), size, usual, "new[]"));
    ::operator delete(filled(::operator new(size), size, usual, "new, sized"), size);
    ::operator delete[](filled(::operator new[](size), size, usual, "new[], sized"), size);
    ::operator delete(filled(::operator new(size, std::nothrow), size, usual, "nothrow"),
                      std::nothrow);
    ::operator delete[](filled(::operator new[](size, std::nothrow), size, usual, "[] nothrow"),
                        std::nothrow);
}

static void use_aligned_forms(size_t size, size_t alignment)
{
    const auto to = static_cast<std::align_val_t>(alignment);
    const auto &quiet = std::nothrow;
    ::operator delete(filled(::operator new(size, to), size, alignment, "aligned"), to);
    ::operator delete[](filled(::operator new[](size, to), size, alignment, "aligned []"), to);
    ::operator delete(filled(::operator new(size, to), size, alignment, "aligned, sized"), size,
                      to);
    ::operator delete[](filled(::operator new[](size, to), size, alignment, "aligned [], sized"),
                        size, to);
    ::operator delete(filled(::operator new(size, to, quiet), size, alignment, "aligned nothrow"),
                      to, quiet);
    ::operator delete[](
        filled(::operator new[](size, to, quiet), size, alignment, "aligned [] nothrow"), to,
        quiet);
}

// Keeps the compiler from leaving out an allocation whose block nobody uses.
static void *volatile sink;

static void let_new_fail()
{
    // Volatile, so that the compiler cannot see that no such block exists.
    volatile size_t huge = SIZE_MAX / 4;
    const auto page = static_cast<std::align_val_t>(4096);
    expect(throws_bad_alloc([&] { sink = ::operator new(huge); }), "new throws");
    expect(throws_bad_alloc([&] { sink = ::operator new[](huge); }), "new[] throws");
    expect(throws_bad_alloc([&] { sink = ::operator new(huge, page); }), "aligned new throws");
    expect(throws_bad_alloc([&] { sink = ::operator new[](huge, page); }), "aligned new[] throws");
    expect(::operator new(huge, std::nothrow) == nullptr, "nothrow gives null");
    expect(::operator new[](huge, std::nothrow) == nullptr, "[] nothrow gives null");
    expect(::operator new(huge, page, std::nothrow) == nullptr, "aligned nothrow gives null");
    std::set_new_handler(give_up_at_third_call);
    expect(throws_bad_alloc([&] { sink = ::operator new(huge); }), "new throws after its handler");
    expect(handler_calls == 3, "the handler is called until it gives up");
}

// What no language rule allows gets no memory, rather than too little.
static void use_alignments_that_are_none()
{
    for (volatile size_t alignment : {0, 3, 24, 4097}) {
        const auto to = static_cast<std::align_val_t>(alignment);
        for (volatile size_t size : {100, 1000, 32767}) {
            expect(throws_bad_alloc([&] { sink = ::operator new(size, to); }), "bad alignment");
            expect(::operator new(size, to, std::nothrow) == nullptr, "bad alignment, nothrow");
        }
    }
}

static size_t fill_containers(int seed)
{
    std::map<int, std::string> table;
    for (int i = 0; i < 20000; i++) {
        table[(i * 7919 + seed) % 5003] += std::to_string(i);
    }
    return std::accumulate(table.begin(), table.end(), size_t{0},
                           [](size_t sum, const auto &entry) { return sum + entry.second.size(); });
}

int main()
{
    for (size_t size : {0, 1, 8, 24, 100, 1000, 5000, 70000, 3000000}) {
        use_plain_forms(size);
        for (size_t alignment : {16, 32, 64, 256, 4096, 65536}) {
            use_aligned_forms(size, alignment);
        }
    }
    let_new_fail();
    use_alignments_that_are_none();

    std::vector<size_t> sums(6);
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; i++) {
        threads.emplace_back([&sums, i] { sums[i] = fill_containers(i); });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    for (size_t sum : sums) {
        std::printf("%zu\n", sum);
    }
    std::printf("%d failures\n", failures);
    return failures != 0;
}
