#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/setup with a package manager that installs nothing: two at once do not get into each other's way, and it
names what is missing."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent
STUBS = {
    "apt-cache": "echo '  Candidate: 1.0'",
    # sudo -n COMMAND ...
    "sudo": 'shift && exec "$@"',
    "apt-get": """mkdir busy || echo "two at once" >>log
echo "$1" >>log
sleep 0.5
[ "$1" != install ] || cp bin/sudo bin/mdbook
rmdir busy""",
}


class Setup(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        for name in ("tools", "bin"):
            (self.root / name).mkdir()
        (self.root / "Cargo.toml").touch()
        for name in ("setup", "can"):
            shutil.copy(TOOLS / name, self.root / "tools")
        for name, script in STUBS.items():
            self.put(f"bin/{name}", script)

    def put(self, name, script):
        program = self.root / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def start(self, *groups, **environment):
        return subprocess.Popen(["tools/setup", *groups], cwd=self.root, text=True, stderr=subprocess.PIPE, env={
            "HOME": str(self.root), "PATH": f"{self.root}/bin:/usr/bin:/bin", **environment})

    @unittest.skipUnless(shutil.which("flock"), "no flock")
    @unittest.skipIf(shutil.which("mdbook", path="/usr/bin:/bin"), "mdbook is installed")
    def test_two_at_once_install_once(self):
        both = [self.start("docs") for _ in range(2)]
        said = [process.communicate()[1] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], said)
        self.assertEqual((self.root / "log").read_text().split("\n"), ["update", "install", ""])

    def test_an_older_python_is_told_of(self):
        self.put("tools/can", '[ "$*" != "python tomllib" ]')
        for group, needs_it in ("packages", True), ("build", False):
            process = self.start(group, MALLOW_SETUP="check")
            said = process.communicate()[1]
            self.assertEqual("Python 3.11 or newer" in said, needs_it, said)
            self.assertFalse(needs_it and process.returncode == 0, said)


if __name__ == "__main__":
    unittest.main()
