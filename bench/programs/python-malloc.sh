# SPDX-License-Identifier: MIT
# CPython without pymalloc: every object comes from malloc.
# needs: python3
# serves: python3
. "$PROGRAMS/lib.sh"

prepare() { :; }

run() {
    PYTHONMALLOC=malloc under "$(system_python)" "$PROGRAMS/objects.py"
}

"$1"
