# SPDX-License-Identifier: MIT
# jemalloc's own integration tests, of the source that tikv-jemalloc-sys brings along, with Mallow's header
# and library in the place of jemalloc's. docs/jemalloc.md says why some are not among them.
# kind: direct
# needs: cargo cc make
# modes: fast secure debug
# timeout: 600
. "$CASES/lib.sh"

tests='overflow posix_memalign sdallocx thread_arena thread_tcache_enabled allocated slab_sizes'
case $MODE in
fast) tests="$tests aligned_alloc malloc mallocx xallocx" ;;
secure) tests="$tests xallocx" ;;
debug) export MALLOW_CONF=quarantine:0 ;; # a block counts as freed when it leaves it
esac

manifest=$CASES/tikv/Cargo.toml
built=${MALLOW_JEMALLOC_TESTS:-$ROOT/build/jemalloc-tests}
if ! [ -e "$built/ready" ]; then
    cargo fetch --locked --quiet --manifest-path "$manifest" 2>fetch.log ||
        skip "the crate tikv-jemalloc-sys cannot be fetched"
    crate=$(cargo metadata --locked --offline --format-version 1 --manifest-path "$manifest" |
        grep -o '"manifest_path":"[^"]*/tikv-jemalloc-sys-[^"]*' | cut -d '"' -f 4)
    [ -d "${crate%/*}/jemalloc" ] || fail "no source of jemalloc in ${crate%/*}"
    rm -rf "$built" # of a run that was broken off
    mkdir -p "${built%/*}"
    cp -r "${crate%/*}/jemalloc" "$built"
    cp "${crate%/*}/configure/configure" "$built"
    (cd "$built" && sh ./configure --disable-cxx) >configure.log 2>&1 || fail "$(tail -n 5 configure.log)"
    : >"$built/include/jemalloc/internal/private_namespace.h"
    # What jemalloc's own sources need of its header, and Mallow's.
    sed 's/^\( *# *define MALLOCX\)/\1_OF_JEMALLOC/; s/^\( *# *define JEMALLOC_VERSION\)/\1_OWN/' \
        "$built/include/jemalloc/jemalloc_macros.h" >macros.h
    cat "$built/include/jemalloc/jemalloc_defs.h" macros.h >"$built/include/jemalloc/jemalloc.h"
    echo '#include <mallow/jemalloc.h>' >>"$built/include/jemalloc/jemalloc.h"
    : >"$built/ready"
fi

compile() {
    cc -std=gnu11 -O1 -w -fno-builtin -D_GNU_SOURCE -D_REENTRANT -DJEMALLOC_INTEGRATION_TEST \
        -I"$ROOT/core/include" -I"$built/test/include" -I"$built/include" "$@"
}

compile -c "$built"/test/src/[a-z]*.c "$built"/test/src/SFMT.c "$built"/src/nstime.c "$built"/src/malloc_io.c \
    "$built"/src/ticker.c "$built"/src/test_hooks.c
for test in $tests; do
    compile -o "$test" "$built/test/integration/$test.c" ./*.o "$LIBRARY" -Wl,-rpath,"${LIBRARY%/*}" -lm -lpthread
    options=
    [ "$test" != slab_sizes ] || options=$(sed -n 's/^export MALLOC_CONF="\(.*\)"/\1/p' "$built/test/integration/$test.sh")
    MALLOC_CONF=$options ./"$test" >"$test.log" 2>&1 || fail "$test ended with $?: $(grep -m 3 -v pass "$test.log")"
    grep -q '^--- pass: [1-9].*fail: 0/' "$test.log" || fail "$test: $(tail -n 1 "$test.log")"
done
