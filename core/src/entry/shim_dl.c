/* SPDX-License-Identifier: MIT
 *
 * dlopen with RTLD_DEEPBIND, as PHP opens its extensions. Such a module asks its own libraries, and so the
 * libc, for malloc and free before it asks who was preloaded: it would free our blocks by the libc's free.
 * So before the first of them is opened, the libc's own names are made to lead where the program's do.
 * Where that cannot be done the module is opened without the flag.
 *
 * The libc's dlopen must see who called: where the module is looked for depends on it. Hence the last call
 * is a jump, as every compiler makes it when it optimizes.
 */
#include "../insight/report.h"

#include <dlfcn.h>

#ifdef RTLD_DEEPBIND
#define DEEPBIND RTLD_DEEPBIND
#else
#define DEEPBIND 0 /* musl */
#endif

/* All that shim_libc.c defines and glibc too. */
static const char *const deepbind_names[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "cfree",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "mallinfo",
    "mallinfo2",
    "malloc_info",
    "malloc_stats",
    "malloc_trim",
    "mallopt",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
    "__libc_cfree",
    "__libc_valloc",
    "__libc_memalign",
    "__libc_pvalloc",
    "free_sized",
    "free_aligned_sized",
    "malloc_usable_size",
    "__posix_memalign",
    "__libc_reallocarray",
};

static COLD bool deepbind_prepare(void)
{
    enum { NO = -1, UNKNOWN, YES };
    static _Atomic int is_possible;
    if (atomic_get_acquire(&is_possible) == UNKNOWN) {
        struct symbol_lead leads[array_count(deepbind_names)];
        size_t count = 0;
        for (size_t i = 0; i < array_count(deepbind_names); i++) {
            /* An allocator that was preloaded in front of this one is what the program has. */
            void *to = libc_symbol(deepbind_names[i]);
            if (to != NULL) {
                leads[count++] = (struct symbol_lead){deepbind_names[i], to};
            }
        }
        const void *libc = libc_symbol("gnu_get_libc_version"); /* glibc alone has it */
        foreign_remember();
        lock_take(&process.lock); /* so that a fork waits */
        if (atomic_get(&is_possible) == UNKNOWN) {
            atomic_set_release(&is_possible,
                               libc != NULL && os_lead_symbols(libc, leads, count) ? YES : NO);
        }
        lock_release(&process.lock);
    }
    return atomic_get_acquire(&is_possible) == YES;
}

/* Ours takes the libc's place for the whole program: flags other than RTLD_DEEPBIND pass as they are. */
__attribute__((used)) static void *deepbind_dlopen(const char *path, int flags)
{
    static _Atomic(void *) known;
    if (atomic_get(&known) == NULL) {
        atomic_set(&known, libc_next_symbol("dlopen"));
    }
    void *(*next)(const char *, int) = (void *(*)(const char *, int))atomic_get(&known);
    if (unlikely((flags & DEEPBIND) != 0)) {
        mixes_note_deepbind();
        flags &= deepbind_prepare() ? flags : ~DEEPBIND;
    }
    return likely(next != NULL) ? next(path, flags) : NULL;
}

void *dlopen(const char *path, int flags) PUBLIC_ALIAS(deepbind_dlopen);

#undef DEEPBIND
