/* SPDX-License-Identifier: MIT
 *
 * A loaded object's table of functions (ELF's .dynsym, found by .gnu.hash), and how a name in it is made
 * to lead elsewhere. The table lies in memory that is only read, and is private to the process: what is
 * written there is one page of its own for each that is touched, for this process and its children.
 */
#include "os.h"

#include <elf.h>
#include <link.h>
#include <string.h>

struct symbols {
    const ElfW(Phdr) * segment; /* the one that holds the table; NULL: not known */
    uintptr_t base;
    ElfW(Sym) * table;
    const char *names;
    const uint32_t *hash; /* .gnu.hash: counts, filter, buckets, chains */
};

/* The loader may have put addresses into its list, or left what the file says. */
static uintptr_t dynamic_address(const struct link_map *object, const ElfW(Dyn) * entry)
{
    uintptr_t address = (uintptr_t)entry->d_un.d_ptr;
    return address < object->l_addr ? address + object->l_addr : address;
}

/* A program that lies where it was linked to has its headers elsewhere than at 0. */
static bool object_of_listed(const struct link_map *listed, struct object *object)
{
    if (listed->l_addr == 0) {
        *object = object_of_program();
        return object->headers != NULL && object->base == 0;
    }
    return object_at(listed->l_addr, object);
}

static bool symbols_of(const struct link_map *object, struct symbols *symbols)
{
    struct object headers;
    *symbols = (struct symbols){.base = object->l_addr};
    for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            symbols->table = (ElfW(Sym) *)dynamic_address(object, entry);
            break;
        case DT_STRTAB:
            symbols->names = (const char *)dynamic_address(object, entry);
            break;
        case DT_GNU_HASH:
            symbols->hash = (const uint32_t *)dynamic_address(object, entry);
            break;
        default:
            break;
        }
    }
    /* Tools that rewrite a module put its headers where nothing leads from its beginning. */
    bool has_headers = object_of_listed(object, &headers);
    for (size_t i = 0; has_headers && symbols->table != NULL && i < headers.count; i++) {
        const ElfW(Phdr) *header = &headers.headers[i];
        if (header->p_type == PT_LOAD &&
            (uintptr_t)symbols->table - (headers.base + header->p_vaddr) < header->p_memsz) {
            symbols->segment = header;
        }
    }
    return symbols->table != NULL && symbols->names != NULL && symbols->hash != NULL;
}

static uint32_t symbol_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++) {
        hash = hash * 33 + (unsigned char)*name;
    }
    return hash;
}

/* The next definition of `name` behind `before` (NULL: the first), for a name may have several versions;
 * NULL if there is none. */
static ElfW(Sym) *
    symbol_find(const struct symbols *symbols, const char *name, const ElfW(Sym) * before)
{
    uint32_t buckets = symbols->hash[0];
    uint32_t first = symbols->hash[1];
    uint32_t filter_words = symbols->hash[2];
    const uint32_t *bucket =
        symbols->hash + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = symbol_hash(name);
    uint32_t at = buckets != 0 ? bucket[hash % buckets] : 0;
    bool is_last = at < first;
    for (; !is_last; at++) {
        uint32_t found = chain[at - first];
        ElfW(Sym) *symbol = &symbols->table[at];
        if ((found | 1) == (hash | 1) && (before == NULL || symbol > before) &&
            symbol->st_shndx != SHN_UNDEF && strcmp(symbols->names + symbol->st_name, name) == 0) {
            return symbol;
        }
        is_last = (found & 1) != 0;
    }
    return NULL;
}

