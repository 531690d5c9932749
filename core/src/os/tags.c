/* SPDX-License-Identifier: MIT */
#include "tags.h"

#include "syscall.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* The kernel's numbers. */
#define HWCAP2_HAS_TAGS (1ul << 18)
#define SET_TAGGED_ADDRESSES 55 /* of prctl */
#define TAGGED_ADDRESSES_ARE_TAKEN 1ul
#define TRAPS_AT_ONCE (1ul << 1)
#define TAGS_TO_DRAW (0xfffeul << 3) /* all but 0 */

/* Asks the kernel where the libc does not tell. */
static COLD bool process_has_one_thread(void)
{
    if (libc_has_one_thread()) {
        return true;
    }
    char status[4 * KiB];
    long size = os_read_file("/proc/self/status", status, sizeof status);
    return size > 0 && strstr(status, "\nThreads:\t1\n") != NULL;
}

/* Whether there is memory with tags, and what is written there is found again. */
static COLD bool tags_are_kept(void)
{
    long page = system_call(SYS_mmap, 0, (long)os_page_size, access_of_memory(),
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (is_error(page)) {
        return false;
    }
    tags_set(pointer_with_tag((void *)page, TAG_MASK), TAG_GRANULE);
    bool are_kept = tag_at((void *)page) == TAG_MASK;
    system_call(SYS_munmap, page, (long)os_page_size, 0, 0, 0, 0);
    return are_kept;
}

static void tags_load(void)
{
    if (!MW_TAGS || (getauxval(AT_HWCAP2) & HWCAP2_HAS_TAGS) == 0 || !process_has_one_thread()) {
        return;
    }
    os_maps_tagged = true; /* for the question */
    os_maps_tagged =
        tags_are_kept() &&
        os_prctl(SET_TAGGED_ADDRESSES, TAGGED_ADDRESSES_ARE_TAKEN | TRAPS_AT_ONCE | TAGS_TO_DRAW, 0,
                 0, 0) == 0;
}
