/* SPDX-License-Identifier: MIT
 *
 * For programs that want to mark moments in the traces of `mallow record`. Needs no library: outside
 * of a recording the function is not there and the macro does nothing.
 */
#ifndef MALLOW_TRACE_H
#define MALLOW_TRACE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Writes `text` into the trace, at this moment of this thread. NULL outside of a recording. */
__attribute__((weak)) void mw_trace_marker(const char *text);

/* dlsym, under a name that cannot conflict with its declaration in <dlfcn.h>. */
__attribute__((weak)) void *mw_trace_symbol(void *scope, const char *name) __asm__("dlsym");

static __inline__ void mw_trace_mark(const char *text)
{
    void (*marker)(const char *) = 0;
#if defined(__PIC__)
    marker = mw_trace_marker;
#else
    /* For programs at a fixed address, linkers take a function that is missing for NULL for good. */
    if (mw_trace_symbol) {
        *(void **)&marker = mw_trace_symbol(0, "mw_trace_marker");
    }
#endif
    if (marker) {
        marker(text);
    }
}

#define MW_TRACE_MARKER(text) mw_trace_mark(text)

#ifdef __cplusplus
}
#endif

#endif
