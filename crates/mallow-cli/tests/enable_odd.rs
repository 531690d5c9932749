// SPDX-License-Identifier: MIT
//! `mallow enable` in systems that somebody has shaped before: links, foreign lines, narrow rights.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::common::system::{DROP_IN, RECORD, SCRIPT, System};
use crate::common::{compile, is_root, mallow, ran};

const LIST: &str = "etc/ld.so.preload";

#[test]
fn without_profile_d_and_without_a_home_it_is_enabled_and_gone() {
    let system = System::new();
    fs::remove_dir(system.path("etc/profile.d")).unwrap();
    let before = system.everything();
    for words in [["enable", "--global"], ["status", "--json"], ["disable", "--global"]] {
        let ran = ran(system.mallow(&words).env_remove("HOME").output().unwrap());
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
    }
    system.is(&before);
}

/// Root's umask is no reason for users to be shut out of /etc/profile.d.
#[test]
fn a_narrow_umask_shuts_nobody_out_of_the_system() {
    if !is_root() {
        println!("skipped: folders of the system are root's");
        return;
    }
    let system = System::new();
    fs::remove_dir(system.path("etc/profile.d")).unwrap();
    for place in [&["--global"][..], &["--unit", "web"], &["--wrappers", "/opt/bin"]] {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(mallow(&[]).get_program());
        command.arg("enable").args(place).arg("--root").arg(system.folder.path());
        let ran = ran(command.output().unwrap());
        assert_eq!(ran.code, Some(0), "{place:?}: {}", ran.stderr);
    }
    let unit_folder = system.path(DROP_IN).parent().unwrap().to_owned();
    let names = ["etc/profile.d", "opt", "opt/bin", "var/lib/mallow"].map(|name| system.path(name));
    for folder in names.iter().chain([&unit_folder]) {
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o755, "{}", folder.display());
    }
    assert_eq!(system.path(SCRIPT).metadata().unwrap().mode() & 0o777, 0o644);
}

/// The list's words are parted by blanks and colons, and it has comments.
#[test]
fn foreign_words_and_comments_of_the_loaders_list_stay() {
    let system = System::new();
    let list = "# agent\n/opt/agent.so # keep\n/opt/libjemalloc.so.2:/opt/b.so # both\n\
                /opt/libmimalloc.so.2\n# no /usr/lib/libjemalloc.so.2\n/opt/last.so";
    system.write(LIST, list);
    let before = system.everything();
    system.succeeds(&["enable", "--ld-so-preload"]);
    let expected = "/usr/lib/libmallow.so\n# agent\n/opt/agent.so # keep\n/opt/b.so # both\n\
                    # no /usr/lib/libjemalloc.so.2\n/opt/last.so\n";
    assert_eq!(system.text(LIST), expected);
    system.succeeds(&["disable", "--ld-so-preload"]);
    system.is(&before);
    // What cannot be read as text would be lost while it is enabled.
    fs::write(system.path(LIST), b"/opt/agent.so\n# \xff\n").unwrap();
    let before = system.everything();
    system.refuses(&["enable", "--ld-so-preload"], 4, &["ld.so.preload is not text"]);
    system.is(&before);
    // A link of that system leads to a file of that system, and not to this one's of the same name.
    fs::remove_file(system.path(LIST)).unwrap();
    symlink(mallow(&[]).get_program(), system.path(LIST)).unwrap();
    system.refuses(&["enable", "--ld-so-preload"], 4, &["ld.so.preload is a link"]);
}

#[test]
fn a_path_that_no_preload_can_name_is_refused() {
    let system = System::new();
    for folder in ["opt/my lib", "opt/a:b"] {
        fs::create_dir_all(system.path(folder)).unwrap();
        let library = format!("/{folder}/libmallow.so");
        fs::copy(system.path("usr/lib/libmallow.so"), system.path(&library[1..])).unwrap();
        let named = format!("mine={library}");
        let before = system.everything();
        for place in [&["--global"][..], &["--unit", "web"], &["--ld-so-preload"]] {
            let words = [&["enable", "-a", &named], place].concat();
            system.refuses(&words, 2, &["a space or a colon", "Make a link"]);
        }
        system.is(&before);
    }
}