/* The pages of the table from the first name that is to lead elsewhere to the last; false if none is. */
static bool symbols_span(const struct symbols *symbols, const struct symbol_lead *leads,
                         size_t count, uintptr_t *start, uintptr_t *end)
{
    *start = UINTPTR_MAX;
    *end = 0;
    for (size_t i = 0; i < count; i++) {
        ElfW(Sym) *symbol = symbol_find(symbols, leads[i].name, NULL);
        for (; symbol != NULL; symbol = symbol_find(symbols, leads[i].name, symbol)) {
            *start = size_min(*start, (uintptr_t)symbol & ~(os_page_size - 1));
            *end = size_max(*end, align_up((uintptr_t)(symbol + 1), os_page_size));
        }
    }
    return *end != 0;
}

static const struct link_map *object_around(uintptr_t inside)
{
    struct found_object found;
    if (find_object != NULL && atomic_get(&libc_is_started)) {
        return find_object((void *)inside, &found) == 0 ? found.link_map : NULL;
    }
    struct object program = object_of_program();
    const struct link_map *at = objects_listed(&program);
    for (unsigned i = 0; i < OBJECTS_MOST && at != NULL; i++) {
        struct object object;
        if (!os_is_readable((uintptr_t)at)) {
            return NULL;
        }
        if (object_of_listed(at, &object) && object_has(&object, inside)) {
            return at;
        }
        at = at->l_next;
    }
    return NULL;
}

static bool os_lead_symbols(const void *inside, const struct symbol_lead *leads, size_t count)
{
    struct symbols symbols;
    const struct link_map *object = object_around((uintptr_t)inside);
    uintptr_t start, end;
    if (object == NULL || !symbols_of(object, &symbols)) {
        return false;
    }
    if (symbols.segment == NULL || symbols.segment->p_flags != PF_R) {
        return false; /* with code in it, as older linkers lay out: that must stay executable */
    }
    if (!symbols_span(&symbols, leads, count, &start, &end)) {
        return true;
    }
    if (!os_make_writable((void *)start, end - start)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        ElfW(Sym) *symbol = symbol_find(&symbols, leads[i].name, NULL);
        for (; symbol != NULL; symbol = symbol_find(&symbols, leads[i].name, symbol)) {
            /* In one store, for other threads look names up meanwhile. */
            __atomic_store_n(&symbol->st_value, (uintptr_t)leads[i].to - symbols.base,
                             __ATOMIC_RELAXED);
        }
    }
    os_make_readonly((void *)start, end - start);
    return true;
}

/* --- What a call leads to ----------------------------------------------------------------------- */

/* What relocations are looked through for: names that begin with `start`, of its `length` bytes; with its terminator
 * only that name. */
struct wanted_name {
    const char *start;
    size_t length;
    bool is_taken; /* from another object */
};

static bool relocations_name(const struct symbols *symbols, uintptr_t table, size_t bytes,
                             const struct wanted_name *wanted)
{
    const ElfW(Rela) *end = (const ElfW(Rela) *)(table + bytes);
    for (const ElfW(Rela) *at = (const ElfW(Rela) *)table; at < end; at++) {
        const ElfW(Sym) *symbol = &symbols->table[ELF64_R_SYM(at->r_info)];
        if ((symbol->st_shndx == SHN_UNDEF || !wanted->is_taken) &&
            strncmp(symbols->names + symbol->st_name, wanted->start, wanted->length) == 0) {
            return true;
        }
    }
    return false;
}

static bool object_names(const void *inside, const struct wanted_name *wanted)
{
    struct symbols symbols;
    const struct link_map *object = object_around((uintptr_t)inside);
    if (object == NULL || !symbols_of(object, &symbols)) {
        return false;
    }
    uintptr_t tables[2] = {0, 0};
    size_t bytes[2] = {0, 0};
    for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; entry++) {
        bool is_of_calls = entry->d_tag == DT_JMPREL || entry->d_tag == DT_PLTRELSZ;
        if (entry->d_tag == DT_JMPREL || entry->d_tag == DT_RELA) {
            tables[is_of_calls] = dynamic_address(object, entry);
        } else if (entry->d_tag == DT_PLTRELSZ || entry->d_tag == DT_RELASZ) {
            bytes[is_of_calls] = entry->d_un.d_val;
        }
    }
    return (tables[0] != 0 && relocations_name(&symbols, tables[0], bytes[0], wanted)) ||
           (tables[1] != 0 && relocations_name(&symbols, tables[1], bytes[1], wanted));
}

