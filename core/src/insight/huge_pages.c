/* SPDX-License-Identifier: MIT */
#include "huge_pages.h"

#include <string.h>

struct huge_reader {
    bool is_ours; /* the mapping whose lines these are */
    uint64_t bytes;
};

/* Whether blocks lie, or may lie, where a mapping begins or ends. */
static bool mapping_is_ours(uintptr_t start, uintptr_t end)
{
    return pagemap_find((void *)start) != pagemap_nothing() ||
           pagemap_find((void *)(end - GRANULE)) != pagemap_nothing();
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

static uint64_t huge_page_bytes(void)
{
    struct huge_reader reader = {false, 0};
    if (os_tells_resident()) {
        os_read_lines(OS_SMAPS, huge_line, &reader);
    }
    return reader.bytes;
}
