// SPDX-License-Identifier: MIT
//! `mallow advise` on real jemallocs, glibc and Mallow: what it finds, what it leaves alone, and that
//! the advice changes the figure that it was given for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::daemon::hears_a_daemon;
use crate::common::program::Program;
use crate::common::{Ran, json, mallow, ran, refuses, run};
use serde_json::Value;

const LOAD: &str = include_str!("programs/jemalloc_load.c");

/// The installed jemalloc, if there is one.
fn jemalloc() -> Option<PathBuf> {
    let report = json(&run(&["list", "--json"]));
    let all = report["allocators"].as_array().unwrap();
    let found = all.iter().find(|a| a["name"] == "jemalloc" && a["libc"] == "glibc");
    let path = found.and_then(|a| a["path"].as_str()).map(PathBuf::from);
    if path.is_none() {
        println!("skipped: jemalloc is not installed");
    }
    path
}

/// The same, and the one of `crates/peers/build jemalloc`, which is the newest, if it was built.
fn jemallocs() -> Vec<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/peers/libjemalloc.so");
    jemalloc().into_iter().chain(built.exists().then_some(built)).collect()
}

fn load(folder: &Path) -> String {
    let program =
        crate::common::compile("cc", folder, LOAD, &["-O1", "-fno-builtin", "-pthread"]).unwrap();
    program.to_str().unwrap().to_owned()
}

/// The statistics of the load under these options, as a file.
fn dump(library: &Path, folder: &Path, options: &str, words: &[&str]) -> String {
    let mut command = Command::new(load(folder));
    command.args(words).env("LD_PRELOAD", library).env("MALLOC_CONF", options);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = folder.join("dump.json");
    fs::write(&file, output.stdout).unwrap();
    file.to_str().unwrap().to_owned()
}

fn findings(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    let all = report["findings"].as_array().unwrap();
    all.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("{id}: {report}"))
}

/// What is to be set in MALLOC_CONF.
fn option(finding: &Value) -> String {
    finding["set"].as_str().unwrap().strip_prefix("MALLOC_CONF=").unwrap().to_owned()
}

fn stats(file: &str) -> Value {
    json(&run(&["stats", "--json", file]))["stats"].take()
}

fn sum(stats: &Value, field: &str) -> u64 {
    let classes = stats["classes"].as_array().unwrap();
    classes.iter().filter_map(|class| class[field].as_u64()).sum()
}

fn lock(stats: &Value, name: &str, field: &str) -> u64 {
    let locks = stats["locks"].as_array().unwrap();
    locks.iter().find(|lock| lock["name"] == name).map_or(0, |lock| lock[field].as_u64().unwrap())
}

#[test]
fn larger_slabs_make_fills_and_locking_rarer() {
    for library in jemallocs() {
        let folder = tempfile::tempdir().unwrap();
        let words = ["bins", "8", "500"];
        let file = dump(&library, folder.path(), "narenas:8", &words);
        let before = stats(&file);
        let report = json(&run(&["advise", "--json", &file]));
        let advice = option(finding(&report, "MLW3105"));
        assert_eq!(advice, "slab_sizes:512-4096:16");
        let strict = run(&["advise", "--strict", &file]);
        assert_eq!(strict.code, Some(3), "{}", strict.stderr);
        assert!(strict.stdout.contains("MLW3105") && strict.stderr.contains("to do"));

        let file = dump(&library, folder.path(), &format!("narenas:8,{advice}"), &words);
        let after = stats(&file);
        assert!(2 * sum(&after, "fills") < sum(&before, "fills"), "fills did not become rarer");
        let taken = |stats| lock(stats, "extents_dirty", "operations");
        assert!(10 * taken(&after) < taken(&before), "{} {}", taken(&after), taken(&before));
        let report = json(&run(&["advise", "--json", &file]));
        assert!(!findings(&report).contains(&"MLW3105"), "{report}");
    }
}

