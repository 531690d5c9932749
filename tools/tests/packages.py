#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The packages without a build of them: the table fits what is installed, the writers give the same
bytes twice, and the script of the -global packages keeps its promises."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging"))
sys.dont_write_bytecode = True

import formats  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("packages_build", str(ROOT / "packaging/build"))
build = importlib.util.module_from_spec(importlib.util.spec_from_loader("packages_build", LOADER))
LOADER.exec_module(build)

LOADER = importlib.machinery.SourceFileLoader("packages_npm", str(ROOT / "packaging/npm"))
npm = importlib.util.module_from_spec(importlib.util.spec_from_loader("packages_npm", LOADER))
LOADER.exec_module(npm)

# The sources may lie here without their history.
os.environ.setdefault("SOURCE_DATE_EPOCH", "1700000000")
TABLE = {recipe["name"]: recipe for recipe in build.recipes()["package"]}


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)


def would_run(*words, **environment):
    """What `make` would do."""
    environment = {**os.environ, "SUDO_USER": "", **environment}
    return subprocess.run(["make", "-n", *words], cwd=ROOT, env=environment, check=True, capture_output=True,
                          text=True).stdout


class Table(Scratch):
    def test_packages_name_packages(self):
        for recipe in TABLE.values():
            for name in recipe.get("needs", []) + recipe.get("suggests", []):
                self.assertIn(name, TABLE)
            for name in recipe.get("instead_of", []):
                if name in TABLE:
                    self.assertIn(recipe["name"], TABLE[name]["instead_of"])

    def told_to_pkg_config(self, libraries, headers):
        """The folders in mallow.pc, where these were asked for."""
        built = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        subprocess.run(["cmake", "-S", ROOT, "-B", built, "-DCMAKE_INSTALL_PREFIX=/store/lib",
                        f"-DCMAKE_INSTALL_LIBDIR={libraries}", f"-DCMAKE_INSTALL_INCLUDEDIR={headers}"],
                       check=True, capture_output=True)
        return re.findall(r"^(?:lib|include)dir=(.*)", (built / "mallow.pc").read_text(), re.M)

    @unittest.skipUnless(shutil.which("cmake"), "no cmake")
    def test_pkg_config_is_told_whole_paths_and_those_below_the_prefix(self):
        for told in ["/store/lib/lib64", "/store/headers/include"], ["${prefix}/lib64", "${prefix}/include"]:
            asked = [path.removeprefix("${prefix}/") for path in told]
            self.assertEqual(self.told_to_pkg_config(*asked), told)

    def installed_libraries(self):
        """What CMake installs, with empty files in place of the libraries."""
        built, root = self.scratch / "build", self.scratch / "root"
        subprocess.run(["cmake", "-S", ROOT, "-B", built, "-DCMAKE_INSTALL_PREFIX=/usr",
                        "-DCMAKE_INSTALL_LIBDIR=lib64", "-DMALLOW_JEMALLOC_PREFIX=je_"], check=True, capture_output=True)
        for name in ("libmallow", "libmallow-secure", "libmallow-debug", "libmallow-je"):
            (built / f"{name}.so").touch()
            (built / f"{name}.a").touch()
        subprocess.run(["cmake", "--install", built], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": str(root)})
        return [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]

    def installed_by_the_command(self):
        """The files that the Makefile says, and one page of the manual."""
        shown = would_run("install-command", "PREFIX=/usr", "DESTDIR=/root")
        files = re.findall(r"(?:-o|>|install (?:-D )?-m \d+ \S+) ?'/root/(\S+)'", shown)
        operated = [name for name in files if name.startswith("usr/share/mallow/")]
        self.assertEqual(len(files), 5 + len(operated), shown)
        self.assertEqual(sorted(operated), sorted(self.for_operators()))
        return [*files, "usr/share/man/man1/mallow.1"]

    def for_operators(self):
        """What goes with `mallow serve`, without the tests of the alerts."""
        files = [path for folder in ("prometheus", "grafana", "fleet")
                 for path in (ROOT / "packaging" / folder).rglob("*") if path.is_file()]
        return [f"usr/share/mallow/{path.relative_to(ROOT / 'packaging')}" for path in files
                if not path.name.endswith(".test.yml")]

    def test_what_the_fleet_names_is_installed_beside_it(self):
        text = (ROOT / "packaging/fleet/compose.yml").read_text()
        named = re.findall(r"'(\.\.?/[^:']+):", text)
        self.assertGreater(len(named), 4)
        installed = self.for_operators()
        for name in named:
            self.assertIn(os.path.normpath(f"usr/share/mallow/fleet/{name}"), installed)

    @unittest.skipUnless(shutil.which("cmake") and shutil.which("make"), "no cmake or no make")
    def test_each_installed_file_is_in_one_package(self):
        names = self.installed_libraries() + self.installed_by_the_command()
        wanted = {name: build.patterns(recipe, "rpm", "x86_64") for name, recipe in TABLE.items()}
        shared = build.share_out(names, wanted)
        self.assertEqual(shared["libmallow"], ["usr/lib64/libmallow.so"])
        self.assertEqual(sorted(names), sorted(sum(shared.values(), [])))

    def built_again(self, *words, user="somebody"):
        """Whether `make install` builds the libraries and the command, where that user called sudo."""
        shown = would_run("install", f"MALLOW={self.scratch}/mallow", f"BUILD={self.scratch}", *words,
                          SUDO_USER=user)
        return "cmake --build" in shown, "cargo build" in shown

    @unittest.skipUnless(shutil.which("make"), "no make")
    def test_sudo_takes_what_was_built(self):
        self.assertEqual(self.built_again(), (True, True))
        for name in ("mallow", "libmallow.so"):
            (self.scratch / name).touch()
        self.assertEqual(self.built_again(), (False, False))
        self.assertEqual(self.built_again("JEMALLOC_PREFIX=je_"), (True, False))
        # Packages are never made of what lies there.
        self.assertEqual(self.built_again("DESTDIR=/root"), (True, True))
        self.assertEqual(self.built_again(user=""), (True, True))

    @unittest.skipUnless(shutil.which("make"), "no make")
    def test_sudo_does_not_take_what_is_older_than_its_sources(self):
        built = [self.scratch / name for name in ("mallow", "libmallow.so")]
        for path in built:
            path.touch()
            os.utime(path, (1, 1))
            with self.assertRaises(subprocess.CalledProcessError) as refused:
                self.built_again()
            self.assertIn(f"{path} is older than its sources. Run `make` first", refused.exception.stderr)
            self.assertEqual(self.built_again("DESTDIR=/root"), (True, True))
            path.touch()
        # What would be the same `make` leaves as it is, and says when it looked.
        shown = would_run("build", f"MALLOW={self.scratch}/mallow", f"BUILD={self.scratch}")
        self.assertEqual(shown.count(f"touch '{self.scratch}/looked'"), 2, shown)
        for path in built:
            os.utime(path, (1, 1))
        (self.scratch / "looked").touch()
        self.assertEqual(self.built_again(), (False, False))

    @unittest.skipUnless(shutil.which("make"), "no make")
    def test_libraries_lie_where_the_page_says(self):
        named = re.findall(r"/usr/local/(\S+)/libmallow\.", (ROOT / "README.md").read_text())
        self.assertEqual(set(named), {"lib"})
        for words, folder in (([], "lib"), (["LIBDIR=lib64"], "lib64"), (["PREFIX=/usr"], "")):
            shown = would_run("install-libraries", *words)
            self.assertEqual(re.findall(r"-DCMAKE_INSTALL_LIBDIR='(.*)'", shown), [folder] if folder else [], words)

    @unittest.skipUnless(shutil.which("make"), "no make")
    def test_what_is_installed_is_for_all_users(self):
        shown = would_run("install-libraries", "install-command", "PREFIX=/usr", "DESTDIR=/root")
        lines = [line for line in shown.splitlines() if "'/root" in line]
        self.assertGreater(len(lines), 8, shown)
        self.assertEqual([line for line in lines if not line.startswith("umask 022 && ")], [])

    def test_a_file_of_no_package_or_two_is_a_mistake(self):
        for names, wanted in (["a", "b"], {"one": ["a"]}), (["a"], {"one": ["a"], "two": ["?"]}), \
                (["a"], {"one": ["a", "b"]}):
            with self.assertRaises(SystemExit):
                build.share_out(names, wanted)


class Writers(Scratch):
    def package(self, name):
        tree = self.scratch / name / "libtried"
        build.put(tree, "usr/lib/libtried.so", b"library")
        build.put(tree, "etc/profile.d/tried.sh", "true\n")
        build.put(tree, "usr/share/licenses/libtried/LICENSE", "MIT\n")
        return formats.Package(
            name="libtried", version="1.2", machine="x86_64", summary="tried", text=["A text."],
            section="libs", maintainer="Nobody <nobody@mallow.example>", licence="MIT", tree=tree,
            epoch=1_700_000_000, needs=["other"], instead_of=["third"], provides="shared",
            cache="/var/cache/tried", before_removal="echo '%{name} goes'\n")

    def assert_same_twice(self, system):
        written = []
        for name in ("one", "two"):
            package, out = self.package(name), self.scratch / f"{name}-out"
            out.mkdir()
            written.append(formats.WRITERS[system](package, out))
            time.sleep(1.1)  # file systems and archives count in seconds
        self.assertEqual(written[0].read_bytes(), written[1].read_bytes())
        return written[0]

    def run_script(self, script, arguments, **environment):
        file = self.scratch / "script"
        file.write_bytes(script)
        return subprocess.run(["sh", file, *arguments], text=True, check=True, capture_output=True,
                              env={**os.environ, **environment}).stdout

    def assert_runs_at(self, script, removal, others):
        self.assertEqual(self.run_script(script, removal), "%{name} goes\n")
        for arguments in others:
            self.assertEqual(self.run_script(script, arguments), "", arguments)

    @unittest.skipUnless(shutil.which("dpkg-deb"), "no dpkg-deb")
    def test_deb(self):
        deb = self.assert_same_twice("deb")
        shown = subprocess.run(["dpkg-deb", "-I", deb, "control", "conffiles", "triggers",
                                "postrm", "prerm"],
                               text=True, check=True, capture_output=True).stdout
        for line in ("Architecture: amd64", "Depends: other (= 1.2)", "Conflicts: shared, third",
                     "Provides: shared", "/etc/profile.d/tried.sh", "activate-noawait ldconfig",
                     "    rm -rf /var/cache/tried"):
            self.assertIn(f"{line}\n", shown)
        script = subprocess.run(["dpkg-deb", "-I", deb, "prerm"], check=True, capture_output=True).stdout
        self.assert_runs_at(script, removal=["remove"], others=[["upgrade", "1.3"], ["deconfigure", "in-favour"]])
        self.assertEqual(self.run_script(script, ["remove"], DPKG_ROOT="/mnt"), "")

    @unittest.skipUnless(shutil.which("rpmbuild"), "no rpmbuild")
    def test_rpm(self):
        rpm = self.assert_same_twice("rpm")
        self.assertEqual(rpm.name, "libtried-1.2-1.x86_64.rpm")
        shown = subprocess.run(["rpm", "-qlp", rpm], text=True, check=True, capture_output=True).stdout.split()
        self.assertIn("/usr/share/licenses/libtried", shown)
        self.assertNotIn("/usr/share", shown)
        asked = "%{PACKAGER}\n%{PREUNPROG}\n%{PREUN}"
        told = subprocess.run(["rpm", "-qp", "--qf", asked, rpm], text=True, check=True, capture_output=True).stdout
        packager, program, script = told.split("\n", 2)
        self.assertEqual((packager, program), ("Nobody <nobody@mallow.example>", "/bin/sh"))
        self.assert_runs_at(script.encode(), removal=["0"], others=[["1"]])

    def test_apk(self):
        apk = self.assert_same_twice("apk")
        with tarfile.open(apk) as archive:
            names = archive.getnames()
            info = archive.extractfile(".PKGINFO").read().decode()
            script = archive.extractfile(".pre-deinstall").read()
            self.assertEqual(archive.getmember(".pre-deinstall").mode, 0o755)
        self.assertEqual(names[:2], [".PKGINFO", ".pre-deinstall"])
        self.assert_runs_at(script, removal=["1.2-r0"], others=[])
        self.assertIn("usr/lib/libtried.so", names)
        for line in ("depend = other=1.2-r0", "depend = !third", "provides = so:libtried.so=0"):
            self.assertIn(f"{line}\n", info)


class Npm(Scratch):
    def root(self):
        """What `make install` makes, with a program of this machine in place of every binary."""
        root = self.scratch / "root"
        for name in ["bin/mallow", *(f"lib/x86_64-linux-gnu/{name}" for name in npm.LIBRARIES)]:
            (root / "usr" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(shutil.which("true"), root / "usr" / name)
        (root / build.THIRD_PARTY).parent.mkdir(parents=True)
        (root / build.THIRD_PARTY).write_text("ring 1: ISC\n")
        return root

    @unittest.skipUnless(shutil.which("readelf"), "no readelf")
    def test_it_holds_the_command_the_libraries_and_the_module(self):
        root = self.root()
        first = npm.write(root, "x86_64", self.scratch).read_bytes()
        with tarfile.open(npm.write(root, "x86_64", self.scratch)) as archive:
            modes = {entry.name.removeprefix("package/"): entry.mode for entry in archive}
            manifest = json.load(archive.extractfile("package/package.json"))
        self.assertEqual(first, npm.write(root, "x86_64", self.scratch).read_bytes())
        self.assertEqual(modes["bin/mallow"], 0o755)
        wanted = {manifest["main"], manifest["types"], "lib/libmallow-secure.so", "LICENSE", "THIRD-PARTY"}
        self.assertLessEqual(wanted, set(modes))
        self.assertEqual((manifest["cpu"], manifest["bin"]), (["x64"], {"mallow": "bin/mallow"}))

    def test_without_a_build_it_says_what_is_to_be_done(self):
        with self.assertRaisesRegex(SystemExit, "first: packaging/build"):
            npm.write(self.scratch, "x86_64", self.scratch)


class Sums(Scratch):
    def sums(self, what):
        done = subprocess.run([ROOT / "packaging/sums", what, self.scratch], capture_output=True, text=True)
        return done.returncode == 0

    def test_what_was_changed_added_or_lost_is_noticed(self):
        for name in ("b 1.deb", "a.whl"):
            (self.scratch / name).write_text(name)
        self.assertTrue(self.sums("write") and self.sums("write") and self.sums("check"))
        self.assertEqual(len((self.scratch / "SHA256SUMS").read_text().splitlines()), 2)
        (self.scratch / "more").touch()
        self.assertFalse(self.sums("check"))
        (self.scratch / "more").unlink()
        (self.scratch / "a.whl").write_text("other")
        self.assertFalse(self.sums("check"))
        (self.scratch / "a.whl").unlink()
        self.assertFalse(self.sums("check"))


class Workflows(unittest.TestCase):
    """What the workflows and the action say that a shell is to do can be done with what is here."""

    # Folders of the source; those that are made (dist, build) are in no checkout.
    NAMED = re.compile(r"(?<![\w./-])((?:bench|core|crates|docs|examples|packaging|tools|\.ci)/[\w./-]+|CHANGELOG\.md)")
    TARGETS = re.compile(r"^([a-z-]+)(?: [a-z-]+)*:(?!=)", re.M)

    def scripts(self, text):
        """The script of each step."""
        pattern = r"^( *)(- )?run: (\|\n(?:(?:\1  .*)?\n)+|.*\n)"
        return [match[2].removeprefix("|") for match in re.findall(pattern, text, re.M)]

    def missing(self, script):
        targets = set(self.TARGETS.findall((ROOT / "Makefile").read_text()))
        for words in re.findall(r"(?:^|&& *)\s*make ([a-z][a-z -]*)", script, re.M):
            yield from (word for word in words.split() if word not in targets)
        for name in self.NAMED.findall(script):
            if not (ROOT / name).exists():
                yield name
        for name in re.findall(r"^\s*((?:packaging|tools)/[\w./-]+)", script, re.M):
            if not os.access(ROOT / name, os.X_OK):
                yield name

    def test_they_name_what_is_there(self):
        files = sorted((ROOT / ".github").glob("*/*.yml")) + sorted((ROOT / ".github").glob("*/*/action.yml"))
        self.assertGreater(len(files), 2)
        for file in files:
            scripts = self.scripts(file.read_text())
            self.assertGreater(len(scripts), 0, file.name)
            for script in scripts:
                self.assertEqual(list(self.missing(script)), [], f"{file.name}: {script}")
                bash = subprocess.run(["bash", "-n"], input=re.sub(r"\$\{\{.*?\}\}", "x", script), text=True,
                                      capture_output=True)
                self.assertEqual((bash.returncode, bash.stderr), (0, ""), f"{file.name}: {script}")

    def test_what_is_not_there_is_found(self):
        text = ("steps:\n  - run: make dist nothing\n  - name: x\n    run: |\n      cd x\n\n      packaging/gone --x\n"
                "  - uses: y\n")
        self.assertEqual([list(self.missing(script)) for script in self.scripts(text)],
                         [["nothing"], ["packaging/gone", "packaging/gone"]])
        self.assertEqual(list(self.missing("bash .ci/gone && grep -q x core/gone.h CHANGELOG.md")),
                         [".ci/gone", "core/gone.h"])


class Removal(Scratch):
    """The script that undoes what `mallow enable` did, with a command that writes down what it is asked."""

    # As `mallow enable` writes it.
    RECORD = {"schema": "mallow.enabled/1", "folders": ["/var/lib/mallow"], "entries": [
        {"kind": kind, **more, "allocator": "a", "word": "w", "library": library, "file": "/etc/f", "since": 1,
         "before": {"content": '      "kind": "unit",\n', "mode": 420}, "written": ['"library": "/lib/x",'], "folders": []}
        for kind, more, library in (
            ("global", {}, "/usr/lib/m/libmallow.so"),
            ("unit", {"unit": "a\\x2db.service"}, "/lib/m/libmallow-secure.so"),
            ("wrapper", {"folder": "/opt/my tools"}, "/usr/lib/m/libmallow.so"),
            ("unit", {"unit": "c.service"}, "/lib/m/libmallow.so"),
            ("wrapper", {"folder": "/opt/my tools"}, "/lib/m/libjemalloc.so.2"),
            ("ld-so-preload", {}, "/opt/lib/libmallow.so"))]}
    ALL = ["--global", "--unit a\\x2db.service", "--wrappers /opt/my tools", "--unit c.service", "--ld-so-preload"]

    def undone(self, what, refused="nothing", command="mallow"):
        """What the script of a package says, and what it asks `mallow disable` for."""
        tree, asked, programs = self.scratch / "tree", self.scratch / "asked", self.scratch / "bin"
        for name in ("libmallow.so", "libmallow-secure.so"):
            build.put(tree, f"usr/lib/m/{name}", b"")
        build.put(programs, command, f'#!/bin/sh\nread line && exit 1\nprintf "%s\\n" "$*" >>{asked}\n'
                  f'[ -z "$HOME$XDG_STATE_HOME$LD_PRELOAD" ] || exit 1\n'
                  f'case $* in *{refused}*) exit 3; esac\n'
                  f'case {refused}$* in nothing*--ld-so*) rm {self.scratch}/var/lib/mallow/enabled.json; esac\n', 0o755)
        script = build.before_removal(tree, "tried", what)
        script = script.replace("/var/lib", f"{self.scratch}/var/lib")
        asked.write_text("")
        said = subprocess.run(["sh", "-euc", script], check=True, capture_output=True, text=True, input="",
                              env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": "/root", "XDG_STATE_HOME": "/s"})
        return said.stdout + said.stderr, [line.removeprefix("disable ") for line in asked.read_text().splitlines()]

    def write_record(self, record):
        build.put(self.scratch, "var/lib/mallow/enabled.json", json.dumps(record, indent=2) + "\n")

    def test_where_nothing_is_enabled_nothing_is_done(self):
        self.assertEqual(self.undone("all"), ("", []))
        self.write_record({**self.RECORD, "entries": []})
        self.assertEqual(self.undone("libmallow.so"), ("", []))

    def test_the_command_takes_all_along(self):
        self.write_record(self.RECORD)
        self.assertEqual(self.undone("all"), ("", self.ALL))

    def test_a_library_takes_along_what_names_it(self):
        self.write_record(self.RECORD)
        self.assertEqual(self.undone("libmallow.so"), ("", ["--global", "--unit c.service"]))
        self.assertEqual(self.undone("libmallow-secure.so"), ("", ["--unit a\\x2db.service"]))

    def test_what_is_refused_keeps_nothing_else(self):
        self.write_record(self.RECORD)
        said, asked = self.undone("all", refused="global")
        self.assertEqual(asked, self.ALL)
        self.assertRegex(said, "^tried: not all .*; .*/enabled.json names what is left.\n$")

    def test_without_the_command_it_says_what_is_left(self):
        self.write_record(self.RECORD)
        said, asked = self.undone("libmallow.so", command="other")
        self.assertEqual(asked, [])
        self.assertIn("names what is left", said)

    def test_another_form_of_the_record_is_left_alone(self):
        build.put(self.scratch, "var/lib/mallow/enabled.json", json.dumps(self.RECORD))
        said, asked = self.undone("all")
        self.assertEqual(asked, [])
        self.assertIn("names what is left", said)


class GlobalScript(Scratch):
    def setUp(self):
        super().setUp()
        with contextlib.redirect_stdout(io.StringIO()):
            build.put_global(self.scratch, "mallow-global", "libmallow.so")
        self.script = self.scratch / "etc/profile.d/mallow-global.sh"
        text = self.script.read_text()
        for folder in ("/usr/", "/etc/"):
            text = text.replace(folder, f"{self.scratch}{folder}")
        self.script.write_text(text)
        build.put(self.scratch, "usr/lib64/libmallow.so", b"")

    def after_login(self, **environment):
        show = f". {self.script}; set | grep ^mallow_ || true; echo \"${{LD_PRELOAD-none}}\""
        # The shell itself is started without the preload that it is told of.
        told = "".join(f"{name}={value!r}; " for name, value in environment.items())
        return subprocess.run(["sh", "-euc", told + show], check=True, capture_output=True,
                              text=True, env={"PATH": os.environ["PATH"]}).stdout.strip()

    def test_it_preloads_a_bare_name(self):
        self.assertEqual(self.after_login(), "libmallow.so")

    def test_it_keeps_what_was_there_and_adds_itself_once(self):
        self.assertEqual(self.after_login(LD_PRELOAD="a.so b.so"), "a.so b.so:libmallow.so")
        for there in ("libmallow.so", "a.so:libmallow.so", "libmallow.so b.so"):
            self.assertEqual(self.after_login(LD_PRELOAD=there), there)

    def test_without_the_library_it_does_nothing(self):
        (self.scratch / "usr/lib64/libmallow.so").unlink()
        self.assertEqual(self.after_login(), "none")

    def test_it_gives_way_to_mallow_enable(self):
        (self.scratch / "etc/profile.d/mallow.sh").touch()
        self.assertEqual(self.after_login(LD_PRELOAD="a.so"), "a.so")

    def test_without_its_package_it_does_nothing(self):
        (self.scratch / "usr/share/mallow-global/installed").unlink()
        self.assertEqual(self.after_login(LD_PRELOAD="a.so"), "a.so")


if __name__ == "__main__":
    unittest.main()
