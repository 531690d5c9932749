// SPDX-License-Identifier: MIT
//! A drop-in that gives a service of systemd its allocator.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{Plan, check_for, try_out};
use crate::error::{Error, Result};
use crate::output::Notes;
use crate::parse;
use mallow_enabling::{Place, System, Wanted, wildcards};
use mallow_launch::installed::{self, Installed};
use mallow_launch::target::Starter;
use mallow_launch::{Target, words};
use mallow_os::{open_plain, read_plain};
use mallow_process::allocators::by_file;
use mallow_process::elf::ElfInfo;
use mallow_stats::figures::count;

/// systemd reads drop-ins by name, and the last one holds: after the override.conf of `systemctl edit`.
const DROP_IN: &str = "zz-mallow.conf";
const SYSTEM_FOLDERS: [&str; 6] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator.late",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const USER_FOLDERS: [&str; 4] = [
    "/etc/systemd/user",
    "/run/systemd/user",
    "/usr/local/lib/systemd/user",
    "/usr/lib/systemd/user",
];

/// systemd reads no more of a file of the environment.
const MOST_ENVIRONMENT: u64 = 64 << 20;

/// Of whom the system's file of users knows nothing.
const NOBODY: Starter = Starter { uid: 65534, gid: 65534 };

pub fn plan(
    allocator: &Installed,
    name: &str,
    user: bool,
    force: bool,
    system: &System,
    notes: Notes,
) -> Result<Plan> {
    let unit = unit_name(name)?;
    let (own, folders) = folders(user, system)?;
    let drop_in = own.join(format!("{unit}.d")).join(DROP_IN);
    let service = Service::read(&unit, &folders, &drop_in, system)?;
    if !force {
        service.refuse_what_is_in_vain(&unit, system)?;
    }
    let allocator = &named_for(allocator, &service, &unit, system, notes);
    check_programs(allocator, &service, &unit, system, notes)?;
    try_out(allocator, system)?;
    let others = service.preloads.iter().filter(|word| by_file(Path::new(word)).is_none());
    let words: Vec<&str> =
        std::iter::once(&allocator.word).chain(others).map(String::as_str).collect();
    let text = format!(
        "\
# Written by mallow enable --unit, for {}; mallow disable --unit takes it away.
[Service]
Environment=\"LD_PRELOAD={}\"
",
        allocator.name,
        // systemd replaces what follows a percent sign.
        words.join(":").replace('%', "%%")
    );
    let place = match user {
        true => Place::UserUnit { unit: unit.clone() },
        false => Place::Unit { unit: unit.clone() },
    };
    let flag = if user { " --user" } else { "" };
    let next = vec![format!("To make it take effect:\n  {}", place.restart().unwrap_or_default())];
    let file = Wanted {
        place,
        allocator: allocator.name.clone(),
        word: allocator.word.clone(),
        library: allocator.path.clone(),
        file: drop_in,
        text,
        mode: 0o644,
    };
    let undo = format!("--unit {unit}{flag}");
    Ok(Plan { files: vec![file], next, undo, ..Plan::default() })
}

fn unit_name(name: &str) -> Result<String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b);
    let is_fine = !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain);
    let whole = parse::unit(name);
    if !is_fine || !whole.ends_with(".service") {
        return Err(Error::Usage(format!(
            "{name} is not the name of a service. List them with: systemctl list-units --type \
             service."
        )));
    }
    Ok(whole)
}

/// Where drop-ins are written, and all folders of units.
fn folders(user: bool, system: &System) -> Result<(PathBuf, Vec<PathBuf>)> {
    if !user {
        let all: Vec<PathBuf> = SYSTEM_FOLDERS.iter().map(PathBuf::from).collect();
        return Ok((all[0].clone(), all));
    }
    let own = system.user_config()?.join("systemd/user");
    let mut all = vec![own.clone()];
    all.extend(USER_FOLDERS.iter().map(PathBuf::from));
    Ok((own, all))
}

