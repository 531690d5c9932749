/* SPDX-License-Identifier: MIT
 *
 * The search, the memory and the race detector; see explorer.h. tsan_calls.c leads here.
 *
 * The search is depth first. An execution is a list of choices: which thread makes the next step, and
 * which value a load returns. The next execution repeats all but the last choice that has another
 * alternative. Two steps that touch nothing in common need not be tried in both orders: a thread whose
 * step was tried at a choice sleeps in what follows the other choices there, until somebody
 * touches what that step touches (Godefroid's sleep sets).
 */
#undef _FORTIFY_SOURCE /* a fortified longjmp takes a jump to another stack for a mistake */
#include "explorer.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "../test.h"
#include "memory_calls.h"

enum {
    STACK_BYTES = 256 * 1024,
    LOCATIONS = 160,
    STORES = 40,
    CHOICES = 1000,
    WATCHED = 32,
    GRANULES = 8192, /* a power of two */
    FOOTPRINT_WORDS = 16,
    TRACE = 2000,
    EXIT_FOUND = 3,
};

/* --- What a thread has done and knows ----------------------------------------------------------- */

/* What a thread knows, or what a store publishes: of each location the oldest value that may
 * still be read, and of each thread how many of its steps lie before. */
struct view {
    uint8_t oldest[LOCATIONS];
    uint16_t clock[EXPLORER_THREADS];
};

struct location {
    uintptr_t address;
    unsigned watched; /* number in `watched` + 1, or 0 */
    unsigned count;
    unsigned last_ordered; /* the last seq_cst store */
    uint64_t values[STORES];
    struct view published[STORES];
};

struct thread {
    jmp_buf at; /* where it goes on */
    bool is_made;
    struct view view;
    bool has_ended;
    const volatile void *waits_for; /* a lock's state; NULL: for nothing */
    unsigned waits_size;
    char stack[STACK_BYTES] __attribute__((aligned(16)));
};

/* The granules of 8 bytes that a step reads and writes, each a bit; two may share one. */
struct footprint {
    uint64_t reads[FOOTPRINT_WORDS];
    uint64_t writes[FOOTPRINT_WORDS];
};

struct choice {
    bool is_value;
    unsigned count;   /* of values */
    unsigned chosen;  /* value or thread */
    unsigned enabled; /* bits: threads that can make a step */
    unsigned done;    /* bits: threads tried here */
    unsigned asleep;  /* bits: threads whose step leads to nothing new */
    struct footprint steps[EXPLORER_THREADS];
};

/* Who wrote a byte last, and who read it, by their clocks. */
struct shadow {
    uintptr_t granule;
    unsigned execution;
    uint16_t written[8];
    uint8_t writer[8];
    uint16_t read[8][EXPLORER_THREADS];
};

struct event {
    uint8_t thread;
    const char *what;
    unsigned watched;
    uint64_t value;
};

static struct thread threads[EXPLORER_THREADS];
static struct location locations[LOCATIONS];
static unsigned location_count;
static struct view
    ordered_view; /* what the last exchange or seq_cst store of all knew: MEMORY_X86 */
static struct shadow shadows[GRANULES];
static struct choice choices[CHOICES];
static unsigned choice_count; /* of the path that is followed */
static unsigned choice_at;
static struct choice *last_choice; /* of a thread */
static bool is_redundant;
static unsigned old_loads;     /* of this execution */
static unsigned old_loads_max; /* 0: no limit */
static struct footprint step;
static struct event trace[TRACE];
static unsigned trace_count;

static struct {
    const volatile void *address;
    const char *name;
} watched[WATCHED];
static unsigned watched_count;
static struct {
    uintptr_t start, end;
} allowed[WATCHED];
static unsigned allowed_count;

static jmp_buf explorer_at;
static struct thread *running; /* NULL: no scenario's thread, so that nothing is observed */
static const struct scenario *current;
static enum explorer_memory memory;
static enum explorer_mistake mistake;
static unsigned execution; /* number of this one, over all explorations */

