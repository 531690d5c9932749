// SPDX-License-Identifier: MIT
//! The tables of a report in full, for programs: plain numbers, bytes and nanoseconds.

use mallow_report::{Profile, Summary};

use super::args::TableName;
use crate::output::Table;

pub fn table(summary: &Summary, profile: &Profile, name: TableName) -> Table {
    match name {
        TableName::Functions => functions(summary),
        TableName::Threads => threads(summary),
        TableName::Sizes => sizes(summary),
        TableName::Stacks => stacks(profile),
        TableName::Lifetimes => lifetimes(summary),
        TableName::Timeline => timeline(summary),
    }
}

/// The stacks of a heap profile.
pub fn held(profile: &Profile, has_all: bool) -> Table {
    let mut columns = vec![("live_bytes", true), ("live_blocks", true)];
    if has_all {
        columns.extend([("allocated_bytes", true), ("allocated_blocks", true)]);
    }
    columns.push(("stack", false));
    let mut table = Table::new(&columns);
    let mut stacks = profile.by_function();
    stacks.sort_by_key(|(_, costs)| std::cmp::Reverse(costs.leaked.bytes));
    for (stack, costs) in stacks {
        let mut numbers = vec![costs.leaked.bytes, costs.leaked.blocks];
        if has_all {
            numbers.extend([costs.allocated.bytes, costs.allocated.blocks]);
        }
        let numbers = numbers.iter().map(u64::to_string);
        table.rows.push(numbers.chain([stack]).collect());
    }
    table
}

fn functions(summary: &Summary) -> Table {
    let mut table =
        Table::new(&[("function", false), ("calls", true), ("failed", true), ("bytes", true)]);
    for function in &summary.functions {
        let numbers = [function.calls, function.failed, function.bytes].map(|n| n.to_string());
        table.rows.push([vec![function.name.to_owned()], numbers.to_vec()].concat());
    }
    table
}

fn threads(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        ("pid", true),
        ("tid", true),
        ("name", false),
        ("started_ns", true),
        ("ended_ns", true),
        ("allocations", true),
        ("allocated_bytes", true),
        ("frees", true),
        ("foreign_frees", true),
        ("peak_bytes", true),
        ("leaked_bytes", true),
        ("temporary", true),
        ("dropped", true),
    ]);
    for process in &summary.processes {
        for thread in &process.threads {
            table.rows.push(vec![
                process.pid.to_string(),
                thread.tid.to_string(),
                thread.name.clone(),
                thread.started_ns.to_string(),
                thread.ended_ns.map(|ns| ns.to_string()).unwrap_or_default(),
                thread.allocated.blocks.to_string(),
                thread.allocated.bytes.to_string(),
                thread.frees().to_string(),
                thread.foreign_frees.to_string(),
                thread.peak.bytes.to_string(),
                thread.leaked.bytes.to_string(),
                thread.temporary.blocks.to_string(),
                thread.dropped.to_string(),
            ]);
        }
    }
    table
}

/// The most frequent sizes; an empty tid stands for all threads.
fn sizes(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        ("pid", true),
        ("tid", true),
        ("thread", false),
        ("size", true),
        ("calls", true),
        ("share", true),
    ]);
    let mut add = |pid: String, tid: String, name: &str, sizes: &mallow_report::Sizes| {
        for count in &sizes.frequent {
            table.rows.push(vec![
                pid.clone(),
                tid.clone(),
                name.to_owned(),
                count.size.to_string(),
                count.calls.to_string(),
                format!("{:.6}", count.share),
            ]);
        }
    };
    add(String::new(), String::new(), "", &summary.sizes);
    for process in &summary.processes {
        for thread in &process.threads {
            add(process.pid.to_string(), thread.tid.to_string(), &thread.name, &thread.sizes);
        }
    }
    table
}

fn stacks(profile: &Profile) -> Table {
    let mut table = Table::new(&[
        ("stack", false),
        ("calls", true),
        ("bytes", true),
        ("peak_blocks", true),
        ("peak_bytes", true),
        ("leaked_blocks", true),
        ("leaked_bytes", true),
        ("temporary", true),
        ("freed", true),
        ("mean_lifetime_ns", true),
    ]);
    for (stack, costs) in profile.by_function() {
        let numbers = [
            costs.allocated.blocks,
            costs.allocated.bytes,
            costs.peak.blocks,
            costs.peak.bytes,
            costs.leaked.blocks,
            costs.leaked.bytes,
            costs.temporary.blocks,
            costs.freed,
        ];
        let mut row = vec![stack];
        row.extend(numbers.map(|number| number.to_string()));
        row.push(costs.mean_lifetime_ns().map(|ns| ns.to_string()).unwrap_or_default());
        table.rows.push(row);
    }
    table
}

fn lifetimes(summary: &Summary) -> Table {
    let mut table =
        Table::new(&[("from_ns", true), ("to_ns", true), ("blocks", true), ("bytes", true)]);
    for bucket in &summary.lifetimes.buckets {
        let numbers = [bucket.low, bucket.high, bucket.calls, bucket.bytes];
        table.rows.push(numbers.map(|number| number.to_string()).to_vec());
    }
    table
}

fn timeline(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        ("time_ns", true),
        ("live_bytes", true),
        ("rss_bytes", true),
        ("allocations", true),
        ("frees", true),
        ("allocated_bytes", true),
    ]);
    for (index, step) in summary.timeline.steps.iter().enumerate() {
        table.rows.push(vec![
            (index as u64).saturating_mul(summary.timeline.step_ns).to_string(),
            step.live_bytes.to_string(),
            step.rss_bytes.map(|rss| rss.to_string()).unwrap_or_default(),
            step.allocations.to_string(),
            step.frees.to_string(),
            step.allocated_bytes.to_string(),
        ]);
    }
    table
}
