/* SPDX-License-Identifier: MIT */
#include "huge_pages.h"

#include <string.h>

struct huge_reader {
    bool is_ours; /* the mapping whose lines these are */
    uint64_t bytes;
    uint64_t mappings;
};

/* Whether blocks lie, or may lie, in a mapping. The kernel joins what lies side by side, so they need not be at
 * its ends. Where the page map has no leaf there are none, so what others have reserved is passed in great steps. */
static bool mapping_is_ours(uintptr_t start, uintptr_t end)
{
    uintptr_t of_leaf = (uintptr_t)1 << PAGEMAP_ROOT_SHIFT;
    for (uintptr_t at = start; at < end;) {
        if (!pagemap_has_leaf(at)) {
            at = (at | (of_leaf - 1)) + 1;
        } else if (pagemap_find((void *)at) != pagemap_nothing()) {
            return true;
        } else {
            at += GRANULE;
        }
    }
    return false;
}

static void huge_line(void *context, char *line)
{
    static const char word[] = "AnonHugePages:";
    struct huge_reader *reader = context;
    char *at = line;
    uintptr_t start = text_parse_hex(&at);
    if (at != line && *at == '-') {
        at++;
        uintptr_t end = text_parse_hex(&at);
        reader->is_ours = start < end && end <= ADDRESS_LIMIT && mapping_is_ours(start, end);
        reader->mappings += reader->is_ours;
    } else if (reader->is_ours && strncmp(line, word, sizeof word - 1) == 0) {
        const char *digits = line + sizeof word - 1;
        while (*digits == ' ') {
            digits++;
        }
        uint64_t kib = 0;
        for (; *digits >= '0' && *digits <= '9'; digits++) {
            kib = 10 * kib + (uint64_t)(*digits - '0');
        }
        reader->bytes += kib * KiB;
    }
}

static void kernel_figures(struct stats_process *to)
{
    struct huge_reader reader = {false, 0, 0};
    if (!os_is_confined()) {
        os_read_lines(OS_SMAPS, huge_line, &reader);
    }
    to->huge_pages = reader.bytes;
    to->mappings = reader.mappings;
}

static bool figure_is_of_kernel(const char *name)
{
    return strcmp(name, "huge_pages") == 0 || strcmp(name, "mappings") == 0;
}

static const char *kernel_thp_mode(void)
{
    char text[64] = "";
    if (!os_is_confined()) {
        os_read_file("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
    }
    return strstr(text, "[always]") != NULL    ? "always"
           : strstr(text, "[madvise]") != NULL ? "madvise"
           : strstr(text, "[never]") != NULL   ? "never"
                                               : "not supported";
}
