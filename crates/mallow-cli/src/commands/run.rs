//! `mallow run`: become the command, with an allocator in front of it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::allocator;
use crate::cli::RunArgs;
use crate::error::{Error, Result};
use crate::output::Notes;
use crate::preflight;
use crate::preload;
use crate::target::Target;

pub fn main(args: &RunArgs, notes: Notes) -> Result<u8> {
    let name = match (args.secure, args.debug) {
        (true, _) => "mallow-secure",
        (_, true) => "mallow-debug",
        _ => args.allocator.as_str(),
    };
    let command = args.command.first().ok_or_else(no_command)?;
    let target = Target::resolve(command)?;
    let allocator = allocator::find(name, target.libc())?;
    let changes = preload::changes(&allocator, &args.options)?;
    for note in target.check(&allocator)? {
        notes.note(&note);
    }
    preflight::check(&target, &allocator, &changes)?;
    if args.dry_run {
        print_environment(&changes, &args.command);
        return Ok(0);
    }
    let (program, argv) = target.argv(&args.command);
    let mut command = Command::new(&program);
    if let Some((argv0, arguments)) = argv.split_first() {
        command.arg0(argv0).args(arguments);
    }
    preflight::apply(&mut command, &changes);
    // Only returns when the kernel refused; else this process is the command, and its exit code
    // and its signals are its own.
    let error = command.exec();
    Err(match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
            Error::NotExecutable { path: program, reason: error.to_string() }
        }
        _ => Error::NotStarted { command: target.command, reason: error.to_string() },
    })
}

pub fn no_command() -> Error {
    Error::Usage("There is no command. Write it behind --, such as: mallow run -- ls -l.".into())
}

/// A line that a shell understands.
fn print_environment(changes: &preload::Changes, command: &[OsString]) {
    let mut words = Vec::new();
    let (set, unset): (Vec<_>, Vec<_>) = changes.iter().partition(|(_, value)| value.is_some());
    if !unset.is_empty() {
        words.push("env".to_owned());
        words.extend(unset.iter().flat_map(|(name, _)| ["-u".to_owned(), name.clone()]));
    }
    for (name, value) in set {
        words.push(format!("{name}={}", quoted(value.clone().unwrap_or_default())));
    }
    words.extend(command.iter().map(|word| quoted(word.clone())));
    println!("{}", words.join(" "));
}

pub fn quoted(word: OsString) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+=./:,@%^".contains(byte);
    let text = word.to_string_lossy();
    if !word.is_empty() && word.as_bytes().iter().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
