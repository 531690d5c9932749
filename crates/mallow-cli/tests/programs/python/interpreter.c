/* What CPython shows of itself, with the frames that one had (dump.py): which C function runs which of
 * them is as it was there. `main` evaluates two frames, of which the inner one sorts; the function
 * that it sorts by evaluates two more, and they allocate. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_WORDS = 12 };
extern uintptr_t thread_state[], frame_0[], frame_1[], entry_2[], frame_3[], frame_4[], entry_5[];
char PyCode_Type;

int Py_IsFinalizing(void) { return 0; }
void *PyGILState_GetThisThreadState(void) { return thread_state; }

/* Whatever refers to a frame of C, refers to this copy of it. */
static void move(uintptr_t *to, const uintptr_t *entry, uintptr_t *frame)
{
    memcpy(to, entry, FRAME_WORDS * sizeof(uintptr_t));
    for (int i = 0; i < FRAME_WORDS; i++) {
        frame[i] = frame[i] == (uintptr_t)entry ? (uintptr_t)to : frame[i];
    }
}

#ifdef __aarch64__
/* Where a function's locals lie from its frame pointer depends on the compiler there: the symbol decides. */
#define evaluate _PyEval_EvalFrameDefault
#else
/* Compilers put what they think is rare elsewhere, under a symbol that is not exported. */
void _PyEval_EvalFrameDefault(void) {}
#endif

__attribute__((noinline)) void *evaluate(void *(*call)(void), const uintptr_t *entry,
                                         uintptr_t *frame)
{
    uintptr_t own[FRAME_WORDS];
    move(own, entry, frame);
    void *result = call();
    *(volatile uintptr_t *)own = 0;
    return result;
}

#ifdef ALLOCATE_ELSEWHERE
void *allocate(void);
#else
__attribute__((noinline)) void *allocate(void)
{
    return malloc(3000001);
}
#endif

__attribute__((noinline)) void *sort(void)
{
    void *block = evaluate(allocate, entry_2, frame_1);
    return block == NULL ? NULL : (char *)block + 1;
}

int main(void)
{
    return evaluate(sort, entry_5, frame_4) == NULL;
}