#[test]
fn a_decay_time_saves_calls_and_tcache_max_saves_locking() {
    for library in jemallocs() {
        let folder = tempfile::tempdir().unwrap();
        let words = ["pages", "4", "2000"];
        let file = dump(&library, folder.path(), "narenas:4,dirty_decay_ms:0", &words);
        let before = stats(&file);
        let report = json(&run(&["advise", "--json", &file]));
        let decay = option(finding(&report, "MLW3109"));
        let cache = finding(&report, "MLW3108")["set"].as_str().unwrap();
        let calls = |stats: &Value| stats["dirty_purges"]["calls"].as_u64().unwrap();
        let allocations = |stats: &Value| stats["large"]["allocations"].as_u64().unwrap();

        let file = dump(&library, folder.path(), &format!("narenas:4,{decay}"), &words);
        assert!(20 * calls(&stats(&file)) < calls(&before), "{}", calls(&before));
        let report = json(&run(&["advise", "--json", &file]));
        assert!(!findings(&report).contains(&"MLW3109"), "{report}");

        // From 5.3.1 on no setting makes caches hold such blocks.
        let Some(cache) = cache.strip_prefix("MALLOC_CONF=") else {
            assert!(before["options"]["disable_large_size_classes"].is_string(), "{cache}");
            continue;
        };
        let options = format!("narenas:4,{decay},{cache}");
        let after = stats(&dump(&library, folder.path(), &options, &words));
        assert!(2 * allocations(&after) < allocations(&before), "{}", allocations(&after));
    }
}

/// How often threads meet depends on the machine's moment, so that is tried some times.
#[test]
fn more_arenas_end_the_waiting() {
    const TRIES: usize = 8;
    for library in jemallocs() {
        let folder = tempfile::tempdir().unwrap();
        let words = ["arenas", "256", "200"];
        let contended = |file: &str| {
            let stats = stats(file);
            lock(&stats, "extents_dirty", "waits") + lock(&stats, "extents_dirty", "spins")
        };
        let helped = (0..TRIES).any(|_| {
            let file = dump(&library, folder.path(), "narenas:1", &words);
            let before = contended(&file);
            let report = json(&run(&["advise", "--json", &file]));
            // They may have met at other locks.
            if before == 0 || !findings(&report).contains(&"MLW3101") {
                return false;
            }
            let advice = option(finding(&report, "MLW3101"));
            assert_eq!(advice, "narenas:128");
            let file = dump(&library, folder.path(), &advice, &words);
            assert!(2 * contended(&file) < before, "{} of {before}", contended(&file));
            let report = json(&run(&["advise", "--json", &file]));
            assert!(!findings(&report).contains(&"MLW3101"), "{report}");
            true
        });
        if !helped {
            println!("skipped: threads do not meet at locks with {}", library.display());
        }
    }
}

/// A load, the options that make it suffer, and what is advised.
struct Sufferer {
    words: &'static str,
    given: &'static str,
    id: &'static str,
    /// What is advised where threads meet at a lock, which depends on the machine's moment.
    where_they_meet: Option<&'static str>,
    /// A figure of the load that the advice divides at least so often, as `compare --value` finds it
    /// in the line of a dump.
    figure: &'static str,
    times: f64,
    /// The same of minor page faults; nothing where pages are not what it is about.
    fewer_faults: Option<f64>,
}

/// Those that lose time, which is for people to see: a test cannot count on it.
const SUFFERERS: [Sufferer; 4] = [
    Sufferer {
        words: "bins 8 500",
        given: "narenas:8",
        id: "MLW3105",
        where_they_meet: None,
        figure: r#"fills="small":.*?"nfills":([0-9]+)"#,
        times: 2.0,
        fewer_faults: None,
    },
    Sufferer {
        words: "pages 4 2000",
        given: "narenas:4,dirty_decay_ms:0",
        id: "MLW3109",
        where_they_meet: None,
        figure: r#"calls="dirty_nmadvise":([0-9]+)"#,
        times: 20.0,
        fewer_faults: Some(4.0),
    },
    Sufferer {
        words: "retained 256 40",
        given: "narenas:1,dirty_decay_ms:0",
        id: "MLW3102",
        where_they_meet: Some("dirty_decay_ms:10000"),
        figure: r#"locks="extents_retained":\{"num_ops":([0-9]+)"#,
        times: 2.0,
        fewer_faults: None,
    },
    // Up to 5.3.0 this name has how often threads waited.
    Sufferer {
        words: "arenas 256 200",
        given: "narenas:1",
        id: "MLW3101",
        where_they_meet: Some("narenas:128"),
        figure: r#"switches="extents_dirty":\{[^}]*"num_owner_switch":([0-9]+)"#,
        times: 2.0,
        fewer_faults: None,
    },
];

