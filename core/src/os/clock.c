/* SPDX-License-Identifier: MIT
 *
 * The time, as the kernel gives it to a process without being entered: by the function of the vDSO, the
 * small ELF object that it maps into each. The libc's clock_gettime leads to the same one, but another
 * library may stand before it, which makes up the time and allocates meanwhile (libfaketime does both),
 * and the clock is read with locks held.
 */
#include "os.h"
#include "syscall.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>

#if MW_TEST_SYSCALLS
static long test_syscall(long number, long a, long b, long c, long d, long e, long f);
#define system_call test_syscall
#endif

#if defined(__x86_64__)
#define VDSO_CLOCK_GETTIME "__vdso_clock_gettime"
#else
#define VDSO_CLOCK_GETTIME "__kernel_clock_gettime"
#endif

/* NULL where there is none: then the kernel is asked. Constant after os_init. */
static int (*clock_of_vdso)(clockid_t clock, struct timespec *time);

/* The object's symbols, by one of the two tables that find them by name. */
static size_t vdso_symbols(const uint32_t *hash, const uint32_t *gnu_hash)
{
    if (hash != NULL) {
        return hash[1];
    }
    if (gnu_hash == NULL) {
        return 0;
    }
    uint32_t buckets = gnu_hash[0];
    uint32_t first = gnu_hash[1];
    const uint32_t *bucket = gnu_hash + 4 + gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    size_t last = 0;
    for (uint32_t i = 0; i < buckets; i++) {
        last = size_max(last, bucket[i]);
    }
    if (last < first) {
        return 0;
    }
    while ((chain[last - first] & 1) == 0) {
        last++;
    }
    return last + 1;
}

/* The address of a function in the vDSO at `header`; 0 if it has none of that name. */
static uintptr_t vdso_function(const ElfW(Ehdr) * header, const char *name)
{
    uintptr_t start = (uintptr_t)header;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(start + header->e_phoff);
    const ElfW(Dyn) *entry = NULL;
    uintptr_t base = 0;
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (parts[i].p_type == PT_LOAD && base == 0) {
            base = start + parts[i].p_offset - parts[i].p_vaddr;
        } else if (parts[i].p_type == PT_DYNAMIC) {
            entry = (const ElfW(Dyn) *)(start + parts[i].p_offset);
        }
    }
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const uint32_t *hash = NULL;
    const uint32_t *gnu_hash = NULL;
    for (; base != 0 && entry != NULL && entry->d_tag != DT_NULL; entry++) {
        uintptr_t at = (uintptr_t)entry->d_un.d_ptr;
        at = at < base ? at + base : at; /* the loader may have put addresses here */
        if (entry->d_tag == DT_SYMTAB) {
            symbols = (const ElfW(Sym) *)at;
        } else if (entry->d_tag == DT_STRTAB) {
            names = (const char *)at;
        } else if (entry->d_tag == DT_HASH) {
            hash = (const uint32_t *)at;
        } else if (entry->d_tag == DT_GNU_HASH) {
            gnu_hash = (const uint32_t *)at;
        }
    }
    if (symbols == NULL || names == NULL) {
        return 0;
    }
    size_t count = vdso_symbols(hash, gnu_hash);
    for (size_t i = 0; i < count; i++) {
        if (symbols[i].st_shndx != SHN_UNDEF && strcmp(names + symbols[i].st_name, name) == 0) {
            return base + symbols[i].st_value;
        }
    }
    return 0;
}

static void os_find_clock(void)
{
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    /* A test's kernel has the time too. */
    if (MW_TEST_SYSCALLS || header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
        return;
    }
    uintptr_t found = vdso_function(header, VDSO_CLOCK_GETTIME);
    if (found != 0) {
        memcpy(&clock_of_vdso, &found, sizeof(found));
    }
}

static struct timespec clock_read(clockid_t clock)
{
    struct timespec now = {0, 0};
    if (clock_of_vdso == NULL || clock_of_vdso(clock, &now) != 0) {
        system_call(SYS_clock_gettime, clock, (long)&now, 0, 0, 0, 0);
    }
    return now;
}

static uint64_t os_now_ms(void)
{
    struct timespec now = clock_read(CLOCK_MONOTONIC_COARSE);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t os_now_ns(void)
{
    /* In seccomp's strict mode the kernel forbids the time stamp of the CPU, which the coarse clock does without. */
    clockid_t clock = os_refuses_changes() ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC;
    struct timespec now = clock_read(clock);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