/// What a unit's files say, as far as it matters here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Service {
    programs: Vec<String>,
    user: Option<String>,
    /// With a user that systemd makes, of the name in `User=` or another.
    has_dynamic_user: bool,
    preloads: Vec<String>,
    /// What an EnvironmentFile= sets holds over all Environment=.
    environment_files: Vec<String>,
    /// Of the files that were read, by what they say: that there is no such unit, that the variable is taken away,
    /// and after the drop-in that it is another.
    mask: Option<PathBuf>,
    unsetting: Option<PathBuf>,
    later: Option<PathBuf>,
}

impl Service {
    fn read(unit: &str, folders: &[PathBuf], own: &Path, system: &System) -> Result<Service> {
        // An instance of a template has the template's file.
        let template = unit.split_once('@').map(|(base, _)| format!("{base}@.service"));
        let names: Vec<String> = std::iter::once(unit.to_owned()).chain(template).collect();
        let text = |path: &Path| String::from_utf8(read_plain(&system.resolved(path)).ok()?).ok();
        let found = names
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
            .find_map(|path| match is_mask(&path, system) {
                true => Some((path, String::new())),
                false => text(&path).map(|text| (path, text)),
            });
        let Some((file, found)) = found else {
            return Err(Error::Usage(format!(
                "There is no service {unit}. List them with: systemctl list-units --type service."
            )));
        };
        let mut service = Service::default();
        service.add(&file, &found);
        service.mask = Some(file).filter(|_| found.is_empty());
        for path in drop_ins(&names, folders, system).into_iter().filter(|path| path != own) {
            let Some(text) = text(&path) else { continue };
            let has_set = service.add(&path, &text);
            if has_set && path.file_name() > own.file_name() {
                service.later = Some(path);
            }
        }
        Ok(service)
    }

    /// Fails where the service would not have what the drop-in sets.
    fn refuse_what_is_in_vain(&self, unit: &str, system: &System) -> Result<()> {
        let (file, why) = if let Some(file) = &self.mask {
            (file.clone(), format!("masks {unit}, so systemd does not start it"))
        } else if let Some(file) = &self.unsetting {
            (file.clone(), format!("takes LD_PRELOAD from {unit} by UnsetEnvironment="))
        } else if let Some(file) = &self.later {
            let why =
                format!("sets the environment of {unit} after the drop-in, which is {DROP_IN}");
            (file.clone(), why)
        } else if let Some(file) = self.last_words(unit, system)? {
            let why = "and systemd lets that hold over any drop-in";
            (file, format!("sets LD_PRELOAD for {unit}, {why}"))
        } else {
            return Ok(());
        };
        Err(Error::Unmet(format!(
            "{} {why}. First take it out, or use --force to write the drop-in all the same.",
            system.at(&file).display()
        )))
    }

