# SPDX-License-Identifier: MIT
"""Writes one package as a deb, an rpm or an apk. Knows nothing of how its files were built.

Debs and rpms are written by the systems' own tools (dpkg-deb, rpmbuild). An unsigned apk is two
archives in a row, which Python can write: https://wiki.alpinelinux.org/wiki/Apk_spec. The same
files give the same bytes: every time is that of `epoch`, every owner is root, and every list is sorted.
"""

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

# How hard gzip, xz and zstd try. MALLOW_PACKAGES_QUICK=1: what is thrown away soon need not be small.
GZIP_LEVEL, XZ_LEVEL, ZSTD_LEVEL = (1, 0, 1) if os.environ.get("MALLOW_PACKAGES_QUICK") == "1" else (9, 6, 19)

# What the systems call a machine; None is for packages that serve every machine.
MACHINES = {
    "deb": {"x86_64": "amd64", "aarch64": "arm64", None: "all"},
    "rpm": {"x86_64": "x86_64", "aarch64": "aarch64", None: "noarch"},
    "apk": {"x86_64": "x86_64", "aarch64": "aarch64", None: "noarch"},
}


@dataclass
class Package:
    """One package of packages.toml, with the files that it holds in `tree`."""
    name: str
    version: str
    machine: str | None
    summary: str
    text: list[str]
    section: str
    maintainer: str
    licence: str
    tree: Path
    epoch: int
    needs: list[str] = field(default_factory=list)
    suggests: list[str] = field(default_factory=list)
    instead_of: list[str] = field(default_factory=list)
    provides: str | None = None
    cache: str | None = None
    # What a shell is to do before the package is removed, but not when another version takes its place.
    before_removal: str | None = None

    def paths(self):
        """Folders and files of the tree, sorted, relative to the root."""
        return sorted(path.relative_to(self.tree).as_posix() for path in self.tree.rglob("*"))

    def files(self):
        return [path for path in self.paths() if not (self.tree / path).is_dir()]

    def own_folders(self):
        """Folders that no system has of itself: named after the package or the project, and those below."""
        return [path for path in self.paths() if (self.tree / path).is_dir()
                and any(part == self.name or "mallow" in part for part in path.split("/"))]

    def programs(self):
        return [path for path in self.files() if path.startswith("usr/bin/")]

    def libraries(self):
        return [path for path in self.files() if path.endswith(".so")]


def set_times(package):
    for path in [package.tree, *package.tree.rglob("*")]:
        os.utime(path, (package.epoch, package.epoch), follow_symlinks=False)


def run(*command, **more):
    """Runs a command; what it said is shown only if it failed."""
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}packaging: {command[0]} failed with {done.returncode}.")
    return done.stdout


def read_elf(option, file):
    return subprocess.run(["readelf", "-W", option, file], text=True, capture_output=True).stdout


def needed_libraries(file):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", read_elf("-d", file))


def glibc_version(file):
    """The newest version of glibc's symbols that an ELF file asks for, such as 2.34."""
    found = re.findall(r"\bGLIBC_(\d+)\.(\d+)", read_elf("-V", file))
    major, minor = max(((int(a), int(b)) for a, b in found), default=(0, 0))
    return f"{major}.{minor}"


# Debian

def deb_depends_of_programs(package):
    """What dpkg-shlibdeps would say of the command, for any machine."""
    depends = []
    for path in package.programs():
        needed = needed_libraries(package.tree / path)
        if "libc.so.6" in needed:
            depends.append(f"libc6 (>= {glibc_version(package.tree / path)})")
        if "libgcc_s.so.1" in needed:
            depends.append("libgcc-s1 (>= 4.2)")
    return depends


