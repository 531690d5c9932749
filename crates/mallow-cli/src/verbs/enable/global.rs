// SPDX-License-Identifier: MIT
//! The script for login shells, and the list that the loader reads for every program.

use std::ffi::OsStr;
use std::path::Path;

use super::{Plan, check, try_out};
use crate::error::{Error, Result};
use crate::output::Notes;
use mallow_enabling::{Place, Record, SCRIPT, System, Wanted, elsewhere};
use mallow_launch::installed::{self, Installed};
use mallow_launch::trial::PROBE;
use mallow_os::read_plain;
use mallow_process::allocators::by_file;
use mallow_process::elf::Libc;

const LIST: &str = "/etc/ld.so.preload";

pub fn plan(allocator: &Installed, force: bool, system: &System, notes: Notes) -> Result<Plan> {
    let superseded = match others(allocator, force, system)? {
        Others::Enabled(other) => {
            return Ok(Plan { already: Some(other), ..Plan::default() });
        }
        Others::Superseded(sentences) => sentences,
    };
    if system.is_running() && Path::new(PROBE).exists() {
        check(allocator, OsStr::new(PROBE), system, notes)?;
    }
    try_out(allocator, system)?;
    let file = wanted(allocator, Place::Global, SCRIPT, script(allocator));
    let mut next = vec![format!("Log in again, or run: . {SCRIPT}")];
    if allocator.is_bare() && installed::libc_of(&system.root) == Some(Libc::Glibc) {
        next.push(
            "Setuid programs (sudo, su, passwd) stay without it. Started by others than root they print a \
             line of the loader about it; with --full-path they do not."
                .into(),
        );
    }
    let undo = "--global".into();
    Ok(Plan { files: vec![file], also: superseded, next, undo, ..Plan::default() })
}

/// What other scripts for login shells mean for the one that is wanted.
enum Others {
    /// One of them enables this very allocator.
    Enabled(elsewhere::Other),
    /// The script takes the place of these.
    Superseded(Vec<String>),
}

/// One allocator at a time: other scripts give way, and one that cannot is a reason to write none.
fn others(allocator: &Installed, force: bool, system: &System) -> Result<Others> {
    let own = system.at(Path::new(SCRIPT));
    let mut found = elsewhere::find(system, std::slice::from_ref(&own));
    found.retain(|other| other.place == Place::Global);
    let record = Record::read(system, &system.record_for(&Place::Global)?)?;
    let is_written = record.entry(Path::new(SCRIPT)).is_some();
    let last = found.iter().rfind(|other| other.is_last && other.allocator != allocator.name);
    if let Some(other) = last.filter(|_| !force) {
        return Err(Error::Unmet(format!(
            "{} preloads {} for login shells, and they read it after {SCRIPT}. First {}, or use \
             --force to have both.",
            other.file.display(),
            other.allocator,
            other.remedy()
        )));
    }
    if let [only] = found.as_slice()
        && only.allocator == allocator.name
        && !is_written
        && !own.exists()
    {
        return Ok(Others::Enabled(only.report()));
    }
    let is_superseded = |other: &&elsewhere::Elsewhere| other.allocator != allocator.name;
    let sentence = |other: &elsewhere::Elsewhere| {
        let file = other.file.display();
        format!("{file} enables {} no more, until: mallow disable --global", other.allocator)
    };
    Ok(Others::Superseded(found.iter().filter(is_superseded).map(sentence).collect()))
}

fn wanted(allocator: &Installed, place: Place, file: &str, text: String) -> Wanted {
    Wanted {
        place,
        allocator: allocator.name.clone(),
        word: allocator.word.clone(),
        library: allocator.path.clone(),
        file: file.into(),
        text,
        mode: 0o644,
    }
}

