// SPDX-License-Identifier: MIT
//! The facts about the machine that belong beside a measurement.

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub usable_cpus: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub architecture: &'static str,
    pub transparent_huge_pages: String,
    pub load_average: f64,
}

impl Machine {
    pub fn read() -> Machine {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = text("/proc/cpuinfo");
        let cpu = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or("unknown", |(_, name)| name);
        let meminfo = text("/proc/meminfo");
        let kilobytes = meminfo
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"))
            .and_then(|kilobytes| kilobytes.parse::<u64>().ok());
        let thp = text("/sys/kernel/mm/transparent_hugepage/enabled");
        let chosen = thp.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let load = text("/proc/loadavg");
        Machine {
            cpu: cpu.trim().to_owned(),
            usable_cpus: mallow_os::usable_cpu_count(),
            memory_bytes: kilobytes.unwrap_or(0) * 1024,
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            architecture: std::env::consts::ARCH,
            transparent_huge_pages: chosen.map_or("unknown", |(word, _)| word).to_owned(),
            load_average: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        }
    }
}
