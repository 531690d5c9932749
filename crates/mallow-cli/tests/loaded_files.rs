// SPDX-License-Identifier: MIT
//! What is loaded in a process is told from what only has the same name: a newer file, or a mapping
//! of the file as data.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::program::{HOLDS, Program};
use crate::common::{compile, is_root, json, mallow, other_allocator, ran, run};

const NOBODY: u32 = 65534;

/// As somebody who may not follow the kernel's links to files that are gone.
fn as_nobody(mut command: Command) -> Command {
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn library_of(allocator: &str) -> PathBuf {
    let report = json(&run(&["list", "--json"]));
    let allocators = report["allocators"].as_array().unwrap();
    let found = allocators.iter().find(|found| found["name"] == allocator).unwrap();
    found["path"].as_str().unwrap().into()
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_library_whose_file_was_replaced_is_read_in_memory() {
    let Some(allocator) = other_allocator() else { return };
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    // Its name tells nothing.
    let library = folder.path().join("libloaded.so");
    std::fs::copy(library_of(&allocator), &library).unwrap();
    open_to_all(&library);
    let program = compile("cc", folder.path(), HOLDS, &["-O1", "-fno-builtin"]).unwrap();
    let mut command = as_nobody(Command::new(program));
    let program = Program::start(command.env("LD_PRELOAD", &library));
    let newer = folder.path().join("newer");
    std::fs::write(&newer, "another").unwrap();
    std::fs::rename(&newer, &library).unwrap();
    let verify = ["verify", &program.pid(), "--expect", &allocator];
    let seen = ran(as_nobody(mallow(&verify)).output().unwrap());
    assert_eq!(seen.code, Some(0), "{}{}", seen.stdout, seen.stderr);
    let explain = as_nobody(mallow(&["explain", &program.pid(), "--json"])).output();
    let report = json(&ran(explain.unwrap()));
    assert_eq!(report["allocator"], allocator.as_str());
}

/// Maps each file that it has loaded from its first byte on, below what is there.
const MAPS_ITSELF: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void) {
    static char paths[100][500];
    int count = 0;
    char line[1000];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps) != NULL && count < 100)
        if (strstr(line, " 00000000 ") != NULL && sscanf(line, "%*s %*s %*s %*s %*s %499s", paths[count]) == 1)
            count += paths[count][0] == '/';
    fclose(maps);
    for (int i = 0; i < count; i++) {
        struct stat file;
        int fd = open(paths[i], O_RDONLY);
        if (fd >= 0 && fstat(fd, &file) == 0)
            mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    for (int i = 0; i < 20000; i++) memset(malloc(1000), 1, 1000);
    printf("{\"files\": %d}\n", count);
    fflush(stdout);
    for (;;) pause();
}
"#;

#[test]
fn files_that_are_mapped_as_data_too_are_told_from_those_that_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", folder.path(), MAPS_ITSELF, &["-O1", "-fno-builtin"]).unwrap();
    let path = program.to_str().unwrap();
    let program = Program::at_rest(&mut mallow(&["run", "--", path]));
    assert!(program.own("files") >= 3.0, "{}", program.own);
    let report = program.explain();
    assert_eq!(report["heap"]["kind"], "mallow", "by its page, which a symbol names");
    let verified = json(&run(&["verify", &program.pid(), "--json"]));
    let main = &verified["processes"][0]["report"]["main"]["bindings"];
    assert_eq!(main["malloc"]["evidence"], "bound", "{main}");
    assert_eq!(main["malloc"]["allocator"], "mallow", "{main}");
}
