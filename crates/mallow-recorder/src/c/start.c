/* SPDX-License-Identifier: MIT
 *
 * Beginnings: of a program image (finding the collector's memory file), of a thread (taking a slot),
 * of a forked child; and waiting for room. All of it is rare.
 */
#include "thread.h"

#include <dlfcn.h>
#include <string.h>

extern char **environ __attribute__((weak));

/* What a fork must not copy: wiped in the child. */
struct image {
    _Atomic uint64_t id;     /* 0: this process has not said who it is */
    _Atomic uint32_t naming; /* enum naming */
    _Atomic bool has_thread; /* one has begun to record */
    _Atomic bool is_shared;  /* a second one too; set before that records its first call */
    struct thread threads[SLOT_COUNT];
};

static struct image *image;
static uint64_t image_before;           /* the image that this process was forked from, or itself */
static _Atomic bool is_off;             /* there is no collector */
static char file_path[128];             /* of the memory file */
static uint64_t file_inode;             /* of the one that `control` is mapped from */
static const char *allocator_path = ""; /* who serves malloc */
static uint64_t wakeup_words;

static _Thread_local __attribute__((tls_model("initial-exec"))) struct thread *self;

/* Stands for "record nothing here": every call looks like the allocator's own. */
static struct thread unrecorded = {.inside = UINTPTR_MAX};

/* --- The program image ------------------------------------------------------------------------ */

static const char *environment_value(const char *name, char *buffer, size_t size)
{
    size_t length = strlen(name);
    if (&environ != NULL && environ != NULL) {
        for (char **entry = environ; *entry != NULL; entry++) {
            if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') {
                return *entry + length + 1;
            }
        }
    }
    /* The loader allocates before libc has set environ. */
    size_t used = system_read_file("/proc/self/environ", buffer, size - 1);
    buffer[used] = '\0';
    for (size_t at = 0; at < used; at += strlen(buffer + at) + 1) {
        if (strncmp(buffer + at, name, length) == 0 && buffer[at + length] == '=') {
            return buffer + at + length + 1;
        }
    }
    return NULL;
}

/* As the kernel shows the name that channel.rs gives it. */
static const char file_name[] = "/memfd:mallow-record (deleted)";

/* The memory file, or below 0. Programs may outlive the collector, and its number is another process's then. The files
 * of that one are left alone: to open one may do something. */
static int file_open(struct stat *about)
{
    char name[sizeof(file_name)];
    const size_t expected = sizeof(file_name) - 1;
    long length =
        system_call(SYS_readlinkat, AT_FDCWD, (long)file_path, (long)name, sizeof(name), 0, 0);
    if (length != (long)expected || strncmp(name, file_name, expected) != 0) {
        return -1;
    }
    int fd = system_open(file_path, O_RDWR);
    if (fd >= 0 && !system_stat(fd, about)) {
        system_close(fd);
        return -1;
    }
    return fd;
}

