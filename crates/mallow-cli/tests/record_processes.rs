// SPDX-License-Identifier: MIT
//! `mallow record` of processes that others start: which of them are recorded, and from when to when.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::common::chance::{LONGER, one_succeeds};
use crate::common::recording::{Trace, lives, record};
use crate::common::{compile, is_root};
use mallow_trace::Event;

/// Where a process has other numbers for itself, those of /proc hold.
#[test]
fn a_pid_namespace_of_its_own() {
    let unshared = ["unshare", "--pid", "--fork"];
    if !Command::new("unshare")
        .args(["--pid", "--fork", "true"])
        .status()
        .is_ok_and(|s| s.success())
    {
        eprintln!("skipped: there can be no PID namespace here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = lives(folder.path());
    let trace = record(&[], &[&unshared[..], &[program.to_str().unwrap(), "threads"]].concat());
    assert_eq!(trace.code, Some(0));
    assert_eq!((trace.count(7000), trace.count(7001)), (10, 8000));
    let processes = trace.processes();
    assert!(processes.iter().all(|process| process.pid > 1), "{processes:?}");
    assert_eq!(processes.last().unwrap().command.last().unwrap(), "threads");
    // Of another /proc nothing can be read, and nothing is recorded: that is said.
    one_succeeds(LONGER, |times| {
        let script = format!("sleep {} & wait", 2 * times);
        let command = ["--mount-proc", "bash", "-c", &script];
        tells("not recorded (bash", record(&[], &[&unshared[..], &command].concat()))
    });
}

/// The trace, if these words were said of it.
fn tells(words: &str, trace: Trace) -> Result<Trace, String> {
    if trace.stderr.contains(words) { Ok(trace) } else { Err(trace.stderr) }
}

/// Neither a child nor a thread can open the recording any more, nor who has no descriptor left.
#[test]
fn what_a_process_starts_after_it_changed_its_user_or_root_is_recorded() {
    if !is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <fcntl.h>\n#include <pthread.h>\n#include <stdlib.h>\n\
        #include <sys/resource.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
        static void *work(void *size) { free(malloc((size_t)size)); return 0; }\n\
        int main(int n, char **v) { free(malloc(7001));\n\
        if (*v[1] == 'u' && setuid(65534) != 0) return 1;\n\
        if (*v[1] == 'r' && chroot(v[0]) != 0) return 2;\n\
        if (*v[1] == 'd') { struct rlimit none = {4, 4}; setrlimit(RLIMIT_NOFILE, &none);\n\
            while (dup(1) >= 0) { } }\n\
        if (fork() == 0) { free(malloc(7002)); _exit(0); }\n\
        pthread_t thread; pthread_create(&thread, 0, work, (void *)7004);\n\
        pthread_join(thread, 0);\n\
        int status; wait(&status); free(malloc(7003)); return status; }";
    let flags = ["-O0", "-D_GNU_SOURCE", "-pthread"];
    let program = compile("cc", folder.path(), source, &flags).expect("there is a compiler");
    for way in ["user", "root", "descriptors"] {
        let folder = folder.path().to_str().unwrap();
        let command = ["bash", "-c", "exec -a $0 $1 $2", folder, program.to_str().unwrap(), way];
        let trace = record(&[], &command);
        assert_eq!(trace.code, Some(0), "{way}: {}", trace.stderr);
        let found = [7001, 7002, 7003, 7004].map(|size| trace.count(size));
        assert_eq!(found, [1; 4], "{way}: {}", trace.stderr);
        assert!(trace.stderr.contains("none were dropped"), "{way}: {}", trace.stderr);
    }
}

/// The end of each is noticed a little later than it comes.
#[test]
fn processes_in_turn_do_not_live_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        int main(void) { char *block = malloc(9 << 20); memset(block, 1, 9 << 20); usleep(60000);\n\
        _exit(0); }\n";
    let program = compile("cc", folder.path(), source, &["-O1", "-fno-builtin"]).unwrap();
    let script = format!("for i in 1 2 3 4 5; do {}; done; exit 0", program.display());
    let trace = record(&["--stacks", "none"], &["sh", "-c", &script]);
    assert_eq!(trace.count(9 << 20), 5, "{}", trace.stderr);
    let (mut process_of, mut holders, mut rss) =
        (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    for record in &trace.records {
        match &record.event {
            Event::Thread(thread) => {
                process_of.insert(record.thread, thread.process);
            }
            Event::Call(call) if call.size == 9 << 20 => {
                holders.insert(process_of[&record.thread]);
            }
            Event::Memory(memory) => {
                rss.insert(memory.process, memory.rss);
            }
            Event::ProcessEnd(end) => {
                holders.remove(&end.process);
                rss.remove(&end.process);
            }
            _ => {}
        }
        assert!(holders.len() <= 1, "{holders:?} at {record:?}");
        assert!(rss.values().sum::<u64>() < 18 << 20, "{rss:?} at {record:?}");
    }
}

/// Each lives long enough to be seen: a child without the environment, one in a user namespace, what a recorded
/// one becomes by an exec, and a recorded one that only sleeps.
#[test]
fn processes_without_the_recorder_are_told_of() {
    let can = Command::new("unshare").args(["-U", "true"]).status().is_ok_and(|s| s.success());
    let (apart, count) = if can { ("unshare -U", 3) } else { ("", 2) };
    if !can {
        eprintln!("skipped: there can be no user namespace here");
    }
    let trace = one_succeeds(LONGER, |times| {
        let script = format!(
            "{apart} sleep 600 & env -i sleep 600 & \
             sh -c 'sleep 0.1; exec env -u LD_PRELOAD tail --pid=$0 -f /dev/null' $$ & \
             sleep {}; kill %1 %2; exit 0",
            4 * times
        );
        let words = format!("at least {count} processes not recorded (sleep, tail), which");
        tells(&words, record(&[], &["bash", "-c", &script]))
    });
    assert!(!trace.stderr.contains("none were dropped"), "{}", trace.stderr);
    if is_root() {
        one_succeeds(LONGER, |times| {
            let user = "setpriv --reuid 65534 --regid 65534 --clear-groups sleep 600";
            let script = format!("{user} & sleep {}; kill %1; exit 0", 3 * times);
            let trace = record(&[], &["bash", "-c", &script]);
            tells("not recorded (sleep), which", trace)
        });
    }
    let trace = record(&[], &["bash", "-c", "sleep 1.2 & sleep 1.2; wait"]);
    assert!(trace.stderr.contains("none were dropped"), "{}", trace.stderr);
}

/// The child's first thread has the stack that a thread of its parent had; fibers lie below it, with pages between
/// them that cannot be read.
#[test]
fn a_child_of_a_thread_may_run_fibers() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#define _GNU_SOURCE\n#include <pthread.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n\
        #include <sys/wait.h>\n#include <ucontext.h>\n#include <unistd.h>\n\
        enum { PAGE = 65536 };\n\
        static ucontext_t back, fiber;\n\
        static void run(void) { for (int i = 0; i < 10000; i++) free(malloc(7020)); }\n\
        static void *work(void *status) { if (fork() == 0) { free(malloc(7021));\n\
        for (int i = 0; i < 20; i++) {\n\
        char *stack = mmap(0, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
        mprotect(stack + PAGE, PAGE, PROT_READ | PROT_WRITE); getcontext(&fiber);\n\
        fiber.uc_stack.ss_sp = stack + PAGE; fiber.uc_stack.ss_size = PAGE;\n\
        fiber.uc_link = &back; makecontext(&fiber, run, 0); swapcontext(&back, &fiber); }\n\
        _exit(0); }\n\
        wait(status); return 0; }\n\
        int main(void) { pthread_t thread; int status = 1;\n\
        pthread_create(&thread, 0, work, &status); pthread_join(thread, 0); return status != 0; }\n";
    let flags = ["-O1", "-fno-builtin", "-pthread"];
    let program = compile("cc", folder.path(), source, &flags).unwrap();
    for stacks in ["full", "fp"] {
        let trace = record(&["--stacks", stacks], &[program.to_str().unwrap()]);
        assert_eq!(
            (trace.code, trace.count(7020)),
            (Some(0), 200_000),
            "{stacks}: {}",
            trace.stderr
        );
    }
}
