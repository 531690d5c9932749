# SPDX-License-Identifier: MIT
#
# The front door. Each target first makes sure that what it needs is there (tools/setup).
#
#   make build      the libraries (build/) and the command (target/release/mallow)
#   make run        the allocators of this machine, compared on two programs (half a minute;
#                   EXAMPLE_RUNS: of each, 10)
#   make test       everything that can be tested here
#   make test-bare  run and test once more, in an empty Debian root (15 minutes; as root)
#   make peers      the allocators that Mallow is measured against (build/peers)
#   make bench      the whole benchmark beside them, up to two hours; after an interruption it goes on
#                   where it was; bench/run --short takes five minutes
#   make bench-top, bench-serve   what `mallow top` and `mallow serve` cost, with 500 and 1000 processes (a minute each)
#   make bench-scaling  the same work on each of 1 to 32 threads, under every allocator (an hour; docs/scaling.md)
#                   bench/top, bench/serve and bench/scaling have --short, of seconds
#   make bench-prof what profiles at the default rate cost, in each row of the benchmark
#   make database MariaDB under 1 to 64 clients, with each allocator (10 minutes; docs/database.md)
#   make faults     the fault suite and the exploits under every allocator: docs/hardening.md
#                   (10 minutes)
#   make test-redis Redis's own tests, with Mallow in the place of its jemalloc (20 minutes; REDIS_UNITS,
#                   REDIS_OPTIONS)
#   make collectors  an OpenTelemetry Collector and a receiver of profiles, which the tests of `mallow serve`
#                   then push to, and a reader of the dashboard's schema (Go 1.26, ten minutes)
#   make fuzz-tool  any bytes for each parser of the command, a minute each
#   make packages   debs, rpms and apks (dist/), of this machine and, as far as it goes, aarch64
#   make test-packages  installs, swaps, upgrades and removes them in an empty Debian root (as root)
#   make wheel      the Python wheels mallow-malloc (dist/), from the files of the packages
#   make test-wheel installs it into an empty environment and uses it
#   make npm        the npm package mallow-malloc (dist/), from the files of the packages
#   make test-npm   installs it into an empty folder and uses it
#   make test-crates packs the crates and builds from the packed files alone, in an empty home
#   make test-oldest-rust  checks that the workspace compiles with the oldest Rust that it promises
#   make musl       a musl with Mallow inside, from Debian's source (build/musl; docs/musl.md)
#   make test-musl  builds one and tests it
#   make dist       the source with all crates, which builds without a network (dist/)
#   make recipes    what Meson, Conan and vcpkg need to build from that source (dist/recipes)
#   make test-recipes  has Meson and Conan build programs with them
#   make test-dist  builds packages from it, elsewhere and offline: the same bytes as in dist/
#   make docs       the site of docs/ (build/docs/index.html)
#   make install    PREFIX=/usr/local, DESTDIR for packagers; manual and completions too. With sudo it takes what
#                   `make build` made, if that is not older than the sources
#   make clean

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# A toolchain installed by rustup is used even where the shell does not know it yet; one that
# tools/setup had to install for this checkout comes first.
export PATH := $(CURDIR)/.rust/bin:$(HOME)/.cargo/bin:$(PATH)

# Where the shells look below any prefix.
BASH_COMPLETIONS = $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS = $(PREFIX)/share/zsh/site-functions
FISH_COMPLETIONS = $(PREFIX)/share/fish/vendor_completions.d

# For packagers: another build folder (BUILD), the library folder below PREFIX (LIBDIR; below /usr/local it is lib on
# every distribution, as README.md says, and elsewhere CMake's choice, which is often lib64), and, with
# CARGO_BUILD_TARGET, a command for another machine, whose manual a command of this one writes.
BUILD ?= build
LIBDIR ?= $(if $(filter /usr/local,$(PREFIX)),lib)
# Names begin so in one more library, as docs/jemalloc.md says: je_ gives libmallow-je.
JEMALLOC_PREFIX ?=
PREFIXED = $(if $(JEMALLOC_PREFIX),-DMALLOW_JEMALLOC_PREFIX='$(JEMALLOC_PREFIX)')
MALLOW = $(or $(CARGO_TARGET_DIR),target)/$(if $(CARGO_BUILD_TARGET),$(CARGO_BUILD_TARGET)/)release/mallow
MALLOW_HERE ?= $(MALLOW)
# What of others is in the command, written where cargo is: not every root has one.
THIRD_PARTY = $(dir $(MALLOW))third-party.txt