static bool image_find_collector(const void *next_malloc)
{
    static char buffer[64 << 10]; /* read once, before there are threads */
    const char *path = environment_value("MALLOW_RECORD", buffer, sizeof(buffer));
    if (path == NULL || strlen(path) >= sizeof(file_path)) {
        return false;
    }
    memcpy(file_path, path, strlen(path) + 1);
    struct stat about;
    int fd = file_open(&about);
    if (fd < 0) {
        return false;
    }
    /* What lies beyond the end of a file can be mapped, and kills who touches it. */
    struct control *found = NULL;
    if ((uint64_t)about.st_size >= sizeof(struct control)) {
        found = system_map(sizeof(struct control), MAP_SHARED, fd, 0);
    }
    system_close(fd);
    if (found == NULL || found->magic != LAYOUT_MAGIC ||
        (uint64_t)about.st_size != found->first_slot + SLOT_COUNT * found->slot_size ||
        atomic_load(&found->is_closed)) {
        return false;
    }
    struct image *fresh =
        system_map(sizeof(struct image), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    /* Without wiping, a forked child would write into its parent's rings. */
    if (fresh == NULL || !system_advise(fresh, sizeof(struct image), MADVISE_WIPEONFORK)) {
        return false;
    }
    Dl_info info;
    if (dladdr(next_malloc, &info) != 0 && info.dli_fname != NULL) {
        allocator_path = info.dli_fname;
    }
    file_inode = about.st_ino;
    wakeup_words = found->ring_words / 4;
    atomic_fetch_add(&found->programs, 1);
    control = found;
    image = fresh;
    return true;
}

/* --- Messages of text ------------------------------------------------------------------------- */

/* Words of the bytes from `at` on, the last one padded with zeros. The mask, besides the ring's end, keeps
 * compilers from making a call of memcpy of it, which a sanitizer in the program would have its say on. */
static void thread_put_bytes(struct thread *thread, uint64_t at, const void *bytes, size_t size)
{
    const char *from = bytes;
    uint64_t *words = thread->words, mask = thread->mask, next = thread->head + at;
    size_t whole = size & ~(size_t)7;
    for (const char *end = from + whole; from < end; from += 8) {
        uint64_t word;
        memcpy(&word, from, 8);
        words[next++ & mask] = word;
    }
    if (whole < size) {
        uint64_t word = 0;
        memcpy(&word, from, size - whole);
        words[next & mask] = word;
    }
}

static struct thread *thread_send(struct thread *thread, enum message kind, const uint64_t *words,
                                  uint64_t count, const void *bytes, size_t size)
{
    uint64_t total = 1 + count + (size + 7) / 8;
    thread = thread_room(thread, total);
    if (thread == NULL) {
        return NULL;
    }
    thread_put(thread, 0, now() << 8 | (uint64_t)kind);
    for (uint64_t i = 0; i < count; i++) {
        thread_put(thread, 1 + i, words[i]);
    }
    thread_put_bytes(thread, 1 + count, bytes, size);
    thread_publish(thread, total);
    return thread;
}

static size_t append(char *buffer, size_t used, size_t size, const char *text)
{
    size_t length = size_min(strlen(text), size - used - 1);
    memcpy(buffer + used, text, length);
    buffer[used + length] = '\0';
    return used + length + 1;
}

/* --- Numbers ---------------------------------------------------------------------------------- */

/* In a PID namespace of its own a process has other numbers for itself than /proc has, which may still be that of
 * the collector. */
enum naming { NAMING_UNKNOWN, NAMING_PLAIN, NAMING_OF_PROC };

struct numbers {
    uint32_t pid, tid;
};

static uint32_t parse_number(const char **text)
{
    uint32_t value = 0;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        value = value * 10 + (uint32_t)(**text - '0');
    }
    return value;
}

/* From `PID/task/TID`; zeros where /proc does not say. */
static struct numbers numbers_of_proc(void)
{
    char text[64];
    long length = system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/thread-self", (long)text,
                              sizeof(text) - 1, 0, 0);
    text[is_error(length) ? 0 : length] = '\0';
    const char *at = text;
    struct numbers numbers = {.pid = parse_number(&at)};
    if (strncmp(at, "/task/", 6) == 0) {
        at += 6;
        numbers.tid = parse_number(&at);
    }
    return numbers;
}

/* Of this thread, as the collector can look them up. One system call more for the first thread of a process. */
static struct numbers thread_numbers(void)
{
    struct numbers own = {system_pid(), system_tid()};
    uint32_t naming = atomic_load(&image->naming);
    if (naming == NAMING_PLAIN) {
        return own;
    }
    struct numbers of_proc = numbers_of_proc();
    bool differs = of_proc.tid != 0 && (of_proc.pid != own.pid || of_proc.tid != own.tid);
    atomic_store(&image->naming, differs ? NAMING_OF_PROC : NAMING_PLAIN);
    return differs ? of_proc : own;
}