static unsigned thread_number(void)
{
    return (unsigned)(running - threads);
}

/* --- Reports ------------------------------------------------------------------------------------ */

static const char *memory_name(enum explorer_memory which)
{
    static const char *const names[] = {"ordered", "x86", "c11"};
    return names[which];
}

static void trace_print(void)
{
    fprintf(stderr, "%s, memory %s, interleaving %u:\n", current->name, memory_name(memory),
            execution);
    for (unsigned i = 0; i < trace_count; i++) {
        const struct event *event = &trace[i];
        fprintf(stderr, "  %*sthread %u: %s %s %#llx\n", event->thread * 12, "", event->thread,
                event->what, watched[event->watched - 1].name, (unsigned long long)event->value);
    }
}

static void trace_add(const char *what, const struct location *location, uint64_t value)
{
    if (location->watched != 0 && trace_count < TRACE) {
        trace[trace_count++] =
            (struct event){(uint8_t)thread_number(), what, location->watched, value};
    }
}

void explorer_fail(const char *format, ...)
{
    running = NULL;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    trace_print();
    _exit(EXIT_FOUND);
}

/* An assertion of the allocator ends here, or an access to what is no memory. */
static void on_signal(int number)
{
    explorer_fail("ended by signal %d", number);
}

/* --- Choices ------------------------------------------------------------------------------------ */

static bool footprints_meet(const struct footprint *a, const struct footprint *b)
{
    uint64_t common = 0;
    for (unsigned i = 0; i < FOOTPRINT_WORDS; i++) {
        common |= (a->writes[i] & (b->writes[i] | b->reads[i])) | (a->reads[i] & b->writes[i]);
    }
    return common != 0;
}

static void footprint_add(uintptr_t address, bool is_write)
{
    unsigned bit = (unsigned)((address >> 3) * 0x9E3779B97F4A7C15u >> 54); /* of 1024 */
    uint64_t *words = is_write ? step.writes : step.reads;
    words[bit / 64] |= (uint64_t)1 << (bit % 64);
}

/* The step of the last choice of a thread has ended. */
static void step_ended(void)
{
    if (last_choice != NULL && !is_redundant) {
        struct footprint *sum = &last_choice->steps[last_choice->chosen];
        for (unsigned i = 0; i < FOOTPRINT_WORDS; i++) {
            sum->reads[i] |= step.reads[i];
            sum->writes[i] |= step.writes[i];
        }
    }
}

static struct choice *choice_new(void)
{
    if (choice_count == CHOICES) {
        explorer_fail("more than %d steps: does a thread run in circles?", CHOICES);
    }
    choice_at++;
    struct choice *choice = &choices[choice_count++];
    choice->is_value = false;
    choice->done = choice->asleep = 0;
    return choice;
}

/* The sleepers at a new choice: those of the last one whose steps have nothing to do with the step that
 * was made since. */
static void choice_inherit(struct choice *choice, const struct choice *from)
{
    unsigned candidates = (from->asleep | from->done) & ~(1u << from->chosen);
    for (unsigned t = 0; t < EXPLORER_THREADS; t++) {
        if ((candidates >> t & 1) != 0 && !footprints_meet(&from->steps[t], &step)) {
            choice->asleep |= 1u << t;
            choice->steps[t] = from->steps[t];
        }
    }
}

static unsigned choose_thread(unsigned enabled)
{
    step_ended();
    if (is_redundant) {
        return (unsigned)__builtin_ctz(enabled);
    }
    struct choice *choice;
    if (choice_at < choice_count) {
        choice = &choices[choice_at++];
        if (choice->is_value || choice->enabled != enabled) {
            explorer_fail("the scenario does not repeat itself");
        }
    } else {
        struct choice *from = last_choice;
        choice = choice_new();
        choice->enabled = enabled;
        if (from != NULL) {
            choice_inherit(choice, from);
        }
        unsigned awake = enabled & ~choice->asleep;
        if (awake == 0) { /* ends as another one did */
            is_redundant = true;
            choice_count--;
            return (unsigned)__builtin_ctz(enabled);
        }
        choice->chosen = (unsigned)__builtin_ctz(awake);
        memset(&choice->steps[choice->chosen], 0, sizeof step);
    }
    last_choice = choice;
    memset(&step, 0, sizeof step);
    return choice->chosen;
}