/// For any shell that reads profile.d, and zsh, which splits no words. Without the library it changes nothing: the loader, asked by
/// starting a program, has to be content. What the allocator says, of its settings say, is no complaint. Other allocators leave LD_PRELOAD, so that reading the
/// script again after a change is enough.
fn script(allocator: &Installed) -> String {
    let (name, word) = (&allocator.name, &allocator.word);
    let quoted = mallow_launch::words::quoted(OsStr::new(word));
    let mut patterns = installed::patterns();
    let own = Path::new(word).file_name().unwrap_or_default().to_string_lossy();
    if by_file(Path::new(word)).is_none() {
        patterns.push(mallow_launch::words::quoted(OsStr::new(own.as_ref())));
    }
    let lines: Vec<String> = patterns.chunks(4).map(|some| some.join("|")).collect();
    let patterns = lines.join("|\\\n        ");
    format!(
        "\
# Written by mallow enable --global, for {name}; mallow disable --global takes it away.
# Nothing is changed where the loader cannot preload the library.
if {{ mallow_said=$(LD_PRELOAD={quoted} {PROBE} 2>&1); }} 2>/dev/null &&
  [ \"${{mallow_said#*cannot be preloaded}}\" = \"$mallow_said\" ]; then
  # What else is preloaded stays; another allocator does not.
  mallow_rest=$(
    list=${{LD_PRELOAD:+$LD_PRELOAD:}}
    while [ -n \"$list\" ]; do
      word=${{list%%[ :]*}}
      list=${{list#*[ :]}}
      case ${{word##*/}} in
        ''|{patterns}) ;;
        *) printf ':%s' \"$word\" ;;
      esac
    done
  )
  export LD_PRELOAD={quoted}\"$mallow_rest\"
fi
unset mallow_said mallow_rest
"
    )
}

/// The loader's list without the allocators in it. It has words between blanks and colons, and
/// comments from a number sign to the end of the line.
fn without_allocators(list: &str, own: &str) -> String {
    let is_allocator = |word: &&str| *word == own || by_file(Path::new(word)).is_some();
    let is_between = |c: char| c.is_whitespace() || c == ':';
    let mut kept = String::new();
    for line in list.lines() {
        let (words, comment) = line.split_at(line.find('#').unwrap_or(line.len()));
        let words: Vec<&str> = words.split(is_between).filter(|word| !word.is_empty()).collect();
        let others: Vec<&str> = words.iter().filter(|word| !is_allocator(word)).copied().collect();
        if others.len() == words.len() {
            kept += line;
        } else if others.is_empty() && comment.is_empty() {
            continue;
        } else {
            kept += format!("{} {comment}", others.join(" ")).trim();
        }
        kept.push('\n');
    }
    kept
}

/// The loader takes each line for every program, setuid ones too, so the path is a full one.
pub fn plan_for_loader(allocator: &Installed, system: &System) -> Result<Plan> {
    if installed::libc_of(&system.root) == Some(Libc::Musl) {
        return Err(Error::Unsupported(
            "The loader of musl reads no /etc/ld.so.preload. Use mallow enable --global, or --unit."
                .into(),
        ));
    }
    let quiet = Notes { quiet: true };
    if system.is_running() && Path::new(PROBE).exists() {
        check(allocator, OsStr::new(PROBE), system, quiet)?;
    }
    try_out(allocator, system)?;
    let file = wanted(allocator, Place::LdSoPreload, LIST, list_with(&allocator.path, system)?);
    let next = vec![
        "Programs have it from now on. Keep this root shell open, and start some of them.".into(),
        format!("If none starts any more, type in this shell:\n  : > {LIST}"),
    ];
    let undo = "--ld-so-preload".into();
    Ok(Plan { files: vec![file], next, undo, ..Plan::default() })
}

/// The loader's list as it is now, with this library as its only allocator.
pub fn list_with(library: &Path, system: &System) -> Result<String> {
    let list = system.at(Path::new(LIST));
    let before = read_plain(&system.resolved(Path::new(LIST))).map(String::from_utf8);
    let before = match before {
        Ok(Err(_)) => {
            return Err(Error::Unsupported(format!(
                "{} is not text, so mallow cannot keep what it says. Correct it first.",
                list.display()
            )));
        }
        // That it cannot be read is said where it is to be written.
        Ok(Ok(before)) => before,
        Err(_) => String::new(),
    };
    let path = library.display().to_string();
    Ok(format!("{path}\n{}", without_allocators(&before, &path)))
}