/// An image may have links that are good in it alone.
#[test]
fn a_link_out_of_the_system_is_not_followed() {
    let system = System::new();
    let outside = tempfile::tempdir().unwrap();
    fs::remove_dir(system.path("etc/profile.d")).unwrap();
    symlink(outside.path(), system.path("etc/profile.d")).unwrap();
    let before = system.everything();
    system.refuses(&["enable", "--global"], 4, &["which is outside of"]);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    system.is(&before);
    fs::remove_file(system.path("etc/profile.d")).unwrap();
    symlink("../nowhere", system.path("etc/profile.d")).unwrap();
    system.refuses(&["enable", "--global"], 4, &["leads to nothing"]);
    // One that stays inside is as good as a folder.
    fs::create_dir(system.path("nowhere")).unwrap();
    let before = system.everything();
    system.succeeds(&["enable", "--global"]);
    assert!(system.path("nowhere/mallow.sh").exists());
    system.succeeds(&["disable", "--global"]);
    system.is(&before);
    // The record too.
    fs::remove_dir(system.path("var/lib")).unwrap();
    symlink(outside.path(), system.path("var/lib")).unwrap();
    system.refuses(&["enable", "--global"], 4, &["which is outside of"]);
    assert!(!system.path(SCRIPT).exists());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// Whoever made an image may have written a record into it.
#[test]
fn the_record_of_an_image_makes_and_removes_no_folder_outside_of_it() {
    let (system, outside) = (System::new(), tempfile::tempdir().unwrap());
    let (there, missing) = (outside.path().join("there"), outside.path().join("missing"));
    fs::create_dir(&there).unwrap();
    system.succeeds(&["enable", "--global"]);
    let mut record: serde_json::Value = serde_json::from_str(&system.text(RECORD)).unwrap();
    record["folders"] = serde_json::json!([there, missing]);
    record["entries"][0]["folders"] = serde_json::json!([there, missing]);
    system.write(RECORD, &record.to_string());
    system.succeeds(&["enable", "--global", "-a", "mallow-secure"]);
    assert!(!missing.exists());
    system.write(RECORD, &record.to_string());
    system.succeeds(&["disable", "--all", "--force"]);
    assert!(there.exists() && !missing.exists());
    // Where a link leads out there is nothing to clear up.
    fs::remove_dir_all(system.path("var/lib")).unwrap();
    symlink(outside.path(), system.path("var/lib")).unwrap();
    fs::create_dir(outside.path().join("mallow")).unwrap();
    system.succeeds(&["disable", "--all"]);
    assert!(outside.path().join("mallow").exists());
}

/// By `..` behind a folder that is not there, or not any more after another entry.
#[test]
fn the_record_of_an_image_writes_and_removes_no_file_outside_of_it() {
    let (system, outside) = (System::new(), tempfile::tempdir().unwrap());
    let (root, file) = (system.folder.path().canonicalize().unwrap(), outside.path().join("file"));
    fs::write(&file, "whole").unwrap();
    system.succeeds(&["enable", "--global"]);
    let record: serde_json::Value = serde_json::from_str(&system.text(RECORD)).unwrap();
    let names = |file: &str, written: &str, before: serde_json::Value| {
        let mut entry = record["entries"][0].clone();
        entry["file"] = file.into();
        entry["folders"] = serde_json::json!(["/none"]);
        entry["written"] = serde_json::json!([written]);
        entry["before"] = before;
        entry
    };
    let other = serde_json::json!({ "content": "other", "mode": 0o644, "uid": 0, "gid": 0 });
    let up = "/..".repeat(root.components().count());
    for way in [format!("/none{up}{}", file.display()), format!("none{up}{}", file.display())] {
        for before in [&other, &serde_json::Value::Null] {
            let mut record = record.clone();
            let first = names("/none/first", "first", serde_json::Value::Null);
            record["entries"] = serde_json::json!([first, names(&way, "whole", before.clone())]);
            for is_there in [false, true] {
                if is_there {
                    system.write("none/first", "first");
                }
                system.write(RECORD, &record.to_string());
                let there = system.everything();
                for words in [&["disable", "--all"][..], &["disable", "--all", "--force"]] {
                    system.refuses(words, 7, &["not a record that this mallow can read", &way]);
                    assert_eq!(fs::read_to_string(&file).unwrap(), "whole", "{way}");
                    system.is(&there);
                }
            }
            fs::remove_dir_all(system.path("none")).unwrap();
        }
    }
}

/// All are looked at before the first is undone.
#[test]
fn a_link_that_leads_out_by_now_is_told_before_anything_is_undone() {
    let (system, outside) = (System::new(), tempfile::tempdir().unwrap());
    system.succeeds(&["enable", "--unit", "web"]);
    system.succeeds(&["enable", "--global"]);
    fs::rename(system.path("etc/profile.d"), outside.path().join("profile.d")).unwrap();
    symlink(outside.path().join("profile.d"), system.path("etc/profile.d")).unwrap();
    let before = system.everything();
    for words in [&["disable", "--all"][..], &["disable", "--all", "--force"]] {
        system.refuses(words, 4, &["which is outside of"]);
        system.is(&before);
    }
}

#[test]
fn a_folder_of_wrappers_may_be_named_by_a_way_up() {
    let system = System::new();
    let before = system.everything();
    system.succeeds(&["enable", "-a", "mallow", "--wrappers", "/opt/none/../bin"]);
    assert!(system.path("opt/bin/mallow.sh").exists() && !system.path("opt/none").exists());
    system.succeeds(&["disable", "--wrappers", "/opt/other/../bin"]);
    system.is(&before);
}

/// It is made as a folder, with `--root`, and is disabled where it lies then.
#[test]
fn an_image_that_has_been_moved_is_as_it_was_before() {
    let system = System::new();
    fs::remove_dir(system.path("etc/profile.d")).unwrap();
    let before = system.everything();
    system.succeeds(&["enable", "--global"]);
    let image = system.folder.path().join("image");
    fs::create_dir(&image).unwrap();
    for name in ["etc", "usr", "var"] {
        fs::rename(system.path(name), image.join(name)).unwrap();
    }
    let ran = ran(mallow(&["disable", "--all", "--root"]).arg(&image).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for name in ["etc", "usr", "var"] {
        fs::rename(image.join(name), system.path(name)).unwrap();
    }
    fs::remove_dir(&image).unwrap();
    system.is(&before);
    // Earlier builds wrote the folders as they were seen from outside.
    system.succeeds(&["enable", "--global"]);
    let mut record: serde_json::Value = serde_json::from_str(&system.text(RECORD)).unwrap();
    assert_eq!(record["entries"][0]["folders"], serde_json::json!(["/etc/profile.d"]));
    let root = system.folder.path().canonicalize().unwrap();
    record["folders"] = serde_json::json!([root.join("var/lib/mallow")]);
    record["entries"][0]["folders"] = serde_json::json!([root.join("etc/profile.d")]);
    system.write(RECORD, &record.to_string());
    system.succeeds(&["disable", "--all"]);
    system.is(&before);
}

/// What `systemctl edit` writes is named override.conf.
#[test]
fn the_drop_in_is_read_after_what_others_wrote() {
    let system = System::new();
    let folder = "etc/systemd/system/web.service.d";
    let other = format!("{folder}/override.conf");
    system.write(&other, "[Service]\nEnvironment=LD_PRELOAD=libjemalloc.so.2:/opt/a.so\n");
    let before = system.everything();
    system.succeeds(&["enable", "--unit", "web"]);
    assert!(system.text(DROP_IN).contains("\"LD_PRELOAD=libmallow.so:/opt/a.so\""));
    let names = fs::read_dir(system.path(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.max().unwrap(), "zz-mallow.conf");
    system.succeeds(&["disable", "--unit", "web"]);
    system.is(&before);
}

#[test]
fn a_file_of_the_environment_that_would_win_is_a_reason_to_write_none() {
    let system = System::new();
    let unit = "[Service]\nExecStart=/usr/bin/web 100\nEnvironmentFile=-/etc/default/web\n";
    system.write("etc/systemd/system/web.service", unit);
    system.write("etc/default/web", "# LD_PRELOAD=no.so\nOPTIONS=-v\n");
    system.succeeds(&["enable", "--unit", "web"]);
    system.succeeds(&["disable", "--unit", "web"]);
    system.write("etc/default/web", "OPTIONS=-v\nLD_PRELOAD=libjemalloc.so.2\n");
    let before = system.everything();
    let words = ["enable", "--unit", "web"];
    system.refuses(&words, 3, &["etc/default/web sets LD_PRELOAD for web.service", "--force"]);
    system.is(&before);
    system.succeeds(&[&words[..], &["--force"]].concat());
    assert!(system.path(DROP_IN).exists());
}

#[test]
fn a_drop_in_that_systemd_would_not_use_is_not_written() {
    let folder = "etc/systemd/system/web.service.d";
    let shared = "usr/lib/systemd/system/service.d";
    for (name, text, part) in [
        ("etc/systemd/system/web.service", "UnsetEnvironment=A LD_PRELOAD\n", "UnsetEnvironment="),
        (&format!("{folder}/10.conf"), "UnsetEnvironment=LD_PRELOAD\n", "UnsetEnvironment="),
        (&format!("{folder}/zzz.conf"), "Environment=LD_PRELOAD=liba.so\n", "after the drop-in"),
        (&format!("{folder}/zzz.conf"), "Environment=\n", "after the drop-in"),
        (&format!("{shared}/zzz.conf"), "Environment=LD_PRELOAD=liba.so\n", "after the drop-in"),
        ("etc/systemd/system/web.service", "", "masks web.service"),
    ] {
        let system = System::new();
        let text = if text.is_empty() {
            String::new()
        } else {
            format!("[Service]\nExecStart=/usr/bin/web 100\n{text}")
        };
        system.write(name, &text);
        let before = system.everything();
        let words = ["enable", "--unit", "web"];
        system.refuses(&words, 3, &[&system.path(name).display().to_string(), part, "--force"]);
        system.is(&before);
        system.succeeds(&[&words[..], &["--force"]].concat());
    }
    // What another drop-in of its name hides, what is no setting of the variable, and what comes before are no reason.
    let system = System::new();
    system.write(&format!("{folder}/zzz.conf"), "[Service]\nEnvironment=B=1\n");
    system.write(&format!("{shared}/zzz.conf"), "[Service]\nEnvironment=LD_PRELOAD=liba.so\n");
    system.write(&format!("{folder}/a.conf"), "[Service]\nEnvironment=LD_PRELOAD=liba.so\n");
    system.succeeds(&["enable", "--unit", "web"]);
    assert!(fs::read_to_string(system.path(DROP_IN)).unwrap().contains(":liba.so"));
}

/// A system that does not run has no /dev/null, and the package's own unit behind the mask.
#[test]
fn a_masked_unit_is_no_service() {
    let system = System::new();
    let unit = "etc/systemd/system/web.service";
    system.write("usr/lib/systemd/system/web.service", "[Service]\nExecStart=/usr/bin/web 100\n");
    fs::remove_file(system.path(unit)).unwrap();
    symlink("/dev/null", system.path(unit)).unwrap();
    let words = ["enable", "--unit", "web"];
    system.refuses(&words, 3, &[unit, "masks web.service", "--force"]);
    // An empty file is a mask too, and of an instance its template's is.
    fs::remove_file(system.path(unit)).unwrap();
    system.write(unit, "");
    system.refuses(&words, 3, &[unit, "masks web.service"]);
    let template = "etc/systemd/system/web@.service";
    symlink("/dev/null", system.path(template)).unwrap();
    system.refuses(&["enable", "--unit", "web@8"], 3, &[template, "masks web@8.service"]);
    system.succeeds(&[&words[..], &["--force"]].concat());
    assert!(system.path(DROP_IN).exists());
}

/// systemd takes the first folder that has the unit, whatever stands in the others.
#[test]
fn a_mask_behind_the_unit_is_none() {
    let system = System::new();
    fs::create_dir_all(system.path("run/systemd/system")).unwrap();
    symlink("/dev/null", system.path("run/systemd/system/web.service")).unwrap();
    system.succeeds(&["enable", "--unit", "web"]);
}

#[test]
fn all_programs_of_a_unit_are_checked() {
    let system = System::new();
    let source = "int main(void) { return 0; }";
    let folder = tempfile::tempdir().unwrap();
    let Some(fixed) = compile("cc", folder.path(), source, &["-static"]) else { return };
    fs::copy(fixed, system.path("usr/bin/fixed")).unwrap();
    for order in [["web 100", "fixed"], ["fixed", "web 100"]] {
        let lines = order.map(|words| format!("ExecStart=/usr/bin/{words}\n")).concat();
        let unit = format!("[Service]\nType=oneshot\n{lines}");
        system.write("etc/systemd/system/web.service", &unit);
        system.refuses(&["enable", "--unit", "web"], 4, &["statically linked"]);
    }
}

#[test]
fn files_of_the_environment_have_patterns_specifiers_and_any_bytes() {
    let system = System::new();
    let unit = "[Service]\nExecStart=/usr/bin/web 100\nEnvironmentFile=-/etc/default/%p-%i*.env\n";
    system.write("etc/systemd/system/web@.service", unit);
    system.write("etc/default/web-8.env", "LD_PRELOAD=libjemalloc.so.2\n");
    fs::write(system.path("etc/default/web-7.b.env"), b"NAME=J\xf6rg\nLD_PRELOAD=a.so\n").unwrap();
    let file = "etc/default/web-7.b.env sets LD_PRELOAD for web@7.service";
    system.refuses(&["enable", "--unit", "web@7"], 3, &[file]);
    system.succeeds(&["enable", "--unit", "web@9"]);
}

/// Also one whose stars would take for ever if each of their lengths was tried.
#[test]
fn patterns_of_files_of_the_environment_have_any_stars_and_name_some_files() {
    let system = System::new();
    let stars = "*a".repeat(60);
    let write = |pattern: &str| {
        let unit = format!("[Service]\nExecStart=/usr/bin/web 100\nEnvironmentFile={pattern}\n");
        system.write("etc/systemd/system/web.service", &unit);
    };
    let words = ["enable", "--unit", "web"];
    for (pattern, file) in [
        ("/etc/default/w**b", "web"),
        ("/etc/default/[[:alpha:]]eb", "web"),
        ("/etc/default/w\\[b", "w[b"),
        (&format!("/etc/default/{stars}"), &*"a".repeat(200)),
    ] {
        write(pattern);
        let file = format!("etc/default/{file}");
        system.write(&file, "LD_PRELOAD=libjemalloc.so.2\n");
        system.refuses(&words, 3, &[&format!("{file} sets LD_PRELOAD for web.service")]);
        fs::remove_file(system.path(&file)).unwrap();
    }
    write(&format!("/etc/default/{stars}b"));
    system.write(&format!("etc/default/{}", "a".repeat(200)), "LD_PRELOAD=libjemalloc.so.2\n");
    system.succeeds(&words);
    system.succeeds(&["disable", "--unit", "web"]);
    for number in 0..=10_000 {
        fs::write(system.path(&format!("etc/default/{number}.env")), "").unwrap();
    }
    write("/etc/d*/*.env");
    system.refuses(&words, 3, &["/etc/d*/*.env of web.service names more than 10,000", "--force"]);
    system.succeeds(&[&words[..], &["--force"]].concat());
}

#[test]
fn links_to_files_of_the_environment_lead_through_the_system() {
    for pattern in ["/etc/default/w*.env", "/etc/d*/web.env", "/etc/default/web.env"] {
        let system = System::new();
        let unit = format!("[Service]\nExecStart=/usr/bin/web 100\nEnvironmentFile={pattern}\n");
        system.write("etc/systemd/system/web.service", &unit);
        system.write("opt/environment", "LD_PRELOAD=libjemalloc.so.2\n");
        system.write("srv/default/.web.env", "LD_PRELOAD=hidden.so\n");
        symlink("/opt/environment", system.path("srv/default/web.env")).unwrap();
        symlink("/srv/default", system.path("etc/default")).unwrap();
        let file = system.folder.path().canonicalize().unwrap().join("etc/default/web.env");
        let sentence = format!("mallow: {} sets LD_PRELOAD for web.service", file.display());
        system.refuses(&["enable", "--unit", "web"], 3, &[&sentence]);
        fs::remove_file(system.path("srv/default/web.env")).unwrap();
        system.succeeds(&["enable", "--unit", "web"]);
    }
}

#[test]
fn what_pam_preloads_is_shown() {
    let system = System::new();
    let environment = "EDITOR=/opt/libtcmalloc.so\nLD_PRELOAD=\"/usr/lib/libjemalloc.so.2\"\n";
    system.write("etc/environment", environment);
    let enabled = system.status()["enabled"].clone();
    assert_eq!(enabled.as_array().unwrap().len(), 1, "{enabled}");
    assert_eq!(enabled[0]["place"], "logins by PAM");
    assert_eq!(enabled[0]["allocator"], "jemalloc");
    let text = system.succeeds(&["disable", "--all"]);
    assert!(text.contains("take LD_PRELOAD out of") && text.contains("etc/environment"), "{text}");
}

/// Ended at each of the calls that change something, the command leaves nothing that `disable` cannot clear.
#[test]
fn an_end_at_any_point_leaves_nothing_behind() {
    let system = System::new();
    fs::remove_dir(system.path("etc/profile.d")).unwrap();
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !traced.is_ok_and(|output| output.status.success()) {
        println!("skipped: no strace that works here");
        return;
    }
    let before = system.everything();
    let places = ["var/lib/mallow", "etc/profile.d"].map(|name| system.path(name));
    let record = places[0].join("enabled.json");
    let script = places[1].join("mallow.sh");
    let drafts = [
        record.with_file_name(".enabled.json.mallow-draft"),
        script.with_file_name(".mallow.sh.mallow-draft"),
    ];
    let paths: Vec<_> = places.iter().chain([&record, &script]).chain(&drafts).collect();
    // Whether it came to that call so often, and was ended there.
    let ended = |words: &[&str], call: &str, when: usize| {
        let mut command = Command::new("strace");
        command.args(["-f", "-o", "/dev/null"]).args(["-e", &format!("trace={call}")]);
        for path in &paths {
            command.arg("-P").arg(path);
        }
        command.args(["-e", &format!("inject={call}:signal=KILL:when={when}")]);
        command.arg(mallow(&[]).get_program()).args(words).arg("--root").arg(system.folder.path());
        command.output().unwrap().status.signal() == Some(9)
    };
    let cases: [(&[&str], &[&str]); 3] = [
        (&[], &["enable", "--global"]),
        (&["enable", "--global"], &["enable", "--global", "-a", "mallow-secure"]),
        (&["enable", "--global"], &["disable", "--global"]),
    ];
    let mut count = 0;
    for call in ["/^mkdir", "fsync", "/^rename", "/^unlink", "rmdir", "fchmod"] {
        for (first, words) in cases {
            for when in 1.. {
                if !first.is_empty() {
                    system.succeeds(first);
                }
                let is_ended = ended(words, call, when);
                count += usize::from(is_ended);
                // Straight to its end, or by way of another try.
                if is_ended && count % 2 == 0 {
                    system.succeeds(&["enable", "--global"]);
                }
                system.succeeds(&["disable", "--all"]);
                system.is(&before);
                if !is_ended {
                    break;
                }
            }
        }
    }
    assert!(count > 20, "only {count} ends");
}

/// A dry run of `disable` refuses what `disable` would.
#[test]
fn a_dry_run_does_not_promise_what_would_be_refused() {
    let system = System::new();
    system.succeeds(&["enable", "--global"]);
    system.write(SCRIPT, "# by hand\n");
    let words = ["disable", "--global", "--dry-run"];
    system.refuses(&words, 3, &["changed by somebody else", "mallow disable with --force"]);
    assert!(system.succeeds(&[&words[..], &["--force"]].concat()).contains("would be as it was"));
    assert_eq!(system.text(SCRIPT), "# by hand\n");
}

/// Each user has a record of his own, and root's unit of the same name is another one.
#[test]
fn units_of_the_same_name_are_apart() {
    let system = System::new();
    let of = |user: &str, words: &[&str]| {
        let ran = ran(system.mallow(words).env("HOME", format!("/home/{user}")).output().unwrap());
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
    };
    for user in ["ann", "bob"] {
        let unit = format!("home/{user}/.config/systemd/user/web.service");
        system.write(&unit, "[Service]\nExecStart=/usr/bin/web 100\n");
    }
    let before = system.everything();
    for user in ["ann", "bob"] {
        of(user, &["enable", "--unit", "web", "--user"]);
    }
    let bobs = system.path("home/bob/.config/systemd/user/web.service.d/zz-mallow.conf");
    of("ann", &["enable", "--unit", "web"]);
    of("ann", &["disable", "--unit", "web", "--user"]);
    assert!(bobs.exists() && system.path(DROP_IN).exists());
    of("ann", &["disable", "--unit", "web"]);
    assert!(bobs.exists() && !system.path(DROP_IN).exists());
    of("bob", &["disable", "--all"]);
    system.is(&before);
}

/// As with a sudo that keeps HOME.
#[test]
fn root_does_nothing_that_the_record_of_a_user_says() {
    if !crate::common::is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join(".local/state/mallow");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("enabled.json"), "{}").unwrap();
    for (owner, code, words) in [(65534, 5, "the record of another user"), (0, 7, "not a record")] {
        std::os::unix::fs::chown(home.path(), Some(owner), None).unwrap();
        let mut command = crate::common::mallow(&["disable", "--all", "--dry-run"]);
        command.env("HOME", home.path()).env_remove("XDG_STATE_HOME");
        let ran = ran(command.output().unwrap());
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

/// Pipes that nobody writes to, wherever a system has text: they say nothing.
#[test]
fn pipes_are_not_read() {
    let root = System::new();
    let unit = "[Service]\nExecStart=/usr/bin/web\nUser=web\nEnvironmentFile=/etc/default/*\n";
    root.write("etc/systemd/system/web.service", unit);
    let folder = "etc/systemd/system/web.service.d";
    for name in ["etc/default", folder] {
        fs::create_dir_all(root.path(name)).unwrap();
    }
    for name in [
        "etc/passwd",
        "etc/os-release",
        "etc/environment",
        "etc/profile.d/a.sh",
        "etc/default/pipe",
        "etc/systemd/system/other.service",
        &format!("{folder}/pipe.conf"),
    ] {
        let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
        nix::unistd::mkfifo(&root.path(name), mode).unwrap();
    }
    root.refuses(&["enable", "--unit", "other"], 2, &["There is no service other.service"]);
    root.succeeds(&["enable", "--unit", "web"]);
    root.succeeds(&["disable", "--unit", "web"]);
    root.succeeds(&["enable", "--global"]);
    root.succeeds(&["status"]);
    root.succeeds(&["disable", "--global"]);
    nix::unistd::mkfifo(&root.path("etc/ld.so.preload"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    root.refuses(
        &["enable", "--ld-so-preload"],
        4,
        &["ld.so.preload is a link, a folder or a pipe"],
    );
}
