// SPDX-License-Identifier: MIT
//! Builds what the command carries inside: the three Mallow libraries, the recorder, and the table
//! of Mallow's options, which comes from the same file as the allocator's own parser.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, hash::Hasher as _};

const LIBRARIES: [(&str, &str, &str); 3] = [
    // The modes are those of core/src/base/config.h.
    ("mallow", "libmallow.so", "0"),
    ("mallow-secure", "libmallow-secure.so", "1"),
    ("mallow-debug", "libmallow-debug.so", "2"),
];

fn main() {
    let (sources, headers) = (Path::new(mallow_sys::SOURCES), Path::new(mallow_sys::HEADERS));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed={}", headers.display());
    println!("cargo::rerun-if-changed=build.rs");

    let mut list = String::from("pub static LIBRARIES: &[Library] = &[\n");
    for (name, file, mode) in LIBRARIES {
        let library = out.join(file);
        compile_library(sources, headers, mode, file, &library);
        let hash = content_hash(&library);
        writeln!(
            list,
            "    Library {{ name: {name:?}, file: {file:?}, hash: \"{hash:016x}\", \
             bytes: include_bytes!({library:?}) }},"
        )
        .expect("strings grow");
    }
    list.push_str("];\n");
    let recorder = Path::new(mallow_recorder::SOURCES);
    println!("cargo::rerun-if-changed={}", recorder.display());
    let library = out.join("libmallow-recorder.so");
    compile_recorder(recorder, sources, &library);
    writeln!(
        list,
        "pub static RECORDER: Library = Library {{ name: \"recorder\", \
         file: \"libmallow-recorder.so\", hash: \"{:016x}\", bytes: include_bytes!({library:?}) }};",
        content_hash(&library)
    )
    .expect("strings grow");
    fs::write(out.join("libraries.rs"), list).expect("OUT_DIR is writable");

    let definitions = fs::read_to_string(sources.join("settings/options.def"))
        .expect("settings/options.def lists the options");
    fs::write(out.join("options.rs"), option_table(&definitions)).expect("OUT_DIR is writable");
}

/// An allocator from the one C file, with the flags that CMakeLists.txt has too.
fn compile_library(sources: &Path, headers: &Path, mode: &str, soname: &str, library: &Path) {
    let mode = format!("-DMW_MODE={mode}");
    let flags = ["-fno-builtin-malloc", &mode, "-DMW_EXPORT_LIBC=1"];
    compile_shared(&sources.join("mallow.c"), headers, &flags, soname, library);
}

/// The recorder. Its own frames are part of the chain of frame pointers that it follows, and exceptions pass them.
fn compile_recorder(folder: &Path, sources: &Path, library: &Path) {
    let flags = ["-fno-builtin", "-fno-omit-frame-pointer", "-fasynchronous-unwind-tables"];
    let file = folder.join("recorder.c");
    compile_shared(&file, sources, &flags, "libmallow-recorder.so", library);
}

/// One shared object from one C file. It names no libc: its libc symbols bind when it is loaded, though flags of a
/// distribution ask for no undefined ones. The table that finds the frames of its code is for profiles: musl's compiler
/// does not ask for it.
fn compile_shared(file: &Path, include: &Path, flags: &[&str], soname: &str, library: &Path) {
    // For builds that only have to work, and soon: with 0 to compile takes a third as long.
    println!("cargo::rerun-if-env-changed=MALLOW_LIBRARIES_OPT_LEVEL");
    let level = env::var("MALLOW_LIBRARIES_OPT_LEVEL").unwrap_or_else(|_| "2".into());
    let mut build = cc::Build::new();
    build.no_default_flags(true).opt_level_str(&level);
    // Outline atomics would need libgcc's start-up code, which calls into a libc.
    let no_outline = build.is_flag_supported("-mno-outline-atomics").unwrap_or(false);
    let compiler = build.get_compiler();
    let mut command: Command = compiler.to_command();
    command
        .args(["-std=c17", &format!("-O{level}"), "-fPIC", "-fvisibility=hidden"])
        .args(no_outline.then_some("-mno-outline-atomics"))
        .args(flags)
        .arg("-I")
        .arg(include)
        .args([
            "-shared",
            "-nostdlib",
            "-Wl,-z,lazy,-z,undefs,-z,relro,-z,noseparate-code,-z,nodelete",
            "-Wl,--sort-section=name,--eh-frame-hdr",
        ])
        .arg(format!("-Wl,-soname,{soname}"))
        .arg("-o")
        .arg(library)
        .arg(file);
    let status = command.status().unwrap_or_else(|error| {
        panic!("cannot start the C compiler {}: {error}", compiler.path().display())
    });
    assert!(status.success(), "the C compiler failed on {}: {command:?}", file.display());
}

fn content_hash(file: &Path) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&fs::read(file).expect("the library was just built"));
    hasher.finish()
}

/// Turns the lines `BOOL(...)`, `NUMBER(...)`, `SIZE(...)` and `CHOICE(...)` into a Rust table.
fn option_table(definitions: &str) -> String {
    let mut table = String::from("pub static OPTIONS: &[MallowOption] = &[\n");
    for line in definitions.lines() {
        let Some((kind, rest)) = line.split_once('(') else { continue };
        let Some(rest) = rest.trim_end().strip_suffix(')') else { continue };
        let (fields, help) = rest.split_once('"').unwrap_or((rest, ""));
        let fields: Vec<&str> = fields.split(',').map(str::trim).collect();
        let name = fields[0];
        let (kind, help) = match kind {
            "BOOL" => ("Kind::Bool".to_owned(), help.trim_end_matches('"')),
            "NUMBER" => (
                format!("Kind::Number {{ low: {}, high: {} }}", fields[2], fields[3]),
                last_string(help),
            ),
            "SIZE" => ("Kind::Size".to_owned(), help.trim_end_matches('"')),
            "CHOICE" => {
                let words = help.split('"').next().unwrap_or("");
                (format!("Kind::Choice({words:?})"), last_string(help))
            }
            _ => continue,
        };
        writeln!(table, "    MallowOption {{ name: {name:?}, kind: {kind}, help: {help:?} }},")
            .expect("strings grow");
    }
    table.push_str("];\n");
    table
}

/// The last quoted string of what follows a first quote.
fn last_string(rest: &str) -> &str {
    let rest = rest.trim_end_matches('"');
    rest.rsplit('"').next().unwrap_or(rest)
}
