/* SPDX-License-Identifier: MIT */
#include "thread.h"

#include "../memory/meta.h"
#include "../memory/secret.h"
#include "../os/memcheck.h"
#include "../os/tags.h"
#include "../settings/conf.h"
#include "../settings/load.h"
#include "../slots/guarded.h"
#include "../slots/quarantine.h"
#include "heap_valid.h"
#include "moving.h"
#include "orphan.h"
#include "delay.h"
#include "remote.h"
#include "sampling.h"
#include "stack.h"
#include "tick.h"

/* How often the end of a thread is put off, so that destructors that run after ours still find its
 * heap. POSIX promises four rounds; each costs a walk over all keys. */
#define EXIT_ROUNDS 1u

/* Initialised data, so that the start writes to a page that the loader has written to already. */
static struct {
    struct lock lock; /* start and options */
    struct lock heaps_lock;
    struct lock shared_lock;     /* of heap_shared */
    unsigned arenas_wanted;      /* lock: heaps; 0: not known yet */
    unsigned arenas_told;        /* lock: heaps; so many the program may name, for ever */
    _Atomic unsigned heaps_made; /* lock: heaps; fork reads it before it takes that */
    _Atomic unsigned cpus;       /* that arenas_wanted follows; 0: it does not */
    struct heap *idle_heaps;     /* lock: heaps */
    _Atomic uint32_t state;      /* 0, or 1 when process_init is done */
    _Atomic bool stay_slow;
    _Atomic bool has_orphans; /* perhaps: this process is the child of one with several heaps */
    unsigned fork_depth;      /* lock: heaps; forks between the program's start and this process */
    void *survivor;           /* lock: heaps; the thread that made the last of them */
    bool fork_has_streams;    /* owner of the gate: libc_lock_streams was called */
    unsigned fork_nested;     /* owner of the gate: forks by signal handlers during this one */
} process = {
    .lock = LOCK_INITIALIZER(LOCK_PROCESS),
    .heaps_lock = LOCK_INITIALIZER(LOCK_HEAPS),
    .shared_lock = LOCK_INITIALIZER(LOCK_SHARED),
};

static struct heap heap_shared IN_SECTION(heaps); /* lock: shared */

static void thread_ended(void *argument);
static NOINLINE struct heap *thread_enter_shared(void);
static void fork_before(void);
static void fork_in_parent(void);
static void fork_in_child(void);

/* --- Start ------------------------------------------------------------------------------------ */

static struct arena *arena_get_locked(unsigned index)
{
    check(lock_is_mine(&process.heaps_lock) && index < ARENAS_MAX);
    for (unsigned i = arena_count(); i <= index; i++) {
        slab_pools_init(i);
        arena_init(i);
    }
    return arena_at(index);
}

static void arenas_count_locked(void)
{
    check(lock_is_mine(&process.heaps_lock));
    if (process.arenas_wanted == 0) {
        process.arenas_wanted = arenas_asked_for();
    }
}

static NOINLINE void process_init_slow(void)
{
    lock_take(&process.lock);
    if (atomic_get(&process.state) == 0) {
        os_init();
        libc_learn_threads();
        options_load();
        seal_open();
        secrets_init();
        if (option(OPTION_memory_tags)) {
            tags_load();
            if (!tags_are_on()) {
                log_warn(
                    "memory_tags has no effect: it needs the secure build on aarch64, a CPU and a kernel that "
                    "have tags, and a process of one thread");
            }
        }
        meta_load();
        pagemap_load();
        limit_look();
        profile_load();
        guarded_load();
        if (MW_TRACK) {
            memcheck_look();
        }
        strength_load();
        mixes_load();
        seal_close();
        if (conf_keeps_any()) {
            wishes_load();
            magazines_load();
            interval_load();
        }
        if (option(OPTION_zero) || option(OPTION_junk)) {
            atomic_set(&process.stay_slow, true);
        }
        if (MW_IN_LIBC) {
            lock_take(&process.heaps_lock);
            arenas_count_locked(); /* as process_loaded does */
            lock_release(&process.heaps_lock);
        }
        libc_watch_threads(thread_ended);
        atomic_set_release(&process.state, 1); /* pairs with process_init */
    }
    lock_release(&process.lock);
}

