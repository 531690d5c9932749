/* SPDX-License-Identifier: MIT
 *
 * The attacker forges what the allocator knows about its blocks, where that lies beside them, or
 * reads addresses out of it.
 */
#include "probes.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

/* glibc's header of a block: size in front, lowest bit: the block before is in use. */
static void write_header(void *block, uintptr_t size)
{
    ((volatile uintptr_t *)opaque(block))[-1] = size;
}

static void take_until_in_target(size_t size)
{
    for (int i = 0; i < 200; i++) {
        if (is_in_target(take(size))) {
            reach("malloc returned memory of the attacker's choice");
        }
    }
}

/* A block that is none is freed, with a header as glibc's would be and one behind it. */
static void forged_block_outside(void)
{
    write_header(target + 64, 64 + 1);
    write_header(target + 128, 64 + 1);
    give(target + 64);
    take_until_in_target(SMALL);
}

static void forged_block_inside(void)
{
    enum { SIZE = 1024 };
    char *block = take(SIZE), *wall = take(SIZE);
    memset(block, 0, SIZE);
    write_header(block + 256, 64 + 1);
    write_header(block + 320, 64 + 1);
    give(block + 256);
    for (int i = 0; i < 200; i++) {
        char *got = take(SMALL);
        if (got >= block && got < block + SIZE) {
            reach("malloc returned memory inside a block that is in use");
        }
    }
    (void)wall;
}

/* The header of a live block says that it is larger: its free takes the next one along. */
static void enlarged_block(void)
{
    enum { SIZE = 1528 };
    char *block = take(SIZE), *next = take(SIZE), *wall = take(SIZE);
    set_up(next, SIZE);
    write_header(block, 2 * (SIZE + 8) + 1);
    give(block);
    for (int i = 0; i < 8; i++) {
        fill_with_win(take(2 * SIZE), 2 * SIZE);
    }
    call(next, SIZE);
    (void)wall;
}

/* The same without a neighbour's header: -8 is in front of every block. */
static void enlarged_small(void)
{
    char *block = take(24), *next = take(24);
    write_header(block, 64 + 1);
    give(block);
    for (int i = 0; i < 8; i++) {
        char *got = take(56);
        if (got < next + 24 && got + 56 > next) {
            reach("two blocks overlap");
        }
    }
}

/* Forward and backward pointer of a free block lead to each other's places: taking it out of its
 * list would write there. */
static void unlink_style(void)
{
    enum { SIZE = 1528 };
    volatile uintptr_t *place = (volatile uintptr_t *)opaque(target + 512);
    *place = 0;
    char *wall = take(SIZE), *block = take(SIZE), *other = take(SIZE);
    give(block);
    volatile uintptr_t *words = (volatile uintptr_t *)opaque(block);
    words[0] = (uintptr_t)place - 24;
    words[1] = (uintptr_t)place - 16;
    give(other);
    for (int i = 0; i < 64; i++) {
        take(SIZE);
        take(3 * SIZE);
    }
    if (*place != 0) {
        reach("memory of the attacker's choice was written");
    }
    (void)wall;
}

/* A whole free large block is filled with one address, whatever words of it are looked at. */
static void unlink_large(void)
{
    volatile uintptr_t *place = (volatile uintptr_t *)opaque(target + 512);
    *place = 0;
    char *block = take(100000), *wall = take(100000);
    give(block);
    volatile uintptr_t *words = (volatile uintptr_t *)opaque(block);
    for (int i = 0; i < 16; i++) {
        words[i] = (uintptr_t)place;
    }
    for (int i = 0; i < 64; i++) {
        void *got = take(1500 + 1000 * (size_t)i);
        if (is_in_target(got)) {
            reach("malloc returned memory of the attacker's choice");
        }
    }
    if (*place != 0) {
        reach("memory of the attacker's choice was written");
    }
    (void)wall;
}

/* The rest of the heap seems endless, so that a large request leads round to anywhere. */
static void endless_heap(void)
{
    char *block = take(SMALL);
    ((volatile uintptr_t *)opaque(block))[SMALL / sizeof(uintptr_t)] = UINTPTR_MAX;
    ((volatile uintptr_t *)opaque(block))[SMALL / sizeof(uintptr_t) + 1] = UINTPTR_MAX;
    uintptr_t distance = (uintptr_t)target - (uintptr_t)block - 2 * SMALL;
    void *unused = malloc(distance);
    (void)opaque(unused);
    for (int i = 0; i < 20; i++) {
        if (is_in_target(opaque(malloc(SMALL)))) {
            reach("malloc returned memory of the attacker's choice");
        }
    }
}

/* Many allocators keep a header at a power of two before their blocks: it is overwritten where it
 * lies on a page that holds blocks, and the next blocks must still be sound. */
static void header_of_slab(void)
{
    char *blocks[64];
    for (int i = 0; i < 64; i++) {
        blocks[i] = take(SMALL);
        memset(blocks[i], 'b', SMALL);
    }
    for (size_t unit = 4096; unit <= 65536; unit *= 16) {
        uintptr_t start = (uintptr_t)blocks[32] & ~(uintptr_t)(unit - 1);
        for (int i = 0; i < 8; i++) {
            ((volatile uintptr_t *)start)[i] = (uintptr_t)target;
        }
    }
    for (int i = 0; i < 64; i += 2) {
        give(blocks[i]);
    }
    take_until_in_target(SMALL);
}

/* Addresses in free and in new blocks: of the allocator's library, of other blocks. */

static int is_library(struct dl_phdr_info *info, size_t size, void *word)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && start != 0 && *(uintptr_t *)word - start < part->p_memsz) {
            return 1;
        }
    }
    return 0;
}

static void find_library(size_t size)
{
    void *blocks[32];
    for (int i = 0; i < 32; i++) {
        blocks[i] = take(size);
        memset(blocks[i], 0, size);
    }
    for (int i = 0; i < 32; i += 2) {
        give(blocks[i]);
    }
    for (int i = 0; i < 32; i += 2) {
        for (size_t k = 0; k < size / sizeof(uintptr_t); k++) {
            uintptr_t word = ((volatile uintptr_t *)opaque(blocks[i]))[k];
            if (dl_iterate_phdr(is_library, &word) != 0) {
                reach("an address of a library was read");
            }
        }
    }
}

static void address_of_library_small(void)
{
    find_library(SMALL);
}

static void address_of_library_medium(void)
{
    find_library(2000);
}

static void address_of_block(void)
{
    uintptr_t blocks[32];
    for (int i = 0; i < 32; i++) {
        blocks[i] = (uintptr_t)take(SMALL);
    }
    for (int i = 0; i < 32; i++) {
        give((void *)blocks[i]);
    }
    for (int i = 0; i < 32; i++) {
        for (size_t k = 0; k < SMALL / sizeof(uintptr_t); k++) {
            uintptr_t word = ((volatile uintptr_t *)opaque((void *)blocks[i]))[k];
            for (int n = 0; n < 32; n++) {
                if (word == blocks[n]) {
                    reach("the address of a block was read");
                }
            }
        }
    }
}

const struct probe forge_probes[] = {
    {"forge-outside", forged_block_outside},
    {"forge-inside", forged_block_inside},
    {"forge-larger", enlarged_block},
    {"forge-larger-small", enlarged_small},
    {"forge-unlink", unlink_style},
    {"forge-unlink-large", unlink_large},
    {"forge-endless", endless_heap},
    {"forge-slab-header", header_of_slab},
    {"leak-library-small", address_of_library_small},
    {"leak-library-medium", address_of_library_medium},
    {"leak-block-address", address_of_block},
    {NULL, NULL},
};
