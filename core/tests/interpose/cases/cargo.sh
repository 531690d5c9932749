# SPDX-License-Identifier: MIT
# cargo builds a small crate of its own, without a network: the built program has to work.
# The compiler is linked with an allocator of its own; cargo and the linker are not.
# needs: cargo
# serves: cargo small
# own: rustc
# modes: fast secure debug
. "$CASES/lib.sh"

# The program itself: rustup's stand-in would start it without telling which.
cargo=$(rustup which cargo 2>/dev/null || command -v cargo)
rustc=$(rustup which rustc 2>/dev/null || command -v rustc)

mkdir -p crate/src part/src
cat >crate/Cargo.toml <<'END'
[package]
name = "small"
version = "0.1.0"
edition = "2021"
[dependencies]
part = { path = "../part" }
[profile.release]
codegen-units = 4
END
cat >part/Cargo.toml <<'END'
[package]
name = "part"
version = "0.1.0"
edition = "2021"
END
cat >part/src/lib.rs <<'END'
use std::collections::BTreeMap;
pub fn count_words(text: &str) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for word in text.split_whitespace() {
        *words.entry(word.to_string()).or_insert(0) += 1;
    }
    words
}
END
cat >crate/src/main.rs <<'END'
fn main() {
    let text = (0..5000).map(|i| format!("w{} ", i * 7919 % 101)).collect::<String>();
    let lists = (0..8)
        .map(|n| { let text = text.clone(); std::thread::spawn(move || part::count_words(&text[n..])) })
        .map(|thread| thread.join().unwrap())
        .collect::<Vec<_>>();
    println!("{:?}", lists.iter().map(|words| words.values().sum::<usize>()).collect::<Vec<_>>());
}
END
export RUSTC="$rustc" CARGO_TERM_COLOR=never CARGO_TARGET_DIR="$WORK/target"
under "$cargo" build --release --offline --quiet --manifest-path crate/Cargo.toml 2>&1
under "$WORK/target/release/small"
