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
    bool is_all = MW_TRACK || choice == ALWAYS_ON || strength.checks_mixes;
    mixes_told = is_all ? MIXES_ALL : MIXES_CERTAIN;
}

static void mixes_note_deepbind(void)
{
    atomic_set(&mixes_uncertain, UNCERTAIN_MOST);
}

/* Whether the program's own code called us to release a block, and not an operator that a module has for itself:
 * that would be called by the module's code, and go on to free by a jump, or call it itself. */
static COLD bool mix_is_of_code(void)
{
    static const char *const names[] = {"_Znwm", "_ZdlPv"};
    uintptr_t caller;
    if (MW_IN_LIBC || unwind_here(&caller, 1) != 1) {
        return false;
    }
    const void *called = os_called_before(caller);
    return called != NULL &&
           libc_find_code((uintptr_t)called).start ==
               libc_find_code((uintptr_t)&mix_is_of_code).start &&
           os_object_takes((const void *)caller, names, array_count(names));
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
