// SPDX-License-Identifier: MIT
//! The tests of the command, in one program: each file of its own would be linked with all of the tool.
//! `cargo test -p mallow-cli explain` runs those of one file.
#![allow(clippy::unwrap_used)]

mod common;

mod advise;
mod advise_runtimes;
mod any_names;
mod as_data;
mod check;
mod check_runners;
mod compare;
mod completions;
mod documented;
mod enable;
mod enable_beside;
mod enable_odd;
mod enable_running;
mod enable_setuid;
mod exit_codes;
mod explain;
mod explain_beside;
mod explain_early;
mod explain_glibc;
mod explain_huge;
mod explain_mallow;
mod explain_runtimes;
mod few_processes;
mod guard;
mod guard_runtimes;
mod habits;
mod hang_up;
mod heap_profile;
mod loaded_files;
mod pages;
mod record;
mod record_processes;
mod record_python;
mod record_real;
mod record_ruby;
mod refusals;
mod replay;
mod report;
mod report_example;
mod report_names;
mod serve;
mod serve_clients;
mod serve_otlp;
mod serve_places;
mod serve_processes;
mod serve_prometheus;
mod serve_pyroscope;
mod stats_core;
mod top;
mod tune;
mod tune_interrupted;
mod verbs;
mod watch;

#[test]
fn every_file_is_named_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "command") {
            assert!(include_str!("command.rs").contains(&format!("\nmod {module};\n")), "{module}");
        }
    }
}