/// The command that the advice names as its check shows that it helped, with the same program.
#[test]
fn compare_shows_what_the_advice_changed() {
    for library in jemallocs() {
        for sufferer in &SUFFERERS {
            follow(&library, sufferer);
        }
    }
}

fn follow(library: &Path, sufferer: &Sufferer) {
    let folder = tempfile::tempdir().unwrap();
    let words: Vec<&str> = sufferer.words.split(' ').collect();
    let file = dump(library, folder.path(), sufferer.given, &words);
    let report = json(&run(&["advise", "--json", &file]));
    let advice = match sufferer.where_they_meet {
        Some(advice) if !findings(&report).contains(&sufferer.id) => advice.to_owned(),
        _ => option(finding(&report, sufferer.id)),
    };
    let load = format!("{} {}", folder.path().join("program").display(), sufferer.words);
    let is_chance = sufferer.where_they_meet.is_some();
    let tries = if is_chance { 8 } else { 1 };
    let mut worst = None;
    let helped = (0..tries).any(|_| {
        let (figure, faults) = measured(library, sufferer, &load, &advice);
        if figure.0 > 0.0 {
            worst = Some((figure, faults));
        }
        let are_fewer = sufferer.fewer_faults.is_none_or(|times| times * faults.1 < faults.0);
        sufferer.times * figure.1 < figure.0 && are_fewer
    });
    assert!(helped || (is_chance && worst.is_none()), "{}: {worst:?}", sufferer.words);
    if !helped {
        println!("skipped: threads do not meet at the lock with {}", library.display());
    }
}

/// Before the advice and after it.
type Both = (f64, f64);

/// The figure of a load and its page faults, as `compare` finds them.
fn measured(library: &Path, sufferer: &Sufferer, load: &str, advice: &str) -> (Both, Both) {
    // What was given stays.
    let script =
        format!("MALLOC_CONF={}${{MALLOC_CONF:+,$MALLOC_CONF}} exec {load}", sufferer.given);
    let (allocator, matrix) =
        (format!("jemalloc={}", library.display()), format!("MALLOC_CONF=,{advice}"));
    let mut check = vec!["compare", "--json", "-q", "-a", &allocator, "--runs", "2"];
    check.extend(["--matrix", &matrix, "--value", sufferer.figure, "--", "sh", "-c", &script]);
    let compared = run(&check);
    assert_eq!(compared.code, Some(0), "{}", compared.stderr);
    let compared = json(&compared);
    let of = |value: usize, figure: fn(&Value) -> &Value| {
        figure(&compared["conditions"][0]["entries"][value])["median"].as_f64().unwrap()
    };
    let both = |figure: fn(&Value) -> &Value| (of(0, figure), of(1, figure));
    let figure = both(|entry| &entry["values"][0]["metric"]);
    let faults = both(|entry| &entry["minor_faults"]);
    let (user, system) = (both(|entry| &entry["user_s"]), both(|entry| &entry["system_s"]));
    println!(
        "{}, {}: {advice}: {} {figure:?}, faults {faults:?}, user {user:?} s, system {system:?} s",
        library.display(),
        sufferer.words,
        sufferer.figure
    );
    (figure, faults)
}

/// Free memory that goes back at once is found again under the lock of what is retained. Whether threads
/// meet there depends on the machine's moment, as above; how often they go there does not.
#[test]
fn a_decay_time_ends_the_waiting_for_retained_pages() {
    const TRIES: usize = 12;
    for library in jemallocs() {
        let folder = tempfile::tempdir().unwrap();
        let words = ["retained", "256", "40"];
        let mut worst = None;
        let helped = (0..TRIES).any(|_| {
            let file = dump(&library, folder.path(), "narenas:1,dirty_decay_ms:0", &words);
            let before = lock(&stats(&file), "extents_retained", "operations");
            let report = json(&run(&["advise", "--json", &file]));
            if !findings(&report).contains(&"MLW3102") {
                return false;
            }
            let advice = option(finding(&report, "MLW3102"));
            assert_eq!(advice, "dirty_decay_ms:10000");
            let file = dump(&library, folder.path(), &format!("narenas:1,{advice}"), &words);
            let after = lock(&stats(&file), "extents_retained", "operations");
            if 2 * after >= before {
                worst = Some(format!("{after} of {before}")); // that the machine was busy alone may be why
                return false;
            }
            let report = json(&run(&["advise", "--json", &file]));
            assert!(!findings(&report).contains(&"MLW3102"), "{report}");
            true
        });
        assert!(helped || worst.is_none(), "{worst:?} in {TRIES} tries");
        if !helped {
            println!("skipped: threads do not meet at the lock with {}", library.display());
        }
    }
}

