/* SPDX-License-Identifier: MIT
 *
 * The statistics page: another process learns from it alone, through /proc/PID/mem, what this one's
 * heap holds, while this one rests, is stopped, works, or has just been forked. The figures agree
 * with the program's own count: a block counts with all that it takes, in the fast build what
 * malloc_usable_size says, in the others canaries, red zones and what is left of its slot as well.
 */
#include "promise.h"

#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>

/* So much that what the working threads have at a time is under the 3 %. */
enum { SLOTS = 20000, LARGE = 200, HUGE = 3 };

struct figures {
    uint64_t slots, large, huge, cached; /* bytes with the program, or kept by heaps */
    uint64_t active, dirty, muzzy, retained, mapped, metadata;
};

static int memory;
static struct stats_page page;
static struct stats_root roots[64];
static struct stats_number numbers[64];
static struct stats_field fields[128];
static struct stats_line lines[256];

static bool read_at(uint64_t address, void *to, size_t size)
{
    return pread(memory, to, size, (off_t)address) == (ssize_t)size;
}

static uint64_t word_at(uint64_t address, size_t size)
{
    uint64_t value = 0;
    CHECK_MSG(size <= sizeof value && read_at(address, &value, size), "%#lx",
              (unsigned long)address);
    return value;
}

static uint64_t root(const char *name)
{
    for (uint32_t i = 0; i < page.root_count; i++) {
        if (strcmp(roots[i].name, name) == 0) {
            return (uintptr_t)roots[i].address;
        }
    }
    CHECK_MSG(false, "no root %s", name);
    return 0;
}

static uint64_t number(const char *name)
{
    for (uint32_t i = 0; i < page.number_count; i++) {
        if (strcmp(numbers[i].name, name) == 0) {
            return numbers[i].value;
        }
    }
    CHECK_MSG(false, "no number %s", name);
    return 0;
}

static const struct stats_field *field(const char *name)
{
    for (uint32_t i = 0; i < page.field_count; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    CHECK_MSG(false, "no field %s", name);
    return NULL;
}

static uint64_t get(uint64_t structure, const char *name)
{
    return word_at(structure + field(name)->offset, field(name)->size);
}

static void open_page(pid_t pid, uint64_t address)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    memory = open(path, O_RDONLY);
    CHECK_MSG(memory >= 0, "%s", path);
    CHECK(read_at(address, &page, sizeof page));
    CHECK_EQ(strcmp(page.magic, STATS_PAGE_MAGIC), 0);
    CHECK_EQ(page.version, STATS_PAGE_VERSION);
    CHECK_EQ((uintptr_t)page.self, address);
    CHECK(page.root_count <= 64 && page.number_count <= 64 && page.field_count <= 128);
    CHECK(page.line_count > 50 && page.line_count <= 256);
    CHECK(read_at((uintptr_t)page.roots, roots, page.root_count * sizeof roots[0]));
    CHECK(read_at((uintptr_t)page.numbers, numbers, page.number_count * sizeof numbers[0]));
    CHECK(read_at((uintptr_t)page.fields, fields, page.field_count * sizeof fields[0]));
    CHECK(read_at((uintptr_t)page.lines, lines, page.line_count * sizeof lines[0]));
}

static uint64_t descriptor_of(uint64_t address)
{
    uint64_t map = root("pagemap");
    uint64_t root_index = address >> number("root_shift");
    uint64_t leaf_index = address >> number("granule_shift") & number("leaf_mask");
    uint64_t leaf = word_at(map + number("pagemap_root_at") + 8 * root_index, 8);
    uint64_t word = leaf != 0 ? word_at(map + leaf + 8 * leaf_index, 8) : 0;
    /* A distance of either sign; above 48 bits stands what free needs to know. */
    return word != 0 ? (map + word) & (((uint64_t)1 << 48) - 1) : 0;
}

static void add_extent(struct figures *figures, uint64_t extent, uint64_t bytes)
{
    uint64_t state = get(extent, "extent.state");
    uint64_t slot_size = get(extent, "extent.slot_size");
    if (state == number("state_cached")) {
        figures->cached += bytes;
    } else if (state == number("state_active") && slot_size != 0) {
        uint64_t used = get(extent, "extent.left") + get(extent, "extent.bias");
        uint64_t remote = get(extent, "extent.remote") >> number("remote_count_shift");
        figures->slots += (used > remote ? used - remote : 0) * slot_size;
    } else if (state == number("state_active")) {
        figures->large += bytes;
    }
}