static unsigned choose_value(unsigned count)
{
    if (count == 1 || is_redundant) {
        return 0;
    }
    if (choice_at < choice_count) {
        struct choice *choice = &choices[choice_at++];
        if (!choice->is_value || choice->count != count) {
            explorer_fail("the scenario does not repeat itself");
        }
        return choice->chosen;
    }
    struct choice *choice = choice_new();
    choice->is_value = true;
    choice->count = count;
    choice->chosen = 0;
    return 0;
}

/* Goes on to the next path. False if there is none. */
static bool choices_advance(void)
{
    while (choice_count > 0) {
        struct choice *choice = &choices[choice_count - 1];
        if (choice->is_value) {
            if (++choice->chosen < choice->count) {
                return true;
            }
        } else {
            choice->done |= 1u << choice->chosen;
            unsigned left = choice->enabled & ~choice->done & ~choice->asleep;
            if (left != 0) {
                choice->chosen = (unsigned)__builtin_ctz(left);
                memset(&choice->steps[choice->chosen], 0, sizeof step);
                return true;
            }
        }
        choice_count--;
    }
    return false;
}

/* --- Plain accesses ----------------------------------------------------------------------------- */

static bool is_private(uintptr_t address)
{
    return address - (uintptr_t)running->stack < STACK_BYTES;
}

static bool is_allowed(uintptr_t address)
{
    for (unsigned i = 0; i < allowed_count; i++) {
        if (address >= allowed[i].start && address < allowed[i].end) {
            return true;
        }
    }
    return false;
}

static struct shadow *shadow_of(uintptr_t granule)
{
    unsigned at = (unsigned)(granule * 0x9E3779B97F4A7C15u >> 51);
    for (unsigned tries = 0; tries < GRANULES; tries++, at++) {
        struct shadow *shadow = &shadows[at % GRANULES];
        if (shadow->execution != execution) {
            memset(shadow, 0, sizeof *shadow);
            shadow->execution = execution;
            shadow->granule = granule;
        }
        if (shadow->granule == granule) {
            return shadow;
        }
    }
    explorer_fail("the threads touch more memory than the explorer can note");
}

static bool is_race(const struct shadow *shadow, unsigned byte, bool is_write)
{
    const uint16_t *known = running->view.clock;
    bool found = shadow->written[byte] > known[shadow->writer[byte]];
    for (unsigned t = 0; is_write && t < EXPLORER_THREADS; t++) {
        found |= shadow->read[byte][t] > known[t];
    }
    return found;
}

/* Bytes of one granule. */
static void bytes_access(uintptr_t address, size_t size, bool is_write, const void *caller)
{
    struct shadow *shadow = shadow_of(address >> 3);
    unsigned me = thread_number();
    uint16_t now = running->view.clock[me];
    for (uintptr_t at = address; at < address + size; at++) {
        unsigned byte = at & 7;
        if (is_race(shadow, byte, is_write) && !is_allowed(at)) {
            explorer_fail(
                "race: thread %u %s %p, called from %p, unordered with another thread's access", me,
                is_write ? "writes" : "reads", (void *)at, caller);
        }
        if (is_write) {
            shadow->writer[byte] = (uint8_t)me;
            shadow->written[byte] = now;
        } else {
            shadow->read[byte][me] = now;
        }
    }
}

void memory_plain(const volatile void *address, size_t size, bool is_write, const void *caller)
{
    uintptr_t at = (uintptr_t)address, end = at + size;
    if (running == NULL || is_private(at)) {
        return;
    }
    while (at < end) {
        uintptr_t next = (at | 7) + 1;
        footprint_add(at, is_write);
        bytes_access(at, (next < end ? next : end) - at, is_write, caller);
        at = next;
    }
}

