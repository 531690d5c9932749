/* SPDX-License-Identifier: MIT
 *
 * Mallow is compiled without musl's own headers, and knows by a number where its two words lie in the
 * structure of a thread, and the flag for threads in that of the process. This holds the numbers to the structures.
 */
#include "libc.h"
#include "pthread_impl.h"

#include <stddef.h>

#if defined(__x86_64__)
_Static_assert(offsetof(struct pthread, malloc_words) == 48, "THREAD_WORDS in core/src/base/base.h");
#elif defined(__aarch64__)
_Static_assert(offsetof(struct pthread, malloc_words) + 32 == sizeof(struct pthread) && TP_OFFSET == 0,
               "THREAD_WORDS in core/src/base/base.h");
#else
#error "Mallow is for x86-64 and aarch64"
#endif

_Static_assert(offsetof(struct __libc, threaded) == 1 && sizeof ((struct __libc *)0)->threaded == 1,
               "LIBC_THREADED in core/src/os/os.h");