static void process_init(void)
{
    if (unlikely(atomic_get_acquire(&process.state) == 0)) { /* pairs with process_init_slow */
        process_init_slow();
    }
}

/* --- A thread's heap -------------------------------------------------------------------------- */

/* New heaps take the arenas in turn. Where a thread runs now says little about where it will, and
 * asking may be a system call, which a program that has locked itself in does not allow; percpu_arena asks. */
static struct arena *arena_choose_locked(void)
{
    unsigned made = atomic_get(&process.heaps_made);
    if (made == 0 && wishes.by_cpu == ARENA_IN_TURN) {
        return arena_get_locked(0);
    }
    arenas_count_locked();
    long place = arena_by_cpu(process.arenas_wanted);
    return arena_get_locked(place >= 0 ? (unsigned)place : made % process.arenas_wanted);
}

static bool thread_limit_arenas(unsigned limit)
{
    lock_take(&table_lock);
    lock_take(&process.heaps_lock);
    if (limit != 0 && limit <= ARENAS_MAX) {
        /* What the program has made has the numbers behind these. */
        bool has_explicit = atomic_get_acquire(&explicit_count) != 0; /* pairs with explicit_new */
        process.arenas_wanted =
            has_explicit && limit > explicit_arenas[0]->number ? explicit_arenas[0]->number : limit;
    }
    lock_release(&process.heaps_lock);
    lock_release(&table_lock);
    return true;
}

/* Threads to come have as many arenas as the cgroup allows CPUs now; those that exist stay. */
static void arenas_follow_cpus(void)
{
    unsigned cpus = limit_cpus();
    if (likely(cpus == atomic_get(&process.cpus)) || directs_are_mine()) {
        return;
    }
    atomic_set(&process.cpus, cpus);
    if (option(OPTION_arenas) == 0) {
        thread_limit_arenas(arenas_for_cpus(cpus));
    }
}

static struct heap *heap_obtain(void)
{
    lock_take(&process.heaps_lock);
    struct heap *heap = process.idle_heaps;
    if (heap != NULL) {
        check(heap->thread == NULL && !heap->is_orphan && heap_is_empty(heap));
        process.idle_heaps = heap->next_idle;
        heap_forget_wishes(heap);
        heap->arena = wishes.by_cpu != ARENA_IN_TURN ? arena_choose_locked() : heap->arena;
    } else {
        heap = meta_alloc_at_page(sizeof *heap);
        if (heap != NULL) {
            heap_init(heap, arena_choose_locked());
            atomic_add(&process.heaps_made, 1);
            heap->next = atomic_get(&heaps.all);
            atomic_set_release(&heaps.all, heap); /* pairs with its readers' acquire */
        }
    }
    if (heap != NULL) {
        heap->thread = os_thread_id();
        heap->fork_depth = process.fork_depth;
        heap->may_sample = atomic_get(&profile.starts_active);
        heap->is_uncached = wishes.are_uncached;
        heap->cached_most = wishes.cached_most;
    }
    lock_release(&process.heaps_lock);
    if (heap != NULL) {
        atomic_add_ordered(&heaps.in_use, 1); /* pairs with purge_thread_run */
    }
    return heap;
}

static void heap_make_idle_locked(struct heap *heap)
{
    check(lock_is_mine(&process.heaps_lock) && !heap->is_orphan);
    check(process.idle_heaps != heap && heap != &heap_shared && heap_is_empty(heap));
    heap->thread = NULL;
    heap->next_idle = process.idle_heaps;
    process.idle_heaps = heap;
}

/* The thread allocates from no explicit arena any more. */
static void heap_unbind(struct heap *heap)
{
    if (heap->bound != NULL) {
        check(atomic_get(&heap->bound->bound) > 0);
        atomic_sub(&heap->bound->bound, 1);
        heap->bound = NULL;
    }
    heap->is_uncached = false;
    heap->cached_most = 0;
}

