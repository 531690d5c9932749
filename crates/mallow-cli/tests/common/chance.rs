// SPDX-License-Identifier: MIT
//! What keeps chance and a busy machine out of the tests.

use std::fmt::Debug;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Nothing that works takes a part of it, but for a heap that `mallow serve` leaves alone for a minute.
const FOR_EVER: Duration = Duration::from_secs(120);

/// Waits until it is there.
#[track_caller]
pub fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + FOR_EVER;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Times, or how many times as long, for what has to be seen or to come about while something runs. The first does but
/// on a busy machine.
pub const LONGER: [u32; 3] = [1, 10, 60];

/// What comes of the first attempt that succeeds. What is broken succeeds in none.
#[track_caller]
pub fn one_succeeds<W: Copy + Debug, T>(
    ways: impl IntoIterator<Item = W>,
    mut attempt: impl FnMut(W) -> Result<T, String>,
) -> T {
    let mut tries = ways.into_iter().map(|way| {
        attempt(way).inspect_err(|why| println!("attempt {way:?} does not succeed: {why}"))
    });
    tries.find_map(Result::ok).expect("an attempt that succeeds")
}

/// On a port that nobody takes when this listener has ended: Linux gives out others to who asks for any (from 32,768
/// on), and each test has its own.
pub fn own_listener() -> TcpListener {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + u16::try_from(std::process::id() % 200).unwrap() * 100;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener;
        }
    }
}