    /// A file of the environment that sets LD_PRELOAD.
    fn last_words(&self, unit: &str, system: &System) -> Result<Option<PathBuf>> {
        let is_set = |line: Vec<u8>| line.trim_ascii().starts_with(b"LD_PRELOAD=");
        let sets = |path: &PathBuf| {
            let lines = open_plain(&system.resolved(path)).ok().map(|file| {
                BufReader::new(file.take(MOST_ENVIRONMENT)).split(b'\n').map_while(|line| line.ok())
            });
            lines.into_iter().flatten().any(is_set)
        };
        for pattern in &self.environment_files {
            let pattern = specified(pattern, unit);
            let Some(found) = wildcards::matching(&pattern, system) else {
                return Err(Error::Unmet(format!(
                    "EnvironmentFile={pattern} of {unit} names more than {} files, too many to see \
                     whether one of them sets LD_PRELOAD. Name fewer, or use --force to write the \
                     drop-in all the same.",
                    count(wildcards::MOST as u64)
                )));
            };
            let found = found.into_iter().find(sets);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Who runs it: without a `User=` whoever asks, root for units of the system.
    fn starter(&self, system: &System) -> Starter {
        let Some(user) = &self.user else {
            return if self.has_dynamic_user { NOBODY } else { Starter::own() };
        };
        let users = read_plain(&system.resolved(Path::new("/etc/passwd"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&users);
        let of_line = |line: &str| {
            let words: Vec<&str> = line.split(':').collect();
            let is_it =
                words.first() == Some(&user.as_str()) || words.get(2) == Some(&user.as_str());
            let number = |at: usize| words.get(at)?.parse().ok();
            if is_it { Some(Starter { uid: number(2)?, gid: number(3)? }) } else { None }
        };
        text.lines().find_map(of_line).unwrap_or(NOBODY)
    }

    /// What a later file says holds. Whether it changes LD_PRELOAD.
    fn add(&mut self, file: &Path, text: &str) -> bool {
        let mut has_set = false;
        let text = text.replace("\\\n", " ");
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            let value = value.trim();
            match key.trim() {
                "ExecStart" if value.is_empty() => self.programs.clear(),
                "ExecStart" => {
                    let word = value.trim_start_matches(['@', '-', ':', '+', '!', '|']);
                    let word = words::split(word).ok().and_then(|words| words.into_iter().next());
                    self.programs.extend(word.map(|word| word.to_string_lossy().into_owned()));
                }
                "User" => self.user = Some(value.to_owned()).filter(|user| !user.is_empty()),
                "DynamicUser" => {
                    self.has_dynamic_user = ["1", "yes", "true", "on"].contains(&value);
                }
                "Environment" if value.is_empty() => {
                    self.preloads.clear();
                    has_set = true;
                }
                "UnsetEnvironment" if value.is_empty() => self.unsetting = None,
                "UnsetEnvironment" => {
                    let words = words::split(value).unwrap_or_default();
                    if words.iter().any(|word| word == "LD_PRELOAD") {
                        self.unsetting = Some(file.to_owned());
                    }
                }
                "EnvironmentFile" if value.is_empty() => self.environment_files.clear(),
                "EnvironmentFile" => {
                    self.environment_files.push(value.trim_start_matches('-').to_owned());
                }
                "Environment" => {
                    for word in words::split(value).unwrap_or_default() {
                        if let Some(list) = word.to_string_lossy().strip_prefix("LD_PRELOAD=") {
                            let list = list.replace("%%", "%");
                            let words = list.split([':', ' ']).filter(|word| !word.is_empty());
                            self.preloads = words.map(str::to_owned).collect();
                            has_set = true;
                        }
                    }
                }
                _ => {}
            }
        }
        has_set
    }
}

/// A link to /dev/null, which a system that does not run need not have. An empty file masks as well.
fn is_mask(path: &Path, system: &System) -> bool {
    let is_null =
        |link: &Path| std::fs::read_link(link).is_ok_and(|target| target == Path::new("/dev/null"));
    let folder = path.parent().map(|folder| system.resolved(folder));
    let place = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    place.is_some_and(|place| is_null(&place))
}

/// What systemd puts for the specifiers of a path that come from the unit's name; others stay.
fn specified(path: &str, unit: &str) -> String {
    let base = unit.strip_suffix(".service").unwrap_or(unit);
    let (prefix, instance) = base.split_once('@').unwrap_or((base, ""));
    let mut text = String::new();
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.clone().next()) {
            ('%', Some('i' | 'I')) => text += instance,
            ('%', Some('p' | 'P')) => text += prefix,
            ('%', Some('n')) => text += unit,
            ('%', Some('N')) => text += base,
            ('%', Some('%')) => text.push('%'),
            _ => {
                text.push(letter);
                continue;
            }
        }
        letters.next();
    }
    text
}

/// In the order in which systemd reads them: by name, and of several of one name the first found alone.
/// Those of all services are the last that are looked for.
fn drop_ins(names: &[String], folders: &[PathBuf], system: &System) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in names.iter().map(String::as_str).chain(["service"]) {
        for folder in folders {
            let folder = folder.join(format!("{name}.d"));
            let entries =
                std::fs::read_dir(system.resolved(&folder)).into_iter().flatten().flatten();
            found.extend(entries.map(|entry| folder.join(entry.file_name())));
        }
    }
    found.retain(|path| path.extension().is_some_and(|ending| ending == "conf"));
    found.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    found.dedup_by(|later, first| later.file_name() == first.file_name());
    found
}

