// SPDX-License-Identifier: MIT
//! What happened over time, in a bounded number of steps: when the steps run out, each two become
//! one of twice the width.

use serde::Serialize;

const STEPS: usize = 1024;
const FIRST_WIDTH_NS: u64 = 100_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The most live bytes within the step.
    pub live_bytes: u64,
    /// The most resident memory that was sampled within the step, all processes together.
    pub rss_bytes: Option<u64>,
    pub allocations: u64,
    pub frees: u64,
    pub allocated_bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Timeline {
    width_ns: u64,
    steps: Vec<Step>,
    /// Live bytes after the last event: what an empty step begins with.
    live_bytes: u64,
    /// What was last sampled, to be carried on into steps without a sample.
    rss_bytes: Option<u64>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            width_ns: FIRST_WIDTH_NS,
            steps: vec![Step::default()],
            live_bytes: 0,
            rss_bytes: None,
        }
    }
}

impl Timeline {
    pub fn allocated(&mut self, time_ns: u64, bytes: u64, live_bytes: u64) {
        let step = self.step(time_ns);
        step.allocations += 1;
        step.allocated_bytes = step.allocated_bytes.saturating_add(bytes);
        step.live_bytes = step.live_bytes.max(live_bytes);
        self.live_bytes = live_bytes;
    }

    pub fn freed(&mut self, time_ns: u64, live_bytes: u64) {
        self.step(time_ns).frees += 1;
        self.live_bytes = live_bytes;
    }

    /// Live bytes changed without a call, as at the end of a process.
    pub fn level(&mut self, time_ns: u64, live_bytes: u64) {
        self.step(time_ns);
        self.live_bytes = live_bytes;
    }

    pub fn sampled(&mut self, time_ns: u64, rss_bytes: u64) {
        let step = self.step(time_ns);
        step.rss_bytes = step.rss_bytes.max(Some(rss_bytes));
        self.rss_bytes = Some(rss_bytes);
    }

    /// The step of a time; a time before the last step counts there, since events of different
    /// threads may come slightly out of order.
    fn step(&mut self, time_ns: u64) -> &mut Step {
        while time_ns / self.width_ns >= STEPS as u64 {
            self.halve();
        }
        let index = (time_ns / self.width_ns) as usize;
        let empty = Step { live_bytes: self.live_bytes, rss_bytes: None, ..Step::default() };
        while self.steps.len() <= index {
            self.steps.push(empty);
        }
        &mut self.steps[index]
    }

    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let halved = self
            .steps
            .chunks(2)
            .map(|pair| pair.iter().copied().reduce(Step::join).unwrap_or_default());
        self.steps = halved.collect();
    }

    /// The steps, joined to at most `number`; steps without a sample carry the one before.
    pub fn steps(&self, number: usize) -> (u64, Vec<Step>) {
        let mut joined = self.clone();
        while joined.steps.len() > number {
            joined.halve();
        }
        let mut rss = joined.steps.iter().find_map(|step| step.rss_bytes);
        for step in &mut joined.steps {
            step.rss_bytes = step.rss_bytes.or(rss);
            rss = step.rss_bytes;
        }
        (joined.width_ns, joined.steps)
    }
}

impl Step {
    fn join(self, later: Step) -> Step {
        Step {
            live_bytes: self.live_bytes.max(later.live_bytes),
            rss_bytes: self.rss_bytes.max(later.rss_bytes),
            allocations: self.allocations + later.allocations,
            frees: self.frees + later.frees,
            allocated_bytes: self.allocated_bytes.saturating_add(later.allocated_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_steps_are_joined() {
        let mut timeline = Timeline::default();
        let mut live = 100;
        for n in 0..100_000u64 {
            live += 10;
            timeline.allocated(n * 70_001, 10, live);
            if n % 4 == 0 {
                live -= 20;
                timeline.freed(n * 70_001 + 5, live);
            }
        }
        timeline.sampled(99_000 * 70_001, 4096);
        for number in [STEPS, 100, 10, 1] {
            let (width, steps) = timeline.steps(number);
            assert!(steps.len() <= number);
            assert!(width * steps.len() as u64 >= 99_999 * 70_001);
            assert_eq!(steps.iter().map(|s| s.allocations).sum::<u64>(), 100_000);
            assert_eq!(steps.iter().map(|s| s.frees).sum::<u64>(), 25_000);
            assert_eq!(steps.iter().map(|s| s.allocated_bytes).sum::<u64>(), 1_000_000);
            assert_eq!(steps.iter().filter_map(|s| s.rss_bytes).max(), Some(4096));
        }
    }

    #[test]
    fn silent_steps_hold_what_was_live() {
        let mut timeline = Timeline::default();
        timeline.allocated(0, 500, 500);
        timeline.freed(9 * FIRST_WIDTH_NS, 0);
        let (_, steps) = timeline.steps(STEPS);
        assert!(steps.iter().all(|step| step.live_bytes == 500), "{steps:?}");
    }
}
