#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every file of Rust begins with the line of its licence; public headers of C can be included from C++."""

import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LINE = "// SPDX-License-Identifier: MIT"


def rust_files(root):
    """Those of the crates, of the core's one and of the benchmarks' own programs, without what was built there."""
    found = [*root.glob("crates/**/*.rs"), *root.glob("core/rust/*.rs"),
             *root.glob("bench/programs/*.rs")]
    return [file for file in found if "target" not in file.relative_to(root).parts]


class Headers(unittest.TestCase):
    def test_rust_files_begin_with_the_licence(self):
        files = rust_files(ROOT)
        self.assertGreater(len(files), 300)
        missing = sorted(str(file.relative_to(ROOT)) for file in files
                         if file.read_text().split("\n", 1)[0] != LINE)
        self.assertEqual(missing, [], f"write {LINE} above all else")

    def test_public_headers_include_nothing_as_a_part_of_c(self):
        """Headers of the system may have templates for C++."""
        files = [*ROOT.glob("core/include/**/*.h"), *ROOT.glob("crates/*/include/*.h")]
        self.assertGreater(len(files), 3)
        for file in files:
            self.assertNotIn("#include", file.read_text().partition('extern "C" {')[2], file)


if __name__ == "__main__":
    unittest.main()
