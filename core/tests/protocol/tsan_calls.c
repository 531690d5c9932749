/* SPDX-License-Identifier: MIT
 *
 * The functions that code compiled with -fsanitize=thread calls, in place of the sanitizer's library:
 * each leads to the explorer. Names and arguments are those of gcc and clang.
 */
#include <string.h>

#include "explorer.h"
#include "memory_calls.h"

#define CALLER __builtin_return_address(0)

void __tsan_init(void)
{
}
void __tsan_func_entry(void *caller)
{
    (void)caller;
}
void __tsan_func_exit(void)
{
}

#define PLAIN(size)                                       \
    void __tsan_read##size(void *address)                 \
    {                                                     \
        memory_plain(address, size, false, CALLER);       \
    }                                                     \
    void __tsan_write##size(void *address)                \
    {                                                     \
        memory_plain(address, size, true, CALLER);        \
    }                                                     \
    void __tsan_unaligned_read##size(void *address)       \
    {                                                     \
        memory_plain(address, size, false, CALLER);       \
    }                                                     \
    void __tsan_unaligned_write##size(void *address)      \
    {                                                     \
        memory_plain(address, size, true, CALLER);        \
    }                                                     \
    void __tsan_read_write##size(void *address)           \
    {                                                     \
        memory_plain(address, size, true, CALLER);        \
    }                                                     \
    void __tsan_unaligned_read_write##size(void *address) \
    {                                                     \
        memory_plain(address, size, true, CALLER);        \
    }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *address, size_t size)
{
    memory_plain(address, size, false, CALLER);
}

void __tsan_write_range(void *address, size_t size)
{
    memory_plain(address, size, true, CALLER);
}

void *__tsan_memset(void *to, int byte, size_t size)
{
    memory_plain(to, size, true, CALLER);
    return memset(to, byte, size);
}

void *__tsan_memcpy(void *to, const void *from, size_t size)
{
    memory_plain(from, size, false, CALLER);
    memory_plain(to, size, true, CALLER);
    return memcpy(to, from, size);
}

void *__tsan_memmove(void *to, const void *from, size_t size)
{
    memory_plain(from, size, false, CALLER);
    memory_plain(to, size, true, CALLER);
    return memmove(to, from, size);
}

#define UPDATE(bits, name, update)                                                 \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *address,  \
                                                uint##bits##_t operand, int order) \
    {                                                                              \
        return (uint##bits##_t)memory_modify(address, bits / 8, update, operand,   \
                                             (enum memory_order_of)order);         \
    }

/* gcc asks for the truth, clang for the value. */
#define ATOMIC(bits)                                                                             \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *address, int order) \
    {                                                                                            \
        return (uint##bits##_t)memory_load(address, bits / 8, (enum memory_order_of)order);      \
    }                                                                                            \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *address, uint##bits##_t value,     \
                                     int order)                                                  \
    {                                                                                            \
        memory_store(address, bits / 8, value, (enum memory_order_of)order);                     \
    }                                                                                            \
    UPDATE(bits, exchange, UPDATE_SWAP)                                                          \
    UPDATE(bits, fetch_add, UPDATE_ADD)                                                          \
    UPDATE(bits, fetch_sub, UPDATE_SUB)                                                          \
    UPDATE(bits, fetch_and, UPDATE_AND)                                                          \
    UPDATE(bits, fetch_or, UPDATE_OR)                                                            \
    int __tsan_atomic##bits##_compare_exchange_strong(                                           \
        volatile uint##bits##_t *address, uint##bits##_t *expected, uint##bits##_t value,        \
        int order, int failure)                                                                  \
    {                                                                                            \
        uint64_t found = *expected;                                                              \
        bool is_replaced =                                                                       \
            memory_replace(address, bits / 8, &found, value, (enum memory_order_of)order,        \
                           (enum memory_order_of)failure);                                       \
        *expected = (uint##bits##_t)found;                                                       \
        return is_replaced;                                                                      \
    }                                                                                            \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                   \
        volatile uint##bits##_t *address, uint##bits##_t expected, uint##bits##_t value,         \
        int order, int failure)                                                                  \
    {                                                                                            \
        uint64_t found = expected;                                                               \
        memory_replace(address, bits / 8, &found, value, (enum memory_order_of)order,            \
                       (enum memory_order_of)failure);                                           \
        return (uint##bits##_t)found;                                                            \
    }

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    explorer_fail("a fence: the explorer has no model of one");
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}
