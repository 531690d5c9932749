// SPDX-License-Identifier: MIT
//! The clock of the recorder: the processor's counter where all processors agree on it, which costs
//! a third of the system's clock.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Counter,
    System,
}

impl Clock {
    /// The counter, unless the kernel itself does not trust it.
    pub fn choose() -> Clock {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        match std::fs::read_to_string(source) {
            Ok(name) if matches!(name.trim(), "tsc" | "arch_sys_counter") => Clock::Counter,
            _ => Clock::System,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Clock::Counter => "tsc",
            Clock::System => "monotonic",
        }
    }

    /// What a thread would stamp a call with now.
    pub fn now(self) -> u64 {
        match self {
            Clock::Counter => counter(),
            Clock::System => system_ns(),
        }
    }

    /// This and the system's clock.
    fn with_system(self) -> (u64, u64) {
        at_once(|| (self.now(), system_ns(), self.now()))
    }
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks) };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    system_ns()
}

/// CLOCK_MONOTONIC.
pub fn system_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a pointer to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How often the two clocks are read for one correction.
const READINGS: usize = 3;

/// What both clocks show at one moment. Whoever is interrupted between two looks finds them far apart: of a few readings
/// of the system's clock, with the other before and after, the closest counts.
fn at_once(mut read: impl FnMut() -> (u64, u64, u64)) -> (u64, u64) {
    let mut closest = (u64::MAX, 0, 0);
    for _ in 0..READINGS {
        let (before, ns, after) = read();
        let apart = after.saturating_sub(before);
        if apart < closest.0 {
            closest = (apart, before + apart / 2, ns);
        }
    }
    (closest.1, closest.2)
}

/// Turns stamps into nanoseconds since the start. Begins with an estimate of the counter's speed,
/// and corrects it as the recording gets longer.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    clock: Clock,
    start_ticks: u64,
    start_ns: u64,
    /// In units of 2^-32.
    ns_per_tick: u64,
}

impl Timeline {
    pub fn start(clock: Clock) -> Timeline {
        let (start_ticks, start_ns) = clock.with_system();
        let mut timeline = Timeline { clock, start_ticks, start_ns, ns_per_tick: 1 << 32 };
        if clock == Clock::Counter {
            std::thread::sleep(Duration::from_millis(5));
            timeline.correct();
        }
        timeline
    }

    pub fn correct(&mut self) {
        if self.clock == Clock::Counter {
            let (ticks, ns) = self.clock.with_system();
            let ticks = ticks.saturating_sub(self.start_ticks);
            let ns = ns.saturating_sub(self.start_ns);
            if ticks > 0 && ns > 0 {
                self.ns_per_tick = ((u128::from(ns) << 32) / u128::from(ticks)) as u64;
            }
        }
    }

    /// Stamps have lost their highest byte, and what is left wraps around after months. One from before the start is
    /// of the start.
    #[inline]
    pub fn time(&self, stamp: u64) -> u64 {
        let ticks = (stamp.wrapping_sub(self.start_ticks) << 8) as i64 >> 8;
        self.duration(ticks.max(0) as u64)
    }

    #[inline]
    pub fn duration(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32) as u64
    }

    pub fn now(&self) -> u64 {
        self.time(self.clock.now() & (u64::MAX >> 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_between_two_clocks_does_not_count() {
        let mut readings =
            [(100, 9_000, 20_000), (30_000, 500, 30_040), (40_000, 600, 50_000)].into_iter();
        assert_eq!(at_once(|| readings.next().unwrap_or_default()), (30_020, 500));
    }

    #[test]
    fn stamps_wrap_around() {
        let stamp = |ticks: u64| ticks & (u64::MAX >> 8);
        for start_ticks in [0, 5, (1 << 56) - 10, (7 << 56) - 10, u64::MAX - 10] {
            let timeline =
                Timeline { clock: Clock::Counter, start_ticks, start_ns: 0, ns_per_tick: 1 << 32 };
            for later in [0, 1, 20, 1 << 50] {
                let ticks = start_ticks.wrapping_add(later);
                assert_eq!(timeline.time(stamp(ticks)), later, "{start_ticks} and {later}");
            }
            assert_eq!(timeline.time(stamp(start_ticks.wrapping_sub(3))), 0, "{start_ticks}");
        }
    }

    /// Whoever is interrupted between the two clocks measures something else: of ten times one is right.
    #[test]
    fn time_passes_as_it_does() {
        for clock in [Clock::choose(), Clock::System] {
            let is_right = |_| {
                let timeline = Timeline::start(clock);
                let before = timeline.now();
                let start = std::time::Instant::now();
                std::thread::sleep(Duration::from_millis(50));
                let (real, measured) = (start.elapsed().as_nanos() as u64, timeline.now() - before);
                println!("{clock:?}: {measured} and {real}");
                measured.abs_diff(real) < real / 20
            };
            assert!((0..10).any(is_right), "{clock:?}");
        }
    }
}