# unless_built FILE TARGET: what a user built, `sudo make install` takes as it is. Root often has no Rust, or
# another, and what it compiled here would be root's.
unless_built = $(if $(and $(SUDO_USER),$(if $(DESTDIR),,yes),$(wildcard $1)),,$2)
LIBRARY = $(BUILD)/libmallow$(if $(JEMALLOC_PREFIX),-$(subst _,,$(JEMALLOC_PREFIX))).so

# What they are made of, and when `make` last looked whether they still are: what would be the same keeps its time.
LIBRARY_SOURCES = core/src core/include CMakeLists.txt
LIBRARY_LOOKED = $(BUILD)/looked
COMMAND_SOURCES = core/src core/include core/rust crates/mallow-* Cargo.toml Cargo.lock
COMMAND_LOOKED = $(dir $(MALLOW))looked

# unless_older FILE LOOKED SOURCES: stops where FILE would be taken as it is, and is older than its sources. A shell of
# `sudo -i` has SUDO_USER too: after `git pull` an old library would be installed there, with new headers.
unless_older = $(if $(call unless_built,$1,now),,$(if $(shell find $3 -name tests -prune -o -type f \
	$(patsubst %,-newer '%',$(wildcard $1 $2)) -print -quit),$(error $1 is older than its sources. Run `make` \
	first, then install it)))

