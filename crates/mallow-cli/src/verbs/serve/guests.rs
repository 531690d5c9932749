// SPDX-License-Identifier: MIT
//! The connections that are open: bounded in number, and who makes room when all places are taken.
//!
//! A guest is *idle* while no answer of his is made or taken: he has asked for nothing yet, his last answer
//! went out, or he does not read it. He is *known* once a request of his was allowed. The guest who has been idle for
//! longest makes room; without an idle one, who has come first of those that are not known: so neither silence nor
//! questions that need no token keep others out.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

const MOST_CONNECTIONS: usize = 64;
/// So long nobody has to make room, whose request may be on its way.
const IDLE_TIME: Duration = Duration::from_millis(250);
/// Before what failed is tried again.
pub const PAUSE: Duration = Duration::from_millis(50);

/// A connection.
pub struct Guest {
    came: Instant,
    /// When something went out to him last, in ms after he came.
    served_ms: AtomicU64,
    is_waiting: AtomicBool,
    is_known: AtomicBool,
    pub leaves: Notify,
    _place: OwnedSemaphorePermit,
}

impl Guest {
    /// An answer is made from now on, or it is there.
    pub fn waits(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
        self.is_served();
    }

    pub fn is_allowed(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    fn is_served(&self) {
        let since = u64::try_from(self.came.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.served_ms.store(since, Ordering::Relaxed);
    }

    fn idle_since(&self) -> Option<Instant> {
        let since = self.came + Duration::from_millis(self.served_ms.load(Ordering::Relaxed));
        let is_idle = !self.is_waiting.load(Ordering::Relaxed) && since.elapsed() >= IDLE_TIME;
        is_idle.then_some(since)
    }

    fn is_stranger(&self) -> bool {
        !self.is_known.load(Ordering::Relaxed) && self.came.elapsed() >= IDLE_TIME
    }
}

/// The oldest first.
pub struct Guests {
    places: Arc<Semaphore>,
    all: Vec<Weak<Guest>>,
}

impl Guests {
    pub fn new() -> Guests {
        Guests { places: Arc::new(Semaphore::new(MOST_CONNECTIONS)), all: Vec::new() }
    }

    /// If nobody makes room, who comes waits, and further ones in the kernel's queue.
    pub async fn admit(&mut self) -> Option<Arc<Guest>> {
        let place = loop {
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                break place;
            }
            if let Some(guest) = self.first_to_go() {
                guest.leaves.notify_one();
            }
            let wait = tokio::time::timeout(PAUSE, self.places.clone().acquire_owned());
            if let Ok(outcome) = wait.await {
                break outcome.ok()?;
            }
        };
        let guest = Arc::new(Guest {
            came: Instant::now(),
            served_ms: AtomicU64::new(0),
            is_waiting: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            leaves: Notify::new(),
            _place: place,
        });
        self.all.retain(|guest| guest.strong_count() > 0);
        self.all.push(Arc::downgrade(&guest));
        Some(guest)
    }

    fn first_to_go(&self) -> Option<Arc<Guest>> {
        let all: Vec<Arc<Guest>> = self.all.iter().filter_map(Weak::upgrade).collect();
        let idle = all.iter().filter_map(|guest| Some((guest.idle_since()?, guest)));
        let idle = idle.min_by_key(|(since, _)| *since).map(|(_, guest)| guest);
        idle.or_else(|| all.iter().find(|guest| guest.is_stranger())).cloned()
    }
}

/// The stream of a guest, which notes what goes out on it.
pub struct Watched<S> {
    pub stream: S,
    pub guest: Arc<Guest>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(outcome, Poll::Ready(Ok(_))) {
            self.guest.is_served();
        }
        outcome
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
