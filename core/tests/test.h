/* SPDX-License-Identifier: MIT
 *
 * The test framework: TEST(name) { CHECK...; } registers a test, test_main.c runs each one in a
 * process of its own, so that a crash, an abort or a hang fails that test alone. A failed check
 * prints file, line, expression and values and ends the process; nothing here allocates.
 *
 * KERNEL_TEST is for what an emulator does not do as the kernel does: limits of address space,
 * counts of resident pages, forks beside threads. Compiled with TEST_EMULATED, such a test is
 * skipped.
 */
#ifndef TEST_H
#define TEST_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct test {
    const char *name;
    const char *file;
    void (*run)(void);
    int needs_kernel;
    struct test *next;
};

void test_register(struct test *test);

#define TEST_REGISTERED(title, needs_kernel)                                                 \
    static void test_##title(void);                                                          \
    static struct test entry_##title = {#title, __FILE__, test_##title, needs_kernel, NULL}; \
    __attribute__((constructor)) static void register_##title(void)                          \
    {                                                                                        \
        test_register(&entry_##title);                                                       \
    }                                                                                        \
    static void test_##title(void)
#define TEST(title) TEST_REGISTERED(title, 0)
#define KERNEL_TEST(title) TEST_REGISTERED(title, 1)

/* Ends the test with one line on standard error. dprintf with a short line does not allocate. */
#define FAIL(...)                                  \
    do {                                           \
        dprintf(2, "%s:%d: ", __FILE__, __LINE__); \
        dprintf(2, __VA_ARGS__);                   \
        dprintf(2, "\n");                          \
        _exit(1);                                  \
    } while (0)

#define CHECK(condition)                          \
    do {                                          \
        if (!(condition)) {                       \
            FAIL("check failed: %s", #condition); \
        }                                         \
    } while (0)

/* Like CHECK, with a message that gives the values at hand. */
#define CHECK_MSG(condition, ...)                                                    \
    do {                                                                             \
        if (!(condition)) {                                                          \
            dprintf(2, "%s:%d: check failed: %s: ", __FILE__, __LINE__, #condition); \
            dprintf(2, __VA_ARGS__);                                                 \
            dprintf(2, "\n");                                                        \
            _exit(1);                                                                \
        }                                                                            \
    } while (0)

#define CHECK_OP(left, operator, right)                                                         \
    do {                                                                                        \
        intmax_t left_value = (intmax_t)(left), right_value = (intmax_t)(right);                \
        if (!(left_value operator right_value)) {                                               \
            FAIL("check failed: %s %s %s: %jd (%#jx) and %jd (%#jx)", #left, #operator, #right, \
                 left_value, (uintmax_t)left_value, right_value, (uintmax_t)right_value);       \
        }                                                                                       \
    } while (0)

#define CHECK_EQ(left, right) CHECK_OP(left, ==, right)
#define CHECK_NE(left, right) CHECK_OP(left, !=, right)
#define CHECK_LE(left, right) CHECK_OP(left, <=, right)
#define CHECK_LT(left, right) CHECK_OP(left, <, right)
#define CHECK_GE(left, right) CHECK_OP(left, >=, right)

/* xorshift64*: small, fast, good enough to choose sizes. The state must not be 0. */
static inline uint64_t test_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

#endif
