# SPDX-License-Identifier: MIT
# A Rust program with tikv-jemallocator and the typed calls of tikv-jemalloc-ctl, built as its users
# would with JEMALLOC_OVERRIDE: Mallow in the place of the jemalloc that the crate brings along, as an
# archive and as a shared object with the crate's prefix, and as the whole program's malloc.
# kind: direct
# needs: cargo cmake cc
# timeout: 600
. "$CASES/lib.sh"

export CARGO_TERM_COLOR=never CARGO_TARGET_DIR="${MALLOW_TIKV:-$ROOT/build/tikv}"
manifest=$CASES/tikv/Cargo.toml
if ! cargo fetch --locked --quiet --manifest-path "$manifest" 2>fetch.log; then
    cat fetch.log >&2
    # A lock file that no longer fits is a fault of ours; that there is no network is not.
    ! grep -q 'lock file' fetch.log || fail "$manifest does not fit its lock file"
    skip "the crates of tikv-jemalloc-ctl cannot be fetched"
fi

cmake -S "$ROOT" -B mallow -DMALLOW_MODES=fast -DMALLOW_JEMALLOC_PREFIX=_rjem_ -DCMAKE_C_FLAGS_RELEASE=-O1 \
    >cmake.log # for the names' sake: -O1 takes half as long
cmake --build mallow --target mallow-rjem-shared mallow-rjem-static >>cmake.log

settings=narenas:3,zero:true,background_thread:true,prof:true,prof_active:false,lg_prof_sample:14

# check NAME LIBRARY VARIABLE [CARGO'S ARGUMENT ...]: builds with the library and runs.
check() {
    name=$1
    library=$2
    variable=$3
    shift 3
    JEMALLOC_OVERRIDE=$library cargo build --locked --offline --quiet --manifest-path "$manifest" "$@" ||
        fail "$name: not built"
    mkdir "profiles-$name"
    # The program allocates so quickly that samples would be thinned out, and the estimate spread more.
    env LD_LIBRARY_PATH="${library%/*}" "$variable=$settings" MALLOW_CONF=prof_thinning:false \
        "$CARGO_TARGET_DIR/debug/tikv-client" "$PWD/profiles-$name" || fail "$name"
}

check archive "$PWD/mallow/libmallow-rjem.a" _RJEM_MALLOC_CONF
check shared "$PWD/mallow/libmallow-rjem.so" _RJEM_MALLOC_CONF
check unprefixed "$LIBRARY" MALLOC_CONF --features unprefixed