/* What the thread freed last goes on waiting: its end is no shorter way to use it again. */
static void thread_pass_on_delayed(struct heap *heap)
{
    if (!delay_is_empty(heap)) {
        struct heap *shared = thread_enter_shared();
        delay_pass_on(heap, shared);
        thread_leave(shared);
    }
}

static void thread_ended(void *argument)
{
    struct heap *heap = argument;
    if (heap_own != heap) {
        return;
    }
    heap_unbind(heap);
    if (heap->exit_rounds++ < EXIT_ROUNDS && libc_watch_this_thread(heap)) {
        return;
    }
    check(heap->thread == os_thread_id() && atomic_get(&heaps.in_use) > 0);
    heap_self = HEAP_NONE;
    heap_own = HEAP_ENDED;
    memcheck_enter();
    heap_return_lists(heap);
    heap_stop_sampling(heap);
    thread_pass_on_delayed(heap);
    heap_abandon(heap);
    purge_thread_heap_ended();
    heap->exit_rounds = 0;
    lock_take(&process.heaps_lock);
    heap_make_idle_locked(heap);
    lock_release(&process.heaps_lock);
    memcheck_leave();
}

static NOINLINE struct heap *thread_attach(void)
{
    process_init();
    arenas_follow_cpus();
    struct heap *heap = heap_obtain();
    if (heap == NULL) {
        return NULL;
    }
    check(heap_own <= HEAP_FREES(FREES_WITHOUT_HEAP) && heap_own != HEAP_ENDED);
    heap_own = heap;
    heap_self = atomic_get(&process.stay_slow) || heap->is_uncached ? HEAP_NONE : heap;
    /* May allocate, hence last. Without it the slabs of this thread are lost when it ends. */
    libc_watch_this_thread(heap);
    purge_thread_want();
    return heap;
}

static NOINLINE struct heap *thread_enter_shared(void)
{
    lock_take(&process.heaps_lock);
    struct arena *arena = arena_get_locked(0);
    lock_release(&process.heaps_lock);
    lock_take(&process.shared_lock);
    if (heap_shared.arena == NULL) {
        heap_init(&heap_shared, arena);
    }
    return &heap_shared;
}

/* The orphans, linked by next_idle: no thread of this process has entered since the fork, but to come here. */
static struct heap *orphans_find_locked(void)
{
    struct heap *orphans = NULL;
    check(lock_is_mine(&process.heaps_lock));
    for (struct heap *heap = atomic_get(&heaps.all); heap != NULL; heap = heap->next) {
        check(!heap->is_orphan);
        bool is_of_parent = heap->thread != NULL && heap->fork_depth != process.fork_depth;
        if (is_of_parent && heap->thread != process.survivor) {
            heap->is_orphan = true;
            heap->next_idle = orphans;
            orphans = heap;
        }
    }
    return orphans;
}

/* Makes what a fork has left free, and the heaps, usable again. Not before the child needs memory: most call exec. */
static NOINLINE void orphans_adopt(void)
{
    lock_take(&process.lock); /* a fork waits for the end of this */
    bool is_mine = atomic_exchange_explicit(&process.has_orphans, false, memory_order_relaxed);
    lock_take(&process.heaps_lock);
    struct heap *orphans = is_mine ? orphans_find_locked() : NULL;
    lock_release(&process.heaps_lock);
    for (struct heap *heap = orphans; heap != NULL; heap = heap->next_idle) {
        heap_unbind(heap);
    }
    orphans_empty(orphans);
    lock_take(&process.heaps_lock);
    while (orphans != NULL) {
        struct heap *heap = orphans;
        orphans = heap->next_idle;
        heap->is_orphan = false;
        heap_make_idle_locked(heap);
    }
    lock_release(&process.heaps_lock);
    lock_release(&process.lock);
}

static struct heap *thread_enter(void)
{
    if (unlikely(atomic_get(&process.has_orphans))) {
        orphans_adopt();
    }
    struct heap *heap = heap_own;
    if (likely(heap > HEAP_FREES(FREES_WITHOUT_HEAP))) {
        return heap;
    }
    heap = heap != HEAP_ENDED ? thread_attach() : NULL;
    return heap != NULL ? heap : thread_enter_shared();
}

