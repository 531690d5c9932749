# SPDX-License-Identifier: MIT
# cargo check of a small crate. The compiler proper, rustc, is linked with jemalloc and keeps it: only
# cargo itself is served by the allocator, so that this row is not counted in the means.
# needs: cargo
# serves: cargo
# counted: no
. "$PROGRAMS/lib.sh"

prepare() {
    mkdir -p src
    printf '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' >Cargo.toml
    for i in $(seq 300); do
        echo "#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct S$i { pub a: Vec<String>, pub b: Option<Box<u32>> }
pub fn f$i(s: &S$i) -> String { s.a.iter().map(|x| x.to_uppercase()).collect::<Vec<_>>().join(\",\") }"
    done >src/lib.rs
}

run() {
    rm -rf target
    under cargo check --offline --quiet
}

"$1"
