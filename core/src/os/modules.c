/* SPDX-License-Identifier: MIT
 *
 * Loaded objects, and where they say how their functions use the stack. No lock is taken: the answer may
 * be wanted in the middle of malloc, which the loader itself calls with its locks in its hands.
 *
 * glibc from 2.35 on has a function that needs none. Elsewhere the loader's list is read as it is: musl
 * only ever adds to it. An older glibc removes from it too, so each member is looked at before it is read.
 */
#include "os.h"
#include "syscall.h"

#include <elf.h>
#include <link.h>
#include <string.h>

/* The libc's struct dl_find_object. */
struct found_object {
    unsigned long long flags;
    void *start;
    void *end;
    void *link_map;
    const uint8_t *frames;
    unsigned long long reserved[7];
};

__attribute__((weak)) int find_object(void *address,
                                      struct found_object *found) __asm__("_dl_find_object");

/* Objects that are looked at, at most. */
#define OBJECTS_MOST 4096u

/* The program headers of an object, and how far it lies from where it was linked to. */
struct object {
    const ElfW(Phdr) * headers;
    size_t count;
    uintptr_t base;
};

/* A static program has no header that says where the headers are; they follow the ELF header, with which
 * its first part begins. */
static struct object object_of_program(void)
{
    struct object object = {(const ElfW(Phdr) *)getauxval(AT_PHDR), getauxval(AT_PHNUM), 0};
    for (size_t i = 0; object.headers != NULL && i < object.count; i++) {
        const ElfW(Phdr) *header = &object.headers[i];
        if (header->p_type == PT_PHDR) {
            object.base = (uintptr_t)object.headers - header->p_vaddr;
            break;
        }
        if (header->p_type == PT_LOAD && header->p_offset == 0) {
            object.base = (uintptr_t)object.headers - sizeof(ElfW(Ehdr)) - header->p_vaddr;
        }
    }
    return object;
}

/* Of an object whose first page is its ELF header, as linkers lay them out. */
static bool object_at(uintptr_t base, struct object *object)
{
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)base;
    if (base == 0 || !os_is_readable(base) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
        return false;
    }
    *object = (struct object){(const ElfW(Phdr) *)(base + header->e_phoff), header->e_phnum, base};
    return header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) <= 4 * KiB;
}

static const ElfW(Phdr) * object_header(const struct object *object, unsigned type)
{
    for (size_t i = 0; object->headers != NULL && i < object->count; i++) {
        if (object->headers[i].p_type == type) {
            return &object->headers[i];
        }
    }
    return NULL;
}

static bool object_has(const struct object *object, uintptr_t pc)
{
    for (size_t i = 0; object->headers != NULL && i < object->count; i++) {
        const ElfW(Phdr) *header = &object->headers[i];
        if (header->p_type == PT_LOAD && pc - (object->base + header->p_vaddr) < header->p_memsz) {
            return true;
        }
    }
    return false;
}

/* From the first page of an object to its last. */
static struct code_object object_code(const struct object *object, const uint8_t *frames)
{
    struct code_object code = {UINTPTR_MAX, 0, frames};
    for (size_t i = 0; i < object->count; i++) {
        const ElfW(Phdr) *header = &object->headers[i];
        uintptr_t start = object->base + header->p_vaddr;
        if (header->p_type == PT_LOAD) {
            code.start = size_min(code.start, start);
            code.end = size_max(code.end, start + header->p_memsz);
        }
    }
    return code;
}

static const uint8_t *object_frames(const struct object *object)
{
    const ElfW(Phdr) *header = object_header(object, PT_GNU_EH_FRAME);
    return header != NULL ? (const uint8_t *)(object->base + header->p_vaddr) : NULL;
}

