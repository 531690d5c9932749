// SPDX-License-Identifier: MIT
//! Where a thread is that reads processes, and what is done where it does not come back.
//!
//! What a process has mapped may lie on a file system whose server is gone, or is that process (NFS, FUSE): to read
//! its memory, or to look at the file, then takes as long as that server likes, and no limit of time ends it. Such a
//! thread is left behind, another one reads from then on, and that process is left alone: who keeps the position weakly
//! sees the thread come back.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::stat::Start;

/// A process and the program that it runs, so that no other is meant by it.
pub type Whom = (u32, Start);

/// So many threads are left behind at a time, each at another program.
pub const MOST_LOST: usize = 16;

/// Which process a thread is at, and since when.
#[derive(Default)]
pub struct Position(Mutex<Option<(Whom, Instant)>>);

impl Position {
    pub fn set(&self, process: Option<Whom>) {
        let at = process.map(|process| (process, Instant::now()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// The process that it has been at for so long.
    pub fn stuck(&self, time: Duration) -> Option<Whom> {
        let at = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        at.filter(|(_, since)| since.elapsed() >= time).map(|(process, _)| process)
    }
}

/// A process is left alone so long at least: one that is late each time would hold up each request.
const REST: Duration = Duration::from_secs(600);

/// The processes that threads were left behind at, until these have come back.
#[derive(Clone)]
pub struct LeftAlone {
    rest: Duration,
    all: Vec<(Whom, Weak<Position>, Instant)>,
}

impl Default for LeftAlone {
    fn default() -> LeftAlone {
        LeftAlone { rest: REST, all: Vec::new() }
    }
}

impl LeftAlone {
    /// The thread with this position is at it.
    pub fn add(&mut self, process: Whom, position: &Arc<Position>) {
        let rest = self.rest;
        self.all.retain(|(_, at, since)| is_held(at, *since, rest));
        self.all.push((process, Arc::downgrade(position), Instant::now()));
    }

    pub fn has(&self, process: &Whom) -> bool {
        let mut all = self.all.iter();
        all.any(|(left, at, since)| left == process && is_held(at, *since, self.rest))
    }
}

fn is_held(position: &Weak<Position>, since: Instant, rest: Duration) -> bool {
    position.strong_count() > 0 || since.elapsed() < rest
}

/// The threads that were left behind.
#[derive(Default)]
pub struct Lost(Vec<Weak<Position>>);

impl Lost {
    pub fn add(&mut self, position: &Arc<Position>) {
        self.0.push(Arc::downgrade(position));
    }

    /// Whether another thread may be started. Who has come back since, and has dropped its position, does not count.
    pub fn has_room(&mut self) -> bool {
        self.0.retain(|position| position.strong_count() > 0);
        self.0.len() < MOST_LOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_back_makes_room() {
        let mut lost = Lost::default();
        let positions: Vec<Arc<Position>> = (0..MOST_LOST).map(|_| Arc::default()).collect();
        for position in &positions {
            assert!(lost.has_room());
            lost.add(position);
        }
        assert!(!lost.has_room());
        drop(positions);
        assert!(lost.has_room());
    }

    #[test]
    fn who_was_left_alone_is_read_again_when_the_thread_is_back() {
        let (process, other) = ((7, Start::default()), (8, Start::default()));
        let mut rested = LeftAlone { rest: Duration::ZERO, ..LeftAlone::default() };
        let mut left_alone = LeftAlone::default();
        let position = Arc::default();
        for left_alone in [&mut rested, &mut left_alone] {
            left_alone.add(process, &position);
            assert!(left_alone.has(&process) && !left_alone.has(&other));
        }
        drop(position);
        assert!(!rested.has(&process));
        assert!(left_alone.has(&process), "not at once");
    }

    #[test]
    fn who_is_nowhere_is_not_stuck() {
        let position = Position::default();
        assert_eq!(position.stuck(Duration::ZERO), None);
        let process = (7, Start::default());
        position.set(Some(process));
        assert_eq!(position.stuck(Duration::ZERO), Some(process));
        assert_eq!(position.stuck(Duration::from_secs(60)), None);
        position.set(None);
        assert_eq!(position.stuck(Duration::ZERO), None);
    }
}
