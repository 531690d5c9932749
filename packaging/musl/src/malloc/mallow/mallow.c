/* SPDX-License-Identifier: MIT
 *
 * Mallow, whole: packaging/musl/build puts its sources into core/ beside this file.
 */
#include "core/src/mallow.c"
