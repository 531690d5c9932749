// SPDX-License-Identifier: MIT
//! How the rows of two processes compare.

use std::cmp::Ordering;

use clap::ValueEnum;
use mallow_process::processes::Row;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    #[default]
    Rss,
    Live,
    Free,
    Rate,
    Room,
    Pid,
    Name,
    Allocator,
    User,
}

impl Sort {
    pub fn name(self) -> &'static str {
        match self {
            Sort::Rss => "RSS",
            Sort::Live => "live",
            Sort::Free => "free",
            Sort::Rate => "rate",
            Sort::Room => "room",
            Sort::Pid => "PID",
            Sort::Name => "name",
            Sort::Allocator => "allocator",
            Sort::User => "user",
        }
    }

    /// The one that lies so many places behind.
    pub fn step(self, by: usize) -> Sort {
        let all = Sort::value_variants();
        let place = all.iter().position(|sort| *sort == self).unwrap_or(0);
        all[(place + by) % all.len()]
    }

    pub fn back(self) -> Sort {
        self.step(Sort::value_variants().len() - 1)
    }

    /// Large ones first, little room first, names by the alphabet; what is not known comes last
    /// either way.
    pub fn compare(self, reverse: bool, a: &Row, b: &Row) -> Ordering {
        let turned = |order: Ordering| if reverse { order.reverse() } else { order };
        let order = match self {
            Sort::Rss => turned(b.rss.cmp(&a.rss)),
            Sort::Live => known_first(a.live, b.live, |a, b| turned(b.cmp(a))),
            Sort::Free => known_first(a.free, b.free, |a, b| turned(b.cmp(a))),
            Sort::Rate => known_first(a.rss_per_s, b.rss_per_s, |a, b| turned(b.total_cmp(a))),
            Sort::Room => {
                let room = |row: &Row| row.limit.map(|limit| limit.room);
                known_first(room(a), room(b), |a, b| turned(a.cmp(b)))
            }
            Sort::Pid => turned(a.pid.cmp(&b.pid)),
            Sort::Name => turned(a.name.cmp(&b.name)),
            Sort::Allocator => {
                known_first(a.allocator.as_ref(), b.allocator.as_ref(), |a, b| turned(a.cmp(b)))
            }
            Sort::User => turned(a.user.cmp(&b.user)),
        };
        order.then(b.rss.cmp(&a.rss)).then(a.pid.cmp(&b.pid))
    }
}

fn known_first<T>(a: Option<T>, b: Option<T>, by: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => by(&a, &b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A process that is known by little.
    pub fn row(pid: u32, parent: u32, name: &str, rss: u64) -> Row {
        Row {
            pid,
            parent,
            name: name.into(),
            command: format!("/bin/{name}"),
            user: "root".into(),
            state: 'S',
            threads: 1,
            allocator: Some("glibc".into()),
            size: 2 * rss,
            rss,
            swap: 0,
            live: Some(rss / 2),
            free: Some(rss / 8),
            heap_age_s: Some(3.0),
            why_no_heap: None,
            rss_per_s: Some(0.0),
            rss_history: vec![rss; 8],
            limit: None,
        }
    }
}
