/* SPDX-License-Identifier: MIT */
#include "hooks.h"

/* --- The kernel as hooks ---------------------------------------------------------------------- */

static void *kernel_alloc(extent_hooks_t *hooks, void *new_address, size_t size, size_t alignment,
                          bool *zero, bool *commit, unsigned arena)
{
    (void)hooks, (void)arena;
    if (size == 0 || size % os_page_size != 0 || !is_power_of_two(alignment)) {
        return NULL;
    }
    void *start = new_address == NULL
                      ? os_map_aligned(NULL, size, size_max(alignment, os_page_size))
                      : os_map(new_address, size);
    if (start != NULL && new_address != NULL && start != new_address) {
        os_unmap(start, size);
        start = NULL;
    }
    if (start != NULL) {
        *zero = true;
        *commit = true;
    }
    return start;
}

static bool kernel_dalloc(extent_hooks_t *hooks, void *address, size_t size, bool committed,
                          unsigned arena)
{
    (void)hooks, (void)committed, (void)arena;
    return !os_unmap(address, size);
}

static void kernel_destroy(extent_hooks_t *hooks, void *address, size_t size, bool committed,
                           unsigned arena)
{
    (void)hooks, (void)committed, (void)arena;
    if (!os_unmap(address, size)) {
        os_purge(address, size);
    }
}

/* Memory of the kernel is there as soon as it is touched: there is nothing to do, ... */
static bool kernel_commit(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                          size_t length, unsigned arena)
{
    (void)hooks, (void)address, (void)size, (void)offset, (void)length, (void)arena;
    return false;
}

/* ... and nothing that purging would not do. */
static bool kernel_decommit(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                            size_t length, unsigned arena)
{
    (void)hooks, (void)address, (void)size, (void)offset, (void)length, (void)arena;
    return true;
}

static bool kernel_purge_lazy(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                              size_t length, unsigned arena)
{
    (void)hooks, (void)size, (void)arena;
    return !os_purge_lazy((char *)address + offset, length);
}

static bool kernel_purge_forced(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                                size_t length, unsigned arena)
{
    (void)hooks, (void)size, (void)arena;
    return !os_purge((char *)address + offset, length);
}

static bool kernel_split(extent_hooks_t *hooks, void *address, size_t size, size_t size_a,
                         size_t size_b, bool committed, unsigned arena)
{
    (void)hooks, (void)address, (void)size, (void)size_a, (void)size_b, (void)committed,
        (void)arena;
    return false;
}

static bool kernel_merge(extent_hooks_t *hooks, void *address_a, size_t size_a, void *address_b,
                         size_t size_b, bool committed, unsigned arena)
{
    (void)hooks, (void)address_a, (void)size_a, (void)address_b, (void)size_b, (void)committed;
    (void)arena;
    return false;
}

static _Atomic(extent_hooks_t *) kernel_hooks; /* const once set */

static extent_hooks_t *hooks_of_kernel_known(void)
{
    return atomic_get_acquire(&kernel_hooks); /* pairs with hooks_of_kernel */
}

static extent_hooks_t *hooks_of_kernel(void)
{
    static extent_hooks_t hooks; /* filled at run time: the loader has nothing to relocate here */
    if (hooks_of_kernel_known() == NULL) {
        hooks = (extent_hooks_t){kernel_alloc,        kernel_dalloc,   kernel_destroy,
                                 kernel_commit,       kernel_decommit, kernel_purge_lazy,
                                 kernel_purge_forced, kernel_split,    kernel_merge};
        atomic_set_release(&kernel_hooks, &hooks); /* pairs with hooks_of_kernel_known */
    }
    return &hooks;
}

/* --- Calls ------------------------------------------------------------------------------------ */

static _Atomic uint32_t hooks_running;

static bool hooks_run(void)
{
    return atomic_get(&hooks_running) != 0;
}

/* A call of a hook, counted while it runs. */
#define CALL(call)                     \
    ({                                 \
        atomic_add(&hooks_running, 1); \
        __auto_type answer_ = (call);  \
        atomic_sub(&hooks_running, 1); \
        answer_;                       \
    })

static void *hooks_map(extent_hooks_t *hooks, size_t size, size_t alignment, unsigned arena,
                       bool *is_zero)
{
    if (hooks == NULL) {
        *is_zero = true;
        return os_map_aligned(NULL, size, alignment);
    }
    bool is_committed = true;
    *is_zero = false;
    void *start =
        hooks->alloc != NULL
            ? CALL(hooks->alloc(hooks, NULL, size, alignment, is_zero, &is_committed, arena))
            : NULL;
    if (start == NULL) {
        return NULL;
    }
    bool is_good = ((uintptr_t)start & (size_max(alignment, os_page_size) - 1)) == 0 &&
                   (is_committed || hooks_commit(hooks, start, size, arena));
    if (!is_good) {
        hooks_unmap(hooks, start, size, is_committed, true, arena);
        return NULL;
    }
    return start;
}

static bool hooks_unmap(extent_hooks_t *hooks, void *start, size_t size, bool is_committed,
                        bool for_ever, unsigned arena)
{
    if (hooks == NULL) {
        return os_unmap(start, size);
    }
    if (hooks->dalloc != NULL && !CALL(hooks->dalloc(hooks, start, size, is_committed, arena))) {
        return true;
    }
    if (for_ever && hooks->destroy != NULL) {
        atomic_add(&hooks_running, 1);
        hooks->destroy(hooks, start, size, is_committed, arena);
        atomic_sub(&hooks_running, 1);
    }
    return for_ever;
}

static bool hooks_split(extent_hooks_t *hooks, void *start, size_t size, size_t first,
                        bool is_committed, unsigned arena)
{
    check(first > 0 && first < size);
    return hooks->split != NULL &&
           !CALL(hooks->split(hooks, start, size, first, size - first, is_committed, arena));
}

static bool hooks_merge(extent_hooks_t *hooks, void *low, size_t low_size, void *high,
                        size_t high_size, bool is_committed, unsigned arena)
{
    check((char *)low + low_size == high);
    return hooks->merge != NULL &&
           !CALL(hooks->merge(hooks, low, low_size, high, high_size, is_committed, arena));
}

static bool hooks_commit(extent_hooks_t *hooks, void *start, size_t size, unsigned arena)
{
    /* Others took it away: it is there, but without access. */
    if (hooks == NULL) {
        return os_make_writable(start, size);
    }
    return hooks->commit != NULL && !CALL(hooks->commit(hooks, start, size, 0, size, arena));
}

static bool hooks_decommit(extent_hooks_t *hooks, void *start, size_t size, unsigned arena)
{
    return hooks->decommit != NULL && !CALL(hooks->decommit(hooks, start, size, 0, size, arena));
}

static bool hooks_purge_lazy(extent_hooks_t *hooks, void *start, size_t size, unsigned arena)
{
    return hooks->purge_lazy != NULL &&
           !CALL(hooks->purge_lazy(hooks, start, size, 0, size, arena));
}

static bool hooks_purge_forced(extent_hooks_t *hooks, void *start, size_t size, unsigned arena)
{
    return hooks->purge_forced != NULL &&
           !CALL(hooks->purge_forced(hooks, start, size, 0, size, arena));
}