/* Who this process is; the collector may come too late to see it in /proc. */
static void image_introduce(struct thread *thread, uint64_t id, uint32_t pid)
{
    char text[8 << 10];
    size_t used = append(text, 0, sizeof(text), allocator_path);
    long length = system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)(text + used),
                              1024, 0, 0);
    used += is_error(length) ? 0 : (size_t)length;
    text[used++] = '\0';
    used += system_read_file("/proc/self/cmdline", text + used, sizeof(text) - used);
    uint64_t parent = (uint64_t)system_call(SYS_getppid, 0, 0, 0, 0, 0, 0);
    uint64_t words[] = {used, id, image_before, (uint64_t)pid << 32 | parent};
    thread_send(thread, MESSAGE_PROCESS, words, array_count(words), text, used);
}

/* --- The map of the process ------------------------------------------------------------------- */

struct map_walk {
    struct thread *thread;
    uintptr_t stack; /* an address in the thread's stack */
    uintptr_t low, top;
    bool is_first; /* that of the process, which the kernel lets grow downwards */
    bool sends;
};

static uintptr_t parse_hex(const char **text)
{
    uintptr_t value = 0;
    for (;; (*text)++) {
        char c = **text;
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uintptr_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value << 4 | (uintptr_t)(c - 'a' + 10);
        } else {
            return value;
        }
    }
}

/* A line `start-end perms …`, without its newline. */
static void map_line(struct map_walk *walk, const char *line, size_t length)
{
    const char *at = line;
    uintptr_t start = parse_hex(&at);
    at++;
    uintptr_t end = parse_hex(&at);
    if (start <= walk->stack && walk->stack < end) {
        walk->low = start;
        walk->top = end;
        walk->is_first = length > 7 && memcmp(line + length - 7, "[stack]", 7) == 0;
    }
    bool is_code = length > 20 && at + 3 < line + length && at[3] == 'x';
    if (walk->sends && is_code && walk->thread != NULL) {
        uint64_t words[] = {length};
        walk->thread = thread_send(walk->thread, MESSAGE_MAP, words, 1, line, length);
    }
}

/* As far as is wanted: a process with many threads has long ones. */
static void map_walk(struct map_walk *walk)
{
    char buffer[8 << 10];
    int fd = system_open("/proc/self/maps", O_RDONLY);
    if (fd < 0) {
        return;
    }
    size_t used = 0;
    for (size_t got; (walk->sends || walk->top == 0) &&
                     (got = system_read(fd, buffer + used, sizeof(buffer) - used)) != 0;) {
        used += got;
        size_t begin = 0;
        for (size_t i = 0; i < used; i++) {
            if (buffer[i] == '\n') {
                buffer[i] = '\0';
                map_line(walk, buffer + begin, i - begin);
                begin = i + 1;
            }
        }
        /* A line that fills the buffer is no line of code that anybody could use. */
        begin = begin == 0 && used == sizeof(buffer) ? used : begin;
        memmove(buffer, buffer + begin, used - begin);
        used -= begin;
    }
    system_close(fd);
}

/* Other things may lie this far below the stack of the process. */
#define FIRST_STACK_SIZE ((uintptr_t)120 << 20)

/* Finds out where the thread's stack ends: nothing beyond is ever read. */
static void thread_learn_stack(struct thread *thread, bool is_first_of_image)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    struct map_walk walk = {.thread = thread, .stack = here, .sends = is_first_of_image};
    map_walk(&walk);
    if (walk.top == 0) {
        return;
    }
    /* Both libcs keep the own block of a thread that they started right above its stack, in the child of a fork too,
     * and the kernel may have merged what follows, which can be unmapped, with it. */
    uintptr_t block = thread_pointer();
    if (block > here && block < walk.top) {
        walk.top = block;
    } else if (walk.is_first) {
        walk.low = walk.top > FIRST_STACK_SIZE ? walk.top - FIRST_STACK_SIZE : 0;
    }
    thread->stack_low = walk.low;
    thread->stack_top = walk.top;
}

/* --- A thread --------------------------------------------------------------------------------- */