/// By its full path, where the loader of one of the programs does not find the bare name: musl's
/// searches other folders than glibc's.
fn named_for(
    allocator: &Installed,
    service: &Service,
    unit: &str,
    system: &System,
    notes: Notes,
) -> Installed {
    let libc = |program: &String| match system.is_running() {
        true => Target::resolve(program.as_ref()).ok()?.libc(),
        false => ElfInfo::read(&system.resolved(Path::new(program))).ok()??.libc(),
    };
    let is_lost = |program: &&String| {
        libc(program).is_some_and(|libc| {
            installed::by_name(&system.root, &allocator.word, Some(libc)).is_none()
        })
    };
    let mut named = allocator.clone();
    if allocator.is_bare()
        && let Some(program) = service.programs.iter().find(is_lost)
    {
        named.word = allocator.path.display().to_string();
        notes.note(&format!(
            "{} is named by its full path, because the loader of {program}, which {unit} starts, does \
             not find it by its name alone.",
            named.word
        ));
    }
    named
}

/// All that it starts, one after the other.
fn check_programs(
    allocator: &Installed,
    service: &Service,
    unit: &str,
    system: &System,
    notes: Notes,
) -> Result<()> {
    let mut all_known = !service.programs.is_empty();
    for program in &service.programs {
        all_known &= check_program(allocator, service, program, system, notes)?;
    }
    if !all_known {
        notes.note(&format!(
            "What {unit} starts cannot be told before it does. When it runs, check it with: mallow \
             verify PID"
        ));
    }
    Ok(())
}

/// Whether it can be told.
fn check_program(
    allocator: &Installed,
    service: &Service,
    program: &str,
    system: &System,
    notes: Notes,
) -> Result<bool> {
    if program.contains('%') {
        return Ok(false);
    }
    let path = system.resolved(Path::new(program));
    // The interpreter of a script would be looked for in this system, not in that one.
    let is_elf = || read_plain(&path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    if system.is_running() {
        check_for(allocator, program.as_ref(), service.starter(system), system, notes)?;
        return Ok(true);
    }
    let is_known = is_elf();
    if is_known {
        check_for(allocator, path.as_os_str(), service.starter(system), system, notes)?;
    }
    Ok(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_units_are_read() {
        let (mut service, file) = (Service::default(), Path::new("file"));
        service.add(
            file,
            "[Service]\nExecStart=-@/usr/sbin/x y \\\n  -z\n\
             Environment=A=1 \"LD_PRELOAD=liba.so:/b%%/libb.so\"\nUser=daemon\n",
        );
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        let users = "root:x:0:0::/:/bin/sh\ndaemon:x:7:8::/:/bin/sh\n";
        std::fs::write(root.path().join("etc/passwd"), users).unwrap();
        let system = System::new(Some(root.path())).unwrap();
        let starter = service.starter(&system);
        assert_eq!((starter.uid, starter.gid), (7, 8));
        service.add(file, "User=0\n");
        assert_eq!(service.starter(&system).uid, 0);
        service.add(file, "User=\nDynamicUser=yes\n");
        assert_eq!(service.starter(&system).uid, NOBODY.uid);
        service.add(file, "User=who\n");
        assert_eq!(service.starter(&system).uid, NOBODY.uid);
        assert_eq!(service.programs, ["/usr/sbin/x"]);
        assert_eq!(service.preloads, ["liba.so", "/b%/libb.so"]);
        let other = "[Service]\nExecStart=\nExecStart=/usr/bin/other\nExecStart=/z\nEnvironment=\n";
        assert!(service.add(file, other));
        assert_eq!(service.programs, ["/usr/bin/other", "/z"]);
        assert!(service.preloads.is_empty());
        assert!(!service.add(file, "UnsetEnvironment=A \"LD_PRELOAD\" B\n"));
        assert_eq!(service.unsetting.as_deref(), Some(file));
        service.add(file, "UnsetEnvironment=\nUnsetEnvironment=LD_PRELOADED\n");
        assert_eq!(service.unsetting, None);
    }

    #[test]
    fn services_are_named_with_and_without_ending() {
        let name = |text: &str| unit_name(text).ok();
        assert_eq!(name("nginx").as_deref(), Some("nginx.service"));
        assert_eq!(name("a@1.service").as_deref(), Some("a@1.service"));
        assert_eq!(name("org.x").as_deref(), Some("org.x.service"));
        assert_eq!(name("php8.2-fpm").as_deref(), Some("php8.2-fpm.service"));
        assert!(["", "../x", "a/b", "x.timer", ".x"].into_iter().all(|text| name(text).is_none()));
    }
}
