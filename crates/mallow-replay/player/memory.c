/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int statm_file = -1;
static uint64_t page_size;
static uint64_t table_bytes; /* resident, in shared memory; const after memory_start() */

void *memory_table(size_t size)
{
    size = size == 0 ? 1 : size;
    void *table =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) {
        player_fail("there is no memory for the table of objects", strerror(errno));
    }
    return table;
}

/* A line of /proc/self/status, in bytes. */
static uint64_t status_line(const char *name)
{
    char text[8192];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (length <= 0) {
        player_fail("/proc/self/status cannot be read", strerror(errno));
    }
    close(file);
    text[length] = 0;
    const char *line = strstr(text, name);
    return line == NULL ? 0 : strtoull(line + strlen(name), NULL, 10) * 1024;
}

void memory_start(void)
{
    page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    statm_file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (statm_file < 0) {
        player_fail("/proc/self/statm cannot be read", strerror(errno));
    }
    table_bytes = status_line("RssShmem:");
}

static uint64_t highest;    /* reading */
static uint64_t noted_live; /* at the last of them */

void memory_note_peak(uint64_t live_bytes)
{
    if (live_bytes - noted_live > noted_live / 64 + page_size) {
        noted_live = live_bytes;
        memory_resident();
    }
}

void memory_take(struct memory_sample *sample)
{
    char text[128];
    ssize_t length = pread(statm_file, text, sizeof text - 1, 0);
    if (length <= 0) {
        player_fail("/proc/self/statm cannot be read", strerror(errno));
    }
    text[length] = 0;
    /* In pages: size, resident, shared (of files, and the tables), ... */
    char *field = text;
    strtoull(field, &field, 10);
    uint64_t resident = strtoull(field, &field, 10) * page_size;
    uint64_t shared = strtoull(field, &field, 10) * page_size;
    sample->resident = resident - table_bytes;
    sample->anonymous = resident - shared;
    highest = sample->resident > highest ? sample->resident : highest;
}

uint64_t memory_resident(void)
{
    struct memory_sample sample;
    memory_take(&sample);
    return sample.resident;
}

uint64_t memory_peak(void)
{
    uint64_t mark = status_line("VmHWM:") - table_bytes;
    return mark > highest ? mark : highest;
}

uint64_t memory_tables(void)
{
    return table_bytes;
}