/* False if the walk met something that was just changing. */
static bool add_regions(struct figures *figures, uint64_t arena, unsigned shift)
{
    for (uint64_t region = get(arena, "arena.regions"); region != 0;
         region = get(region, "region.next")) {
        uint64_t at = get(region, "region.start");
        uint64_t end = at + get(region, "region.size");
        while (at < end) {
            uint64_t extent = descriptor_of(at);
            uint64_t bytes = extent != 0 ? get(extent, "extent.pages") << shift : 0;
            if (bytes == 0 || get(extent, "extent.start") != at) {
                return false;
            }
            add_extent(figures, extent, bytes);
            at += bytes;
        }
    }
    return true;
}

static bool add_arena(struct figures *figures, uint64_t arena)
{
    unsigned shift = (unsigned)word_at(root("page_shift"), 4);
    uint64_t turns = get(arena, "arena.lock_turns");
    if (get(arena, "arena.lock_state") != 0 || !add_regions(figures, arena, shift)) {
        return false;
    }
    figures->huge += get(arena, "arena.huge_active_pages") << shift;
    figures->active += get(arena, "arena.active_pages") << shift;
    figures->dirty += (get(arena, "arena.dirty_pages") + get(arena, "arena.huge_pages")) << shift;
    figures->muzzy += get(arena, "arena.muzzy_pages") << shift;
    figures->retained += get(arena, "arena.retained_pages") << shift;
    figures->mapped += get(arena, "arena.region_bytes");
    return get(arena, "arena.lock_state") == 0 && get(arena, "arena.lock_turns") == turns;
}

/* What stands behind a slot in its list. False if the slot cannot be read. */
static bool read_next(uint64_t *slot)
{
    uint64_t link;
    if (!read_at(*slot, &link, sizeof link)) {
        return false;
    }
    if (!promise_is_mode("fast")) {
        uint64_t keys = root("link_keys");
        link ^= (*slot ^ word_at(keys, 8)) * word_at(keys + 8, 8);
    }
    *slot = link;
    return true;
}

/* Slots in the lists of heaps are out of their slabs, but not with the program. */
static void subtract_lists(struct figures *figures, uint64_t heap)
{
    const struct stats_field *lists = field("heap.free");
    for (uint64_t class = 0; class < number("classes"); class ++) {
        uint64_t slot = word_at(heap + lists->offset + class * lists->size, 8);
        uint64_t slab = slot != 0 ? descriptor_of(slot) : 0;
        uint64_t size = slab != 0 ? get(slab, "extent.slot_size") : 0;
        for (unsigned length = 0; slot != 0 && length < 70000; length++) {
            figures->slots -= size;
            if (!read_next(&slot)) {
                break;
            }
        }
    }
    if (promise_is_mode("secure")) {
        figures->slots -= get(heap, "heap.delayed_bytes");
        figures->slots -= get(heap, "heap.delayed_larger");
    }
}

static void read_figures(struct figures *figures)
{
    uint64_t count = word_at(root("arenas_used"), 4);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t arena = root("arenas") + i * field("sizeof.arena")->size;
        struct figures sum;
        long end = promise_now_ms() + PROMISE_PATIENCE_MS;
        for (unsigned tries = 1;; tries++) {
            sum = *figures;
            if (add_arena(&sum, arena)) {
                break;
            }
            CHECK_MSG(promise_now_ms() < end, "arena %d never came to rest", (int)i);
            if (tries % 50 == 0) {
                promise_sleep_ms(1);
            }
        }
        *figures = sum;
    }
    for (uint64_t heap = word_at(root("heaps"), 8); heap != 0; heap = get(heap, "heap.next")) {
        subtract_lists(figures, heap);
    }
    figures->metadata = word_at(root("meta_bytes"), 8);
}

static uint64_t list_length(uint64_t slot)
{
    uint64_t length = 0;
    while (slot != 0 && length < 70000) {
        length++;
        CHECK(read_next(&slot));
    }
    return length;
}

/* Blocks that the program was given of a class, by what a heap counted. */
static uint64_t given_by(uint64_t heap, uint64_t class)
{
    const struct stats_field *counts = field("heap.counts"), *lists = field("heap.free");
    uint64_t of_class = heap + counts->offset + class * counts->size;
    const struct stats_field *puts = field("heap.puts");
    return get(of_class, "class_counts.handed") +
           word_at(heap + puts->offset + class * puts->size, puts->size) -
           get(of_class, "class_counts.returned") -
           list_length(word_at(heap + lists->offset + class * lists->size, 8));
}