static bool os_object_takes(const void *inside, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct wanted_name wanted = {names[i], strlen(names[i]) + 1, true};
        if (object_names(inside, &wanted)) {
            return true;
        }
    }
    return false;
}

static bool os_object_is_cxx(const void *inside)
{
    const struct wanted_name wanted = {"_Z", 2, false}; /* what all mangled names begin with */
    return object_names(inside, &wanted);
}

/* Code of one object: what is outside reads as 0. */
static uint32_t code_word(const struct code_object *code, uintptr_t at)
{
    uint32_t word = 0;
    if (at >= code->start && at + sizeof word <= code->end) {
        memcpy(&word, (const void *)at, sizeof word);
    }
    return word;
}

/* Where the address of the called function stands; 0 if the code is of another kind. */
#if defined(__x86_64__)
static uintptr_t call_table_place(const struct code_object *code, uintptr_t pc)
{
    if ((code_word(code, pc - 6) & 0xffff) == 0x15ff) { /* call *place(%rip) */
        return pc + (uintptr_t)(intptr_t)(int32_t)code_word(code, pc - 4);
    }
    if ((code_word(code, pc - 5) & 0xff) != 0xe8) { /* call */
        return 0;
    }
    uintptr_t at = pc + (uintptr_t)(intptr_t)(int32_t)code_word(code, pc - 4);
    at += code_word(code, at) == 0xfa1e0ff3 ? 4 : 0;         /* endbr64 */
    at += (code_word(code, at) & 0xff) == 0xf2 ? 1 : 0;      /* bnd */
    bool is_jump = (code_word(code, at) & 0xffff) == 0x25ff; /* jmp *place(%rip) */
    return is_jump ? at + 6 + (uintptr_t)(intptr_t)(int32_t)code_word(code, at + 2) : 0;
}
#elif defined(__aarch64__)
static uintptr_t call_table_place(const struct code_object *code, uintptr_t pc)
{
    uint32_t call = code_word(code, pc - 4);
    if (call >> 26 != 0x25) { /* bl */
        return 0;
    }
    uintptr_t at = pc - 4 + (uintptr_t)(intptr_t)((int32_t)(call << 6) >> 4);
    at += code_word(code, at) == 0xd503245f ? 4 : 0; /* bti c */
    uint32_t page = code_word(code, at);
    uint32_t load = code_word(code, at + 4);
    if ((page & 0x9f00001f) != 0x90000010 || /* adrp x16, page */
        (load & 0xffc003ff) != 0xf9400211) { /* ldr x17, [x16, place in it] */
        return 0;
    }
    uint32_t pages = (page >> 29 & 3) | (page >> 5 & 0x7ffff) << 2;
    uintptr_t distance = (uintptr_t)(intptr_t)((int32_t)(pages << 11) >> 11) << 12;
    return (at & ~(uintptr_t)4095) + distance + (load >> 10 & 0xfff) * sizeof(uintptr_t);
}
#else
static uintptr_t call_table_place(const struct code_object *code, uintptr_t pc)
{
    (void)code, (void)pc;
    return 0;
}
#endif

static const void *os_called_before(uintptr_t pc)
{
    struct code_object code = libc_find_code(pc);
    uintptr_t place = call_table_place(&code, pc);
    if (place == 0 || place % sizeof(void *) != 0) {
        return NULL;
    }
    /* Part of the same object, though behind what counts as its code. */
    const struct link_map *around = object_around(pc);
    struct object object;
    bool is_there = around != NULL && object_of_listed(around, &object) &&
                    object_has(&object, place) && os_is_readable(place);
    return is_there ? *(const void *const *)place : NULL;
}
