// SPDX-License-Identifier: MIT
//! What `enable`, `disable`, `help` and `run --dry-run` say, for programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::system::{DROP_IN, SCRIPT, System};
use crate::common::{json, mallow, ran, run, without_rights};
use serde_json::{Value, json};

const RESTART: &str = "systemctl daemon-reload && systemctl restart web.service";

#[track_caller]
fn report(system: &System, words: &[&str]) -> Value {
    let text = system.succeeds(&[words, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_is_enabled_and_what_is_undone_are_data() {
    let system = System::new();
    let before = system.everything();
    let mut foreseen = report(&system, &["enable", "--global", "--dry-run"]);
    system.is(&before);
    let done = report(&system, &["enable", "--global"]);
    let root = system.folder.path().display();
    let expected = json!({
        "schema": "mallow.enable/1",
        "is_dry_run": false,
        "snippet": null,
        "already": null,
        "files": [{
            "place": "login shells",
            "allocator": "mallow",
            "preload": "libmallow.so",
            "library": "/usr/lib/libmallow.so",
            "file": system.path(SCRIPT),
            "outcome": "written",
            "text": system.text(SCRIPT),
            "restart": null,
        }],
        "also": [],
        "next": [],
        "undo": format!("mallow disable --global --root {root}"),
    });
    assert_eq!(done, expected);
    assert_eq!(foreseen["is_dry_run"].take(), true);
    foreseen["is_dry_run"] = false.into();
    assert_eq!(foreseen, expected);
    let again = report(&system, &["enable", "--global"]);
    assert_eq!(again["files"][0]["outcome"], "unchanged");
    let other = report(&system, &["enable", "--global", "-a", "mallow-secure"]);
    let file = &other["files"][0];
    assert_eq!((&file["outcome"], &file["replaced"]), (&"replaced".into(), &"mallow".into()));

    let mut foreseen = report(&system, &["disable", "--all", "--dry-run"]);
    let expected = json!({
        "schema": "mallow.disable/1",
        "is_dry_run": false,
        "files": [{
            "place": "login shells",
            "allocator": "mallow-secure",
            "file": system.path(SCRIPT),
            "outcome": "removed",
            "restart": null,
            "next": null,
        }],
        "others": [],
    });
    assert!(system.path(SCRIPT).exists());
    assert_eq!(report(&system, &["disable", "--all"]), expected);
    system.is(&before);
    assert_eq!(foreseen["is_dry_run"].take(), true);
    foreseen["is_dry_run"] = false.into();
    assert_eq!(foreseen, expected);
    assert_eq!(report(&system, &["disable", "--all"])["files"], json!([]));
}

#[test]
fn files_that_were_there_come_back_and_units_have_to_start_again() {
    let system = System::new();
    system.write(DROP_IN, "[Service]\n");
    let enabled = report(&system, &["enable", "--unit", "web"]);
    let disabled = report(&system, &["disable", "--unit", "web"]);
    for (report, outcome) in [(enabled, "kept"), (disabled, "restored")] {
        let file = &report["files"][0];
        assert_eq!((&file["outcome"], &file["restart"]), (&outcome.into(), &RESTART.into()));
        assert_eq!(file["place"], "unit web.service");
    }
}

#[test]
fn what_others_enabled_is_data() {
    let system = System::new();
    system.install_package("mallow-global", "libmallow.so");
    let other = json!({
        "place": "login shells",
        "allocator": "mallow",
        "file": system.path("etc/profile.d/mallow-global.sh"),
        "remedy": "remove the package mallow-global",
    });
    let already = report(&system, &["enable", "--global"]);
    assert_eq!((&already["already"], &already["files"]), (&other, &json!([])));
    let secure = report(&system, &["enable", "--global", "-a", "mallow-secure"]);
    let also = secure["also"][0].as_str().unwrap();
    assert!(also.contains("mallow-global.sh enables mallow no more"), "{also}");
    assert_eq!(report(&system, &["disable", "--global"])["others"], json!([other]));
}

#[test]
fn a_dry_run_says_as_data_what_may_not_be_written() {
    let (system, folder) = (System::new(), tempfile::tempdir().unwrap());
    let open = |path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    open(system.folder.path().to_owned(), 0o755);
    open(system.path("etc/profile.d"), 0o555);
    let mut command = without_rights(folder.path());
    command.args(["enable", "--global", "--dry-run", "--json", "--root"]).arg(system.folder.path());
    let ran = ran(command.output().unwrap());
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    assert_eq!(json(&ran)["files"][0]["outcome"], "refused");
}

#[test]
fn a_snippet_goes_into_a_file() {
    let system = System::new();
    let file = system.path("Dockerfile");
    let text = system.succeeds(&["enable", "--docker"]);
    let written = system.succeeds(&["enable", "--docker", "-o", file.to_str().unwrap()]);
    assert_eq!((written.as_str(), system.text("Dockerfile")), ("", text.clone()));
    let expected = json!({
        "form": "docker",
        "allocator": "mallow",
        "preload": "/usr/local/lib/libmallow.so",
        "text": text,
    });
    assert_eq!(report(&system, &["enable", "--docker"])["snippet"], expected);
    let marked = system.succeeds(&["enable", "--docker", "--format", "md"]);
    assert_eq!(marked, format!("```\n{text}```\n"));
}

#[test]
fn tables_of_what_was_done_have_a_row_for_each_file() {
    let system = System::new();
    let rows = |words: &[&str]| system.succeeds(&[words, &["--format", "csv"]].concat());
    let path = system.path(SCRIPT);
    let path = path.display();
    assert_eq!(
        rows(&["enable", "--global"]),
        format!(
            "for,allocator,preload,file,outcome\nlogin shells,mallow,libmallow.so,{path},written\n"
        )
    );
    assert_eq!(
        rows(&["disable", "--global"]),
        format!("for,allocator,file,outcome\nlogin shells,mallow,{path},gone\n")
    );
}

#[test]
fn topics_of_the_help_are_data() {
    let on = |topic: &[&str]| json(&run(&[&["help", "--json"], topic].concat()));
    let all = on(&[]);
    assert_eq!(all["schema"], "mallow.help/1");
    let verbs = all["verbs"].as_array().unwrap();
    let shown = run(&["help"]).stdout;
    assert!(verbs.len() > 20);
    for verb in verbs {
        let name = verb["name"].as_str().unwrap();
        assert!(shown.contains(&format!("\n  {name} ")), "{name}");
        assert_eq!(
            on(&[name]),
            json!({ "schema": "mallow.help/1", "verbs": [verb], "findings": [] })
        );
    }
    let list = on(&["findings"]);
    assert_eq!((&list["verbs"], &list["findings"]), (&json!([]), &all["findings"]));
    let findings = list["findings"].as_array().unwrap();
    assert!(findings.len() > 60);
    let first = &on(&["mlw2101"])["findings"];
    assert_eq!(first, &json!([findings[0]]));
    assert_eq!(first[0]["id"], "MLW2101");
    assert!(first[0]["text"].as_str().unwrap().starts_with("glibc gives threads arenas"));
    assert_eq!(run(&["help", "nothing", "--json"]).code, Some(2));
}

#[test]
fn a_verb_has_its_options_as_data() {
    let verb = json(&run(&["help", "compare", "--json"]))["verbs"][0].clone();
    assert_eq!(verb["usage"], "mallow compare [OPTIONS] [-- <COMMAND>...]");
    assert_eq!(
        (&verb["examples"][0], &verb["next"]),
        (&"mallow compare -- python3 app.py".into(), &"verify".into())
    );
    let options = verb["options"].as_array().unwrap();
    let option = |name: &str| {
        let has_name = |option: &&Value| option["names"].as_array().unwrap().contains(&name.into());
        options.iter().find(has_name).unwrap()
    };
    assert_eq!(
        option("--format"),
        &json!({
            "names": ["--format"],
            "value": "FORMAT",
            "about": "How to print the result",
            "values": ["table", "json", "csv", "md", "html"],
            "defaults": ["table"],
        })
    );
    let json = option("--json");
    assert_eq!((&json["value"], &json["values"]), (&Value::Null, &json!([])));
    assert_eq!(option("-r")["names"], json!(["-r", "--runs"]));
}

#[test]
fn help_goes_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("help");
    for topic in [&["help"][..], &["help", "run"], &["help", "MLW2101"], &["man", "run"]] {
        let ran = run(&[topic, &["-o", file.to_str().unwrap()]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{topic:?}: {}", ran.stderr);
        assert_eq!(fs::read_to_string(&file).unwrap(), run(topic).stdout, "{topic:?}");
    }
}

#[test]
fn what_a_command_would_get_is_data() {
    let with = |words: &[&str]| {
        let mut command = mallow(&[&["run", "--dry-run"], words, &["--", "echo", "a b"]].concat());
        ran(command.env("LD_PRELOAD", "/x/libmimalloc.so").output().unwrap())
    };
    let options = ["--opt", "dirty_decay_ms:0"];
    let report = json(&with(&[&options[..], &["--json"]].concat()));
    let line = with(&options).stdout;
    assert_eq!(
        (&report["schema"], &report["allocator"]),
        (&"mallow.run/1".into(), &"mallow".into())
    );
    assert_eq!(report["line"], line.trim_end());
    assert_eq!(report["set"]["MALLOW_CONF"], "dirty_decay_ms:0");
    assert!(report["set"]["LD_PRELOAD"].as_str().unwrap().contains("libmallow.so"));
    assert_eq!((&report["unset"], &report["command"]), (&json!([]), &json!(["echo", "a b"])));
    let glibc = json(&with(&["-a", "glibc", "--json"]));
    assert_eq!((&glibc["unset"], &glibc["set"]), (&json!(["LD_PRELOAD"]), &json!({})));
    let table = with(&["-a", "glibc", "--format", "csv"]).stdout;
    assert_eq!(table, "variable,value\nLD_PRELOAD,(unset)\n");
}

/// What it prints is its own.
#[test]
fn a_command_that_runs_has_no_result_of_ours() {
    for form in
        [&["--json"][..], &["-o", "/dev/null"], &["--html", "/dev/null"], &["--format", "csv"]]
    {
        let ran = run(&[&["run"], form, &["--", "true"]].concat());
        assert_eq!(ran.code, Some(2), "{form:?}");
        assert!(ran.stderr.contains("--dry-run"), "{}", ran.stderr);
    }
    let mut command = mallow(&["run", "--", "echo", "spoken"]);
    let ran = ran(command.env("MALLOW_RUN_FORMAT", "json").output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "spoken\n"), "{}", ran.stderr);
}
