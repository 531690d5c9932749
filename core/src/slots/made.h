/* SPDX-License-Identifier: MIT
 *
 * Which family of functions made a block: what malloc and its kin made is for free and realloc, what a
 * form of operator new made is for the same form of operator delete. Secure and debug builds keep it;
 * with the option check_mixes a release by another family ends the program.
 */
#ifndef MALLOW_MADE_H
#define MALLOW_MADE_H

#include "../base/base.h"

/* MADE_ALIGNED: by aligned_alloc and its kin, which free releases as well. */
enum made { MADE_BY_MALLOC, MADE_BY_NEW, MADE_BY_NEW_ARRAY, MADE_ALIGNED };

ALWAYS_INLINE bool made_by_new(enum made made)
{
    return made == MADE_BY_NEW || made == MADE_BY_NEW_ARRAY;
}

/* As a sentence names it. */
ALWAYS_INLINE const char *made_name(enum made made, bool is_aligned)
{
    switch (made) {
    case MADE_BY_NEW:
        return is_aligned ? "aligned new" : "new";
    case MADE_BY_NEW_ARRAY:
        return is_aligned ? "aligned new[]" : "new[]";
    default:
        return "malloc";
    }
}

/* What releases what a form made, as a sentence names it. */
ALWAYS_INLINE const char *made_release(enum made made)
{
    switch (made) {
    case MADE_BY_NEW:
        return "operator delete";
    case MADE_BY_NEW_ARRAY:
        return "operator delete[]";
    default:
        return "free";
    }
}

/* Whether a call of that name is one that releases a block, if it is not resized. */
ALWAYS_INLINE bool call_releases(const char *call)
{
    return call[0] == 'f' || call[0] == 'o';
}

#endif
