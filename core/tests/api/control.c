/* SPDX-License-Identifier: MIT
 *
 * glibc's control functions: they answer about this allocator, not about an empty glibc heap.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "../allocator.h"
#include "../test.h"
#include "blocks.h"

TEST(mallinfo2_follows_use)
{
    enum { BLOCKS = 1000, SIZE = 5000 };
    static void *blocks[BLOCKS];
    struct mw_mallinfo2 before = t_mallinfo2();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = t_malloc(SIZE);
        memset(blocks[i], 1, SIZE);
    }
    struct mw_mallinfo2 full = t_mallinfo2();
    CHECK_GE(full.uordblks, before.uordblks + BLOCKS * SIZE);
    CHECK_LE(full.uordblks, before.uordblks + BLOCKS * SIZE * 2);
    CHECK_GE(full.arena, full.uordblks);
    for (int i = 0; i < BLOCKS; i++) {
        t_free(blocks[i]);
    }
    struct mw_mallinfo2 after = t_mallinfo2();
    CHECK_LE(after.uordblks, before.uordblks + BLOCKS * SIZE / 10);
    CHECK_LE(after.uordblks + after.fordblks, after.arena);
}

TEST(mallinfo2_counts_very_large_blocks)
{
    struct mw_mallinfo2 before = t_mallinfo2();
    void *block = t_malloc(200u << 20);
    CHECK(block != NULL);
    struct mw_mallinfo2 during = t_mallinfo2();
    CHECK_GE(during.hblkhd + during.uordblks, before.hblkhd + before.uordblks + (200u << 20));
    t_free(block);
    struct mw_mallinfo2 after = t_mallinfo2();
    CHECK_LT(after.hblkhd + after.uordblks, 100u << 20);
}

TEST(mallinfo_is_mallinfo2_in_int)
{
    void *block = t_malloc(100000);
    struct mw_mallinfo2 wide = t_mallinfo2();
    struct mw_mallinfo narrow = t_mallinfo();
    CHECK_EQ(narrow.arena, wide.arena);
    CHECK_EQ(narrow.uordblks, wide.uordblks);
    CHECK_EQ(narrow.fordblks, wide.fordblks);
    CHECK_EQ(narrow.hblkhd, wide.hblkhd);
    t_free(block);
}

TEST(trim_gives_memory_back)
{
    make_and_free(4000, 10000);
    CHECK_EQ(t_malloc_trim(0), 1);
    CHECK_LT(t_mallinfo2().keepcost, 4u << 20);
    CHECK(t_malloc(100) != NULL);
}

TEST(mallopt_answers)
{
    enum {
        M_MXFAST = 1,
        M_TRIM_THRESHOLD = -1,
        M_TOP_PAD = -2,
        M_MMAP_THRESHOLD = -3,
        M_MMAP_MAX = -4,
        M_CHECK_ACTION = -5,
        M_ARENA_TEST = -7,
        M_ARENA_MAX = -8
    };
    CHECK_EQ(t_mallopt(M_ARENA_MAX, 2), 1);
    CHECK_EQ(t_mallopt(M_ARENA_TEST, 1), 1);
    CHECK_EQ(t_mallopt(M_MMAP_THRESHOLD, 128 * 1024), 1);
    CHECK_EQ(t_mallopt(M_TRIM_THRESHOLD, 256 * 1024), 1);
    CHECK_EQ(t_mallopt(M_TOP_PAD, 64 * 1024), 1);
    CHECK_EQ(t_mallopt(M_MMAP_MAX, 100), 1);
    CHECK_EQ(t_mallopt(M_MXFAST, 64), 1);
    CHECK_EQ(t_mallopt(M_CHECK_ACTION, 3), 1);
    CHECK(t_malloc(100) != NULL);
}

TEST(mallopt_perturb_fills)
{
    enum { M_PERTURB = -6, SIZE = 100 };
    CHECK_EQ(t_mallopt(M_PERTURB, 0x5a), 1);
    unsigned char *block = t_malloc(SIZE);
    for (int i = 0; i < SIZE; i++) {
        CHECK_EQ(block[i], 0xa5); /* glibc fills with the complement */
    }
    t_free(block);
    unsigned char *zeros = t_calloc(1, SIZE);
    for (int i = 0; i < SIZE; i++) {
        CHECK_EQ(zeros[i], 0);
    }
    t_free(zeros);
    CHECK_EQ(t_mallopt(M_PERTURB, 0), 1);
}

/* Runs `print` with standard error redirected to a file and returns what it wrote. */
static const char *captured(void (*print)(void))
{
    static char text[65536];
    char name[] = "/tmp/mallow-test-XXXXXX";
    int file = mkstemp(name), saved = dup(2);
    CHECK(file >= 0);
    unlink(name);
    dup2(file, 2);
    print();
    dup2(saved, 2);
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    CHECK(length >= 0);
    text[length] = 0;
    close(file);
    return text;
}

static void print_info(void)
{
    FILE *stream = fdopen(dup(2), "w");
    CHECK_EQ(t_malloc_info(0, stream), 0);
    fclose(stream);
}