/* --- Atomic accesses ---------------------------------------------------------------------------- */

static uint64_t memory_read(const volatile void *address, unsigned size)
{
    switch (size) {
    case 1:
        return *(const volatile uint8_t *)address;
    case 2:
        return *(const volatile uint16_t *)address;
    case 4:
        return *(const volatile uint32_t *)address;
    default:
        return *(const volatile uint64_t *)address;
    }
}

static void memory_write(volatile void *address, unsigned size, uint64_t value)
{
    switch (size) {
    case 1:
        *(volatile uint8_t *)address = (uint8_t)value;
        break;
    case 2:
        *(volatile uint16_t *)address = (uint16_t)value;
        break;
    case 4:
        *(volatile uint32_t *)address = (uint32_t)value;
        break;
    default:
        *(volatile uint64_t *)address = value;
        break;
    }
}

static void view_join(struct view *view, const struct view *other)
{
    for (unsigned i = 0; i < location_count; i++) {
        view->oldest[i] = view->oldest[i] > other->oldest[i] ? view->oldest[i] : other->oldest[i];
    }
    for (unsigned t = 0; t < EXPLORER_THREADS; t++) {
        view->clock[t] = view->clock[t] > other->clock[t] ? view->clock[t] : other->clock[t];
    }
}

static unsigned watched_number(const volatile void *address)
{
    for (unsigned i = 0; i < watched_count; i++) {
        if (watched[i].address == address) {
            return i + 1;
        }
    }
    return 0;
}

static struct location *location_of(const volatile void *address, unsigned size)
{
    for (unsigned i = 0; i < location_count; i++) {
        if (locations[i].address == (uintptr_t)address) {
            return &locations[i];
        }
    }
    if (location_count == LOCATIONS) {
        explorer_fail("the threads use more atomic locations than the explorer can note");
    }
    struct location *location = &locations[location_count];
    location->address = (uintptr_t)address;
    location->watched = watched_number(address);
    location->count = 1;
    location->last_ordered = 0;
    location->values[0] = memory_read(address, size);
    memset(&location->published[0], 0, sizeof location->published[0]);
    for (unsigned t = 0; t < EXPLORER_THREADS; t++) {
        threads[t].view.oldest[location_count] = 0;
    }
    ordered_view.oldest[location_count] = 0;
    location_count++;
    return location;
}

static unsigned newest(const struct location *location)
{
    return location->count - 1;
}

static bool acquires(enum memory_order_of order)
{
    bool says_so = order == ORDER_ACQUIRE || order == ORDER_ACQ_REL || order == ORDER_SEQ_CST;
    return memory != MEMORY_C11 || (says_so && mistake != MISTAKE_NO_ACQUIRE);
}

static bool releases(enum memory_order_of order)
{
    bool says_so = order == ORDER_RELEASE || order == ORDER_ACQ_REL || order == ORDER_SEQ_CST;
    return memory != MEMORY_C11 || (says_so && mistake != MISTAKE_NO_RELEASE);
}

static bool is_ordered(enum memory_order_of order)
{
    return order == ORDER_SEQ_CST && mistake != MISTAKE_NO_SEQ_CST;
}

/* Goes on elsewhere until somebody goes on here. swapcontext would call the kernel twice, for signals. */
static void switch_to(jmp_buf here, jmp_buf there)
{
    if (_setjmp(here) == 0) {
        _longjmp(there, 1);
    }
}

/* Lets the others go first. */
static void pause_thread(void)
{
    struct thread *me = running;
    running = NULL;
    switch_to(me->at, explorer_at);
    running = me;
}

static struct location *access_begin(const volatile void *address, unsigned size, bool is_write)
{
    struct location *location = location_of(address, size);
    if (location->watched != 0) {
        pause_thread();
    }
    running->view.clock[thread_number()]++;
    footprint_add((uintptr_t)address, is_write);
    return location;
}