def deb_control(package, size_kib):
    # What serves every machine must not ask for the exact build of one.
    relation = "=" if package.machine else ">="
    fields = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": MACHINES["deb"][package.machine],
        "Maintainer": package.maintainer,
        "Installed-Size": size_kib,
        "Depends": ", ".join(deb_depends_of_programs(package) + [
            f"{name} ({relation} {package.version})" for name in package.needs]),
        "Suggests": ", ".join(package.suggests),
        "Provides": package.provides,
        "Conflicts": ", ".join(filter(None, [package.provides, *package.instead_of])),
        "Replaces": ", ".join(filter(None, [package.provides, *package.instead_of])),
        "Section": package.section,
        "Priority": "optional",
        "Multi-Arch": "foreign" if package.machine is None or package.programs() else "same",
    }
    paragraphs = "\n .\n".join(textwrap.fill(text, 76, initial_indent=" ", subsequent_indent=" ",
                                             break_on_hyphens=False)
                               for text in package.text)
    lines = [f"{name}: {value}" for name, value in fields.items() if value]
    return "\n".join([*lines, f"Description: {package.summary}", paragraphs, ""])


def write_deb(package, folder):
    control = package.tree / "DEBIAN"
    files = package.files()
    size_kib = sum(max(1, -(-(package.tree / path).lstat().st_size // 1024)) for path in files)
    sums = [f"{hashlib.md5((package.tree / path).read_bytes()).hexdigest()}  {path}\n"
            for path in files]
    control.mkdir(mode=0o755)
    (control / "control").write_text(deb_control(package, size_kib))
    (control / "md5sums").write_text("".join(sums))
    configuration = [f"/{path}\n" for path in files if path.startswith("etc/")]
    if configuration:
        (control / "conffiles").write_text("".join(configuration))
    # A bare name in LD_PRELOAD is looked up in the cache of ldconfig first.
    if package.libraries():
        (control / "triggers").write_text("activate-noawait ldconfig\n")
    for file in control.iterdir():
        file.chmod(0o644)
    if package.cache:
        script = f'#!/bin/sh\nset -e\n\nif [ "$1" = purge ]; then\n    rm -rf {package.cache}\nfi\n'
        (control / "postrm").write_text(script)
        (control / "postrm").chmod(0o755)
    if package.before_removal:
        # DPKG_ROOT: the root belongs to a system that does not run.
        begin = '#!/bin/sh\nset -e\n\n[ "$1" = remove ] && [ -z "${DPKG_ROOT:-}" ] || exit 0\n\n'
        (control / "prerm").write_text(begin + package.before_removal)
        (control / "prerm").chmod(0o755)
    set_times(package)
    machine = MACHINES["deb"][package.machine]
    result = folder / f"{package.name}_{package.version}_{machine}.deb"
    run("dpkg-deb", "--root-owner-group", "-Zxz", f"-z{XZ_LEVEL}", "--threads-max=1", "--build", package.tree,
        result, env={**os.environ, "SOURCE_DATE_EPOCH": str(package.epoch)})
    return result


# Fedora

def rpm_spec(package):
    fields = {
        "Name": [package.name],
        "Version": [package.version],
        "Release": ["1"],
        "Summary": [package.summary[0].upper() + package.summary[1:]],
        "License": [package.licence],
        "Packager": [package.maintainer],
        "Requires": [f"{name} {'=' if package.machine else '>='} {package.version}"
                     for name in package.needs],
        "Suggests": package.suggests,
        "Provides": [package.provides] if package.provides else [],
        "Conflicts": [name for name in [package.provides, *package.instead_of] if name],
        "BuildArch": [] if package.machine else ["noarch"],
    }
    lines = [f"{name}: {value}" for name, values in fields.items() for value in values]
    listed = [f"%attr(0{(package.tree / path).stat().st_mode & 0o777:o}, root, root) "
              + ("%config " if path.startswith("etc/") else "") + f"/{path}"
              for path in package.files()]
    # What no package owns would stay, empty, when the package goes.
    listed += [f"%dir %attr(0755, root, root) /{path}" for path in package.own_folders()]
    text = "\n\n".join(textwrap.fill(text, 78) for text in package.text)
    script = []
    if package.before_removal:
        # $1 counts the versions that stay.
        script = ["%preun", '[ "$1" = 0 ] || exit 0', package.before_removal.replace("%", "%%")]
    return "\n".join([*lines, "", "%description", text, "", "%install",
                      f"cp -a '{package.tree}/.' %{{buildroot}}", "", *script, "%files", *listed, ""])


RPM_SETTINGS = {
    "_buildhost": "mallow",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "_build_id_links": "none",
    "debug_package": "%{nil}",
    "__os_install_post": "%{nil}",
    "_binary_payload": f"w{ZSTD_LEVEL}.zstdio",
    "_binary_filedigest_algorithm": "8",
    "_source_filedigest_algorithm": "8",
    "optflags": "-O2",
    "_docdir": "/usr/share/doc",
}


def write_rpm(package, folder):
    set_times(package)
    machine = MACHINES["rpm"][package.machine]
    with tempfile.TemporaryDirectory() as scratch:
        spec = Path(scratch, f"{package.name}.spec")
        spec.write_text(rpm_spec(package))
        settings = {**RPM_SETTINGS, "_topdir": scratch, "_dbpath": f"{scratch}/db"}
        defines = [word for name, value in settings.items()
                   for word in ("--define", f"{name} {value}")]
        run("rpmbuild", "-bb", *defines, "--target", f"{machine}-linux", "--quiet", spec,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(package.epoch), "HOME": scratch})
        built, = Path(scratch, "RPMS").glob("*/*.rpm")
        return Path(shutil.copy(built, folder / built.name))


# Alpine

def tar_member(path, package):
    """A member of an apk's data: files carry the checksum that apk compares when it installs."""
    member = tarfile.TarInfo(path)
    member.mtime, member.uname, member.gname = package.epoch, "root", "root"
    file = package.tree / path
    member.mode = file.lstat().st_mode & 0o777
    if file.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(file)
    elif file.is_dir():
        member.type = tarfile.DIRTYPE
    else:
        content = file.read_bytes()
        member.size = len(content)
        member.pax_headers = {"APK-TOOLS.checksum.SHA1": hashlib.sha1(content).hexdigest()}
        return member, io.BytesIO(content)
    return member, None


def gzip_bytes(data):
    return gzip.compress(data, compresslevel=GZIP_LEVEL, mtime=0)


def apk_data(package):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in package.paths():
            archive.addfile(*tar_member(path, package))
    return gzip_bytes(stream.getvalue())


def apk_control(package, data):
    size = sum((package.tree / path).lstat().st_size for path in package.files())
    depends = [f"{name}{'=' if package.machine else '>='}{package.version}-r0"
               for name in package.needs]
    depends += [f"!{name}" for name in package.instead_of]
    # Of packages that provide a name in a version, only one can be installed.
    provides = [f"{package.provides}={package.version}-r0"] if package.provides else []
    provides += [f"so:{Path(path).name}=0" for path in package.libraries()]
    fields = [
        ("pkgname", package.name),
        ("pkgver", f"{package.version}-r0"),
        ("pkgdesc", package.summary),
        ("builddate", package.epoch),
        ("packager", package.maintainer),
        ("size", size),
        ("arch", MACHINES["apk"][package.machine]),
        ("origin", "mallow"),
        ("license", package.licence),
        *(("replaces", name) for name in package.instead_of),
        *(("depend", name) for name in depends),
        *(("provides", name) for name in provides),
        ("datahash", hashlib.sha256(data).hexdigest()),
    ]
    text = "".join(f"{name} = {value}\n" for name, value in fields)
    members = [control_member(package, ".PKGINFO", text, 0o644)]
    if package.before_removal:
        # An upgrade runs other scripts.
        script = "#!/bin/sh\n" + package.before_removal
        members.append(control_member(package, ".pre-deinstall", script, 0o755))
    # The parts of an apk are one archive when they are read in a row: this one has no end mark.
    return gzip_bytes(b"".join(members))


def control_member(package, name, text, mode):
    member, content = tarfile.TarInfo(name), text.encode()
    member.size, member.mtime, member.mode = len(content), package.epoch, mode
    member.uname = member.gname = "root"
    blocks = member.tobuf(format=tarfile.USTAR_FORMAT) + content
    return blocks + b"\0" * (-len(blocks) % tarfile.BLOCKSIZE)


def write_apk(package, folder):
    data = apk_data(package)
    machine = MACHINES["apk"][package.machine]
    # apk wants the name without the machine; it stands there so that two can lie in one folder.
    result = folder / f"{package.name}-{package.version}-r0.{machine}.apk"
    result.write_bytes(apk_control(package, data) + data)
    return result


WRITERS = {"deb": write_deb, "rpm": write_rpm, "apk": write_apk}
