// SPDX-License-Identifier: MIT
//! What a command really is: the file, the interpreter behind a `#!` line, the ELF program. And
//! whether a preloaded allocator can serve it.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mallow_os::open_plain;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{AccessFlags, access, getgid, getuid};

use crate::allocator::Allocator;
use crate::error::{Error, Result};
use mallow_process::allocators::{self, Family};
use mallow_process::elf::{ElfInfo, Libc, own_machine};

/// Longer chains of scripts are refused by the kernel too.
const MAX_SCRIPTS: usize = 5;

/// Who starts a program.
#[derive(Clone, Copy, Debug)]
pub struct Starter {
    pub uid: u32,
    pub gid: u32,
}

impl Starter {
    pub fn own() -> Starter {
        Starter { uid: getuid().as_raw(), gid: getgid().as_raw() }
    }
}

#[derive(Clone, Debug)]
pub struct Target {
    /// As the user wrote it.
    pub command: String,
    /// The file to execute.
    pub file: PathBuf,
    /// For a text without a `#!` line: run it with the shell, as `env` does.
    pub through_shell: bool,
    /// The program behind scripts and interpreters.
    pub program: PathBuf,
    pub elf: ElfInfo,
}

impl Target {
    pub fn resolve(command: &OsStr) -> Result<Target> {
        let file = find_in_path(command)?;
        let mut program = file.clone();
        let mut through_shell = false;
        for _ in 0..=MAX_SCRIPTS {
            if let Some(elf) = read_elf(&program)? {
                let command = command.to_string_lossy().into_owned();
                return Ok(Target { command, file, through_shell, program, elf });
            }
            program = match read_shebang(&program)? {
                Some(line) => interpreter(&line, &program)?,
                None => {
                    through_shell |= program == file;
                    PathBuf::from("/bin/sh")
                }
            };
        }
        Err(Error::NotExecutable { path: file, reason: "its #! lines lead in a circle".into() })
    }

    pub fn libc(&self) -> Option<Libc> {
        self.elf.libc()
    }

    /// How messages name it: the command, and the program behind a script.
    pub fn describe(&self) -> String {
        if self.program == self.file {
            return self.command.clone();
        }
        format!("{} (run by {})", self.command, self.program.display())
    }

    /// The program and arguments for exec.
    pub fn argv(&self, arguments: &[OsString]) -> (PathBuf, Vec<OsString>) {
        if !self.through_shell {
            return (self.file.clone(), arguments.to_vec());
        }
        let mut argv: Vec<OsString> = vec!["sh".into(), self.file.clone().into()];
        argv.extend_from_slice(arguments.get(1..).unwrap_or_default());
        ("/bin/sh".into(), argv)
    }

    /// Whether `allocator` can be preloaded: an error with the remedy, or notes.
    pub fn check(&self, allocator: &Allocator) -> Result<Vec<String>> {
        self.check_for(allocator, Starter::own())
    }

    /// The same where somebody else starts the program.
    pub fn check_for(&self, allocator: &Allocator, starter: Starter) -> Result<Vec<String>> {
        if allocator.path.is_none() {
            return Ok(Vec::new());
        }
        let refusal = self
            .refuse_machine()
            .or_else(|| self.refuse_static())
            .or_else(|| self.refuse_privileged(starter))
            .or_else(|| self.refuse_other_libc(allocator))
            .or_else(|| self.refuse_own_malloc());
        match refusal {
            Some(sentence) => Err(Error::Unsupported(sentence)),
            None => Ok(self.notes(allocator)),
        }
    }

    /// What to know of a program that opens its modules with RTLD_DEEPBIND before another allocator than
    /// Mallow is preloaded. The flag cannot be seen from outside; these are known to pass it.
    pub fn modules_note(&self, allocator: &Allocator) -> Option<String> {
        let name = self.program.file_name()?.to_str()?;
        let is_known = name.starts_with("php") || name.starts_with("libphp");
        let is_other = allocator.path.is_some() && allocator.family != Family::Mallow;
        (is_known && is_other).then(|| {
            format!(
                "{} opens its extensions with RTLD_DEEPBIND, so these keep the libc's malloc and free; \
                 it may crash under any preloaded allocator but mallow, which serves them too.",
                self.describe()
            )
        })
    }

    fn refuse_machine(&self) -> Option<String> {
        let same = self.elf.machine == own_machine() && self.elf.is_64;
        (!same).then(|| {
            format!(
                "{} is a program for {}, and the allocators here are for {}: run mallow on such a \
                 machine.",
                self.describe(),
                self.elf.machine_name(),
                std::env::consts::ARCH
            )
        })
    }

