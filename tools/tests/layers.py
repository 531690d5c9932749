#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests tools/layers on small trees: what it must find, and what it must leave alone."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

LAYERS = pathlib.Path(__file__).resolve().parent.parent / "layers"

ORDER = """/* layer 0: base */
#include "base/base.h"
/* layer 1: low */
#include "low/first.c"
#include "low/second.c"
/* layer 2: high */
#include "high/top.c"
"""
TREE = {
    "mallow.c": ORDER,
    "base/base.h": "#define COLD __attribute__((cold))\n#define twice(x) (2 * (x))\n",
    "low/first.h": '#include "../base/base.h"\nstatic int first(int x);\n',
    "low/first.c": '#include "first.h"\nstatic int first(int x)\n{\n    return twice(x);\n}\n',
    "low/second.h": '#include "first.h"\nstatic COLD int second(int x);\n',
    "low/second.c": '#include "second.h"\nCOLD int second(int x)\n{\n    return first(x);\n}\n',
    "high/top.c": '#include "../low/second.h"\nint top(int x)\n{\n    return second(x);\n}\n',
}


class Layers(unittest.TestCase):
    def run_on(self, *arguments, **changes):
        """Runs the tool on TREE with some files changed (low/first.c is written low_first_c);
        returns its status and the lines before the summary."""
        tree = dict(TREE)
        for name, text in changes.items():
            stem, suffix = name.rsplit("_", 1)
            tree[f"{stem.replace('_', '/')}.{suffix}"] = text
        with tempfile.TemporaryDirectory() as folder:
            for name, text in tree.items():
                file = pathlib.Path(folder, name)
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
            done = subprocess.run([sys.executable, LAYERS, *arguments, folder], text=True,
                                  capture_output=True)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertRegex(lines[-1], r"^\d+ problems$")
        return done.returncode, lines[:-4]

    def assert_finds(self, problem, *arguments, **changes):
        self.assertEqual(self.run_on(*arguments, **changes), (1, [problem]))

    def assert_passes(self, *arguments, **changes):
        self.assertEqual(self.run_on(*arguments, **changes), (0, []))

    def test_tree_as_it_should_be(self):
        self.assert_passes()
        self.assert_passes("--functions")

    def test_include_of_higher_layer(self):
        self.assert_finds("low/second.c (layer 1 low) includes ../high/top.c (layer 2 high)",
                          low_second_c=TREE["low/second.c"] + '#include "../high/top.c"\n')

    def test_file_in_no_layer(self):
        self.assert_finds("low/third.c: in no layer of mallow.c", low_third_c="\n")

    def test_long_file(self):
        self.assert_passes(high_top_c=TREE["high/top.c"] + "\n" * 595)
        self.assert_finds("high/top.c: 601 lines, at most 600",
                          high_top_c=TREE["high/top.c"] + "\n" * 596)

    def test_long_function(self):
        self.assert_passes(high_top_c="int top(void)\n{\n" + ";\n" * 57 + "}\n")
        self.assert_finds("high/top.c:2: top has 61 lines, at most 60",
                          high_top_c="\nint top(void)\n{\n" + ";\n" * 58 + "}\n")

    def test_use_of_what_stands_below_in_the_same_layer(self):
        uses = TREE["low/first.c"].replace("twice(x)", "second(x)")
        self.assert_passes(low_first_c=uses)
        self.assert_finds("low/first.c:4: uses second of low/second.c, which stands below",
                          "--functions", low_first_c=uses)

    def test_function_that_is_handed_on(self):
        self.assert_finds("low/first.c:6: uses second of low/second.c, which stands below",
                          "--functions",
                          low_first_c=TREE["low/first.c"] + "static int (*next)(int) = second;\n")

    def test_use_in_inline_function_of_header(self):
        header = TREE["low/first.h"] + "static inline int more(int x)\n{\n    return top(x);\n}\n"
        self.assert_finds("low/first.h:5: uses top of high/top.c, which stands below",
                          "--functions", low_first_h=header)

    def test_use_in_macro(self):
        macro = "#define more(second) \\\n    top(second)\n"
        self.assert_finds("base/base.h:3: uses top of high/top.c, which stands below",
                          "--functions", base_base_h=TREE["base/base.h"] + macro)

    def test_macro_that_stands_below(self):
        self.assert_finds("low/first.c:4: uses BELOW of low/second.h, which stands below",
                          "--functions",
                          low_first_c=TREE["low/first.c"].replace("twice(x)", "BELOW"),
                          low_second_h=TREE["low/second.h"] + "#define BELOW 3\n")

    def test_every_branch_is_read(self):
        branches = ("#if A\nint top(int x)\n{\n#else\nint top(int y)\n{\n#endif\n    return 0;\n}\n"
                    "int last(int x)\n{\n    return x;\n}\n")
        self.assert_passes("--functions", high_top_c=branches)
        self.assert_finds("low/first.c:4: uses last of high/top.c, which stands below",
                          "--functions", high_top_c=branches,
                          low_first_c=TREE["low/first.c"].replace("twice(x)", "last(x)"))

    def test_alias_is_a_definition(self):
        alias = TREE["high/top.c"] + 'int other(int x) __attribute__((alias("top")));\n'
        self.assert_passes("--functions", high_top_c=alias)
        self.assert_finds("low/first.c:4: uses other of high/top.c, which stands below",
                          "--functions", high_top_c=alias,
                          low_first_c=TREE["low/first.c"].replace("twice(x)", "other(x)"))

    def test_names_in_comments_strings_and_fields_are_no_uses(self):
        text = TREE["low/first.c"] + """/* second(x) */
// second(x)
static const char *words = "second(x) \\" /* top */", letter = '"';
struct pair {
    int second, (*top)(int);
};
static int pick(struct pair *pair)
{
    return pair->second + pair->top(1) + (*pair).second;
}
"""
        self.assert_passes("--functions", low_first_c=text)

    def test_local_variable_of_that_name(self):
        self.assert_passes("--functions", low_first_c=TREE["low/first.c"].replace(
            "return twice(x);", "int top = twice(x), *second = &top;\n    return top + *second;"))

    def test_call_through_pointer(self):
        self.assert_passes("--functions", low_first_c=TREE["low/first.c"] +
                           "static int call(int (*above)(int))\n{\n    return above(1);\n}\n")

    def test_declaration_of_another_file(self):
        self.assert_finds("low/first.h:3: declares second, which low/second.c defines",
                          "--functions",
                          low_first_h=TREE["low/first.h"] + "static COLD int second(int x);\n")
        self.assert_finds("high/top.c:6: declares first, which low/first.c defines", "--functions",
                          high_top_c=TREE["high/top.c"] + "static int first(int x);\n")

    def test_contract_of_several_files(self):
        order = ORDER.replace('#include "low/first.c"',
                              '#include "low/both.h"\n#include "low/first.c"')
        both = "static int first(int x);\nstatic int second(int x);\n"
        self.assert_passes("--functions", mallow_c=order, low_both_h=both)
        self.assert_finds("low/both.h:3: declares top, which high/top.c defines", "--functions",
                          mallow_c=order, low_both_h=both + "int top(int x);\n")


if __name__ == "__main__":
    unittest.main()
