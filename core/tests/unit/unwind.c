/* SPDX-License-Identifier: MIT
 *
 * The unwinder finds the callers that the C library's own finds, on stacks of every kind, and ends where
 * a stack is damaged.
 */
#include "unit.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "../promise/refused.h"

#define FRAMES 100

static uintptr_t ours[UNWIND_MOST];
static void *theirs[UNWIND_MOST];
static size_t our_count;
static int their_count;

/* The test is in one piece with the allocator, so its functions may lie between those. */
static void forget_own(void)
{
    atomic_set(&own_functions.first, 0);
    atomic_set(&own_functions.last, 0);
}

/* What samples get, when places are found out and when they are known. */
static void check_samples(void)
{
    static uintptr_t sampled[UNWIND_MOST];
    for (unsigned round = 0; round < 2; round++) {
        size_t count = unwind_sample(sampled, FRAMES, NULL);
        CHECK_EQ(count, size_min(our_count + 1, FRAMES));
        for (size_t i = 2; i < count; i++) {
            CHECK_EQ(sampled[i], ours[i - 1]);
        }
    }
}

/* All from one place: they differ in the innermost frames only. */
static NOINLINE void look(void)
{
    forget_own();
    our_count = unwind_here(ours, FRAMES);
    check_samples();
    their_count = backtrace(theirs, FRAMES);
}

static void check_same(size_t at_least)
{
    CHECK_GE(our_count, at_least);
    CHECK_EQ(our_count, their_count);
    for (size_t i = 1; i < our_count; i++) {
        CHECK_EQ(ours[i], (uintptr_t)theirs[i]);
    }
    CHECK((uintptr_t)theirs[0] - ours[0] < 64);
}

/* backtrace() loads a library at its first call. */
static void warm_up(void)
{
    backtrace(theirs, 1);
}

static NOINLINE int descend(int depth)
{
    if (depth == 0) {
        look();
        return 0;
    }
    int sum = descend(depth - 1);
    __asm__ volatile("" : "+r"(sum)); /* the call stays one */
    return sum + depth;
}

TEST(nested_calls)
{
    warm_up();
    descend(10);
    check_same(14);
}

static const uint8_t made_up_frames[4];

/* What is known of places in libraries, made wrong as if other code lay there. */
static size_t spoil_known_rows(void)
{
    size_t count = 0;
    const uint8_t *own = libc_find_frames((uintptr_t)look);
    for (size_t i = 0; i < KNOWN_ROWS; i++) {
        struct known_row *known = &known_rows[i];
        if (known->pc != 0 && known->frames != own) {
            struct frame_row wrong = {.cfa = 1024, .pc_at = -1, .fp_at = ROW_FP_SAME};
            uint64_t word;
            memcpy(&word, &wrong, sizeof word);
            atomic_set(&known->row, word);
            atomic_set(&known->frames, made_up_frames);
            count++;
        }
    }
    return count;
}

static int look_in_sort(const void *a, const void *b)
{
    forget_own();
    our_count = unwind_here(ours, FRAMES);
    check_samples();
    CHECK_GE(spoil_known_rows(), 1);
    check_samples();
    return *(const int *)a - *(const int *)b;
}

TEST(samples_see_that_another_object_lies_there)
{
    int pair[] = {2, 1};
    qsort(pair, 2, sizeof pair[0], look_in_sort);
    CHECK_EQ(pair[0], 1);
}

/* A frame whose size is known at run time only: found by its frame pointer, as the rules say. */
static NOINLINE int with_alloca(size_t size)
{
    volatile char *room = __builtin_alloca(size);
    room[0] = 1;
    return descend(3) + room[0];
}

TEST(frames_of_any_size)
{
    warm_up();
    with_alloca(5000);
    check_same(7);
}

/* A frame that aligns its stack: where its caller's begins stands in its own. */
static NOINLINE int with_aligned_stack(int depth)
{
    __attribute__((aligned(128))) volatile char room[256];
    room[depth] = (char)depth;
    return descend(depth) + room[depth] + (int)((uintptr_t)room % 128);
}

TEST(frames_that_align_their_stack)
{
    warm_up();
    CHECK_EQ(with_aligned_stack(3), 6 + 3);
    check_same(7);
}

/* Such a frame, written as a compiler does when it has a frame pointer already, and one whose caller is
 * found by a register that no quick walk follows. */
#if defined(__x86_64__)
NOINLINE int through_rbx(int depth);
__asm__(".text\n"
        "through_rbx:\n"
        ".cfi_startproc\n"
        "push %rbx\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset rbx, -16\n"
        "lea 16(%rsp), %rbx\n"
        ".cfi_def_cfa rbx, 0\n"
        "sub $16, %rsp\n"
        "call descend_for_assembly\n"
        "add $16, %rsp\n"
        ".cfi_def_cfa rsp, 16\n"
        "pop %rbx\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n");