/* The thread reads the store of that number. */
static uint64_t read_store(struct location *location, unsigned number, bool acquire)
{
    struct view *view = &running->view;
    view->oldest[location - locations] = (uint8_t)number;
    if (acquire && number != 0) {
        view_join(view, &location->published[number]);
    }
    return location->values[number];
}

/* Adds a store. `with`: what an exchange has read, whose publication goes on; else NULL. */
static void add_store(struct location *location, unsigned size, uint64_t value, bool release,
                      bool ordered, const struct view *with)
{
    unsigned index = (unsigned)(location - locations);
    if (location->count == STORES) {
        explorer_fail("more than %d stores into one location", STORES);
    }
    unsigned number = location->count++;
    struct view *view = &running->view;
    view->oldest[index] = (uint8_t)number;
    struct view *published = &location->published[number];
    memset(published, 0, sizeof *published);
    if (with != NULL) {
        *published = *with;
    }
    if (release) {
        view_join(published, view);
    }
    published->oldest[index] = (uint8_t)number;
    location->values[number] = value;
    if (ordered) {
        location->last_ordered = number;
    }
    memory_write((volatile void *)location->address, size, value);
    view->clock[thread_number()]++; /* what the thread does from here on is not published */
}

/* On x86 an exchange waits until all earlier stores of its thread are visible. */
static void drain_if_x86(void)
{
    if (memory == MEMORY_X86) {
        footprint_add((uintptr_t)&ordered_view, true);
        view_join(&running->view, &ordered_view);
        ordered_view = running->view;
    }
}

uint64_t memory_load(const volatile void *address, unsigned size, enum memory_order_of order)
{
    if (running == NULL || is_private((uintptr_t)address)) {
        return memory_read(address, size);
    }
    struct location *location = access_begin(address, size, false);
    unsigned oldest = running->view.oldest[location - locations];
    if (is_ordered(order) && memory == MEMORY_C11 && oldest < location->last_ordered) {
        oldest = location->last_ordered;
    }
    bool may_be_old = memory != MEMORY_ORDERED && location->watched != 0 &&
                      (old_loads_max == 0 || old_loads < old_loads_max);
    unsigned number = newest(location);
    if (may_be_old) {
        number -= choose_value(number - oldest + 1);
    }
    bool is_old = number != newest(location);
    old_loads += is_old;
    uint64_t value = read_store(location, number, acquires(order));
    trace_add(is_old ? "loads (old)" : "loads", location, value);
    return value;
}

void memory_store(volatile void *address, unsigned size, uint64_t value, enum memory_order_of order)
{
    if (running == NULL || is_private((uintptr_t)address)) {
        memory_write(address, size, value);
        return;
    }
    struct location *location = access_begin(address, size, true);
    add_store(location, size, value, releases(order), is_ordered(order), NULL);
    trace_add("stores", location, value);
    if (is_ordered(order)) {
        drain_if_x86();
    }
}

static uint64_t swap_in_two_steps(struct location *location, unsigned size, uint64_t value,
                                  enum memory_order_of order)
{
    uint64_t old = read_store(location, newest(location), acquires(order));
    trace_add("loads, to exchange,", location, old);
    pause_thread();
    footprint_add(location->address, true);
    add_store(location, size, value, releases(order), false, NULL);
    trace_add("stores, to exchange,", location, value);
    return old;
}

static uint64_t update_apply(enum memory_update update, uint64_t old, uint64_t operand)
{
    switch (update) {
    case UPDATE_SWAP:
        return operand;
    case UPDATE_ADD:
        return old + operand;
    case UPDATE_SUB:
        return old - operand;
    case UPDATE_AND:
        return old & operand;
    default:
        return old | operand;
    }
}

static uint64_t size_mask(unsigned size)
{
    return size == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * size) - 1;
}

/* Whether this releases a lock, into which no mistake is planted. Locks are not watched: a step begins
 * where one is taken, but nobody can tell a release from one right after the last step under it. */
