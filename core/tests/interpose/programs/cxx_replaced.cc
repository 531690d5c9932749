// SPDX-License-Identifier: MIT
// A program that replaces some forms of operator new and delete alone. The others are done by those, as the standard
// says of the defaults: every block that a form of its own made comes back to a form of its own.
// -DPLAIN, -DARRAY, -DALIGNED: which it replaces.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

// A block of its own has a head, so that who takes it for malloc's is found out.
static const size_t HEAD = 64;
static const size_t TOO_MUCH = size_t(1) << 40;
static int taken, given, wrong;

static void *take(size_t size)
{
    if (size >= TOO_MUCH) {
        throw std::bad_alloc();
    }
    char *start = static_cast<char *>(aligned_alloc(64, (size + 2 * HEAD - 1) / HEAD * HEAD));
    if (start == nullptr) {
        throw std::bad_alloc();
    }
    memcpy(start, "of mine", 8);
    taken++;
    return start + HEAD;
}

static void give(void *block)
{
    if (block == nullptr) {
        return;
    }
    char *start = static_cast<char *>(block) - HEAD;
    if (memcmp(start, "of mine", 8) != 0) {
        wrong++;
        return;
    }
    memset(start, 0, 8);
    given++;
    free(start);
}

#ifdef PLAIN
void *operator new(size_t size)
{
    return take(size);
}
void operator delete(void *block) noexcept
{
    give(block);
}
#endif
#ifdef ARRAY
void *operator new[](size_t size)
{
    return take(size);
}
void operator delete[](void *block) noexcept
{
    give(block);
}
#endif
#ifdef ALIGNED
void *operator new(size_t size, std::align_val_t)
{
    return take(size);
}
void operator delete(void *block, std::align_val_t) noexcept
{
    give(block);
}
#endif

static const std::align_val_t ALIGNMENT{64};
static const std::nothrow_t &NOTHROW = std::nothrow;

static void all_plain()
{
    ::operator delete(::operator new(40));
    ::operator delete(::operator new(40), size_t(40));
    ::operator delete(::operator new(40, NOTHROW), NOTHROW);
    ::operator delete(::operator new(4000, NOTHROW));
}

static void all_array()
{
    ::operator delete[](::operator new[](40));
    ::operator delete[](::operator new[](40), size_t(40));
    ::operator delete[](::operator new[](40, NOTHROW), NOTHROW);
    ::operator delete[](::operator new[](4000, NOTHROW));
}

static void all_aligned()
{
    ::operator delete(::operator new(40, ALIGNMENT), ALIGNMENT);
    ::operator delete(::operator new(40, ALIGNMENT), size_t(40), ALIGNMENT);
    ::operator delete(::operator new(40, ALIGNMENT, NOTHROW), ALIGNMENT, NOTHROW);
    ::operator delete[](::operator new[](40, ALIGNMENT), ALIGNMENT);
    ::operator delete[](::operator new[](40, ALIGNMENT), size_t(40), ALIGNMENT);
    ::operator delete[](::operator new[](40, ALIGNMENT, NOTHROW), ALIGNMENT, NOTHROW);
}

static void check(const char *what, void (*calls)(), int expected)
{
    int before = taken, before_given = given;
    calls();
    if (taken - before != expected || given - before_given != expected || wrong != 0) {
        printf("%s: %d taken and %d given of %d, %d of others\n", what, taken - before,
               given - before_given, expected, wrong);
        exit(1);
    }
}

// What the nothrow forms make of an exception.
static void *volatile refused;

static void refusals()
{
    refused = ::operator new(TOO_MUCH * 1024 * 1024, NOTHROW);
    bool is_null = refused == nullptr;
    refused = ::operator new[](TOO_MUCH * 1024 * 1024, NOTHROW);
    if (!is_null || refused != nullptr) {
        puts("nothrow, and not NULL");
        exit(1);
    }
}

int main()
{
#ifdef PLAIN
    bool has_plain = true, has_array = true;
#else
    bool has_plain = false, has_array = false;
#endif
#ifdef ARRAY
    has_array = true;
#endif
#ifdef ALIGNED
    bool has_aligned = true;
#else
    bool has_aligned = false;
#endif
    check("plain", all_plain, has_plain ? 4 : 0);
    check("array", all_array, has_array ? 4 : 0);
    check("aligned", all_aligned, has_aligned ? 6 : 0);
    refusals();
    // What the C++ library does by itself.
    std::vector<std::string> strings;
    for (int i = 0; i < 1000; i++) {
        strings.push_back(std::string(100, 'x'));
    }
    std::unique_ptr<int[]> numbers(new int[100]);
    strings.clear();
    strings.shrink_to_fit();
    numbers.reset();
    printf("%d of others\n", wrong);
    return wrong != 0;
}