__attribute__((used)) int descend_for_assembly(int depth);
int descend_for_assembly(int depth)
{
    int sum = descend(depth);
    __asm__ volatile("" : "+r"(sum)); /* the call stays one */
    return sum;
}

TEST(frames_by_other_registers)
{
    warm_up();
    CHECK_EQ(through_rbx(3), 6);
    check_same(8);
    uintptr_t start;
    struct code_object program = libc_find_code((uintptr_t)look);
    bool is_other = false;
    for (size_t i = 0; i < our_count; i++) {
        is_other = is_other || frame_row_at(ours[i] - 1, &program, &start).base == ROW_OTHER;
    }
    CHECK(is_other);
}
#endif

TEST(more_callers_than_are_asked_for)
{
    warm_up();
    descend(100000 / 16);
    check_same(FRAMES);
    CHECK_EQ(our_count, FRAMES);
}

static int compare(const void *a, const void *b)
{
    if (our_count == 0) {
        look();
    }
    return *(const int *)a - *(const int *)b;
}

TEST(through_a_library)
{
    int numbers[100];
    for (int i = 0; i < 100; i++) {
        numbers[i] = 100 - i;
    }
    warm_up();
    qsort(numbers, 100, sizeof *numbers, compare);
    check_same(5);
}

/* --- Signals ---------------------------------------------------------------------------------- */

static void on_alarm_of_test(int signal)
{
    (void)signal;
    look();
}

static volatile int sink;

static NOINLINE void interrupted(void)
{
    raise(SIGUSR1);
    sink = 1;
}

static void take_signals(int flags)
{
    struct sigaction action = {.sa_handler = on_alarm_of_test, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
}

TEST(in_a_signal_handler)
{
    warm_up();
    take_signals(0);
    interrupted();
    check_same(6);
}

TEST(in_a_signal_handler_on_a_stack_of_its_own)
{
    warm_up();
    stack_t stack = {.ss_sp = malloc(64 * 1024), .ss_size = 64 * 1024};
    sigaltstack(&stack, NULL);
    take_signals(SA_ONSTACK);
    interrupted();
    check_same(6);
}

/* Interrupted by the processor: not behind a call. */
static NOINLINE void faults(volatile int *nowhere)
{
    *nowhere = 1;
}

static sigjmp_buf resume;

static void on_fault(int signal)
{
    (void)signal;
    look();
    siglongjmp(resume, 1);
}

TEST(in_a_handler_of_a_fault)
{
    warm_up();
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(resume, 1) == 0) {
        faults(NULL);
    }
    check_same(5);
}

/* --- Other stacks ----------------------------------------------------------------------------- */

static void *in_thread(void *unused)
{
    descend(5);
    return unused;
}

TEST(in_a_thread_with_a_stack_of_16_KiB)
{
    pthread_attr_t attributes;
    pthread_t thread;
    warm_up();
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16 * 1024) != 0) {
        size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
        CHECK_EQ(pthread_attr_setstacksize(&attributes, least), 0);
    }
    CHECK_EQ(pthread_create(&thread, &attributes, in_thread, NULL), 0);
    pthread_join(thread, NULL);
    check_same(8);
}

static ucontext_t outside, inside;

static void coroutine(void)
{
    descend(4);
    swapcontext(&inside, &outside);
}

TEST(in_a_coroutine)
{
    warm_up();
    static _Alignas(64) char stack[64 * 1024];
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof stack;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    CHECK_GE(our_count, 6);
    for (size_t i = 1; i < 6; i++) {
        CHECK_EQ(ours[i], (uintptr_t)theirs[i]);
    }
}

static struct known_stack known;

static NOINLINE bool knows_own_stack(void)
{
    uintptr_t frames[FRAMES], here = (uintptr_t)__builtin_frame_address(0);
    forget_own();
    for (unsigned i = 0; i < 2; i++) {
        size_t count = unwind_sample(frames, FRAMES, &known);
        CHECK_GE(count, 2);
        bool is_known = known.start <= here && here < known.end;
        if (!is_known) {
            CHECK_EQ(known.end, 0);
            return false;
        }
    }
    return true;
}

static void *look_in_thread(void *result)
{
    known = (struct known_stack){0, 0};
    *(bool *)result = knows_own_stack();
    return NULL;
}

static bool coroutine_knows;

static void look_in_coroutine(void)
{
    known = (struct known_stack){0, 0};
    coroutine_knows = knows_own_stack();
    swapcontext(&inside, &outside);
}

