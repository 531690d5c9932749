# SPDX-License-Identifier: MIT
# A Rust program on the system's allocator: maps, strings, channels between two threads.
# needs: rustc
# serves: words
. "$PROGRAMS/lib.sh"

prepare() {
    rustc -O "$PROGRAMS/words.rs" -o words
}

run() {
    under ./words
}

"$1"
