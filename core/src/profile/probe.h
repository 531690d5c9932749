/* SPDX-License-Identifier: MIT
 *
 * Probes for tracers (USDT): an instruction that does nothing, and a note in the file that says where it
 * is, where its arguments are, and which counter a tracer raises while it listens.
 */
#ifndef MALLOW_PROBE_H
#define MALLOW_PROBE_H

#include "../base/base.h"

/* The note of version 3: address of the probe, of a section that tells how far the file was moved, of the
 * counter; then three texts. `-8@x` is a signed argument of 8 bytes. */
#define PROBE_NOTE(provider, name, listeners, arguments)                    \
    "990: nop\n"                                                            \
    ".pushsection .note.stapsdt,\"\",\"note\"\n"                            \
    ".balign 4\n"                                                           \
    ".4byte 992f-991f, 994f-993f, 3\n"                                      \
    "991: .asciz \"stapsdt\"\n"                                             \
    "992: .balign 4\n"                                                      \
    "993: .8byte 990b\n"                                                    \
    ".8byte _.stapsdt.base\n"                                               \
    ".8byte " listeners "\n"                                                \
    ".asciz \"" provider "\"\n"                                             \
    ".asciz \"" name "\"\n"                                                 \
    ".asciz \"" arguments "\"\n"                                            \
    "994: .balign 4\n"                                                      \
    ".popsection\n"                                                         \
    ".ifndef _.stapsdt.base\n"                                              \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n"                                                \
    ".hidden _.stapsdt.base\n"                                              \
    "_.stapsdt.base: .space 1\n"                                            \
    ".size _.stapsdt.base, 1\n"                                             \
    ".popsection\n"                                                         \
    ".endif\n"

/* The counters lie where tracers look for them. */
#define PROBE_LISTENERS __attribute__((section(".probes"), used, visibility("hidden")))

#endif