/* That of a coroutine may be unmapped before the next sample. */
TEST(only_the_stack_of_a_thread_is_remembered)
{
    warm_up();
    CHECK(knows_own_stack());
    bool thread_knows = false;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, look_in_thread, &thread_knows), 0);
    pthread_join(thread, NULL);
    CHECK(thread_knows);
    void *stack = mmap(NULL, 64 * KiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = 64 * KiB;
    inside.uc_link = &outside;
    makecontext(&inside, look_in_coroutine, 0);
    swapcontext(&outside, &inside);
    CHECK(!coroutine_knows);
    munmap(stack, 64 * KiB);
}

/* --- Code that nothing is said of ------------------------------------------------------------- */

#if defined(__x86_64__)

/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static const unsigned char made_code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};

TEST(through_code_with_frame_pointers_only)
{
    char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, made_code, sizeof made_code);
    ((void (*)(void (*)(void)))page)(look);
    CHECK_GE(our_count, 4);
    CHECK_EQ(ours[1], (uintptr_t)page + 6);
    Dl_info info; /* whoever called it, and main behind it */
    CHECK(dladdr((void *)ours[2], &info) != 0);
}

/* mov %rdi, %rax; mov %rsi, %rbp; call *%rax: the frame pointer leads anywhere. */
static const unsigned char lost_code[] = {0x55, 0x48, 0x89, 0xf8, 0x48, 0x89,
                                          0xf5, 0xff, 0xd0, 0x5d, 0xc3};

static NOINLINE void look_alone(void)
{
    forget_own();
    our_count = unwind_here(ours, FRAMES);
}

TEST(frame_pointers_that_lead_nowhere)
{
    char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, lost_code, sizeof lost_code);
    uintptr_t here = (uintptr_t)&page;
    uintptr_t pointers[] = {0,
                            1,
                            8,
                            here + 1,
                            here - 4096,
                            here + 64 * MiB,
                            UINTPTR_MAX - 7,
                            (uintptr_t)1 << 63,
                            (uintptr_t)page};
    for (size_t i = 0; i < array_count(pointers); i++) {
        our_count = 0;
        ((void (*)(void (*)(void), uintptr_t))page)(look_alone, pointers[i]);
        CHECK_GE(our_count, 2);
        CHECK_EQ(ours[1], (uintptr_t)page + 9);
    }
}

/* What code of such a kind has in the register of the frame pointer is no frame, though it can be read. */
TEST(frame_pointers_that_lead_to_data)
{
    char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, lost_code, sizeof lost_code);
    uintptr_t words[] = {1, (uintptr_t)0x4141414100000001, (uintptr_t)page + 64, UINTPTR_MAX};
    for (size_t i = 0; i < array_count(words); i++) {
        volatile uintptr_t data[] = {0, words[i]};
        our_count = 0;
        ((void (*)(void (*)(void), uintptr_t))page)(look_alone, (uintptr_t)data);
        CHECK_EQ(our_count, 2);
        CHECK_EQ(ours[1], (uintptr_t)page + 9);
    }
}

/* A frame pointer that leads round in circles, or off the end of the stack. */
TEST(chains_of_frames_that_do_not_end)
{
    char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, lost_code, sizeof lost_code);
    uintptr_t chain[64];
    char *calls = page + 64;
    for (size_t i = 0; i < 62; i += 2) {
        memcpy(calls + i / 2 * 5, "\xe8\0\0\0", 5); /* a call, and behind it where it returns to */
        chain[i] = (uintptr_t)&chain[i + 2];
        chain[i + 1] = (uintptr_t)calls + i / 2 * 5 + 5;
    }
    chain[40] = (uintptr_t)&chain[0];
    ((void (*)(void (*)(void), uintptr_t))page)(look_alone, (uintptr_t)chain);
    CHECK_LE(our_count, 30);
    CHECK_GE(our_count, 20);
    CHECK_EQ(ours[2], (uintptr_t)calls + 5);
    chain[40] = (uintptr_t)&chain[42];
    chain[60] = (uintptr_t)chain + 7 * MiB; /* nothing is there, unless the stack is that long */
    ((void (*)(void (*)(void), uintptr_t))page)(look_alone, (uintptr_t)chain);
    CHECK_LE(our_count, 40);
}

#endif

/* Words from the frame's on that are its caller's: this function's own lie below or, on aarch64, above. */
#if defined(__x86_64__)
#define DAMAGED_MOST 64
#else
#define DAMAGED_MOST 2
#endif

/* Return addresses overwritten, as by a program that writes behind an array, which ASan would find. */
__attribute__((no_sanitize("address"))) static NOINLINE void overwritten(uintptr_t value,
                                                                         size_t words)
{
    volatile uintptr_t *frame = __builtin_frame_address(0);
    uintptr_t kept[64];
    for (size_t i = 0; i < words; i++) {
        kept[i] = frame[i];
    }
    for (size_t i = 0; i < words; i++) {
        frame[i] = value;
    }
    forget_own();
    our_count = unwind_here(ours, FRAMES);
    for (size_t i = 0; i < words; i++) {
        frame[i] = kept[i];
    }
}

