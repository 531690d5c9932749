// SPDX-License-Identifier: MIT
//! What keeps chance and a busy machine out of the tests.

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