static bool is_unlock(enum memory_update update, enum memory_order_of order)
{
    return update == UPDATE_SWAP && order == ORDER_RELEASE;
}

uint64_t memory_modify(volatile void *address, unsigned size, enum memory_update update,
                       uint64_t operand, enum memory_order_of order)
{
    uint64_t old = memory_read(address, size);
    if (running == NULL || is_private((uintptr_t)address)) {
        memory_write(address, size, update_apply(update, old, operand) & size_mask(size));
        return old;
    }
    bool unlocks = is_unlock(update, order);
    struct location *location = access_begin(address, size, true);
    if (mistake == MISTAKE_SPLIT_SWAP && update == UPDATE_SWAP && location->watched != 0) {
        return swap_in_two_steps(location, size, operand, order);
    }
    drain_if_x86();
    unsigned number = newest(location);
    old = read_store(location, number, acquires(order));
    uint64_t new = update_apply(update, old, operand) & size_mask(size);
    add_store(location, size, new, unlocks || releases(order), is_ordered(order),
              &location->published[number]);
    trace_add(update == UPDATE_SWAP ? "exchanges for" : "changes to", location, new);
    drain_if_x86();
    return old;
}

/* How lock.c takes a lock, and nobody else replaces anything. */
static bool is_lock(enum memory_order_of order, enum memory_order_of failure)
{
    return order == ORDER_ACQUIRE && failure == ORDER_RELAXED;
}

/* Takes a lock: the thread sleeps until it is free. */
static void lock_step(volatile void *address, unsigned size, uint64_t value)
{
    struct location *location = location_of(address, size);
    running->waits_for = address;
    running->waits_size = size;
    pause_thread();
    running->waits_for = NULL;
    running->view.clock[thread_number()]++;
    footprint_add((uintptr_t)address, true);
    drain_if_x86();
    unsigned number = newest(location);
    read_store(location, number, true);
    add_store(location, size, value, false, false, &location->published[number]);
    drain_if_x86();
}

bool memory_replace(volatile void *address, unsigned size, uint64_t *expected, uint64_t value,
                    enum memory_order_of order, enum memory_order_of failure)
{
    uint64_t old = memory_read(address, size);
    if (running == NULL || is_private((uintptr_t)address)) {
        bool is_equal = old == *expected;
        if (is_equal) {
            memory_write(address, size, value);
        }
        *expected = old;
        return is_equal;
    }
    if (is_lock(order, failure)) {
        lock_step(address, size, value);
        return true;
    }
    struct location *location = access_begin(address, size, true);
    drain_if_x86();
    unsigned number = newest(location);
    bool is_equal = location->values[number] == *expected;
    old = read_store(location, number, acquires(is_equal ? order : failure));
    if (is_equal) {
        add_store(location, size, value, releases(order), is_ordered(order),
                  &location->published[number]);
    }
    trace_add(is_equal ? "replaces by" : "does not replace", location, is_equal ? value : old);
    drain_if_x86();
    *expected = old;
    return is_equal;
}

/* --- Executions --------------------------------------------------------------------------------- */

void explorer_watch(const volatile void *address, const char *name)
{
    if (watched_count == WATCHED) {
        explorer_fail("too many watched addresses");
    }
    watched[watched_count].address = address;
    watched[watched_count++].name = name;
}

void explorer_allow_race(const volatile void *address, size_t size)
{
    if (allowed_count == WATCHED) {
        explorer_fail("too many allowed races");
    }
    allowed[allowed_count].start = (uintptr_t)address;
    allowed[allowed_count++].end = (uintptr_t)address + size;
}

/* Runs in each execution from the start to the end. */
static void thread_main(int number)
{
    for (;;) {
        running = &threads[number];
        current->threads[number]();
        threads[number].has_ended = true;
        pause_thread();
    }
}

