/* SPDX-License-Identifier: MIT
 *
 * jemalloc's names for our functions. Aliases, so that no call is added.
 */
#include "../insight/report.h"

void *mallocx(size_t size, int flags) PUBLIC_ALIAS(mw_mallocx);
void *rallocx(void *block, size_t size, int flags) PUBLIC_ALIAS(mw_rallocx);
size_t xallocx(void *block, size_t size, size_t extra, int flags) PUBLIC_ALIAS(mw_xallocx);
size_t sallocx(const void *block, int flags) PUBLIC_ALIAS(mw_sallocx);
void dallocx(void *block, int flags) PUBLIC_ALIAS(mw_dallocx);
void sdallocx(void *block, size_t size, int flags) PUBLIC_ALIAS(mw_sdallocx);
size_t nallocx(size_t size, int flags) PUBLIC_ALIAS(mw_nallocx);
int je_get_defrag_hint(void *block) PUBLIC_ALIAS(mw_get_defrag_hint);
int mallctl(const char *name, void *old_value, size_t *old_size, void *new_value, size_t new_size)
    PUBLIC_ALIAS(mw_mallctl);
int mallctlnametomib(const char *name, size_t *mib, size_t *mib_size)
    PUBLIC_ALIAS(mw_mallctlnametomib);
int mallctlbymib(const size_t *mib, size_t mib_size, void *old_value, size_t *old_size,
                 void *new_value, size_t new_size) PUBLIC_ALIAS(mw_mallctlbymib);
