/* SPDX-License-Identifier: MIT */
#include "mixes.h"

#include "../os/fault.h"
#include "../profile/unwind.h"
#include "../settings/options.h"
#include "strength.h"

/* After so many releases that may be a correct program's nobody looks any more. */
#define UNCERTAIN_MOST 1000u

static _Atomic uint32_t mixes_uncertain; /* atomic */

static void mixes_load(void)
{
    long choice = option(OPTION_check_mixes);
    fault_set_goes_on(option(OPTION_misuse) != 0);
    if (!MW_FAMILIES || operators_are_ours == NULL || !operators_are_ours() ||
        choice == ALWAYS_OFF) {
        return;
    }
    bool is_all = choice == ALWAYS_ON || strength.checks_mixes;
    mixes_told = is_all ? MIXES_ALL : MW_TRACK ? MIXES_LIKELY : MIXES_CERTAIN;
}

static void mixes_note_deepbind(void)
{
    atomic_set(&mixes_uncertain, UNCERTAIN_MOST);
}

/* Who takes one of these from another module has no private operators. */
static const char *const operator_names[] = {"_Znwm", "_ZdlPv", "_ZdlPvm", "_Znam", "_ZdaPv"};

/* Where the code of modules begins that may have private operators: to look through one's tables takes up to some
 * milliseconds. One that is unloaded may leave its place to another; then that one's mixes are not told. */
static _Atomic uintptr_t private_modules[8]; /* atomic */

/* Whether what called malloc or free, and the call returns to `pc`, may be a private operator of its module. */
static COLD bool may_be_private(uintptr_t pc)
{
    uintptr_t code = libc_find_code(pc).start; /* 0: of none */
    if (code == 0) {
        return false;
    }
    size_t free_place = array_count(private_modules);
    for (size_t i = array_count(private_modules); i-- > 0;) {
        uintptr_t known = atomic_get(&private_modules[i]);
        if (known == code) {
            return true;
        }
        free_place = known == 0 ? i : free_place;
    }
    bool is_private =
        !os_object_takes((const void *)pc, operator_names, array_count(operator_names)) &&
        os_object_is_cxx((const void *)pc);
    if (is_private && free_place < array_count(private_modules)) {
        atomic_set(&private_modules[free_place], code);
    }
    return is_private;
}

static COLD bool mix_is_likely(const struct fault *fault, bool by_new, bool by_delete)
{
    if (mixes_told != MIXES_LIKELY || (by_new && by_delete)) {
        return mixes_told != MIXES_NONE;
    }
    const struct fault_stack *allocated = &fault->allocated;
    uintptr_t allocated_at = allocated->count > 0 ? allocated->frames[0] : 0;
    return !may_be_private(by_new ? fault->caller : allocated_at);
}

/* Whether the program's own code called us to release a block, and not an operator that a module has for itself:
 * that would be called by the module's code, and go on to free by a jump, or call it itself. */
static COLD bool mix_is_of_code(void)
{
    uintptr_t caller;
    if (MW_IN_LIBC || unwind_here(&caller, 1) != 1) {
        return false;
    }
    const void *called = os_called_before(caller);
    return called != NULL &&
           libc_find_code((uintptr_t)called).start ==
               libc_find_code((uintptr_t)&mix_is_of_code).start &&
           os_object_takes((const void *)caller, operator_names, array_count(operator_names));
}

static COLD bool mix_is_certain(uint8_t family, uint8_t wanted)
{
    if (atomic_get(&mixes_uncertain) >= UNCERTAIN_MOST) {
        return false;
    }
    bool is_certain = false;
    if (family != 0 && wanted != 0) {
        bool is_other_form = (family & 3) != (wanted & 3);
        is_certain = is_other_form || (family > 3 && wanted > 3);
    } else if (family != 0) {
        is_certain = mix_is_of_code();
    }
    if (!is_certain) {
        atomic_add(&mixes_uncertain, 1);
    }
    return is_certain;
}

static COLD void family_differs(const char *call, const void *block, size_t size, uint8_t family,
                                uint8_t wanted)
{
    if (mixes_told == MIXES_NONE ||
        (mixes_told == MIXES_CERTAIN && !mix_is_certain(family, wanted))) {
        return;
    }
    enum made made = (enum made)(family & 3);
    struct fault fault = fault_of_live(call, block, size);
    fault.kind = FAULT_KIND_MISMATCH;
    fault.made = made_name(made, false);
    if (made == (enum made)(wanted & 3) && family > 3 && wanted > 3) {
        fault.kind = FAULT_ALIGNMENT_MISMATCH;
        fault_tell(&fault, "%s of %p with an alignment of %zu, but the block has %zu", call, block,
                   (size_t)1 << (wanted >> 2), (size_t)1 << (family >> 2));
        return;
    }
    fault_tell(&fault, "%s of %p (%zu bytes), which was allocated by %s", call, block, size,
               made_name(made, family > 3));
}
