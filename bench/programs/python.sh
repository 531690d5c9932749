# SPDX-License-Identifier: MIT
# CPython with its own allocator (pymalloc) for objects up to 512 bytes: the rest goes to malloc.
# needs: python3
# serves: python3
. "$PROGRAMS/lib.sh"

prepare() { :; }

run() {
    under "$(system_python)" "$PROGRAMS/objects.py"
}

"$1"