/* The allocations of the class of a slot size, and the turns of the locks of arenas; with what the
 * program itself found of them a moment ago. */
static void check_counters(const char *when, uint64_t class, uint64_t expected, uint64_t turns)
{
    uint64_t given = given_by(root("heap_shared"), class), seen_turns = 0;
    for (uint64_t heap = word_at(root("heaps"), 8); heap != 0; heap = get(heap, "heap.next")) {
        given += given_by(heap, class);
    }
    CHECK_MSG(given == expected, "%s: %lu allocations, not %lu", when, (unsigned long)given,
              (unsigned long)expected);
    uint64_t count = word_at(root("arenas_used"), 4);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t arena = root("arenas") + i * field("sizeof.arena")->size;
        seen_turns += get(arena + field("arena.lock")->offset, "lock.turns");
    }
    CHECK_MSG(seen_turns >= turns && seen_turns <= turns + 100, "%s: %lu turns, not %lu", when,
              (unsigned long)seen_turns, (unsigned long)turns);
}

static bool has_line(const char *name, const char *level, const char *type)
{
    for (uint32_t i = 0; i < page.line_count; i++) {
        if (strcmp(lines[i].name, name) == 0 && strcmp(lines[i].level, level) == 0) {
            return strcmp(lines[i].type, type) == 0 && lines[i].unit[0] != 0;
        }
    }
    return false;
}

static bool is_near(uint64_t found, uint64_t expected)
{
    return found * 100 >= expected * 97 && found * 100 <= expected * 103;
}

static void check_near(const char *what, const char *when, uint64_t found, uint64_t expected)
{
    printf("%s, %s: %lu of %lu bytes\n", when, what, (unsigned long)found, (unsigned long)expected);
    fflush(stdout);
    CHECK_MSG(is_near(found, expected), "%s, %s", when, what);
}

static uint64_t slot_bytes, large_bytes, huge_bytes;
static uint64_t own_allocations, own_turns, class_of_counted;
static void *blocks[SLOTS + LARGE + HUGE];
static volatile bool is_working;

/* In the secure build 8 bytes stand behind a block, in the debug build 16 before and 16 behind. */
static uint64_t zones;

/* What a block takes: whole slots or pages. */
static uint64_t taken_by(void *block, uint64_t usable)
{
    uint64_t extent = descriptor_of((uintptr_t)block);
    CHECK(extent != 0 && get(extent, "extent.state") == number("state_active"));
    uint64_t slot_size = get(extent, "extent.slot_size");
    if (slot_size == 0) {
        return get(extent, "extent.pages") << word_at(root("page_shift"), 4);
    }
    return (usable + zones + slot_size - 1) / slot_size * slot_size;
}

static uint64_t usable_bytes, taken_bytes;

static void *keep(size_t size, uint64_t *sum)
{
    char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size < 4096 ? size : 4096);
    uint64_t usable = malloc_usable_size(block), taken = taken_by(block, usable);
    CHECK(size <= usable && usable <= taken);
    usable_bytes += usable;
    taken_bytes += taken;
    *sum += taken;
    return block;
}

