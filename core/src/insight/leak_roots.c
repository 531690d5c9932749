/* SPDX-License-Identifier: MIT */
#include "leak_roots.h"

#include "../os/log.h"
#include "ordered.h"

#include <string.h>

static void *leak_map(size_t count, size_t size)
{
    return os_map(NULL, align_up(size_max(count, 1) * size, os_page_size));
}

/* --- What is the allocator's ------------------------------------------------------------------ */

static void leak_roots_exclude(struct leak_roots *roots, uintptr_t start, uintptr_t end)
{
    if (roots->own_count < roots->own_most) {
        roots->own[roots->own_count++] = (struct leak_range){start, end};
    }
}

/* Makes one of ranges of which one lies in the other: blocks on pages of their own lie in regions. */
static void own_join(struct leak_roots *roots)
{
    size_t kept = 0;
    sort_by_first_word(roots->own, roots->own_count, sizeof *roots->own);
    for (size_t i = 1; i < roots->own_count; i++) {
        struct leak_range *last = &roots->own[kept];
        if (roots->own[i].start <= last->end) {
            last->end = size_max(last->end, roots->own[i].end);
        } else {
            roots->own[++kept] = roots->own[i];
        }
    }
    roots->own_count = size_min(roots->own_count, kept + 1);
}

/* A range without what is the allocator's. */
static void root_mark(struct leak_roots *roots, uintptr_t start, uintptr_t end)
{
    while (start < end) {
        size_t at = find_before(roots->own, roots->own_count, sizeof *roots->own, start);
        if (at != roots->own_count && start < roots->own[at].end) {
            start = roots->own[at].end;
            continue;
        }
        size_t next = at == roots->own_count ? 0 : at + 1;
        uintptr_t stop = next < roots->own_count ? size_min(roots->own[next].start, end) : end;
        roots->mark(roots->context, start, stop);
        start = stop;
    }
}

/* So far below the calling thread's stack lies what calls that have returned left there. In a mapping that is known to
 * be that stack all is left over; in others may lie further stacks, or globals if the stack is one. */
#define STACK_LEFT (64 * KiB)

static void root_mark_mapping(struct leak_roots *roots, uintptr_t start, uintptr_t end,
                              bool is_stack)
{
    uintptr_t stack = roots->stack;
    if (start <= stack && stack < end) {
        if (!is_stack && stack - start > STACK_LEFT) {
            root_mark(roots, start, stack - STACK_LEFT);
        }
        start = stack;
    }
    root_mark(roots, start, end);
}

/* --- Mappings --------------------------------------------------------------------------------- */

/* Behind "PERMISSIONS OFFSET DEVICE INODE"; "": it is of no file. */
static const char *mapping_name(const char *at)
{
    for (unsigned fields = 0; fields < 4; fields++) {
        at += *at == ' ';
        at += strcspn(at, " ");
    }
    while (*at == ' ') {
        at++;
    }
    return at;
}

static bool mapping_is_of_no_file(const char *name)
{
    static const char named[] = "[anon:"; /* by prctl */
    return *name == 0 || strncmp(name, named, sizeof named - 1) == 0;
}

static bool mapping_is_shared_memory(const char *name)
{
    static const char *const names[] = {"/dev/zero", "/memfd:",        "/dev/shm/",
                                        "/SYSV",     "/anon_hugepage", "[anon_shmem:"};
    for (size_t i = 0; i < array_count(names); i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* What nobody has written to is not read, which would make pages there. A process that was forked does not have in its
 * own tables what was written before. */
static void root_mark_shared(struct leak_roots *roots, uintptr_t start, uintptr_t end)
{
    uintptr_t stop;
    for (uintptr_t at = start; at < end; at = stop) {
        stop = size_min(at + (OS_RESIDENT_MAX << os_page_shift), end);
        if (os_resident_pages((void *)at, (stop - at) >> os_page_shift) != 0) {
            root_mark(roots, at, stop);
        }
    }
}

/* "START-END rw-p ..." */
static void root_line(void *context, char *line)
{
    struct leak_roots *roots = context;
    uintptr_t start = text_parse_hex(&line);
    line += *line == '-';
    uintptr_t end = text_parse_hex(&line);
    if (strlen(line) < 5 || line[1] != 'r') {
        return;
    }
    const char *name = mapping_name(line);
    if (line[4] != 'p' && mapping_is_shared_memory(name)) {
        roots->mappings++;
        root_mark_shared(roots, start, end);
    } else if (line[4] == 'p' && (line[2] == 'w' || mapping_is_of_no_file(name))) {
        roots->mappings++;
        root_mark_mapping(roots, start, end, strcmp(name, "[stack]") == 0);
    }
}

/* --- Beginning -------------------------------------------------------------------------------- */

static bool leak_roots_open(struct leak_roots *roots, size_t ranges)
{
    roots->own_most = ranges;
    roots->own = leak_map(roots->own_most, sizeof *roots->own);
    return roots->own != NULL;
}

static void leak_roots_visit(struct leak_roots *roots, uintptr_t stack)
{
    own_join(roots);
    roots->stack = stack;
    os_read_lines(OS_MAPS, root_line, roots);
}
