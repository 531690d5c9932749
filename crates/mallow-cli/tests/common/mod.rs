// SPDX-License-Identifier: MIT
//! What the tests of the command share: running it, and building programs to run it on.

pub mod browser;
pub mod chance;
pub mod daemon;
pub mod disk;
pub mod program;
pub mod push;
pub mod python;
pub mod recording;
pub mod system;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use object::Object;

pub fn mallow(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mallow"));
    command.args(arguments).env_remove("LD_PRELOAD").env_remove("MALLOW_CONF");
    // Nothing of the user's own settings.
    command.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("NO_COLOR");
    command
}

pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn run(arguments: &[&str]) -> Ran {
    ran(mallow(arguments).output().unwrap())
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// All verbs, as the help of the command lists them.
pub fn verbs() -> Vec<String> {
    let help = run(&["--help"]).stdout;
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = list.take_while(|line| !line.is_empty());
    // Other lines go on with what the verb is.
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let verbs: Vec<_> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    assert_eq!(verbs[..4], ["list", "run", "compare", "verify"]);
    verbs
}

/// The command refuses with this code, in one sentence that holds all the words, without a result.
#[track_caller]
pub fn refuses(arguments: &[&str], code: i32, words: &[&str]) {
    let ran = run(arguments);
    assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{arguments:?}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{arguments:?}: {}", ran.stderr);
    assert!(lines[0].starts_with("mallow: "), "{}", lines[0]);
    for word in words {
        assert!(lines[0].contains(word), "{word:?} is not in: {}", lines[0]);
    }
}

pub fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("no JSON ({error}): {}\n{}", ran.stdout, ran.stderr))
}

/// Compiles a C program; `None`, visibly, where the compiler is missing.
pub fn compile(compiler: &str, folder: &Path, source: &str, flags: &[&str]) -> Option<PathBuf> {
    compile_file(compiler, &folder.join("program.c"), source, flags)
}

/// The same of a source file of this name, beside which the program is.
pub fn compile_file(compiler: &str, file: &Path, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = file.with_extension("");
    std::fs::write(file, source).unwrap();
    let status = Command::new(compiler).args(flags).arg("-o").arg(&program).arg(file).status();
    match status {
        Ok(status) => assert!(status.success(), "{compiler} failed"),
        Err(error) => {
            eprintln!("skipped: {compiler}: {error}");
            return None;
        }
    }
    Some(program)
}

pub fn build_id(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    object::File::parse(bytes.as_slice()).unwrap().build_id().unwrap().unwrap().to_vec()
}

pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
pub fn objcopy(arguments: &[&str]) {
    assert!(Command::new("objcopy").args(arguments).status().unwrap().success());
}

pub const HELLO: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    int main(void) { char *p = malloc(100); if (!p) return 1; sprintf(p, \"hello\"); puts(p); \
    free(p); return 0; }\n";

pub fn is_root() -> bool {
    nix::unistd::getuid().is_root()
}

/// The command as a user whom no file of root's is open to, from a copy in this folder.
pub fn without_rights(folder: &Path) -> Command {
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    let tool = folder.join("mallow");
    if !tool.exists() {
        std::fs::copy(mallow(&[]).get_program(), &tool).unwrap();
    }
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&tool);
            command
        }
        false => Command::new(&tool),
    };
    command.env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
    command.env_remove("XDG_CACHE_HOME").env_remove("LD_PRELOAD");
    command
}

/// The name of an installed allocator that is built for glibc, such as jemalloc.
pub fn installed_allocators() -> Vec<String> {
    let report = json(&run(&["list", "--json"]));
    let is_there = |a: &&serde_json::Value| {
        a["libc"] == "glibc" && !a["path"].is_null() && a["name"] != "scudo"
    };
    let allocators = report["allocators"].as_array().unwrap().iter().filter(is_there);
    allocators.filter_map(|a| a["name"].as_str().map(str::to_owned)).collect()
}

pub fn other_allocator() -> Option<String> {
    let found = installed_allocators().into_iter().next();
    if found.is_none() {
        eprintln!("skipped: no other allocator is installed");
    }
    found
}

/// A certificate of its own making, for 127.0.0.1, with its key.
pub fn certificate(folder: &Path, name: &str) -> Option<(String, String)> {
    let path = |end: &str| folder.join(format!("{name}.{end}")).display().to_string();
    let (cert, key) = (path("crt"), path("key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.args(["-nodes", "-days", "2", "-subj", "/CN=mallow", "-keyout", &key, "-out", &cert]);
    openssl.args([
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=CA:FALSE",
    ]);
    match openssl.stderr(std::process::Stdio::null()).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            eprintln!("skipped: openssl: {error}");
            return None;
        }
    }
    Some((cert, key))
}

/// `go tool pprof`. Go builds it at its first use, once for all tests, and it keeps what it fetches in
/// `home`.
pub fn pprof(home: &Path) -> Command {
    let mut command = Command::new("go");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    command.args(["tool", "pprof"]).env("HOME", home).env("GOCACHE", cache);
    command
}

/// Whether there is such a program; visibly if not.
pub fn is_there(program: &str) -> bool {
    // Of man only the one that knows warnings.
    let test = if program == "man" { "man --version | grep '^man '" } else { "command -v $0" };
    let found = Command::new("sh").args(["-c", test, program]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: {program} is not installed");
    }
    is_there
}