    fn refuse_static(&self) -> Option<String> {
        if !self.elf.is_static() {
            return None;
        }
        let what = self.describe();
        Some(if self.elf.is_go {
            format!(
                "{what} is a Go program without cgo: Go has its own memory manager and never calls \
                 malloc. Tune it with GOGC and GOMEMLIMIT instead."
            )
        } else {
            format!(
                "{what} is statically linked, so no library can be preloaded. Link it with \
                 libmallow.a, or build it without -static."
            )
        })
    }

    /// The loader ignores LD_PRELOAD when the program gains rights by being started.
    fn refuse_privileged(&self, starter: Starter) -> Option<String> {
        let metadata = std::fs::metadata(&self.program).ok()?;
        let honoured = statvfs(&self.program)
            .map(|fs| !fs.flags().contains(FsFlags::ST_NOSUID))
            .unwrap_or(true);
        let mode = metadata.mode();
        let other_user = mode & 0o4000 != 0 && metadata.uid() != starter.uid;
        let other_group = mode & 0o2010 == 0o2010 && metadata.gid() != starter.gid;
        let capable = starter.uid != 0 && mallow_os::has_file_capabilities(&self.program);
        let how = match (other_user, other_group, capable) {
            (true, _, _) => "is setuid",
            (_, true, _) => "is setgid",
            (_, _, true) => "has file capabilities",
            _ => return None,
        };
        let sudo_like = ["sudo", "su", "doas", "pkexec", "runuser"]
            .iter()
            .any(|name| self.program.file_name() == Some(OsStr::new(name)));
        let remedy = if sudo_like {
            format!("Put mallow behind it: {} mallow run -- COMMAND.", self.command)
        } else {
            "Run a copy without that right, or use /etc/ld.so.preload.".to_owned()
        };
        honoured.then(|| {
            format!(
                "{} {how}, and the loader ignores LD_PRELOAD for such programs. {remedy}",
                self.describe()
            )
        })
    }

    fn refuse_other_libc(&self, allocator: &Allocator) -> Option<String> {
        let (target, library) = (self.libc()?, allocator.libc?);
        (target != library).then(|| {
            let package = match target {
                Libc::Musl => "a build of it for musl",
                Libc::Glibc => "a build of it for glibc",
            };
            format!(
                "{} is a {} program, and this {} is built for {}. Use {package}, or Mallow, whose one \
                 library serves both.",
                self.describe(),
                target.name(),
                allocator.name,
                library.name()
            )
        })
    }

    /// The library of an allocator that the program itself asks for, and its name.
    pub fn linked_with(&self) -> Option<(&str, &'static str)> {
        let known = |needed: &str| allocators::by_file(Path::new(needed)).map(|known| known.name);
        self.elf.needed.iter().find_map(|needed| Some((needed.as_str(), known(needed)?)))
    }

    fn refuse_own_malloc(&self) -> Option<String> {
        self.elf.defined.contains("malloc").then(|| {
            let name = marked(self.elf.defined_markers.iter().chain(&self.elf.inner_markers))
                .map_or(String::new(), |name| format!(" ({name})"));
            format!(
                "{} has its own malloc{name} linked in, which comes before every preloaded one. Use \
                 a build without it.",
                self.describe()
            )
        })
    }

    fn notes(&self, allocator: &Allocator) -> Vec<String> {
        let mut notes = Vec::new();
        let what = self.describe();
        if self.elf.is_go {
            notes.push(format!(
                "{what} is a Go program: only its C parts use malloc, the Go heap stays Go's own."
            ));
        }
        if let Some(name) = marked(self.elf.inner_markers.iter().chain(&self.elf.defined_markers)) {
            notes.push(format!(
                "{what} has {name} inside under names of its own; what it allocates by those names \
                 stays there."
            ));
        }
        // Mallow has jemalloc's own names too.
        let is_served = |name: &str| allocator.family == Family::Mallow && name == "jemalloc";
        if let Some((library, name)) = self.linked_with().filter(|(_, name)| !is_served(name)) {
            notes.push(format!(
                "{what} is linked with {name} ({library}); a preloaded library comes before it, but \
                 calls by {name}'s own names stay with it."
            ));
        }
        notes
    }
}

fn marked<'a>(mut markers: impl Iterator<Item = &'a &'static str>) -> Option<&'static str> {
    let marker = markers.next()?;
    allocators::by_symbol(marker).map(|known| known.name)
}

