/* SPDX-License-Identifier: MIT
 *
 * The entry points of the debug build, where blocks are tracked (slots/track.h). The functions
 * of alloc.c and free.c come here first, and from here their plain forms are called, which know of
 * slots and pages only. In other builds nothing of this is reached.
 */
#ifndef MALLOW_TRACKING_H
#define MALLOW_TRACKING_H

#include "../slots/quarantine.h"

/* Of the function that the program called: where the program goes on. */
#define PROGRAM_PC ((uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))

/* What a block is to be. */
struct track_request {
    size_t alignment;
    size_t size;
    enum made made;
    bool is_zero;         /* wanted as zeros */
    bool is_aligned_form; /* by an operator new that was given an alignment */
    size_t reach;         /* bytes from its start to where the pages behind it reach at least */
    uintptr_t caller;     /* PROGRAM_PC */
};

/* NULL with errno ENOMEM. */
static void *(*const tracked_alloc)(const struct track_request *request);

/* What is given to a form of free or delete: SIZE_MAX and 0 for what is not said. `made` is what such
 * a form is for: malloc, new, or new[]. */
struct track_return {
    const char *call;
    size_t size;
    size_t alignment;
    uintptr_t caller;
    enum made made;
};

static void (*const tracked_free)(void *block, const struct track_return *given);

/* `block` is tracked, `size` neither 0 nor impossible. */
static void *(*const tracked_realloc)(void *block, size_t size, uintptr_t caller);

/* Whether a block is ours, and not foreign. Ends the program if it is no block that it holds. */
static bool (*const tracked_holds)(const char *call, const void *block, uintptr_t caller);

/* Whether a block that the program holds is tracked; those of explicit arenas are not. */
static bool (*const tracked_knows)(const void *block);

/* The size that the program asked for; 0 if the block is foreign. Ends the program if it is no
 * block that the program holds. */
static size_t (*const tracked_size)(const char *call, const void *block, uintptr_t caller);

/* Gives the block another size where it is, as far as its slot or pages reach. Its size then. */
static size_t (*const tracked_resize)(void *block, size_t least, size_t most);

/* Once, when the library is loaded. */
static void (*const tracked_start)(void);

/* Lets everything out of the quarantine. False if there was nothing in it. */
static bool (*const tracked_release_all)(void);

/* Ends the program if a red zone or a freed block was written to. */
static void (*const tracked_sweep)(void);

#endif
