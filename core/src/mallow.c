/* SPDX-License-Identifier: MIT
 *
 * The one translation unit of the allocator. The order of these lines is the order of the layers:
 * a file may use what stands above it and nothing that stands below.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mremap, MAP_ANONYMOUS, RTLD_NEXT */
#endif
/* Flags of distributions bring checks into memcpy and the like: functions that only glibc has. */
#undef _FORTIFY_SOURCE

/* layer 0: base */
#include "base/base.h"
#include "base/config.h"
#include "base/atomic.h"
#include "base/check.h"
#include "base/list.h"
#if MW_TAGS
#include "base/inner_names.h"
#endif

/* layer 1: os */
#include "os/os.h"
#include "os/syscall.h"
#include "os/strict.c"
#include "os/clock.c"
#include "os/linux.c"
#include "os/guard.c"
#include "os/file.c"
#include "os/cgroup.c"
#include "os/environment.c"
#if MW_IN_LIBC
#include "os/inside.c"
#else
#include "os/modules.c"
#include "os/libc.c"
#include "os/symbols.c"
#endif
#include "os/log.c"
#include "os/seal.c"
#include "os/tags.c"
#include "os/fault.c"
#if !MW_IN_LIBC
#include "os/trap.c"
#include "os/memcheck.h"
#endif
#include "os/lock.c"

/* layer 2: settings */
#include "settings/options.c"
#include "settings/conf.c"
#include "settings/load.c"

/* layer 3: memory */
#include "memory/meta.c"
#include "memory/secret.c"
#include "memory/pagemap.c"
#include "memory/extent.c"
#include "memory/fence.c"
#include "memory/decay.c"

/* layer 4: profile */
#if !MW_IN_LIBC
#include "profile/dwarf.h"
#include "profile/cfi.c"
#include "profile/expression.c"
#include "profile/function_index.c"
#include "profile/frame_row.c"
#include "profile/code.h"
#include "profile/capture.h"
#include "profile/unwind.c"
#endif
#include "profile/stack_store.c"
#include "profile/probe.h"
#include "profile/sample.c"
#if !MW_IN_LIBC
#include "profile/calls.c"
#endif

/* layer 5: arena */
#include "arena/hooks.c"
#include "arena/split.c"
#include "arena/place.c"
#include "arena/purge.c"
#include "arena/limit.c"
#include "arena/dense.c"
#include "arena/arena.c"
#include "arena/fenced.c"
#include "arena/explicit.c"

/* layer 6: slots */
#include "slots/made.h"
#include "slots/sizeclass.c"
#include "slots/order.c"
#include "slots/strength.c"
#include "slots/rate.c"
#include "slots/slot.c"
#include "slots/blame.c"
#include "slots/guarded.c"
#include "slots/hollow.c"
#include "slots/inbox.c"
#include "slots/slab.c"
#include "slots/common.c"
#include "slots/mixes.c"
#include "slots/canary.c"
#include "slots/harden.c"
#include "slots/track.c"
#include "slots/quarantine.c"
#include "slots/depot.c"
#include "slots/large.c"
#include "slots/retired.c"
#include "slots/trapped.c"
#include "slots/direct.c"

/* layer 7: thread */
#include "thread/heap_state.h"
#include "thread/wishes.c"
#include "thread/tray.c"
#include "thread/emptied.c"
#include "thread/held.c"
#include "thread/moving.c"
#include "thread/stack_limit.h"
#include "thread/chance.c"
#include "thread/chains.c"
#include "thread/stack.c"
#include "thread/remote.c"
#include "thread/keep.c"
#include "thread/heap_common.c"
#include "thread/magazine.c"
#include "thread/delay.c"
#include "thread/heap_valid.c"
#include "thread/heap.c"
#include "thread/orphan.c"
#include "thread/sampling.c"
#include "thread/tick.c"
#include "thread/thread.c"
#include "thread/strict.c"
#include "thread/count.c"
#include "thread/heaps.c"
#include "thread/route.c"

/* layer 8: api */
#include "api/tracking.h"
#include "api/alloc.c"
#include "api/foreign.c"
#include "api/free.c"
#include "api/realloc.c"
#include "api/tagged.c"
#include "api/operators.c"
#if !MW_IN_LIBC
#include "api/cache.c"
#include "api/mallocx.c"
#endif
#include "api/layout.c"
#include "api/tracked.c"

/* layer 9: insight */
#include "insight/control.c"
#if !MW_IN_LIBC
#include "insight/report.c"
#include "insight/stats_past.c"
#include "insight/stats_walk.c"
#include "insight/stats.c"
#include "insight/huge_pages.c"
#include "insight/stats_api.c"
#include "insight/stats_json.c"
#include "insight/stats_text.c"
#include "insight/interval.c"
#include "insight/glibc.c"
#include "insight/stats_page.c"
#include "insight/verify.c"
#include "insight/profile.c"
#include "insight/ordered.c"
#include "insight/leak_roots.c"
#include "insight/leak.c"
#include "insight/ctl_stats.c"
#include "insight/ctl_explicit.c"
#include "insight/ctl_prof.c"
#include "insight/utilization.c"
#include "insight/ctl.c"
#include "insight/mallctl.c"
#endif

/* layer 10: entry */
#if MW_TAGS
#include "entry/shim_tags.c"
#endif
#if MW_IN_LIBC
#include "entry/shim_musl.c"
#elif MW_HAS_PREFIX
#include "entry/shim_prefixed.c"
#elif MW_EXPORT_LIBC
#include "entry/shim_libc.c"
#include "entry/shim_jemalloc.c"
#if MW_SHARED_OBJECT /* in an archive it is a member of its own */
#include "entry/shim_cxx.c"
#include "entry/shim_dl.c"
#include "entry/shim_prctl.c"
#endif
#endif
