/* SPDX-License-Identifier: MIT
 *
 * Accesses to memory as the explorer sees them: from tsan_calls.c, that is from instrumented code. Outside
 * of a scenario's threads they are the accesses and nothing else.
 */
#ifndef TEST_MEMORY_CALLS_H
#define TEST_MEMORY_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers that compilers pass for the orders of C11. */
enum memory_order_of {
    ORDER_RELAXED,
    ORDER_CONSUME,
    ORDER_ACQUIRE,
    ORDER_RELEASE,
    ORDER_ACQ_REL,
    ORDER_SEQ_CST,
};

enum memory_update { UPDATE_SWAP, UPDATE_ADD, UPDATE_SUB, UPDATE_AND, UPDATE_OR };

void memory_plain(const volatile void *address, size_t size, bool is_write, const void *caller);
uint64_t memory_load(const volatile void *address, unsigned size, enum memory_order_of order);
void memory_store(volatile void *address, unsigned size, uint64_t value,
                  enum memory_order_of order);
uint64_t memory_modify(volatile void *address, unsigned size, enum memory_update update,
                       uint64_t operand, enum memory_order_of order);
bool memory_replace(volatile void *address, unsigned size, uint64_t *expected, uint64_t value,
                    enum memory_order_of order, enum memory_order_of failure);

#endif