fn read_elf(path: &Path) -> Result<Option<ElfInfo>> {
    ElfInfo::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Permission(format!(
            "The program {} may not be read, so it cannot be told whether a preload works. Run \
             mallow as a user who may read it.",
            path.display()
        )),
        _ => Error::NotExecutable { path: path.to_owned(), reason: error.to_string() },
    })
}

fn find_in_path(command: &OsStr) -> Result<PathBuf> {
    if command.is_empty() {
        return Err(Error::CommandNotFound("\"\"".into()));
    }
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return match check_executable(&path) {
            Ok(()) => Ok(path),
            Err(_) if matches!(path.try_exists(), Ok(false)) => {
                Err(Error::CommandNotFound(command.to_string_lossy().into_owned()))
            }
            Err(reason) => Err(Error::NotExecutable { path, reason }),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut refused = None;
    for folder in std::env::split_paths(&folders) {
        let path = folder.join(command);
        match check_executable(&path) {
            Ok(()) => return Ok(path),
            Err(reason) if path.is_file() || is_closed(&path) => refused = Some((path, reason)),
            Err(_) => {}
        }
    }
    match refused {
        Some((path, reason)) => Err(Error::NotExecutable { path, reason }),
        None => Err(Error::CommandNotFound(command.to_string_lossy().into_owned())),
    }
}

/// Whether a folder on the way may not be entered.
fn is_closed(path: &Path) -> bool {
    let error = path.try_exists().err();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

fn check_executable(path: &Path) -> std::result::Result<(), String> {
    if is_closed(path) {
        return Err("a folder on the way to it may not be entered".into());
    }
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.is_dir() {
        return Err("it is a directory".into());
    }
    if !metadata.is_file() {
        return Err("it is no plain file".into());
    }
    access(path, AccessFlags::X_OK).map_err(|_| "it has no execute permission".to_owned())
}

/// What follows `#!`, if the file begins with it. The kernel leaves a line that names nothing to the shell.
fn read_shebang(path: &Path) -> Result<Option<String>> {
    let mut start = Vec::new();
    open_plain(path)
        .and_then(|file| file.take(4096).read_to_end(&mut start))
        .map_err(Error::io(format!("The script {} cannot be read", path.display())))?;
    let Some(rest) = start.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).trim().to_owned();
    Ok(Some(line).filter(|line| !line.is_empty()))
}

/// The program that a `#!` line starts, through `env` if need be.
fn interpreter(line: &str, script: &Path) -> Result<PathBuf> {
    let (program, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let missing = |name: &str| Error::NotExecutable {
        path: script.to_owned(),
        reason: format!("its first line asks for {name}, which was not found"),
    };
    if Path::new(program).file_name() != Some(OsStr::new("env")) {
        let path = PathBuf::from(program);
        return if path.is_file() { Ok(path) } else { Err(missing(program)) };
    }
    match env_command(rest.trim()) {
        EnvCommand::Runs(name) => find_in_path(OsStr::new(&name)).map_err(|_| missing(&name)),
        EnvCommand::ClearsPreload => Err(Error::Unsupported(format!(
            "The first line of {} makes env clear the environment, LD_PRELOAD with it. Start the \
             interpreter yourself: mallow run -- INTERPRETER {}.",
            script.display(),
            script.display()
        ))),
        EnvCommand::Nothing => Err(missing("nothing")),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum EnvCommand {
    Runs(String),
    ClearsPreload,
    Nothing,
}

/// What `env` starts when the kernel gives it the rest of a `#!` line as one argument.
fn env_command(rest: &str) -> EnvCommand {
    let split = rest.strip_prefix("--split-string=").or_else(|| rest.strip_prefix("-S"));
    let Some(split) = split else {
        return match rest {
            "" => EnvCommand::Nothing,
            "-i" | "-" | "--ignore-environment" => EnvCommand::ClearsPreload,
            name => EnvCommand::Runs(name.to_owned()),
        };
    };
    let mut words = split.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    while let Some(word) = words.next() {
        match word {
            "-i" | "-" | "--ignore-environment" => return EnvCommand::ClearsPreload,
            "-u" | "--unset" | "-C" | "--chdir" => {
                if words.next() == Some("LD_PRELOAD") {
                    return EnvCommand::ClearsPreload;
                }
            }
            "--unset=LD_PRELOAD" | "-uLD_PRELOAD" => return EnvCommand::ClearsPreload,
            _ if word.starts_with("LD_PRELOAD=") => return EnvCommand::ClearsPreload,
            _ if word.starts_with('-') || word.contains('=') => {}
            name => return EnvCommand::Runs(name.to_owned()),
        }
    }
    EnvCommand::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn runs(name: &str) -> EnvCommand {
        EnvCommand::Runs(name.to_owned())
    }

    #[test]
    fn env_lines() {
        assert_eq!(env_command("python3"), runs("python3"));
        assert_eq!(env_command("-S python3 -u"), runs("python3"));
        assert_eq!(env_command("-S FOO=1 --debug ruby -w"), runs("ruby"));
        assert_eq!(env_command("--split-string=node --x"), runs("node"));
        assert_eq!(env_command("-S -u FOO perl"), runs("perl"));
        assert_eq!(env_command("-S -i perl"), EnvCommand::ClearsPreload);
        assert_eq!(env_command("-S -u LD_PRELOAD perl"), EnvCommand::ClearsPreload);
        assert_eq!(env_command(""), EnvCommand::Nothing);
    }

    #[test]
    fn mallow_serves_the_own_names_of_jemalloc() {
        let notes = |needed: &str, family| {
            let mut target = Target::resolve(OsStr::new("true")).expect("a program");
            target.elf.needed.push(needed.into());
            target.notes(&Allocator { family, ..Allocator::system() })
        };
        assert!(notes("libjemalloc.so.2", Family::Tcmalloc)[0].contains("stay with it"));
        assert!(notes("libmimalloc.so.2", Family::Mallow)[0].contains("stay with it"));
        assert_eq!(notes("libjemalloc.so.2", Family::Mallow), [""; 0]);
    }

    fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
        path
    }

    #[test]
    fn scripts_lead_to_their_program() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner = script(folder.path(), "inner", "#! /bin/sh -e\n");
        let outer = script(folder.path(), "outer", &format!("#!{}\n", inner.display()));
        let target = Target::resolve(outer.as_os_str()).expect("ends at the shell");
        assert_eq!(target.program, Path::new("/bin/sh"));
        assert!(target.describe().contains("run by /bin/sh"));
        assert!(!target.through_shell);
        for text in ["echo hello\n", "#!\necho hello\n", "#! \t\necho hello\n", "#!"] {
            let plain = script(folder.path(), "plain", text);
            let target = Target::resolve(plain.as_os_str()).expect("the shell runs it");
            let (program, argv) = target.argv(&[plain.clone().into(), "x".into()]);
            assert_eq!(program, Path::new("/bin/sh"));
            assert_eq!(argv, ["sh".into(), plain.into_os_string(), OsString::from("x")]);
        }
    }

    #[test]
    fn php_is_told_of_its_modules() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [php, other] = ["php8.2", "perl8.2"].map(|name| folder.path().join(name));
        for path in [&php, &other] {
            std::fs::copy("/bin/sh", path).expect("a program");
        }
        let note = |program: &Path, family, path: Option<&str>| {
            let path = path.map(PathBuf::from);
            let allocator = Allocator { family, path, ..Allocator::system() };
            let target = Target::resolve(program.as_os_str()).expect("a program");
            target.modules_note(&allocator)
        };
        let sentence = note(&php, Family::Jemalloc, Some("/libjemalloc.so")).expect("a note");
        assert!(
            sentence.contains("RTLD_DEEPBIND") && sentence.contains("but mallow"),
            "{sentence}"
        );
        assert_eq!(note(&php, Family::Mallow, Some("/libmallow.so")), None);
        assert_eq!(note(&php, Family::System, None), None);
        assert_eq!(note(&other, Family::Jemalloc, Some("/libjemalloc.so")), None);
    }

    #[test]
    fn circles_and_missing_interpreters_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("circle");
        let path = script(folder.path(), "circle", &format!("#!{}\n", path.display()));
        let error = Target::resolve(path.as_os_str()).expect_err("a circle");
        assert!(matches!(error, Error::NotExecutable { .. }));
        let path = script(folder.path(), "lost", "#!/nonexistent/interpreter\n");
        let error = Target::resolve(path.as_os_str()).expect_err("no interpreter");
        assert!(error.to_string().contains("/nonexistent/interpreter"));
    }

    #[test]
    fn commands_that_cannot_run() {
        let error = |name: &str| Target::resolve(OsStr::new(name)).expect_err(name);
        for missing in ["no-such-command-anywhere", "/no/such/file", ""] {
            assert!(matches!(error(missing), Error::CommandNotFound(_)), "{missing}");
        }
        for other in ["/etc/passwd", "/etc", "/etc/passwd/program"] {
            assert!(matches!(error(other), Error::NotExecutable { .. }), "{other}");
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let circle = folder.path().join("circle");
        std::os::unix::fs::symlink(&circle, &circle).expect("a link");
        let circle = error(&circle.to_string_lossy());
        assert!(matches!(circle, Error::NotExecutable { .. }), "{circle}");
    }
}