#[test]
fn a_healthy_program_has_nothing_to_do() {
    for library in jemallocs() {
        let folder = tempfile::tempdir().unwrap();
        let file = dump(&library, folder.path(), "narenas:8", &["healthy", "4", "5000"]);
        let ran = run(&["advise", "--strict", &file]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
        assert!(ran.stdout.starts_with("Nothing to do (jemalloc "), "{}", ran.stdout);
    }
}

#[test]
fn a_command_is_asked_while_its_threads_are_alive() {
    if jemalloc().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("echo said; echo warned >&2; {} bins 8 1000 g; exit 5", load(folder.path()));
    let ran = run(&["advise", "--json", "-a", "jemalloc", "--", "sh", "-c", &script]);
    assert_eq!(ran.code, Some(5), "the command's own: {}", ran.stderr);
    let report = json(&ran);
    assert_eq!(option(finding(&report, "MLW3105")), "slab_sizes:512-4096:16");
    assert!(report["not_judged"].as_array().unwrap().is_empty(), "threads were seen: {report}");
    // What the command says is there, and nothing of what was asked of jemalloc.
    assert!(ran.stderr.contains("said\n") && ran.stderr.contains("warned\n"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("{\"jemalloc\""), "{}", ran.stderr);
}

/// However late `mallow` comes to read them: the load makes about thirty dumps while it is stopped.
#[test]
fn dumps_stay_whole_while_nobody_reads_them() {
    if jemalloc().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    // The load begins when mallow is stopped, and mallow goes on when the load is done.
    let script = format!(
        "kill -STOP $PPID; timeout 100 {} bins 8 1000 g >/dev/null; touch {}",
        load(folder.path()),
        done.display()
    );
    let mut command = mallow(&["advise", "--json", "-a", "jemalloc", "--", "sh", "-c", &script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !done.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let is_whole = !ran.stderr.contains("\"nmalloc\"") && !ran.stderr.contains("at once");
    assert!(is_whole, "{}", ran.stderr);
    assert_eq!(option(finding(&json(&ran), "MLW3105")), "slab_sizes:512-4096:16");
}

/// Free blocks between used ones, in whole pages.
const HOLES: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    #include <unistd.h>\nenum { COUNT = 4000 };\nstatic void *blocks[COUNT];\n\
    int main(void) { for (int i = 0; i < COUNT; i++) { blocks[i] = malloc(32000); \
    memset(blocks[i], 1, 32000); } for (int i = 0; i < COUNT; i++) if (i % 4) free(blocks[i]); \
    puts(\"{}\"); fflush(stdout); pause(); return 0; }\n";

/// The options of the process decide what is advised, and who followed the advice does not hear it again.
#[test]
fn free_pages_of_mallow_are_judged_by_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let large = HOLES.replace("32000", "200000").replace("COUNT = 4000", "COUNT = 600");
    let program =
        crate::common::compile("cc", folder.path(), &large, &["-O1", "-fno-builtin"]).unwrap();
    let of = |settings: &str| {
        let words = ["run", "--opt", "purge_thread:true", "--", program.to_str().unwrap()];
        let process = Program::at_rest(mallow(&words).env("MALLOC_CONF", settings));
        json(&run(&["advise", "--json", &process.pid()]))
    };
    let never = of("dirty_decay_ms:-1");
    let advice = finding(&never, "MLW2201");
    assert_eq!(advice["set"], "MALLOW_CONF=dirty_decay_ms:10000", "{advice}");
    assert!(advice["effect"].as_str().unwrap().contains("as purge_thread is on"), "{advice}");
    let followed = of("");
    assert!(!findings(&followed).contains(&"MLW2201"), "{followed}");
}

/// The limit that holds is read from the process, whatever has set it.
#[test]
fn blocks_near_the_limit_of_mallow_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\n#include <unistd.h>\n\
        int main(void) { while (malloc(100000)) {} write(1, \"{}\\n\", 3); pause(); return 0; }\n";
    let program =
        crate::common::compile("cc", folder.path(), source, &["-O1", "-fno-builtin"]).unwrap();
    let words = ["run", "--opt", "memory_limit:64M", "--", program.to_str().unwrap()];
    let process = Program::at_rest(&mut mallow(&words));
    let report = json(&run(&["advise", "--json", &process.pid()]));
    assert_eq!(
        finding(&report, "MLW3204")["set"],
        "MALLOW_CONF=memory_limit:100663296",
        "{report}"
    );
}

/// What a program sets in itself counts as well: by `malloc_conf`, and later by `mallctl`, which wins.
#[test]
fn options_that_a_program_sets_in_itself_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let large = HOLES.replace("32000", "200000").replace("COUNT = 4000", "COUNT = 600");
    let of = |set_by_call: &str| {
        let source = large.replace(
            "int main(void) {",
            &format!(
                "const char *malloc_conf = \"background_thread:true,dirty_decay_ms:-1\";\n\
                 int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));\n\
                 int main(void) {{ {set_by_call}"
            ),
        );
        let options = ["-O1", "-fno-builtin", "-rdynamic"];
        let program = crate::common::compile("cc", folder.path(), &source, &options).unwrap();
        let words = ["run", "-a", "mallow", "--", program.to_str().unwrap()];
        let process = Program::at_rest(&mut mallow(&words));
        json(&run(&["advise", "--json", &process.pid()]))
    };
    let never = of("");
    let advice = finding(&never, "MLW2201");
    assert!(advice["evidence"].as_str().unwrap().contains("dirty_decay_ms is -1"), "{advice}");
    assert!(advice["effect"].as_str().unwrap().contains("as purge_thread is on"), "{advice}");
    let soon = of("ssize_t ms = 5000; mallctl(\"arenas.dirty_decay_ms\", 0, 0, &ms, sizeof ms);");
    assert!(!findings(&soon).contains(&"MLW2201"), "{soon}");
}

/// The dump that a program under Mallow writes of itself is judged as far as its figures go, and what needs the process is
/// named.
#[test]
fn a_dump_of_mallow_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let of = |settings: &str, source: &str| {
        let source = source
            .replace("puts(\"{}\"); fflush(stdout); pause();", "malloc_stats_print(0, 0, \"J\");");
        let source = format!(
            "void malloc_stats_print(void *, void *, const char *) __attribute__((weak));\n{source}"
        );
        let options = ["-O1", "-fno-builtin"];
        let program = crate::common::compile("cc", folder.path(), &source, &options).unwrap();
        let words = ["run", "-a", "mallow", "--", program.to_str().unwrap()];
        let output = mallow(&words).env("MALLOC_CONF", settings).output().unwrap();
        let file = folder.path().join("dump.json");
        fs::write(&file, output.stderr).unwrap();
        let ran = run(&["advise", "--json", file.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json(&ran)
    };
    let large = HOLES.replace("32000", "200000").replace("COUNT = 4000", "COUNT = 600");
    let never = of("dirty_decay_ms:-1", &large);
    let advice = finding(&never, "MLW2201");
    assert_eq!(advice["set"], "MALLOW_CONF=dirty_decay_ms:10000", "{advice}");
    let soon = of("dirty_decay_ms:30000", &large);
    assert!(!findings(&soon).contains(&"MLW2201"), "{soon}");
    let unknown = &soon["not_judged"][0];
    assert_eq!(unknown["id"], "MLW2201", "{soon}");
    assert!(unknown["why"].as_str().unwrap().contains("mallow advise PID"), "{unknown}");
    let followed = of("dirty_decay_ms:30000,background_thread:true", &large);
    assert_eq!((findings(&followed).len(), &followed["not_judged"]), (0, &Value::Array(vec![])));
    let slots = of("", &HOLES.replace("32000", "10000").replace("COUNT = 4000", "COUNT = 16000"));
    let advice = finding(&slots, "MLW2202")["evidence"].as_str().unwrap();
    assert!(advice.ends_with("most of 10240 bytes"), "{advice}");
}

/// A command under Mallow is judged by its heap while it ran, not by the dump that it writes at its end.
#[test]
fn a_command_under_mallow_is_looked_at_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let source = HOLES
        .replace("32000", "200000")
        .replace("COUNT = 4000", "COUNT = 600")
        .replace("pause()", "sleep(4)");
    let program =
        crate::common::compile("cc", folder.path(), &source, &["-O1", "-fno-builtin"]).unwrap();
    let words = ["advise", "--json", "-a", "mallow", "--", program.to_str().unwrap()];
    let report = json(&run(&words));
    assert_eq!(finding(&report, "MLW2201")["set"], "MALLOW_CONF=purge_thread:true", "{report}");
}

#[test]
fn what_malloc_trim_would_give_back_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        crate::common::compile("cc", folder.path(), HOLES, &["-O1", "-fno-builtin"]).unwrap();
    let process = Program::at_rest(&mut Command::new(&program));
    let report = json(&run(&["advise", "--json", &process.pid()]));
    assert_eq!(report["allocator"], "glibc");
    let finding = finding(&report, "MLW2102");
    let evidence = finding["evidence"].as_str().unwrap();
    assert!(evidence.contains("free pages that are resident"), "{evidence}");
    assert!(finding["check"].as_str().unwrap().contains(&process.pid()), "{finding}");
    let started = run(&["advise", "--json", "--", "timeout", "6", program.to_str().unwrap()]);
    assert_eq!(started.code, Some(124), "{}", started.stderr);
    // The process that has the memory, not the one that waits for it.
    assert_eq!(findings(&json(&started)), ["MLW2102"]);
}

#[test]
fn a_process_at_rest_has_nothing_to_do() {
    for allocator in ["glibc", "mallow"] {
        let mut command =
            mallow(&["run", "-a", allocator, "--", "sh", "-c", "echo {}; exec sleep 100"]);
        let process = Program::at_rest(&mut command);
        let ran = run(&["advise", &process.pid()]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.starts_with(&format!("Nothing to do ({allocator}")), "{}", ran.stdout);
    }
}

#[test]
fn advise_refuses_a_live_jemalloc_with_the_way_to_ask_it_and_stats_reads_it() {
    let Some(library) = jemalloc() else { return };
    let mut command = Command::new("sh");
    command.args(["-c", "echo {}; exec sleep 100"]).env("LD_PRELOAD", library);
    let process = Program::at_rest(&mut command);
    let words = ["stats_print_opts:J", "gdb -p", "malloc_stats_print", &process.pid()];
    refuses(&["advise", &process.pid()], 4, &words);
    let ran = run(&["stats", "--json", &process.pid()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(json(&ran)["stats"]["allocator"], "jemalloc", "{}", ran.stdout);
}

#[test]
fn foreign_and_broken_input_is_one_sentence_and_7() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = include_bytes!("../../mallow-stats/tests/dumps/jemalloc-5.3.1-bins.json");
    let text = include_bytes!("../../mallow-stats/tests/dumps/jemalloc-5.3.0-text.txt");
    let (empty, cut) = (file("empty", b""), file("cut", &whole[..9000]));
    let (other, text) = (file("other", b"\x7fELF\0\xff"), file("text", text));
    for verb in ["stats", "advise"] {
        refuses(&[verb, &empty], 7, &["empty"]);
        refuses(&[verb, &cut], 7, &["jemalloc", "cut off"]);
        refuses(&[verb, &other], 7, &["no statistics"]);
        refuses(&[verb, &text], 7, &["stats_print_opts:J"]);
    }
    let good = file("good", whole);
    let read = |verb: &str| -> Ran {
        let input = fs::File::open(&good).unwrap();
        ran(mallow(&[verb, "-", "--json"]).stdin(input).output().unwrap())
    };
    assert_eq!(json(&read("stats"))["stats"]["allocator"], "jemalloc");
    assert_eq!(findings(&json(&read("advise"))), ["MLW3105"]);
}

#[test]
fn rules_are_listed_and_explained() {
    let list = json(&run(&["advise", "--rules", "--json"]));
    let rules = list["rules"].as_array().unwrap();
    assert!(rules.len() >= 25, "{}", rules.len());
    for rule in rules {
        let id = rule["id"].as_str().unwrap();
        let help = run(&["help", id]);
        assert_eq!(help.code, Some(0), "{id}");
        assert!(help.stdout.contains(rule["title"].as_str().unwrap()), "{id}");
    }
    let text = run(&["advise", "--rules"]).stdout;
    assert!(text.contains("MLW3101") && text.contains("Ruby"), "{text}");
}

/// Those that are not asked by a dump are looked at, if there is time: so the code is not the command's alone.
#[test]
fn what_goes_on_behind_the_command_keeps_nobody_waiting() {
    hears_a_daemon(&["advise"]);
}
