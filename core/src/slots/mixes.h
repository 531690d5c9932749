/* SPDX-License-Identifier: MIT
 *
 * Releases by another family: free of what operator new made, delete of what malloc or new[] made, and so
 * on. Secure and debug builds keep the family of a block (made.h, canary.h, track.h), and what is told of a
 * release that does not fit is said here.
 *
 * A correct program can have such releases where one of its modules has private operators, which no other
 * module sees: they call malloc and free. The debug build, which knows where a block was allocated, tells of all
 * but what a module allocates or releases of which that is likely: it has names of C++ in its tables, and takes
 * no operator from others. The secure build tells, unless it is told to tell all, of what is none of these for
 * certain:
 *
 *   new and new[], or two alignments   both sides were our own operators
 *   free, realloc of a new block       the code that called is a plain call of ours, of a module that takes
 *                                      operator new or delete from others, so that it has no private one
 *
 * Not told then: delete of malloc's block, as nobody knows whether a private operator called malloc; an
 * aligned form with a plain one, for a type may be aligned to one part of a program and not to another that
 * is compiled for an older C++; and none where a module was opened so that it asks its own libraries first.
 */
#ifndef MALLOW_MIXES_H
#define MALLOW_MIXES_H

#include "../os/os.h"
#include "made.h"

enum mixes { MIXES_NONE, MIXES_CERTAIN, MIXES_LIKELY, MIXES_ALL };

/* Constant after start; MIXES_NONE too if the program's operators are not ours. */
static enum mixes mixes_told SEALED;
static void mixes_load(void);

/* A module was opened that asks its own libraries before the program's. */
UNUSED static void mixes_note_deepbind(void);

/* Whether each form of operator new and delete that the program calls is ours; NULL: there are none. */
static bool (*const operators_are_ours)(void);

/* Whether a mix is to be told, of which `fault` has the calls that allocated the block (`by_new`: a form of
 * operator new) and that releases it (`by_delete`). */
struct fault;
UNUSED static COLD bool mix_is_likely(const struct fault *fault, bool by_new, bool by_delete);

/* A call releases a whole block of another family: tells it if it is to be told, and returns where the call
 * goes on. */
static COLD void family_differs(const char *call, const void *block, size_t size, uint8_t family,
                                uint8_t wanted);

#endif
