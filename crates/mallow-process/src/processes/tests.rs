// SPDX-License-Identifier: MIT
use super::*;
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn processes_come_and_go() {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v 1000000; sh -c 'read line'; exit"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut collector = Collector::new(&[child.id()], false).unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let rows = loop {
        collector.refresh().unwrap();
        collector.read_all(Duration::from_secs(20)).unwrap();
        let rows = collector.rows(false);
        if rows.len() == 2 && rows.iter().all(|row| row.live.is_some()) {
            break rows;
        }
        assert!(Instant::now() < deadline, "{rows:?}");
    };
    for row in &rows {
        assert_eq!(row.allocator.as_deref(), Some("glibc"));
        let limit = row.limit.unwrap();
        // A control group may leave less.
        assert!(limit.of == BoundOf::ControlGroup || limit.bytes == 1_024_000_000, "{limit:?}");
        assert!(row.live.unwrap() < row.rss && row.heap_age_s.is_some());
    }
    assert!(rows.iter().any(|row| row.parent == child.id()));
    drop(child.stdin.take());
    while !Stat::read(child.id()).unwrap().is_zombie() {
        std::thread::sleep(Duration::from_millis(5));
    }
    collector.refresh().unwrap();
    assert!(collector.rows(false).is_empty());
    let dead = collector.rows(true);
    assert_eq!(dead[0].why_no_heap, Some(Why::Ended));
    child.wait().unwrap();
    collector.refresh().unwrap();
    assert!(collector.rows(true).is_empty());
    let missing = Collector::new(&[4_194_304], false);
    assert!(matches!(missing, Err(Error::Process { pid: 4_194_304, .. })));
}

#[test]
fn another_program_under_the_same_number_begins_anew() {
    let own = std::process::id();
    let mut collector = Collector::new(&[own], false).unwrap();
    collector.refresh().unwrap();
    let known = collector.known.get_mut(&own).unwrap();
    known.heap = Some((1, 2));
    known.stat.start.time += 1;
    collector.refresh().unwrap();
    let rows = collector.rows(false);
    assert_eq!((rows[0].live, rows[0].why_no_heap), (None, Some(Why::Waiting)));
    assert_eq!(rows[0].rss_history.len(), 1);
}

#[test]
fn who_does_not_answer_is_told_of_and_others_are_read() {
    let mut child = Command::new("sh")
        .args(["-c", "echo begun; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let own = std::process::id();
    let mut collector = Collector::new(&[own, child.id()], false).unwrap();
    collector.refresh().unwrap();
    collector.known.get_mut(&own).unwrap().heap = Some((1, 2));
    let (reader, _end) = Reader::stuck(own, collector.start(own).unwrap());
    collector.reader = Some(reader);
    collector.ask(None, &[]).unwrap();
    collector.patience = Duration::ZERO;
    collector.ask(None, &[]).unwrap();
    collector.patience = LOST_AFTER;
    collector.settle(Duration::from_secs(20));
    let rows = collector.rows(false);
    let row = |pid| rows.iter().find(|row| row.pid == pid).unwrap();
    assert_eq!((row(own).live, row(own).why_no_heap), (None, Some(Why::NoAnswer)));
    assert!(row(child.id()).live.is_some(), "{rows:?}");
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// Of this process alone, whose reader does not come back from it as long as the other value is kept.
fn stuck() -> (Collector, impl Sized) {
    let own = std::process::id();
    let mut collector = Collector::new(&[own], false).unwrap();
    collector.refresh().unwrap();
    let (reader, end) = Reader::stuck(own, collector.start(own).unwrap());
    collector.reader = Some(reader);
    (collector, end)
}

#[test]
fn who_answers_after_all_is_read_again() {
    let (mut collector, end) = stuck();
    collector.patience = Duration::ZERO;
    assert!(collector.look_after_reader());
    collector.patience = LOST_AFTER;
    let again = |collector: &mut Collector| {
        collector.ask(None, &[]).unwrap();
        collector.settle(Duration::from_secs(20));
        collector.rows(false).remove(0)
    };
    let row = again(&mut collector);
    assert_eq!((row.allocator, row.why_no_heap), (None, Some(Why::NoAnswer)));
    drop(end);
    // Its heap may change all the time.
    let row = again(&mut collector);
    assert_eq!(row.allocator.as_deref(), Some("glibc"));
    assert_ne!(row.why_no_heap, Some(Why::NoAnswer));
}

#[test]
fn time_in_which_all_are_stopped_does_not_count() {
    let (mut collector, _end) = stuck();
    collector.patience = Duration::from_secs(1);
    assert!(!collector.look_after_reader());
    std::thread::sleep(collector.patience * 2);
    assert!(!collector.look_after_reader());
    // It goes on, and the reader does not.
    assert!(collector.look_after_reader());
}

#[test]
fn who_starts_another_program_is_not_left_alone() {
    let own = std::process::id();
    let mut collector = Collector::new(&[own], false).unwrap();
    collector.refresh().unwrap();
    let start = collector.start(own).unwrap();
    let before = stat::Start { places: [1, 2, 3], ..start };
    let (reader, _end) = Reader::stuck(own, before);
    collector.reader = Some(reader);
    collector.send(vec![Task { pid: own, start, has_heap: false }]).unwrap();
    collector.patience = Duration::ZERO;
    assert!(collector.look_after_reader());
    assert_eq!(collector.rows(false)[0].why_no_heap, Some(Why::Waiting));
    assert_eq!(collector.pending.len(), 1);
}

#[test]
fn what_was_still_to_do_is_done_by_another_reader() {
    let own = std::process::id();
    let mut collector = Collector::new(&[own], false).unwrap();
    collector.refresh().unwrap();
    // At another process, which is none of those that are asked for.
    let (reader, _end) = Reader::stuck(1, stat::Start::default());
    collector.reader = Some(reader);
    collector.patience = Duration::from_millis(1);
    let start = collector.start(own).unwrap();
    collector.send(vec![Task { pid: own, start, has_heap: false }]).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert!(collector.look_after_reader());
    collector.patience = LOST_AFTER;
    assert_eq!(collector.pending.len(), 1);
    let rest = std::mem::take(&mut collector.pending);
    collector.send(rest).unwrap();
    collector.settle(Duration::from_secs(20));
    assert!(collector.pending.is_empty());
    assert_eq!(collector.rows(false)[0].allocator.as_deref(), Some("glibc"));
}

#[test]
fn rates_are_of_the_last_seconds() {
    let mut known = Known::new(Stat::default());
    let now = Instant::now();
    assert_eq!(known.rate(), None);
    for second in 0..30 {
        let rss = if second < 15 { 0 } else { (second - 15) * 1000 };
        known.history.push_back((now + Duration::from_secs(second), rss));
    }
    assert_eq!(known.rate(), Some(1000.0));
}