# Alerts, dashboard and the centre of a fleet, which name each other by where they lie.
OPERATED = grafana/mallow.json prometheus/mallow.rules.yml \
	$(patsubst packaging/%,%,$(wildcard packaging/fleet/*.yml packaging/fleet/grafana/*.yml))

.PHONY: bench-top bench-serve bench-scaling bench-prof
.PHONY: build run test test-bare test-redis fuzz-tool peers bench database faults packages test-packages dist test-dist
.PHONY: collectors wheel test-wheel npm test-npm test-crates test-oldest-rust musl test-musl docs recipes test-recipes
.PHONY: install install-libraries install-command clean libraries command

build: libraries command

libraries:
	@tools/setup libraries
	@cmake -S . -B $(BUILD) $(PREFIXED) >/dev/null
	@MAKEFLAGS=--no-print-directory cmake --build $(BUILD) --target libraries -j $(JOBS)
	@touch '$(LIBRARY_LOOKED)'

command:
	@tools/setup build
	cargo build --release --quiet -p mallow-cli
	@[ '$(THIRD_PARTY)' -nt Cargo.lock ] || { tools/third-party >'$(THIRD_PARTY).part' && \
		mv '$(THIRD_PARTY).part' '$(THIRD_PARTY)'; } || rm -f '$(THIRD_PARTY)' '$(THIRD_PARTY).part'
	@touch '$(COMMAND_LOOKED)' 2>/dev/null || true

run:
	@tools/setup run
	@$(MAKE) --no-print-directory build
	$(MALLOW) list
	@examples/run $(if $(EXAMPLE_RUNS),--runs $(EXAMPLE_RUNS)) $(MALLOW)

test:
	@tools/setup test
	@tools/test --jobs $(JOBS)

test-bare:
	@tools/setup test
	@JOBS=$(JOBS) tools/bare-root run test

test-redis:
	@tools/setup test
	@core/tests/interpose/redis/run-suite $(BUILD)/redis $(REDIS_UNITS)

collectors:
	@tools/collectors/build

fuzz-tool:
	@tools/setup test
	@tools/fuzz

# A peer that cannot be built is named and left out.
peers:
	@tools/setup bench
	-@crates/peers/build

bench: peers
	@$(MAKE) --no-print-directory build
	-@$(MAKE) --no-print-directory bench/out/instructions.md
	bench/run --publish --continue

faults: peers libraries
	@cmake -S . -B $(BUILD) -DMALLOW_BUILD_TESTS=ON >/dev/null
	@cmake --build $(BUILD) --target fault-suite fault-probes fault-layout -j $(JOBS) -- --no-print-directory
	core/tests/fault/compare.py --build $(BUILD) --runs 10000 --publish

# Without valgrind there are none.
bench/out/instructions.md: build/libmallow.so build/libmallow-secure.so $(wildcard build/peers/*.so)
	@mkdir -p bench/out
	@rm -f $@
	bench/instructions >$@.part
	@mv $@.part $@

bench-top bench-serve: bench-%: build
	@tools/setup bench
	bench/$* --mallow $(MALLOW)

bench-prof: libraries
	@tools/setup bench
	bench/run --quick --build $(BUILD) -a glibc -a mallow -a mallow-prof

bench-scaling: peers libraries
	bench/scaling --build $(BUILD)

database: build
	@tools/setup database
	bench/database --mallow $(MALLOW)

packages:
	@tools/setup packages
	@packaging/build

test-packages: packages
	@packaging/test

wheel: packages
	@packaging/wheel all

test-wheel: wheel
	@packaging/wheel check

npm: packages
	@packaging/npm

test-npm: npm
	@packaging/npm check

musl:
	@packaging/musl/build build/musl

test-musl:
	@packaging/musl/test

test-crates:
	@tools/setup build
	@packaging/crates

test-oldest-rust:
	@tools/setup build
	@tools/oldest-rust

dist:
	@tools/setup build
	@packaging/tarball

recipes: dist
	@packaging/recipes

test-recipes: dist
	@packaging/recipes check

test-dist: packages dist
	@packaging/tarball check

docs:
	@tools/setup docs
	@PATH="$(CURDIR)/.tools/bin:$$PATH" mdbook build --dest-dir $(BUILD)/docs

install: install-libraries install-command
	@# The loader has to learn of new libraries; packagers do that by their own means.
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi

# What is installed is for all users, whatever umask the one has who installs it.
FOR_ALL = umask 022 &&

install-libraries: $(call unless_built,$(LIBRARY),libraries)
	$(call unless_older,$(LIBRARY),$(LIBRARY_LOOKED),$(LIBRARY_SOURCES))
	cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX='$(PREFIX)' \
		$(if $(LIBDIR),-DCMAKE_INSTALL_LIBDIR='$(LIBDIR)') >/dev/null
	$(FOR_ALL) DESTDIR='$(DESTDIR)' cmake --install $(BUILD)

install-command: $(call unless_built,$(MALLOW),command)
	$(call unless_older,$(MALLOW),$(COMMAND_LOOKED),$(COMMAND_SOURCES))
	$(FOR_ALL) install -d '$(DESTDIR)$(PREFIX)/bin'
	$(FOR_ALL) install -m 755 $(MALLOW) '$(DESTDIR)$(PREFIX)/bin/mallow'
	$(FOR_ALL) install -d '$(DESTDIR)$(PREFIX)/share/doc/mallow'
	$(FOR_ALL) { cat '$(THIRD_PARTY)' 2>/dev/null || tools/third-party; } >'$(DESTDIR)$(PREFIX)/share/doc/mallow/third-party.txt'
	$(FOR_ALL) $(MALLOW_HERE) man --all '$(DESTDIR)$(PREFIX)/share/man/man1'
	$(FOR_ALL) install -d '$(DESTDIR)$(BASH_COMPLETIONS)' '$(DESTDIR)$(ZSH_COMPLETIONS)' '$(DESTDIR)$(FISH_COMPLETIONS)'
	$(FOR_ALL) $(MALLOW_HERE) completions bash -o '$(DESTDIR)$(BASH_COMPLETIONS)/mallow'
	$(FOR_ALL) $(MALLOW_HERE) completions zsh -o '$(DESTDIR)$(ZSH_COMPLETIONS)/_mallow'
	$(FOR_ALL) $(MALLOW_HERE) completions fish -o '$(DESTDIR)$(FISH_COMPLETIONS)/mallow.fish'
	$(FOR_ALL) $(foreach file,$(OPERATED),install -D -m 644 packaging/$(file) '$(DESTDIR)$(PREFIX)/share/mallow/$(file)' &&) true

clean:
	rm -rf build build-aarch64 build-packages dist
	-cargo clean
