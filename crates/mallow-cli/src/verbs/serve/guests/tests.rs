// SPDX-License-Identifier: MIT

use super::*;
use tokio::io::AsyncWriteExt;

const SECOND: Duration = Duration::from_secs(1);

/// Who came so long ago, and was served last so long after that.
fn guest(ago: Duration, served: Duration) -> Arc<Guest> {
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    Arc::new(Guest {
        came: Instant::now() - ago,
        served_ms: AtomicU64::new(served.as_millis() as u64),
        is_waiting: AtomicBool::new(false),
        is_known: AtomicBool::new(true),
        leaves: Notify::new(),
        _place: place,
    })
}

/// The place in the list of the one who has to go.
fn leaves(all: &[&Arc<Guest>]) -> Option<usize> {
    let guests = Guests {
        places: Arc::new(Semaphore::new(0)),
        all: all.iter().map(|guest| Arc::downgrade(guest)).collect(),
    };
    let first = guests.first_to_go()?;
    all.iter().position(|guest| Arc::ptr_eq(guest, &first))
}

#[test]
fn who_was_served_a_moment_ago_stays() {
    let now = guest(Duration::ZERO, Duration::ZERO);
    let just_served = guest(100 * SECOND, 100 * SECOND);
    assert_eq!(leaves(&[&now, &just_served]), None);
    let idle = guest(100 * SECOND, 99 * SECOND);
    assert_eq!(leaves(&[&now, &just_served, &idle]), Some(2));
}

#[test]
fn who_has_been_idle_for_longest_goes_whoever_came_first() {
    let first = guest(100 * SECOND, 99 * SECOND);
    let second = guest(50 * SECOND, 10 * SECOND);
    let third = guest(20 * SECOND, Duration::ZERO);
    assert_eq!(leaves(&[&first, &second, &third]), Some(1));
    assert_eq!(leaves(&[&first, &third]), Some(1));
}

#[test]
fn whose_answer_is_made_stays() {
    let asks = guest(100 * SECOND, Duration::ZERO);
    asks.waits(true);
    // However long that takes.
    asks.served_ms.store(0, Ordering::Relaxed);
    assert_eq!(leaves(&[&asks]), None);
    asks.waits(false);
    assert_eq!(leaves(&[&asks]), None);
    asks.served_ms.store(0, Ordering::Relaxed);
    assert_eq!(leaves(&[&asks]), Some(0));
}

#[test]
fn without_an_idle_one_the_first_stranger_goes() {
    let busy = |is_known: bool, ago: Duration| {
        let guest = guest(ago, Duration::ZERO);
        guest.waits(true);
        guest.is_known.store(is_known, Ordering::Relaxed);
        guest
    };
    let known = busy(true, 100 * SECOND);
    let stranger = busy(false, 50 * SECOND);
    let later = busy(false, 40 * SECOND);
    let new = busy(false, Duration::ZERO);
    assert_eq!(leaves(&[&known, &stranger, &later]), Some(1));
    assert_eq!(leaves(&[&known, &new]), None);
    // Idle ones go before them, also if they are known.
    let idle = guest(10 * SECOND, Duration::ZERO);
    assert_eq!(leaves(&[&stranger, &idle]), Some(1));
    stranger.is_allowed();
    assert_eq!(leaves(&[&stranger]), None);
}

/// By what goes out, not by what he sends.
#[tokio::test]
async fn who_takes_his_answer_is_served() {
    let guest = guest(100 * SECOND, Duration::ZERO);
    let (near, mut far) = tokio::io::duplex(64);
    let mut stream = Watched { stream: near, guest: guest.clone() };
    far.write_all(b"question").await.unwrap();
    let mut question = [0; 8];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut question).await.unwrap();
    assert_eq!(leaves(&[&guest]), Some(0));
    stream.write_all(b"answer").await.unwrap();
    assert_eq!(leaves(&[&guest]), None);
}
