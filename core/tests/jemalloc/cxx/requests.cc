// SPDX-License-Identifier: MIT
// A server in small: each request has an arena of its own, with hooks that count what they map, and
// containers that allocate from it and are never destroyed: the arena is. Threads serve in parallel.
#include <jemalloc/jemalloc.h>

#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

static void expect(bool holds, const char *what)
{
    if (!holds) {
        std::fprintf(stderr, "FAILED: %s\n", what);
        std::_Exit(1);
    }
}

static std::atomic<size_t> mapped;
static std::atomic<unsigned> maps;

static void *alloc(extent_hooks_t *, void *wanted, size_t size, size_t alignment, bool *zero,
                   bool *commit, unsigned)
{
    std::string note(size % 977, 'x'); // hooks may allocate
    if (wanted != nullptr || alignment > 4096) {
        return nullptr;
    }
    void *start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *zero = *commit = true;
    mapped += size;
    maps++;
    return start != MAP_FAILED ? start : nullptr;
}

static bool dalloc(extent_hooks_t *, void *start, size_t size, bool, unsigned)
{
    mapped -= size;
    return munmap(start, size) != 0;
}

static bool split(extent_hooks_t *, void *, size_t, size_t, size_t, bool, unsigned)
{
    return false;
}

static bool merge(extent_hooks_t *, void *, size_t, void *, size_t, bool, unsigned)
{
    return false;
}

static extent_hooks_t hooks = {alloc,   dalloc,  nullptr, nullptr, nullptr,
                               nullptr, nullptr, split,   merge};

template <class T> struct of_arena {
    using value_type = T;
    unsigned arena;
    explicit of_arena(unsigned number) : arena(number)
    {
    }
    template <class U> of_arena(const of_arena<U> &other) : arena(other.arena)
    {
    }
    T *allocate(size_t count)
    {
        void *block = mallocx(count * sizeof(T), MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        return static_cast<T *>(block);
    }
    void deallocate(T *block, size_t count)
    {
        sdallocx(block, count * sizeof(T), MALLOCX_TCACHE_NONE);
    }
    template <class U> bool operator==(const of_arena<U> &other) const
    {
        return arena == other.arena;
    }
    template <class U> bool operator!=(const of_arena<U> &other) const
    {
        return arena != other.arena;
    }
};

using text = std::basic_string<char, std::char_traits<char>, of_arena<char>>;

static void serve(unsigned request)
{
    unsigned arena;
    size_t size = sizeof arena;
    extent_hooks_t *with = &hooks;
    expect(mallctl("arenas.create", &arena, &size, &with, sizeof with) == 0, "arenas.create");
    using pairs =
        std::map<unsigned, text, std::less<unsigned>, of_arena<std::pair<const unsigned, text>>>;
    auto *index = new (mallocx(sizeof(pairs), MALLOCX_ARENA(arena)))
        pairs(std::less<unsigned>(), of_arena<std::pair<const unsigned, text>>(arena));
    for (unsigned i = 0; i < 300; i++) {
        index->emplace(i, text((i * request) % 5000 + 20, 'a', of_arena<char>(arena)));
    }
    std::vector<unsigned, of_arena<unsigned>> grows{of_arena<unsigned>(arena)};
    for (unsigned i = 0; i < 200000; i++) {
        grows.push_back(i);
    }
    expect(index->at(7).size() == (7 * request) % 5000 + 20 && grows[12345] == 12345, "contents");
    grows = std::vector<unsigned, of_arena<unsigned>>{of_arena<unsigned>(arena)};
    char name[64];
    std::snprintf(name, sizeof name, "arena.%u.destroy", arena);
    expect(mallctl(name, nullptr, nullptr, nullptr, 0) == 0, "destroy");
}

int main()
{
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; t++) {
        threads.emplace_back([t] {
            for (unsigned request = 1; request <= 50; request++) {
                serve(50 * t + request);
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    unsigned count;
    size_t size = sizeof count;
    expect(mallctl("arenas.narenas", &count, &size, nullptr, 0) == 0, "narenas");
    expect(maps >= 200 && mapped == 0, "every mapping was given back");
    expect(count <= 64 + 4, "numbers are used again");
    std::puts("ok");
    return 0;
}
