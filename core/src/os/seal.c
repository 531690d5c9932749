/* SPDX-License-Identifier: MIT
 *
 * Keys, the strength of the checks, and what happens after a misuse are const once the process has begun. They lie among
 * the constants that the loader fills in before it takes the right to write there away (RELRO): so they cost no page,
 * and who can write somewhere in the process cannot switch off what would notice it.
 */
#include "os.h"
#include "../base/atomic.h"
#include "log.h"

#include <elf.h>
#include <link.h>

/* Where this library was loaded to, by the linker. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

struct sealed_pages {
    char *start;
    size_t size; /* 0: the library was linked without such pages */
};

/* The whole pages that the loaders of glibc and musl protect. */
static struct sealed_pages seal_find(void)
{
    const char *base = (const char *)&__ehdr_start;
    opaque(base); /* which is more than this header */
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(base + __ehdr_start.e_phoff);
    for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) {
        if (segments[i].p_type == PT_GNU_RELRO) {
            uintptr_t start = (uintptr_t)base + segments[i].p_vaddr;
            uintptr_t end = (start + segments[i].p_memsz) & ~(os_page_size - 1);
            start &= ~(os_page_size - 1);
            return (struct sealed_pages){(char *)start, end > start ? end - start : 0};
        }
    }
    return (struct sealed_pages){NULL, 0};
}

static void seal_open(void)
{
    if (MW_SEALS) {
        struct sealed_pages pages = seal_find();
        /* PaX's MPROTECT refuses to let what the loader has protected be written; other pages in the place may be. */
        if (pages.size != 0 && !os_make_writable(pages.start, pages.size) &&
            !os_copy_over(pages.start, pages.size)) {
            log_fatal("the kernel does not let the library write its keys");
        }
    }
}

static void seal_close(void)
{
    if (MW_SEALS) {
        struct sealed_pages pages = seal_find();
        if (pages.size != 0 && !os_make_readonly(pages.start, pages.size)) {
            log_warn("the library could not protect its keys: the kernel refuses mprotect");
        }
    }
}