static void thread_begin(unsigned number)
{
    struct thread *thread = &threads[number];
    thread->has_ended = current->threads[number] == NULL;
    thread->waits_for = NULL;
    memset(&thread->view, 0, sizeof thread->view);
    thread->view.clock[number] = 1;
}

static void thread_resume(unsigned number)
{
    struct thread *thread = &threads[number];
    if (thread->is_made) {
        switch_to(explorer_at, thread->at);
        return;
    }
    thread->is_made = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = thread->stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, (void (*)(void))thread_main, 1, (int)number);
    if (_setjmp(explorer_at) == 0) {
        setcontext(&context);
    }
}

static unsigned threads_enabled(bool *is_any_left)
{
    unsigned enabled = 0;
    *is_any_left = false;
    for (unsigned t = 0; t < EXPLORER_THREADS; t++) {
        const struct thread *thread = &threads[t];
        if (thread->has_ended) {
            continue;
        }
        *is_any_left = true;
        if (thread->waits_for == NULL || memory_read(thread->waits_for, thread->waits_size) == 0) {
            enabled |= 1u << t;
        }
    }
    return enabled;
}

static void execute(void)
{
    execution++;
    location_count = watched_count = allowed_count = trace_count = choice_at = 0;
    last_choice = NULL;
    is_redundant = false;
    old_loads = 0;
    memset(&ordered_view, 0, sizeof ordered_view);
    memset(&step, 0, sizeof step);
    current->setup();
    for (unsigned t = 0; t < EXPLORER_THREADS; t++) {
        thread_begin(t);
    }
    bool is_any_left;
    for (;;) {
        unsigned enabled = threads_enabled(&is_any_left);
        if (!is_any_left) {
            break;
        }
        if (enabled == 0) {
            explorer_fail("deadlock: every thread waits for a lock");
        }
        thread_resume(choose_thread(enabled));
    }
    step_ended();
    current->finish();
}

static void explore_one(const struct scenario *scenario, enum explorer_memory in)
{
    signal(SIGABRT, on_signal);
    signal(SIGSEGV, on_signal);
    current = scenario;
    memory = in;
    choice_count = 0;
    execute(); /* leaves unused descriptors and tables behind, so that the next ones are all alike */
    choice_count = 0;
    unsigned first = execution;
    unsigned redundant = 0;
    size_t longest = 0;
    do {
        execute();
        redundant += is_redundant;
        longest = choice_count > longest ? choice_count : longest;
    } while (choices_advance());
    printf("  %-34s memory %-8s %8u interleavings, %u cut short, at most %zu choices\n",
           scenario->name, memory_name(in), execution - first - redundant, redundant, longest);
    fflush(stdout);
}

void explore(const struct scenario *scenario)
{
    mistake = MISTAKE_NONE;
    old_loads_max = 0;
    explore_one(scenario, MEMORY_ORDERED);
    explore_one(scenario, MEMORY_C11);
}

void explore_wide(const struct scenario *scenario)
{
    mistake = MISTAKE_NONE;
    old_loads_max = getenv("MALLOW_LONG") ? 0 : 1;
    explore_one(scenario, MEMORY_ORDERED);
    explore_one(scenario, MEMORY_C11);
}

void explore_large(const struct scenario *scenario)
{
    mistake = MISTAKE_NONE;
    old_loads_max = 1;
    explore_one(scenario, MEMORY_ORDERED);
    if (getenv("MALLOW_LONG")) {
        explore_one(scenario, MEMORY_C11);
    }
}

void explore_finds(const struct scenario *scenario, enum explorer_memory in,
                   enum explorer_mistake planted, const char *sentence)
{
    int ends[2];
    static char text[1 << 16];
    CHECK_EQ(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        mistake = planted;
        explore_one(scenario, in);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)got;
    }
    close(ends[0]);
    text[used] = 0;
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FOUND,
              "%s: the planted mistake was not found: status %#x: %s", scenario->name,
              (unsigned)status, text);
    CHECK_MSG(strstr(text, sentence) != NULL, "'%s' is not in '%s'", sentence, text);
}