static struct heap *thread_enter_to_free(void)
{
    struct heap *heap = heap_own;
    if (unlikely(heap < HEAP_FREES(FREES_WITHOUT_HEAP)) && heap != HEAP_ENDED) {
        heap_own = HEAP_FREES((uintptr_t)heap / 2 + 1);
        return thread_enter_shared();
    }
    return thread_enter();
}

static void thread_leave(struct heap *heap)
{
    check(heap == &heap_shared ? lock_is_mine(&process.shared_lock)
                               : heap == heap_own && heap->thread == os_thread_id());
    if (heap == &heap_shared) {
        /* Perhaps nobody comes here again. */
        delay_shorten(heap);
        heap_flush_outboxes(heap);
        heap_return_lists(heap);
        stack_flush(heap);
        lock_release(&process.shared_lock);
    }
}

static bool thread_stays_slow(void)
{
    return atomic_get(&process.stay_slow);
}

static void thread_stay_slow(void)
{
    atomic_set(&process.stay_slow, true);
    heap_self = HEAP_NONE;
}

static unsigned thread_arenas(void)
{
    lock_take(&process.heaps_lock);
    arenas_count_locked();
    size_t now = size_max(process.arenas_wanted, arena_count());
    unsigned count = process.arenas_told = (unsigned)size_max(process.arenas_told, now);
    lock_release(&process.heaps_lock);
    return count;
}

/* --- Fork ------------------------------------------------------------------------------------- */

/* The child has only the thread that forked. That thread holds every lock meanwhile, so all that
 * locks protect is whole in the child. The heaps of the other threads are orphans, which may be in
 * the middle of something: orphan.h says how they are used again.
 *
 * A signal handler may fork while its thread is in the middle of malloc or free, with locks in its
 * hands. Then it takes none: it cannot wait for another thread, which may wait for what it holds.
 * The call goes on when the handler returns, in the parent and in the child; until then the child
 * of a program with several threads may call only what POSIX allows it, which malloc is not. */

static bool fork_visit_locks(bool (*visit)(struct lock *))
{
    bool any = visit(&table_lock);
    any |= directs_have(visit);
    any |= visit(&quarantine.lock);
    any |= visit(&process.lock);
    any |= visit(&process.heaps_lock);
    any |= visit(&process.shared_lock);
    any |= visit(&tray_lock);
    any |= visit(&emptied_lock);
    any |= visit(&rob_lock);
    any |= visit(&memory_limit.lock);
    for (unsigned i = 0; i < arena_count(); i++) {
        any |= visit(&slab_pool_at(arena_at(i))->lock);
        any |= visit(&arena_at(i)->growth_lock);
        any |= visit(&arena_at(i)->purge_lock);
    }
    for (unsigned i = 0; i < arenas_ever(); i++) {
        any |= visit(&arena_ever_at(i)->lock);
    }
    any |= visit(&track_tables_lock);
    any |= visit(&guarded_lock);
    any |= visit(&meta.lock);
    return any;
}

static bool free_unless_mine(struct lock *lock)
{
    if (!lock_is_mine(lock)) {
        lock_release_in_child(lock);
    }
    return false;
}

static void fork_take(void)
{
    lock_take(&table_lock); /* no arena is made by the program from now on */
    directs_take();
    if (!MW_FENCES) {
        lock_take(&quarantine.lock);
    }
    lock_take(&process.lock);
    lock_take(&process.heaps_lock);
    lock_take(&process.shared_lock);
    lock_take(&tray_lock);
    for (unsigned i = 0; i < arena_count(); i++) {
        slab_pools_lock(i);
    }
    lock_take(&emptied_lock);
    lock_take(&rob_lock);
    if (MW_FENCES) {
        lock_take(&quarantine.lock); /* of another rank, see quarantine.h */
    }
    lock_take(&memory_limit.lock);
    for (unsigned i = 0; i < arena_count(); i++) {
        lock_take(&arena_at(i)->growth_lock);
    }
    for (unsigned i = 0; i < arena_count(); i++) {
        lock_take(&arena_at(i)->purge_lock);
    }
    for (unsigned i = 0; i < arenas_ever(); i++) {
        lock_take(&arena_ever_at(i)->lock);
    }
    lock_take(&track_tables_lock);
    lock_take(&guarded_lock);
    lock_take(&meta.lock);
    check(fork_visit_locks(lock_is_mine));
    lock_gate_close();
}

