// SPDX-License-Identifier: MIT
//! What a recording counts when it ends.

use std::process::Command;

use mallow_launch::embedded::{self, RECORDER};
use mallow_recorder::{CHANNEL_VARIABLE, Clock, Settings, StackMode};
use mallow_trace::Header;

use super::*;

/// Also those of a thread that was not read before the end.
#[test]
fn what_was_dropped_before_the_end_counts() {
    let clock = Clock::choose();
    let settings = Settings {
        stacks: StackMode::None,
        stack_distance: 0,
        drops: true,
        ring_bytes: 4 << 10,
        clock,
    };
    let channel = Channel::new(&settings).expect("memory");
    let timeline = Timeline::start(clock);
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); x=$x$i; done";
    let mut command = Command::new("sh");
    command.args(["-c", script]).env(CHANNEL_VARIABLE, channel.path());
    command.env("LD_PRELOAD", embedded::materialise(&RECORDER).expect("a folder"));
    let mut child = command.spawn().expect("sh starts");
    assert!(child.wait().expect("it is ours").success());
    let writer = Writer::new(Vec::new(), &Header::default()).expect("memory");
    let collector = Collector::new(channel, timeline, writer, child.id(), None);
    let recorded = collector.finish(Some(Ending::Code(0))).expect("memory").recorded;
    assert!(recorded.calls > 0 && recorded.dropped > 0, "{recorded:?}");
}
