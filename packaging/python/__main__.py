# SPDX-License-Identifier: MIT
"""python -m mallow: the command, with a Python script where it takes a command.

    python -m mallow run script.py ARGUMENT      is   mallow run -- python script.py ARGUMENT
"""

import os
import pathlib
import sys


def with_python(words):
    """What follows the first script is for the script, unless -- says where the command begins."""
    for place, word in enumerate(words):
        if word == "--":
            break
        if word.endswith(".py"):
            return [*words[:place], "--", sys.executable, *words[place:]]
    return words


def main():
    command = pathlib.Path(__file__).resolve().parent / "bin" / "mallow"
    os.execv(command, [str(command), *with_python(sys.argv[1:])])


if __name__ == "__main__":
    main()
