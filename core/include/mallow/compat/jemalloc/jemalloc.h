/* SPDX-License-Identifier: MIT
 *
 * <jemalloc/jemalloc.h> for programs written for jemalloc that are built with Mallow:
 *
 *   cc -I PREFIX/include/mallow/compat program.c -lmallow
 */
#include "../../jemalloc.h"