static void fork_release(bool in_child)
{
    check(lock_gate_is_mine() && process.fork_nested == 0);
    void (*release)(struct lock *) = in_child ? lock_release_in_child : lock_release;
    lock_gate_open();
    release(&meta.lock);
    release(&guarded_lock);
    release(&track_tables_lock);
    for (unsigned i = arenas_ever(); i-- > 0;) {
        release(&arena_ever_at(i)->lock);
    }
    for (unsigned i = arena_count(); i-- > 0;) {
        release(&arena_at(i)->purge_lock);
        release(&arena_at(i)->growth_lock);
    }
    release(&memory_limit.lock);
    release(&rob_lock);
    release(&emptied_lock);
    for (unsigned i = arena_count(); i-- > 0;) {
        slab_pools_unlock(i, in_child);
    }
    release(&tray_lock);
    release(&process.shared_lock);
    release(&process.heaps_lock);
    release(&process.lock);
    release(&quarantine.lock);
    directs_visit(release);
    release(&table_lock);
}

static void fork_before(void)
{
    if (lock_gate_is_mine()) {
        process.fork_nested++; /* a signal handler between the handlers of a fork */
        return;
    }
    if (fork_visit_locks(lock_is_mine)) {
        return;
    }
    fork_visit_locks(lock_pass_wake_on); /* this may be a handler, in the middle of lock_wait */
    /* However few heaps there are: a thread may hold a stream while it waits for its first. */
    bool has_streams = !libc_has_one_thread();
    if (has_streams) {
        libc_lock_streams();
    }
    moving_stop();
    fork_take();
    process.fork_has_streams = has_streams;
}

/* Whether this thread took all locks for the fork that is over now. */
static bool fork_took_locks(void)
{
    if (!lock_gate_is_mine()) {
        return false;
    }
    if (process.fork_nested > 0) {
        process.fork_nested--;
        return false;
    }
    return true;
}

static void fork_in_parent(void)
{
    if (fork_took_locks()) {
        bool has_streams = process.fork_has_streams;
        moving_go_on();
        fork_release(false);
        if (has_streams) {
            libc_unlock_streams();
        }
    }
}

static void fork_in_child(void)
{
    bool was_nested = lock_gate_is_mine() && process.fork_nested > 0;
    moving_forget_others();
    atomic_set(&heaps.in_use, thread_has_heap());
    atomic_set(&purge_thread.is_started, false);
    atomic_set(&profile.is_dumping, false); /* perhaps another thread did */
    atomic_set(&interval.is_printing, false);
    atomic_add(&profile.round, 1); /* else it would choose its samples as the parent does */
    track_forget_thread();
    fault_in_child();
    random_diverge();
    if (thread_has_heap()) {
        delay_draw_anew(heap_own);
    }
    if (fork_took_locks()) {
        if (process.fork_has_streams) {
            libc_reset_streams_in_child();
        }
        process.fork_depth++;
        process.survivor = os_thread_id();
        atomic_set(&process.has_orphans, atomic_get(&process.heaps_made) > 1);
        fork_release(true);
        purge_thread_want();
    } else if (!was_nested) {
        lock_gate_open(); /* perhaps another thread closed it */
        fork_visit_locks(free_unless_mine);
    }
}

/* --- When the program is loaded --------------------------------------------------------------- */

/* What asks the kernel or the C library for something is done here, before main: later the program
 * may have locked itself in, used up the thread-specific keys, or come to its first malloc from
 * within pthread_atfork, which cannot be called again from there. */
#if !MW_IN_LIBC
CONSTRUCTOR static void process_loaded(void)
{
    process_init();
    lock_take(&process.heaps_lock);
    arenas_count_locked();
    lock_release(&process.heaps_lock);
    libc_watch_fork(fork_before, fork_in_parent, fork_in_child);
    atomic_set(&purge_thread.may_start, true);
    purge_thread_want();
}
#endif
