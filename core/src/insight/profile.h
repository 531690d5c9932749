/* SPDX-License-Identifier: MIT
 *
 * Profiles of the heap as files (heap_v2), when the program asks for one, at a signal, after so many bytes, at
 * a new height, and at the end. As jemalloc writes them, for jeprof:
 *
 *     heap_v2/524288                             mean bytes between samples
 *       t*: 12: 6144 [0: 0]                      all call stacks: blocks: bytes [and of all ever]
 *     @ 0x401136 0x401180 0x7f12ab             the innermost call first
 *       t*: 12: 6144 [0: 0]
 *
 *     MAPPED_LIBRARIES:
 *     /proc/self/maps as it is
 *
 * With prof_format:pprof as gperftools writes them, which Go's pprof, google-pprof and jeprof read:
 *
 *     heap profile: 12: 6144 [0: 0] @ heap_v2/524288
 *     12: 6144 [0: 0] @ 0x401136 0x401180 0x7f12ab
 *
 * Readers multiply by 1 / (1 - exp(-bytes/blocks/rate)). What is written is divided by that, so that they
 * come to the sums that sample.h keeps, which are right for a mixture of sizes too.
 */
#ifndef MALLOW_PROFILE_H
#define MALLOW_PROFILE_H

#include "../profile/sample.h"

/* Why a profile is written: a letter in its name. */
enum { DUMP_AT_INTERVAL = 'i', DUMP_ASKED_FOR = 'm', DUMP_AT_PEAK = 'u', DUMP_FINAL = 'f' };

/* Writes one to a file, or under a name of its own if `path` is NULL. 0 or an error number. */
static int profile_dump(const char *path, char reason);

#endif
