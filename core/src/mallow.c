/* SPDX-License-Identifier: MIT
 *
 * The one translation unit of the allocator. The order of these lines is the order of the layers:
 * a file may use what stands above it and nothing that stands below.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mremap, MAP_ANONYMOUS, RTLD_NEXT */
#endif

/* Exported, but calls among ourselves go straight. */
#define MW_PUBLIC __attribute__((visibility("protected")))

/* layer 0: base */
#include "base.h"
#include "config.h"
#include "atomic.h"
#include "list.h"
#include "check.h"

/* layer 1: os */
#include "os/os.h"
#include "os/syscall.h"
#include "os/linux.c"
#include "os/libc.c"
#include "lock.c"
#include "log.c"

/* layer 2: settings */
#include "options.c"

/* layer 3: memory */
#include "meta.c"
#include "pagemap.c"
#include "extent.c"
#include "decay.c"

/* layer 4: arena */
#include "arena.c"
#include "purge.c"

/* layer 5: slots */
#include "sizeclass.c"
#include "slab.c"
#include "harden.c"
#include "common.c"
#include "large.c"

/* layer 6: thread */
#include "heap.c"
#include "heap_common.c"
#include "remote.c"
#include "cache.c"
#include "tick.c"
#include "thread.c"

/* layer 7: paths */
#include "alloc.c"
#include "free.c"

/* layer 8: insight */
#include "report.c"
#include "stats_page.c"
#include "verify.c"
#include "control.c"

/* layer 9: entry */
#if MW_EXPORT_LIBC
#include "shim_libc.c"
#include "shim_cxx.c"
#endif
