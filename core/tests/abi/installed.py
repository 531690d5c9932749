#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs find an installed Mallow: by CMake, pkg-config and Meson, shared and static.

    installed.py BUILD_FOLDER [-k WAY]     cmake, pkg_config, static or meson; all

The tree is installed into one folder and moved to another first, as packages and wheels do. A way whose
tool is missing is skipped: where nothing else was asked for, the exit status is 77.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = """#include <mallow.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    void *block = malloc(100);
    printf("%s %d\\n", mw_version(), mw_malloc_usable_size(block) >= 100);
    mw_free(block);
    return 0;
}
"""
# The names of jemalloc, beside the malloc of the C library.
PREFIXED = """#include <jemalloc/jemalloc.h>
#include <stdio.h>
int main(void)
{
    void *block = je_malloc(100);
    printf("%d\\n", je_sallocx(block, 0) >= 100);
    je_free(block);
    return 0;
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.20)
project(program C)
find_package(mallow {version} REQUIRED)
add_executable(program program.c)
target_link_libraries(program mallow::{target})
"""
MESON = """project('program', 'c')
mallow = dependency('mallow', version: '>={version}')
executable('program', 'program.c', dependencies: mallow)
"""


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Installed(unittest.TestCase):
    build = None

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        first, cls.prefix = Path(cls.scratch.name, "first"), Path(cls.scratch.name, "moved")
        run("cmake", "--install", cls.build, "--prefix", first)
        first.rename(cls.prefix)
        config = next(cls.prefix.rglob("mallow.pc"))
        cls.version = re.search(r"^Version: (\S+)", config.read_text(), re.M)[1]
        cls.libraries = config.parent.parent
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": str(config.parent),
                           "LD_LIBRARY_PATH": str(cls.libraries)}

    def folder(self, program=PROGRAM):
        folder = Path(tempfile.mkdtemp(dir=self.scratch.name))
        (folder / "program.c").write_text(program)
        return folder

    def of_cmake(self, target, program=PROGRAM):
        folder = self.folder(program)
        (folder / "CMakeLists.txt").write_text(CMAKE.format(version=self.version, target=target))
        run("cmake", "-S", folder, "-B", folder / "b", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", folder / "b")
        return run(folder / "b/program")

    def test_cmake_finds_every_build(self):
        for target, mode in ("mallow", "fast"), ("fast-STATIC", "fast"), ("secure-SHARED", "secure"):
            with self.subTest(target):
                self.assertEqual(self.of_cmake(target), f"{self.version} {mode} 1\n")

    def test_cmake_finds_the_prefixed_names(self):
        if not (self.libraries / "libmallow-je.so").exists():
            self.skipTest("libmallow-je was not built")
        for target in "je-SHARED", "je-STATIC":
            with self.subTest(target):
                self.assertEqual(self.of_cmake(target, PREFIXED), "1\n")

    def test_cmake_refuses_another_version(self):
        self.version = "99.0"
        with self.assertRaisesRegex(AssertionError, "version"):
            self.of_cmake("mallow")

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_pkg_config_finds_every_library(self):
        cases = [("mallow", PROGRAM, f"{self.version} fast 1\n"),
                 ("mallow-secure", PROGRAM, f"{self.version} secure 1\n")]
        if (self.libraries / "libmallow-je.so").exists():
            cases.append(("mallow-je", PREFIXED, "1\n"))
        for name, program, said in cases:
            with self.subTest(name):
                folder = self.folder(program)
                flags = run("pkg-config", "--cflags", "--libs", name, env=self.environment).split()
                run("cc", "-o", folder / "program", folder / "program.c", *flags)
                self.assertEqual(run(folder / "program", env=self.environment), said)

    def test_a_static_program_carries_the_archive(self):
        folder = self.folder()
        run("cc", "-static", "-o", folder / "program", folder / "program.c",
            f"-I{self.prefix}/include", self.libraries / "libmallow.a")
        self.assertEqual(run(folder / "program"), f"{self.version} fast 1\n")

    @unittest.skipUnless(shutil.which("meson") and shutil.which("ninja"), "no meson")
    def test_meson_finds_it(self):
        folder = self.folder()
        (folder / "meson.build").write_text(MESON.format(version=self.version))
        run("meson", "setup", folder / "b", folder, env=self.environment)
        run("meson", "compile", "-C", folder / "b", env=self.environment)
        said = run(folder / "b/program", env=self.environment)
        self.assertEqual(said, f"{self.version} fast 1\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    Installed.build = sys.argv.pop(1)
    result = unittest.main(exit=False).result
    if not result.wasSuccessful() or not (result.testsRun or result.skipped):
        sys.exit(1)
    sys.exit(77 if result.testsRun <= len(result.skipped) else 0)
