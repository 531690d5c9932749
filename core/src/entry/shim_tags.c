/* SPDX-License-Identifier: MIT
 *
 * What the program calls in the build with memory tags: each function takes the tag off the pointers that it is
 * given, and puts one on those that it gives (api/tagged.h). Where tags are off it goes straight on, as it also
 * does in the call that switches them on. Inside, the allocator's accesses are not checked.
 */
#include "../api/tagged.h"

#include "../profile/unwind.h"

/* Up to here these names were those of the inner functions. */
#undef MW_OF_BLOCKS
#undef mw_malloc
#undef mw_calloc
#undef mw_realloc
#undef mw_reallocarray
#undef mw_free
#undef mw_cfree
#undef mw_free_sized
#undef mw_free_aligned_sized
#undef mw_aligned_alloc
#undef mw_memalign
#undef mw_posix_memalign
#undef mw_valloc
#undef mw_pvalloc
#undef mw_malloc_usable_size
#undef mw_mallocx
#undef mw_rallocx
#undef mw_xallocx
#undef mw_sallocx
#undef mw_dallocx
#undef mw_sdallocx
#undef mw_heap_is_valid

#define GIVES(name, inner, parameters, arguments)     \
    MW_PUBLIC HIT_PATH void *name parameters          \
    {                                                 \
        if (!tags_are_on()) {                         \
            return inner arguments;                   \
        }                                             \
        uint64_t before = tags_ignore();              \
        void *pointer = tagged_give(inner arguments); \
        tags_check_again(before);                     \
        return pointer;                               \
    }

GIVES(mw_malloc, mw_inner_malloc, (size_t size), (size))
GIVES(mw_calloc, mw_inner_calloc, (size_t count, size_t size), (count, size))
GIVES(mw_aligned_alloc, mw_inner_aligned_alloc, (size_t alignment, size_t size), (alignment, size))
GIVES(mw_memalign, mw_inner_memalign, (size_t alignment, size_t size), (alignment, size))
GIVES(mw_valloc, mw_inner_valloc, (size_t size), (size))
GIVES(mw_pvalloc, mw_inner_pvalloc, (size_t size), (size))
GIVES(mw_mallocx, mw_inner_mallocx, (size_t size, int flags), (size, flags))

MW_PUBLIC int mw_posix_memalign(void **out, size_t alignment, size_t size)
{
    if (!tags_are_on()) {
        return mw_inner_posix_memalign(out, alignment, size);
    }
    uint64_t before = tags_ignore();
    int error = mw_inner_posix_memalign(out, alignment, size);
    if (error == 0) {
        *out = tagged_give(*out);
    }
    tags_check_again(before);
    return error;
}

#define TAKES(name, inner, parameters, arguments) \
    MW_PUBLIC HIT_PATH void name parameters       \
    {                                             \
        if (!tags_are_on()) {                     \
            inner arguments;                      \
            return;                               \
        }                                         \
        uint64_t before = tags_ignore();          \
        block = tagged_take("free", block);       \
        inner arguments;                          \
        tags_check_again(before);                 \
    }

TAKES(mw_free, mw_inner_free, (void *block), (block))
TAKES(mw_cfree, mw_inner_cfree, (void *block), (block))
TAKES(mw_free_sized, mw_inner_free_sized, (void *block, size_t size), (block, size))
TAKES(mw_free_aligned_sized, mw_inner_free_aligned_sized,
      (void *block, size_t alignment, size_t size), (block, alignment, size))
TAKES(mw_dallocx, mw_inner_dallocx, (void *block, int flags), (block, flags))
TAKES(mw_sdallocx, mw_inner_sdallocx, (void *block, size_t size, int flags), (block, size, flags))

/* `stays_else`: whether the block is still there if the answer is NULL. */
#define RESIZES(name, inner, call, stays_else, parameters, arguments)     \
    MW_PUBLIC HIT_PATH void *name parameters                              \
    {                                                                     \
        if (!tags_are_on()) {                                             \
            return inner arguments;                                       \
        }                                                                 \
        uint64_t before = tags_ignore();                                  \
        void *pointer = block;                                            \
        block = tagged_take(call, pointer);                               \
        void *moved = inner arguments;                                    \
        moved = tagged_give_resized(pointer, block, moved, (stays_else)); \
        tags_check_again(before);                                         \
        return moved;                                                     \
    }

static bool realloc_frees(size_t size)
{
    return size == 0 && option(OPTION_zero_realloc) == ZERO_REALLOC_FREE;
}

/* Of 0 elements, or elements of 0 bytes, realloc gets 0. */
RESIZES(mw_realloc, mw_inner_realloc, "realloc", !realloc_frees(size), (void *block, size_t size),
        (block, size))
RESIZES(mw_reallocarray, mw_inner_reallocarray, "realloc", !realloc_frees(count != 0 ? size : 0),
        (void *block, size_t count, size_t size), (block, count, size))
RESIZES(mw_rallocx, mw_inner_rallocx, "rallocx", true, (void *block, size_t size, int flags),
        (block, size, flags))

/* A slot keeps its size here. */
MW_PUBLIC size_t mw_xallocx(void *block, size_t size, size_t extra, int flags)
{
    if (!tags_are_on()) {
        return mw_inner_xallocx(block, size, extra, flags);
    }
    uint64_t before = tags_ignore();
    size_t result = mw_inner_xallocx(tagged_look("xallocx", block), size, extra, flags);
    tags_check_again(before);
    return result;
}

MW_PUBLIC size_t mw_malloc_usable_size(const void *block)
{
    if (!tags_are_on()) {
        return mw_inner_malloc_usable_size(block);
    }
    uint64_t before = tags_ignore();
    size_t size = mw_inner_malloc_usable_size(tagged_look("malloc_usable_size", block));
    tags_check_again(before);
    return size;
}

MW_PUBLIC size_t mw_sallocx(const void *block, int flags)
{
    (void)flags;
    return mw_malloc_usable_size(block);
}

MW_PUBLIC bool mw_heap_is_valid(void)
{
    uint64_t before = tags_ignore();
    bool is_valid = mw_inner_heap_is_valid();
    tags_check_again(before);
    return is_valid;
}

/* In a static program these lie beside the program's functions. */
CONSTRUCTOR static void tags_note_own(void)
{
    unwind_note_own((const void *)mw_malloc);
    unwind_note_own((const void *)mw_heap_is_valid);
}