TEST(a_damaged_stack_ends_the_walk)
{
    char *unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t values[] = {0,
                          1,
                          (uintptr_t)unreadable,
                          (uintptr_t)unreadable + 8,
                          UINTPTR_MAX,
                          (uintptr_t)&values,
                          (uintptr_t)strlen,
                          0x4141414141414141};
    for (size_t i = 0; i < array_count(values); i++) {
        for (size_t words = 2; words <= DAMAGED_MOST; words *= 2) {
            overwritten(values[i], words);
            CHECK_GE(our_count, 1);
            CHECK_LE(our_count, FRAMES);
        }
    }
}

/* --- Objects that come and go ----------------------------------------------------------------- */

static _Atomic bool is_over;

static void *load_and_unload(void *unused)
{
    while (!atomic_get(&is_over)) {
        void *object = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        if (object != NULL) {
            dlclose(object);
        }
    }
    return unused;
}

TEST(while_objects_are_loaded)
{
    pthread_t thread;
    warm_up();
    CHECK_EQ(pthread_create(&thread, NULL, load_and_unload, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        descend(3);
        CHECK_GE(our_count, 7);
    }
    atomic_set(&is_over, true);
    pthread_join(thread, NULL);
}

/* The list of the loader is read where the libc has no function for it. */
TEST(objects_are_found_in_the_loaders_list)
{
    os_init();
    struct object program = object_of_program();
    CHECK(object_has(&program, (uintptr_t)look));
    CHECK(!object_has(&program, (uintptr_t)strlen));
    CHECK(object_frames(&program) == libc_find_frames((uintptr_t)look));
    const struct link_map *at = objects_listed(&program);
    CHECK(at != NULL);
    Dl_info info;
    CHECK(dladdr((void *)(uintptr_t)qsort, &info) != 0);
    struct object library;
    CHECK(object_at((uintptr_t)info.dli_fbase, &library));
    CHECK(object_has(&library, (uintptr_t)qsort));
    CHECK(object_frames(&library) == libc_find_frames((uintptr_t)qsort));
}

/* A program without the table gets one from its file: here, from this one's. */
TEST(functions_are_found_without_the_table)
{
    os_init();
    int fd = os_open_to_read("/proc/self/exe");
    struct object program = object_of_program();
    ElfW(Ehdr) header;
    ElfW(Shdr) section;
    CHECK(os_read_at(fd, 0, &header, sizeof header));
    CHECK(!sections_find(fd, &header, ".eh_fram", &section));
    CHECK(sections_find(fd, &header, ".eh_frame", &section));
    index_fill((const uint8_t *)(program.base + section.sh_addr), section.sh_size);
    atomic_set(&program_index.state, INDEX_READY);
    CHECK_GE(program_index.count, 100);
    for (size_t i = 0; i < program_index.count; i++) {
        struct cfi_function by_table, by_index;
        uintptr_t start = program_index.lines[i].start;
        CHECK(index_find(start, &by_index));
        CHECK_EQ(by_index.start, start);
        CHECK(cfi_find(libc_find_frames((uintptr_t)look), start, &by_table));
        CHECK(by_table.own_program == by_index.own_program);
        CHECK(i == 0 || program_index.lines[i - 1].start < start);
    }
    struct cfi_function none;
    CHECK(!index_find(8, &none) && !index_find(UINTPTR_MAX, &none));
}

/* --- What can be read ------------------------------------------------------------------------- */

/* Its answer says nothing of the memory. */
KERNEL_TEST(a_filter_in_place_of_the_kernel_answers_nothing)
{
    uintptr_t nothing =
        (uintptr_t)mmap(NULL, os_page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t something = (uintptr_t)&nothing;
    CHECK(os_is_readable(something) && !os_is_readable(nothing));
    if (refuse_call(SYS_rt_sigprocmask)) {
        CHECK(os_is_readable(something) && !os_is_readable(nothing));
    }
}

/* The call that tells otherwise may end the program there. */
KERNEL_TEST(a_program_that_forbids_itself_calls_is_asked_by_advice_what_it_can_read)
{
    uintptr_t nothing =
        (uintptr_t)mmap(NULL, os_page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t something = (uintptr_t)&nothing;
    void *page = (void *)(something & ~(uintptr_t)(os_page_size - 1));
    bool is_known = madvise(page, os_page_size, MADV_POPULATE_READ) == 0; /* since Linux 5.14 */
    os_note_confined();
    CHECK_EQ(os_is_readable(something), is_known);
    CHECK(!os_is_readable(nothing));
    if (refuse_call(SYS_rt_sigprocmask)) {
        CHECK_EQ(os_is_readable(something), is_known);
    }
    if (refuse_call(SYS_madvise)) {
        CHECK(!os_is_readable(something));
    }
}
