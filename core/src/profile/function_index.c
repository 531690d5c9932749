/* SPDX-License-Identifier: MIT */
#include "function_index.h"

#include "../base/atomic.h"
#include "../base/check.h"
#include "../os/os.h"

/* By address. */
struct index_line {
    uintptr_t start;
    const uint8_t *entry;
};

enum { INDEX_UNKNOWN, INDEX_IN_WORK, INDEX_READY };

static struct {
    struct index_line *lines; /* const once ready */
    size_t count;             /* const once ready */
    _Atomic uint8_t state;
} program_index;

/* Sorts by heaps, which needs no memory. */
static void sift_down(struct index_line *lines, size_t at, size_t count)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        child += child + 1 < count && lines[child + 1].start > lines[child].start;
        if (lines[at].start >= lines[child].start) {
            return;
        }
        struct index_line line = lines[at];
        lines[at] = lines[child];
        lines[child] = line;
        at = child;
    }
}

static void index_sort(struct index_line *lines, size_t count)
{
    for (size_t at = count / 2; at-- > 0;) {
        sift_down(lines, at, count);
    }
    for (size_t last = count; last-- > 1;) {
        struct index_line line = lines[0];
        lines[0] = lines[last];
        lines[last] = line;
        sift_down(lines, 0, last);
    }
}

static void index_fill(const uint8_t *start, size_t size)
{
    /* No FDE is shorter than this. */
    size_t most = size / 16 + 1;
    struct index_line *lines = os_map(NULL, align_up(most * sizeof *lines, os_page_size));
    const uint8_t *next;
    size_t count = 0;
    if (lines == NULL) {
        return;
    }
    for (const uint8_t *at = start; at + 4 < start + size; at = next) {
        struct cfi_function function;
        next = cfi_next_entry(at);
        if (next == NULL || next <= at) {
            break;
        }
        if (cfi_read_entry(at, &function) && count < most) {
            lines[count++] = (struct index_line){function.start, at};
        }
    }
    index_sort(lines, count);
    program_index.lines = lines;
    program_index.count = count;
}

/* Whether the index can be used; makes it at the first call. */
static bool index_is_ready(void)
{
    uint8_t state = INDEX_UNKNOWN;
    if (atomic_get_acquire(&program_index.state) == INDEX_READY) { /* pairs with the store below */
        return program_index.count != 0;
    }
    const uint8_t *start;
    size_t size;
    if (!atomic_replace(&program_index.state, &state, INDEX_IN_WORK)) {
        return false; /* somebody else is at work, perhaps the code that this signal interrupted */
    }
    if (os_program_frames(&start, &size)) {
        index_fill(start, size);
    }
    atomic_set_release(&program_index.state, INDEX_READY); /* pairs with the load above */
    return program_index.count != 0;
}

static bool index_find(uintptr_t pc, struct cfi_function *function)
{
    if (!index_is_ready()) {
        return false;
    }
    size_t low = 0, high = program_index.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (program_index.lines[middle].start <= pc) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return cfi_read_entry(program_index.lines[low].entry, function) && pc >= function->start &&
           pc < function->end;
}
