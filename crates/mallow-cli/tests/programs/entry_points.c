/* Calls every entry point a known number of times between two markers: the n-th of the table n + 1
 * times. Declared by hand, so that one source serves C libraries that lack some of them. */
#include <stddef.h>

#define WEAK __attribute__((weak))
extern void *malloc(size_t), *calloc(size_t, size_t), *realloc(void *, size_t);
extern void free(void *);
WEAK extern void *reallocarray(void *, size_t, size_t);
WEAK extern int posix_memalign(void **, size_t, size_t);
WEAK extern void *aligned_alloc(size_t, size_t), *memalign(size_t, size_t);
WEAK extern void *valloc(size_t), *pvalloc(size_t);
WEAK extern void cfree(void *), free_sized(void *, size_t);
WEAK extern void free_aligned_sized(void *, size_t, size_t);
WEAK extern size_t malloc_usable_size(void *);
WEAK extern void *_Znwm(size_t), *_Znam(size_t);
WEAK extern void *_ZnwmRKSt9nothrow_t(size_t, void *), *_ZnamRKSt9nothrow_t(size_t, void *);
WEAK extern void *_ZnwmSt11align_val_t(size_t, size_t), *_ZnamSt11align_val_t(size_t, size_t);
WEAK extern void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t, size_t, void *);
WEAK extern void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t, size_t, void *);
WEAK extern void _ZdlPv(void *), _ZdaPv(void *), _ZdlPvm(void *, size_t), _ZdaPvm(void *, size_t);
WEAK extern void _ZdlPvRKSt9nothrow_t(void *, void *), _ZdaPvRKSt9nothrow_t(void *, void *);
WEAK extern void _ZdlPvSt11align_val_t(void *, size_t), _ZdaPvSt11align_val_t(void *, size_t);
WEAK extern void _ZdlPvmSt11align_val_t(void *, size_t, size_t);
WEAK extern void _ZdaPvmSt11align_val_t(void *, size_t, size_t);
WEAK extern void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *, size_t, void *);
WEAK extern void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *, size_t, void *);
WEAK extern void mw_trace_marker(const char *);

static void *blocks[4096];
static int used, freed;

static void keep(void *block)
{
    if (block == NULL) {
        __builtin_trap();
    }
    *(volatile char *)block = 1;
    blocks[used++] = block;
}

static void *posix(size_t size)
{
    void *block = NULL;
    return posix_memalign(&block, 64, size) == 0 ? block : NULL;
}

static void *take(void)
{
    return blocks[freed++];
}

#define TIMES(n, statement)                                                                        \
    for (int i = 0; i < (n); i++) {                                                                \
        statement;                                                                                 \
    }

int main(void)
{
    if (mw_trace_marker == NULL) {
        return 9;
    }
    char tag;
    mw_trace_marker("begin");
    TIMES(1, keep(malloc(100)))
    TIMES(2, keep(calloc(10, 10)))
    TIMES(3, blocks[0] = realloc(blocks[0], 100 + 1000 * (size_t)i))
    TIMES(4, blocks[0] = reallocarray(blocks[0], 10, 10 + 1000 * (size_t)i))
    TIMES(5, keep(posix(100)))
    TIMES(6, keep(aligned_alloc(64, 128)))
    TIMES(7, keep(memalign(64, 100)))
    TIMES(8, keep(valloc(100)))
    TIMES(9, keep(pvalloc(100)))
    TIMES(10, keep(_Znwm(100)))
    TIMES(11, keep(_Znam(100)))
    TIMES(12, keep(_ZnwmRKSt9nothrow_t(100, &tag)))
    TIMES(13, keep(_ZnamRKSt9nothrow_t(100, &tag)))
    TIMES(14, keep(_ZnwmSt11align_val_t(100, 64)))
    TIMES(15, keep(_ZnamSt11align_val_t(100, 64)))
    TIMES(16, keep(_ZnwmSt11align_val_tRKSt9nothrow_t(100, 64, &tag)))
    TIMES(17, keep(_ZnamSt11align_val_tRKSt9nothrow_t(100, 64, &tag)))
    /* The frees need more blocks than that: 18 + … + 33. Sizes are those asked for. */
    while (used < 500) {
        blocks[used++] = malloc(100);
    }
    freed = 1; /* the first was grown */
    if (malloc_usable_size(blocks[freed]) < 100) {
        return 8;
    }
    freed = 146; /* those are all of malloc, of 100 bytes */
    TIMES(18, free(take()))
    TIMES(19, cfree(take()))
    TIMES(20, free_sized(take(), 100))
    TIMES(22, _ZdlPv(take()))
    TIMES(23, _ZdaPv(take()))
    TIMES(24, _ZdlPvm(take(), 100))
    TIMES(25, _ZdaPvm(take(), 100))
    TIMES(26, _ZdlPvRKSt9nothrow_t(take(), &tag))
    TIMES(27, _ZdaPvRKSt9nothrow_t(take(), &tag))
    int plain = freed;
    /* blocks of aligned operator new: 14 + 15 + 16 + 17, and then those of aligned_alloc */
    freed = 1 + 2 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13;
    TIMES(28, _ZdlPvSt11align_val_t(take(), 64))
    TIMES(29, _ZdaPvSt11align_val_t(take(), 64))
    TIMES(2, _ZdlPvmSt11align_val_t(take(), 100, 64))
    TIMES(1, _ZdaPvmSt11align_val_t(take(), 100, 64))
    TIMES(1, _ZdlPvSt11align_val_tRKSt9nothrow_t(take(), 64, &tag))
    freed = 1 + 2 + 5;
    TIMES(3, free_aligned_sized(take(), 64, 128))
    TIMES(3, _ZdaPvSt11align_val_tRKSt9nothrow_t(take(), 64, &tag))
    free(NULL);
    mw_trace_marker("end");
    return plain < 500 ? 0 : 7;
}
