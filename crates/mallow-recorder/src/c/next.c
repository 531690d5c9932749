/* SPDX-License-Identifier: MIT
 *
 * The allocator that is recorded: the next one in the loader's order. Owns the memory that is given
 * out before it is known.
 */
#include "thread.h"

#include <dlfcn.h>
#include <string.h>

/* The next allocator's functions, in the order of `next_names`. */
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*free)(void *);
    void (*cfree)(void *);
    void (*free_sized)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
    size_t (*malloc_usable_size)(void *);
    void *(*dlopen)(const char *, int);
    int (*dlclose)(void *);
    void *(*new)(size_t);
    void *(*new_array)(size_t);
    void *(*new_nothrow)(size_t, const void *);
    void *(*new_array_nothrow)(size_t, const void *);
    void *(*new_aligned)(size_t, size_t);
    void *(*new_array_aligned)(size_t, size_t);
    void *(*new_aligned_nothrow)(size_t, size_t, const void *);
    void *(*new_array_aligned_nothrow)(size_t, size_t, const void *);
    void (*delete)(void *);
    void (*delete_array)(void *);
    void (*delete_sized)(void *, size_t);
    void (*delete_array_sized)(void *, size_t);
    void (*delete_nothrow)(void *, const void *);
    void (*delete_array_nothrow)(void *, const void *);
    void (*delete_aligned)(void *, size_t);
    void (*delete_array_aligned)(void *, size_t);
    void (*delete_sized_aligned)(void *, size_t, size_t);
    void (*delete_array_sized_aligned)(void *, size_t, size_t);
    void (*delete_aligned_nothrow)(void *, size_t, const void *);
    void (*delete_array_aligned_nothrow)(void *, size_t, const void *);
} next;

static const char *const next_names[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "free",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "malloc_usable_size",
    "dlopen",
    "dlclose",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};

static_assert(sizeof(next) == array_count(next_names) * sizeof(void *), "a name for each function");

/* --- Before the next allocator is known ------------------------------------------------------- */

/* dlsym itself allocates: it gets memory from here, which is never given back. Each block has its
 * size before it. */
static _Alignas(16) char early[64 << 10];
static _Atomic size_t early_used;

ALWAYS_INLINE bool is_early(const void *block)
{
    return unlikely((uintptr_t)block - (uintptr_t)early < sizeof(early));
}

static COLD void *early_malloc(size_t size)
{
    if (size > sizeof(early)) {
        return NULL;
    }
    size_t whole = align_up(size, 16) + 16;
    size_t at = atomic_fetch_add(&early_used, whole);
    if (at + whole > sizeof(early)) {
        return NULL;
    }
    *(size_t *)(early + at) = size;
    return early + at + 16;
}

static size_t early_size(const void *block)
{
    return *(const size_t *)((const char *)block - 16);
}

/* --- The next allocator ----------------------------------------------------------------------- */

/* How long a thread waits for another one that looks: in a child of fork that one is missing. */
#define FIND_STEP_US 100
#define FIND_STEPS 20000

/* Returns when the next allocator is known. Only the thread that looks comes back before, as dlsym allocates:
 * it gets memory from early_malloc. */
static COLD void next_find(void)
{
    static _Atomic uint32_t finder; /* who looks, or has looked */
    static _Atomic bool is_found;
    uint32_t me = system_tid(), before = 0;
    if (!atomic_compare_exchange_strong(&finder, &before, me)) {
        for (uint32_t i = 0; before != me && !atomic_load(&is_found) && i < FIND_STEPS; i++) {
            system_sleep_us(FIND_STEP_US);
        }
        return;
    }
    void *found[array_count(next_names)];
    for (size_t i = 0; i < array_count(next_names); i++) {
        found[i] = dlsym(RTLD_NEXT, next_names[i]);
    }
    python_find();
    ruby_find();
    /* Some are missing, which is none of the program's business: a success makes the libc forget
     * the last error. dlerror() would too, but glibc's takes the locks of message translation. */
    dlsym(RTLD_NEXT, "malloc");
    memcpy((char *)&next + sizeof(*found), found + 1, sizeof(next) - sizeof(*found));
    if (found[0] != NULL && next.free != NULL && !image_find_collector(found[0])) {
        atomic_store(&is_off, true);
    }
    /* Last, as who finds it does not wait. */
    __atomic_store_n((void **)(void *)&next.malloc, found[0], __ATOMIC_RELEASE);
    atomic_store(&is_found, true);
}

ALWAYS_INLINE void next_need(void)
{
    if (unlikely(__atomic_load_n((void **)(void *)&next.malloc, __ATOMIC_ACQUIRE) == NULL)) {
        next_find();
    }
}

/* Ours, whatever comes before it in the program. */
extern void *own_malloc(size_t) __attribute__((alias("malloc"), visibility("hidden")));

/* When this library is loaded: before the program takes locks of its own, as far as that is in our
 * hands. A malloc that comes before ours may not work yet: GCL's counts on what its main() does
 * first, and dlsym calls it where it finds nothing. Then the first call of what is ours finds it. */
CONSTRUCTOR static COLD void next_find_early(void)
{
    if (dlsym(RTLD_DEFAULT, "malloc") == (void *)(uintptr_t)own_malloc) {
        next_find();
    }
}