static void *work(void *argument)
{
    void *kept[64] = {0};
    for (unsigned i = 0; is_working; i++) {
        free(kept[i % 64]);
        kept[i % 64] = malloc(i % 500 == 0 ? 100000 : 16 + i % 700);
        if (i % 2000 == 0) {
            /* The reader needs a moment in which nothing changes, however slow it is. */
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
    }
    for (unsigned i = 0; i < 64; i++) {
        free(kept[i]);
    }
    return argument;
}

/* In a child: reads `pid`, and exits with 0 if all is as it should be. */
static void observe(pid_t pid, const char *when, uint64_t address)
{
    struct figures figures = {0};
    open_page(pid, address);
    read_figures(&figures);
    /* Slots that move from slabs into lists while both are read count wrongly; the next time others
     * may. */
    for (long end = promise_now_ms() + PROMISE_PATIENCE_MS;
         is_working && !is_near(figures.slots, slot_bytes) && promise_now_ms() < end;) {
        promise_sleep_ms(10);
        figures = (struct figures){0};
        read_figures(&figures);
    }
    check_near("slots", when, figures.slots, slot_bytes);
    if (promise_is_mode("secure")) {
        /* Which large blocks get guards, and are huge then, depends on what was paid for. */
        check_near("large and huge blocks", when, figures.large + figures.huge,
                   large_bytes + huge_bytes);
    } else {
        check_near("large blocks", when, figures.large, large_bytes);
        check_near("huge blocks", when, figures.huge, huge_bytes);
    }
    CHECK_EQ(figures.active + figures.dirty + figures.muzzy + figures.retained >= figures.mapped,
             1);
    CHECK(figures.metadata > 0 && figures.mapped > 0);
    CHECK(has_line("allocations", "class", "COUNTER") && has_line("waits", "lock", "COUNTER"));
    CHECK(has_line("allocated", "process", "GAUGE") && has_line("queue_most", "lock", "PEAK"));
    if (!is_working) {
        check_counters(when, class_of_counted, own_allocations, own_turns);
    }
    close(memory);
}

static void observe_from_child(const char *when, uint64_t address, bool stop)
{
    /* The fork holds all locks in the parent too, until it is out of its handlers. */
    int returned[2];
    CHECK_EQ(pipe(returned), 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        char byte;
        CHECK_EQ(read(returned[0], &byte, 1), 1);
        if (stop) {
            kill(parent, SIGSTOP);
        }
        observe(parent, when, address);
        if (stop) {
            kill(parent, SIGCONT);
        }
        fflush(stdout);
        _exit(0);
    }
    CHECK_EQ(write(returned[1], "", 1), 1);
    close(returned[0]);
    close(returned[1]);
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %#x", when,
              (unsigned)status);
}

int main(void)
{
    uint64_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "mw_stats_page");
    CHECK(address != 0);
    setvbuf(stdout, NULL, _IONBF, 0);
    zones = promise_is_mode("debug") ? 32 : promise_is_mode("secure") ? 8 : 0;
    open_page(getpid(), address);
    /* Nothing is limited, and nothing was given back yet. */
    CHECK_EQ(word_at(root("limit.hard_pages"), 8), UINT64_MAX);
    CHECK_EQ(word_at(root("limit.soft_pages"), 8), UINT64_MAX);
    CHECK_EQ(get(root("arenas"), "arena.pages_refaulted"), 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        /* Two of three are freed again, so that slabs are partly used. */
        uint64_t ignored = 0;
        blocks[i] = keep(16 + i % 1500, i % 3 == 0 ? &slot_bytes : &ignored);
    }
    for (unsigned i = 0; i < LARGE; i++) {
        blocks[SLOTS + i] = keep(40000 + 1000 * i, &large_bytes);
    }
    for (unsigned i = 0; i < HUGE; i++) {
        blocks[SLOTS + LARGE + i] = keep(12 * MIB, &huge_bytes);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (i % 3 != 0) {
            free(blocks[i]);
        }
    }
    close(memory);
    printf("%lu bytes take %lu\n", (unsigned long)usable_bytes, (unsigned long)taken_bytes);
    CHECK(zones != 0 ? taken_bytes < usable_bytes / 4 * 5 : taken_bytes == usable_bytes);
    struct mallinfo2 own = mallinfo2();
    /* Blocks that are mappings of their own count apart. */
    check_near("mallinfo2, in use", "from inside", own.uordblks + own.hblkhd,
               slot_bytes + large_bytes + huge_bytes);

    /* A class that nobody else allocates of. */
    class_of_counted = 15; /* 448 bytes */
    bool (*read)(const char *, uint64_t *) = dlsym(RTLD_DEFAULT, "mw_stats_read");
    CHECK(read != NULL && read("all.class.448.allocations", &own_allocations));
    CHECK(read("all.lock.arena.operations", &own_turns) && own_turns > 0);
    CHECK(own_allocations > SLOTS / 100);

    observe_from_child("at rest", address, false);
    observe_from_child("stopped", address, true);
    is_working = true;
    pthread_t worker;
    CHECK_EQ(pthread_create(&worker, NULL, work, NULL), 0);
    observe_from_child("working", address, false);
    is_working = false;
    pthread_join(worker, NULL);
    CHECK(read("all.class.448.allocations", &own_allocations));
    CHECK(read("all.lock.arena.operations", &own_turns));

    pid_t child = fork();
    if (child == 0) {
        observe(getpid(), "just forked", address);
        _exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return 0;
}
