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

/* Writes `text` into the trace, at this moment of this thread. */
__attribute__((weak)) void mw_trace_marker(const char *text);

#ifdef __cplusplus
}
#endif

#define MW_TRACE_MARKER(text)      \
    do {                           \
        if (mw_trace_marker) {     \
            mw_trace_marker(text); \
        }                          \
    } while (0)

#endif
