/* SPDX-License-Identifier: MIT
 *
 * Preloaded beside an allocator, notes for each process which object serves its allocation
 * functions: one line "program TAB symbol TAB object" in the file that WITNESS_NOTES names, with
 * the symbol of the first function that another object serves than malloc, or malloc itself.
 *
 * It looks symbols up as the dynamic linker does for everybody: from the main program on. It has to
 * be preloaded before the allocator.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const FUNCTIONS[] = {
    "free",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "malloc_usable_size",
};

static const char *object_of(const char *symbol)
{
    Dl_info info;
    const Elf64_Sym *entry = NULL;
    void *address = dlsym(RTLD_DEFAULT, symbol);
    if (address == NULL || dladdr1(address, &info, (void **)&entry, RTLD_DL_SYMENT) == 0) {
        return "nothing";
    }
    if (entry != NULL && entry->st_shndx != SHN_UNDEF) {
        return info.dli_fname;
    }
    /* A program at a fixed address that takes the function's address has a stand-in for it, which
     * leads to the next object that defines it. */
    address = dlsym(RTLD_NEXT, symbol);
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fname : "nothing";
}

__attribute__((constructor)) static void note_who_serves(void)
{
    const char *notes = getenv("WITNESS_NOTES");
    if (notes == NULL) {
        return;
    }

    char program[1024];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length < 0 ? 0 : length] = '\0';

    const char *symbol = "malloc";
    const char *object = object_of(symbol);
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof FUNCTIONS[0]; i++) {
        const char *other = object_of(FUNCTIONS[i]);
        if (strcmp(other, object) != 0) {
            symbol = FUNCTIONS[i];
            object = other;
            break;
        }
    }

    char line[4096];
    int used = snprintf(line, sizeof line, "%s\t%s\t%s\n", program, symbol, object);
    int file = open(notes, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file >= 0 && used > 0) {
        /* One write, so that lines of processes that start together do not mix. */
        ssize_t written = write(file, line, (size_t)used);
        (void)written;
        close(file);
    }
}