static bool slot_take(uint32_t slot)
{
    uint32_t free_state = SLOT_FREE;
    /* acquire: pairs with the collector's release of the slot */
    return atomic_load_explicit(&control->states[slot], memory_order_relaxed) == SLOT_FREE &&
           atomic_compare_exchange_strong_explicit(&control->states[slot], &free_state, SLOT_BUSY,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* Where the file cannot be opened any more (the process has another user or root, or no descriptor
 * left, or the collector was killed): a second mapping of the same file, made from that of its
 * beginning and cut down to the slot. */
static struct ring *slot_map_from_control(uint64_t offset, size_t size)
{
    char *start = system_map_again(control, offset + size);
    if (start == NULL) {
        return NULL;
    }
    system_unmap(start, offset);
    return (struct ring *)(start + offset);
}

static bool slot_map(uint32_t slot)
{
    struct thread *thread = &image->threads[slot];
    size_t size = RING_HEADER + (size_t)control->ring_words * 8;
    uint64_t offset = control->first_slot + slot * control->slot_size;
    struct stat about;
    int fd = file_open(&about);
    bool is_same = fd >= 0 && about.st_ino == file_inode;
    struct ring *ring =
        is_same ? system_map(size, MAP_SHARED, fd, offset) : slot_map_from_control(offset, size);
    if (fd >= 0) {
        system_close(fd);
    }
    if (ring == NULL) {
        return false;
    }
    system_advise(ring, size, MADVISE_DONTFORK);
    thread->ring = ring;
    return true;
}

static void slot_note_used(uint32_t slot)
{
    uint32_t used = atomic_load(&control->slots_used);
    while (used <= slot && !atomic_compare_exchange_weak(&control->slots_used, &used, slot + 1)) {
    }
}

/* A slot that is mapped here already if there is one, so that short-lived threads leave nothing. */
static struct thread *slot_find(uint32_t *found)
{
    uint32_t used = atomic_load(&control->slots_used);
    for (uint32_t slot = 0; slot < used; slot++) {
        if (image->threads[slot].ring != NULL && slot_take(slot)) {
            *found = slot;
            return &image->threads[slot];
        }
    }
    for (uint32_t slot = 0; slot < SLOT_COUNT; slot++) {
        if (image->threads[slot].ring == NULL && slot_take(slot)) {
            if (!slot_map(slot)) {
                atomic_store(&control->states[slot], SLOT_FREE);
                return NULL;
            }
            slot_note_used(slot);
            *found = slot;
            return &image->threads[slot];
        }
    }
    return NULL;
}

static struct thread *thread_open(uint32_t *slot)
{
    struct thread *thread = slot_find(slot);
    if (thread == NULL) {
        return NULL;
    }
    struct ring *ring = thread->ring;
    *thread = (struct thread){
        .ring = ring,
        .words = (uint64_t *)((char *)ring + RING_HEADER),
        .mask = control->ring_words - 1,
        .inside = UINTPTR_MAX, /* until it is set up */
        .limit = wakeup_words,
        .random = now() ^ (uintptr_t)ring,
    };
    ring->previous_count = 0;
    if (ring->has_codes != 0) {
        memset(ring->codes, 0, sizeof(ring->codes));
        ring->has_codes = 0;
    }
    atomic_store_explicit(&ring->head, 0, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, 0, memory_order_relaxed);
    atomic_store_explicit(&ring->dropped, 0, memory_order_relaxed);
    return thread;
}

/* The first recorded call of a thread, and of a process. */
static COLD struct thread *thread_start(void)
{
    self = &unrecorded;
    if (atomic_load(&is_off) || atomic_load(&control->is_closed)) {
        return NULL;
    }
    uint32_t slot;
    struct thread *thread = thread_open(&slot);
    if (thread == NULL) {
        atomic_fetch_add(&control->lost_threads, 1);
        return NULL;
    }
    atomic_store_explicit(&control->states[slot], SLOT_READY,
                          memory_order_release); /* pairs with the collector's look at it */
    struct numbers numbers = thread_numbers();
    uint64_t none = 0;
    uint64_t fresh = now() << 16 ^ numbers.pid;
    bool is_first = atomic_compare_exchange_strong(&image->id, &none, fresh);
    uint64_t id = is_first ? fresh : none;
    if (is_first) {
        image_introduce(thread, id, numbers.pid);
        image_before = id;
    }
    if (atomic_exchange(&image->has_thread, true)) {
        atomic_store(&image->is_shared, true);
    }
    uint64_t words[4] = {(uint64_t)numbers.pid << 32 | numbers.tid, id, 0, 0};
    system_call(SYS_prctl, PRCTL_GET_NAME, (long)&words[2], 0, 0, 0, 0);
    thread_send(thread, MESSAGE_THREAD, words, array_count(words), "", 0);
    if (control->stacks != STACKS_NONE) {
        thread_learn_stack(thread, is_first);
    }
    thread->inside = 0;
    self = thread;
    return thread;
}

/* --- Waiting for room ------------------------------------------------------------------------- */

/* Once for each wait: of a collector that was killed in one, nobody hears the bell. */
static void collector_wake(void)
{
    if (atomic_load_explicit(&control->is_waiting, memory_order_relaxed) != 0 &&
        atomic_exchange(&control->is_waiting, 0) != 0) {
        atomic_fetch_add(&control->bell, 1);
        system_call(SYS_futex, (long)&control->bell, FUTEX_WAKE_SHARED, 1, 0, 0, 0);
    }
}

#define WAIT_STEP_US 100
/* A collector that has not moved for so many steps (some five seconds) is dead or stopped: until it
 * moves again, calls are dropped. */
#define WAIT_STEPS 30000

/* A slot that is no longer the thread's, as the collector took it for dead, is read by nobody. */
static bool thread_is_read(const struct thread *thread)
{
    return atomic_load(&control->states[thread - image->threads]) == SLOT_READY &&
           !atomic_load(&control->is_closed);
}

static bool thread_wait(struct thread *thread, uint64_t count)
{
    static _Atomic uint32_t dead_beat; /* the beat at which the collector was given up */
    uint64_t size = control->ring_words;
    for (uint32_t steps = 0, beat = 0; steps < WAIT_STEPS; steps++) {
        uint32_t current = atomic_load(&control->beat);
        uint64_t tail = atomic_load_explicit(&thread->ring->tail,
                                             memory_order_acquire); /* pairs with the collector */
        if (size - (thread->head - tail) >= count) {
            return true;
        }
        if (control->when_full == FULL_DROP || !thread_is_read(thread) ||
            atomic_load(&dead_beat) == current) {
            return false;
        }
        if (current != beat) {
            beat = current;
            steps = 0;
        }
        collector_wake();
        system_sleep_us(WAIT_STEP_US);
    }
    atomic_store(&dead_beat, atomic_load(&control->beat));
    return false;
}

static COLD struct thread *thread_make_room(struct thread *thread, uint64_t count)
{
    if (thread->ring == NULL) {
        /* A forked child: this memory was wiped. */
        uintptr_t inside = thread->inside;
        thread = thread_start();
        if (thread == NULL) {
            return NULL;
        }
        thread->inside = inside;
        return thread_room(thread, count);
    }
    uint64_t size = control->ring_words;
    uint64_t tail = atomic_load_explicit(&thread->ring->tail,
                                         memory_order_acquire); /* pairs with the collector */
    uint64_t used = thread->head - tail;
    if (used >= wakeup_words) {
        collector_wake();
    }
    if (size - used < count) {
        if (count > size || !thread_wait(thread, count)) {
            uint64_t dropped = atomic_load_explicit(&thread->ring->dropped, memory_order_relaxed);
            atomic_store_explicit(&thread->ring->dropped, dropped + 1, memory_order_relaxed);
            return NULL;
        }
        used = thread->head - atomic_load(&thread->ring->tail);
    }
    uint64_t step = wakeup_words > count ? wakeup_words : count;
    uint64_t room = size - used;
    thread->limit = thread->head + (room < step ? room : step);
    return thread;
}
