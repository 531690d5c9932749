// SPDX-License-Identifier: MIT
"use strict";

const path = require("path");

const LIBRARIES = { fast: "libmallow.so", secure: "libmallow-secure.so", debug: "libmallow-debug.so" };

/** The path of a build of the allocator, for LD_PRELOAD. */
exports.library = (build = "fast") => {
  if (!Object.hasOwn(LIBRARIES, build)) {
    throw new RangeError(`there is no build "${build}": use fast, secure or debug`);
  }
  return path.join(__dirname, "lib", LIBRARIES[build]);
};

/** The path of the command. */
exports.command = path.join(__dirname, "bin", "mallow");