TEST(malloc_info_writes_xml)
{
    void *block = t_malloc(1000);
    const char *text = captured(print_info);
    CHECK_MSG(strncmp(text, "<malloc version=", 16) == 0, "%s", text);
    CHECK_MSG(strstr(text, "</malloc>") != NULL, "%s", text);
    CHECK_MSG(strstr(text, "<system type=\"current\" size=") != NULL, "%s", text);
    CHECK_MSG(t_has_red_zones() || strstr(text, "<size from=\"1024\" to=\"1024\" total=\"") != NULL,
              "%s", text);
    CHECK_MSG(strstr(text, "<figure name=\"allocated\" unit=\"bytes\"") != NULL, "%s", text);
    size_t opened = 0, closed = 0;
    for (const char *at = text; *at; at++) {
        opened += at[0] == '<' && at[1] != '/';
        closed += (at[0] == '<' && at[1] == '/') || (at[0] == '/' && at[1] == '>');
    }
    CHECK_EQ(opened, closed);
    t_free(block);
}

/* The number that an element, the first of its kind from here on, has under that name. */
static uint64_t xml_number(const char *text, const char *element, const char *name)
{
    char words[32];
    snprintf(words, sizeof words, " %s=\"", name);
    const char *at = strstr(text, element);
    at = at != NULL ? strstr(at, words) : NULL;
    CHECK_MSG(at != NULL, "%s of %s", name, element);
    return strtoull(at + strlen(words), NULL, 10);
}

static uint64_t xml_figure(const char *text, const char *name)
{
    char element[64];
    snprintf(element, sizeof element, "<figure name=\"%s\"", name);
    return xml_number(text, element, "value");
}

static void *use_an_arena(void *unused)
{
    (void)unused;
    return t_malloc(300000);
}

/* Totals are those of the heaps, which are Mallow's arenas, added up, and those of the table of figures. */
TEST(malloc_info_adds_up)
{
    static const char *const totals[] = {"<total type=\"fast\"",      "<total type=\"rest\"",
                                         "<total type=\"mmap\"",      "<aspace type=\"total\"",
                                         "<aspace type=\"mprotect\"", "<system type=\"current\""};
    void *huge = t_malloc(20u << 20), *freed = t_malloc(30u << 20), *of_threads[4];
    make_and_free(4000, 10000);
    t_free(freed);
    for (int i = 0; i < 4; i++) { /* there are as many arenas as CPUs */
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, use_an_arena, NULL), 0);
        CHECK_EQ(pthread_join(thread, &of_threads[i]), 0);
    }
    void *held[16]; /* each has brought others of its size into a list */
    for (size_t i = 0; i < 16; i++) {
        held[i] = t_malloc(40 + 200 * i);
    }
    const char *text = captured(print_info), *all = text;
    uint64_t sums[6] = {0};
    for (const char *heap = strstr(text, "<heap "); heap; heap = strstr(heap + 1, "<heap ")) {
        for (size_t i = 0; i < 6; i++) {
            sums[i] += xml_number(heap, totals[i], "size");
        }
        all = strstr(heap, "</heap>");
    }
    for (size_t i = 0; i < 6; i++) {
        CHECK_MSG(xml_number(all, totals[i], "size") == sums[i], "%s", totals[i]);
    }
    uint64_t space = xml_number(all, "<aspace type=\"total\"", "size");
    uint64_t apart = xml_number(all, "<total type=\"mmap\"", "size");
    CHECK_GE(apart, 20u << 20);
    CHECK_EQ(space + apart + xml_figure(all, "metadata"), xml_figure(all, "mapped"));
    CHECK_EQ(xml_number(all, "<total type=\"rest\"", "size"),
             xml_figure(all, "dirty") + xml_figure(all, "muzzy") + xml_figure(all, "retained"));
    CHECK_EQ(xml_number(all, "<aspace type=\"mprotect\"", "size"),
             space - xml_figure(all, "retained"));
    CHECK_LE(xml_number(all, "<total type=\"fast\"", "size"),
             xml_figure(all, "active") - xml_figure(all, "allocated"));
    CHECK(xml_number(all, "<total type=\"fast\"", "size") > 0);
    CHECK(xml_figure(all, "mappings") > 0); /* asked of the kernel */
    for (size_t i = 0; i < 16; i++) {
        t_free(held[i]);
    }
    for (int i = 0; i < 4; i++) {
        t_free(of_threads[i]);
    }
    t_free(huge);
}

TEST(malloc_info_rejects_options)
{
    CHECK_EQ(t_malloc_info(1, stderr), EINVAL);
    CHECK_EQ(t_malloc_info(-1, stderr), EINVAL);
}

TEST(malloc_stats_prints)
{
    void *block = t_malloc(1000);
    const char *text = captured(t_malloc_stats);
    CHECK_MSG(strlen(text) > 40, "%s", text);
    CHECK_EQ(text[strlen(text) - 1], '\n');
    CHECK_MSG(strstr(text, " given out ") != NULL, "%s", text);
    t_free(block);
}