/* The loader's list, by what it left for debuggers in the program. NULL in a static program. */
static const struct link_map *objects_listed(const struct object *program)
{
    const ElfW(Phdr) *header = object_header(program, PT_DYNAMIC);
    const ElfW(Dyn) *entry =
        header != NULL ? (const ElfW(Dyn) *)(program->base + header->p_vaddr) : NULL;
    for (; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_DEBUG && entry->d_un.d_ptr != 0) {
            return ((const struct r_debug *)entry->d_un.d_ptr)->r_map;
        }
    }
    return NULL;
}

/* In a static program glibc's function must not be called before the libc has started, for which that
 * allocates. */
static _Atomic bool libc_is_started;

CONSTRUCTOR static void libc_started(void)
{
    atomic_set(&libc_is_started, true);
}

/* The same, by the loader's list. */
static struct code_object object_listed(const struct object *program, uintptr_t pc)
{
    const struct link_map *at = objects_listed(program);
    for (unsigned i = 0; i < OBJECTS_MOST && at != NULL; i++) {
        struct object object;
        if (!os_is_readable((uintptr_t)at)) {
            break;
        }
        if (object_at(at->l_addr, &object) && object_has(&object, pc)) {
            return object_code(&object, object_frames(&object));
        }
        at = at->l_next;
    }
    return (struct code_object){0, 0, NULL};
}

static struct code_object libc_find_code(uintptr_t pc)
{
    struct found_object found;
    if (find_object != NULL && atomic_get(&libc_is_started)) {
        bool is_found = find_object((void *)pc, &found) == 0;
        return is_found ? (struct code_object){(uintptr_t)found.start, (uintptr_t)found.end,
                                               found.frames}
                        : (struct code_object){0, 0, NULL};
    }
    struct object program = object_of_program();
    return object_has(&program, pc) ? object_code(&program, object_frames(&program))
                                    : object_listed(&program, pc);
}

static const uint8_t *libc_find_frames(uintptr_t pc)
{
    return libc_find_code(pc).frames;
}

/* --- A program without a table ---------------------------------------------------------------- */

/* Section headers that are read at a time. */
#define SECTIONS_READ 16u

/* The name of a section, as long as that of the one that is looked for. */
static bool section_is_named(int fd, const ElfW(Shdr) * names, const ElfW(Shdr) * section,
                             const char *name)
{
    char text[16];
    size_t size = strlen(name) + 1;
    return size <= sizeof text && os_read_at(fd, names->sh_offset + section->sh_name, text, size) &&
           memcmp(text, name, size) == 0;
}

static bool sections_find(int fd, const ElfW(Ehdr) * header, const char *name, ElfW(Shdr) * found)
{
    ElfW(Shdr) names, sections[SECTIONS_READ];
    const size_t size = sizeof(ElfW(Shdr));
    if (header->e_shentsize != size ||
        !os_read_at(fd, header->e_shoff + header->e_shstrndx * size, &names, size)) {
        return false;
    }
    for (size_t first = 0; first < header->e_shnum; first += SECTIONS_READ) {
        size_t count = size_min(SECTIONS_READ, header->e_shnum - first);
        if (!os_read_at(fd, header->e_shoff + first * size, sections, count * size)) {
            return false;
        }
        for (size_t i = 0; i < count; i++) {
            if (sections[i].sh_addr != 0 && section_is_named(fd, &names, &sections[i], name)) {
                *found = sections[i];
                return true;
            }
        }
    }
    return false;
}

static bool os_program_frames(const uint8_t **start, size_t *size)
{
    struct object program = object_of_program();
    ElfW(Ehdr) header;
    ElfW(Shdr) section;
    if (program.headers == NULL || object_frames(&program) != NULL) {
        return false;
    }
    int fd = os_open_to_read("/proc/self/exe");
    if (fd < 0) {
        return false;
    }
    bool is_found = os_read_at(fd, 0, &header, sizeof header) &&
                    memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                    sections_find(fd, &header, ".eh_frame", &section);
    os_close(fd);
    if (!is_found || !object_has(&program, program.base + section.sh_addr)) {
        return false;
    }
    *start = (const uint8_t *)(program.base + section.sh_addr);
    *size = section.sh_size;
    return true;
}
