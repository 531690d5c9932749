// SPDX-License-Identifier: MIT

/** The path of a build of the allocator, for LD_PRELOAD. */
export function library(build?: "fast" | "secure" | "debug"): string;

/** The path of the command. */
export const command: string;
