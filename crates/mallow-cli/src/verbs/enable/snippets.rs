// SPDX-License-Identifier: MIT
//! The lines that belong into files which others own: images, deployments, process managers.

use crate::error::Result;
use mallow_enabling::System;
use mallow_launch::distribution::Release;
use mallow_launch::installed::{self, Installed};
use mallow_process::allocators::{self, Distribution, Known, Origin, Packaged};

/// An allocator inside of an image.
pub struct Wish {
    pub name: String,
    way: Way,
}

/// How the library comes into the image.
enum Way {
    Package { debian: Package, others: Vec<Package> },
    Copy { file: String },
}

struct Package {
    name: String,
    /// What LD_PRELOAD has to hold there.
    word: String,
    /// Whose it is.
    system: String,
    /// What installs it there.
    install: &'static str,
}

impl Package {
    /// As the table has it; `None` where that does not say how its loader finds the library.
    fn known(brought: &Packaged) -> Option<Package> {
        let (system, install) = match (brought.distribution, brought.releases) {
            (Distribution::Alpine, _) => ("Alpine".to_owned(), "apk add --no-cache"),
            (_, []) => ("newer Debian and Ubuntu".to_owned(), "apt-get install -y"),
            (_, releases) => (releases.join(", "), "apt-get install -y"),
        };
        let from = brought.repository.map_or(String::new(), |name| format!(", from {name}"));
        let (name, word) = (brought.package.into(), brought.file?.into());
        Some(Package { name, word, system: system + &from, install })
    }
}

impl Wish {
    pub fn new(name: &str, system: &System) -> Result<Wish> {
        let known = allocators::by_name(name);
        if let Some(known) = known.filter(|known| known.origin == Origin::Embedded) {
            let file = format!("{}.so", known.stems[0]);
            return Ok(Wish { name: name.into(), way: Way::Copy { file } });
        }
        let found = installed::find(&system.root, name);
        let way = known.and_then(|known| packages(known, found.as_ref().ok(), system));
        if let Some(way) = way {
            return Ok(Wish { name: name.into(), way });
        }
        let found = found?;
        let file = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Wish { name: found.name, way: Way::Copy { file } })
    }

    /// What LD_PRELOAD has to hold; of a package, that of Debian.
    pub fn word(&self) -> String {
        match &self.way {
            Way::Package { debian, .. } => debian.word.clone(),
            Way::Copy { file } => format!("/usr/local/lib/{file}"),
        }
    }

    /// What the other forms ask of the image.
    fn needs(&self) -> String {
        let Way::Package { debian, others } = &self.way else {
            return format!("the image needs {}", self.word());
        };
        let or_others = others.iter().map(|package| {
            let word = Some(&package.word).filter(|word| **word != debian.word);
            let word = word.map_or(String::new(), |word| format!("; LD_PRELOAD is {word} there"));
            format!(" or {} ({}{word})", package.name, package.system)
        });
        let or_others: String = or_others.collect();
        format!("the image needs the package {} (Debian){or_others}", debian.name)
    }
}

/// That of Debian, if it has one: of this system's release, else of its newest. Where it is installed here, it is
/// known how it is called. And what other releases and Alpine have instead.
fn packages(known: &Known, found: Option<&Installed>, system: &System) -> Option<Way> {
    let here = found.and_then(|found| {
        let name = installed::debian_package(&system.root, found)?;
        let (system, install) = ("Debian".to_owned(), "apt-get install -y");
        Some(Package { name, word: found.word.clone(), system, install })
    });
    let release = Release::of(&system.root);
    let newest = || known.packaged(Distribution::Debian, &[]);
    let usual = || {
        let own = release.packaged_by(Distribution::Debian, known);
        own.or_else(newest).and_then(Package::known)
    };
    let debian = here.or_else(usual)?;
    let all = [Distribution::Debian, Distribution::Alpine].into_iter();
    let others = all.flat_map(|distribution| known.packages_of(distribution));
    let others = others.filter_map(Package::known).filter(|package| package.name != debian.name);
    Some(Way::Package { others: others.collect(), debian })
}

/// Of those that are for one kind of file.
pub type Form = fn(&Wish) -> String;

pub fn docker(wish: &Wish) -> String {
    let (name, word) = (&wish.name, wish.word());
    let head = format!("# {name} for every program of the image.");
    let install = match &wish.way {
        Way::Package { debian, others } => {
            let others = others.iter().map(|Package { name, word, system, install }| {
                format!("# {system}: RUN {install} {name}\n#         ENV LD_PRELOAD={word}\n")
            });
            let others: String = others.collect();
            format!(
                "{others}RUN apt-get update \\\n && apt-get install -y --no-install-recommends \
                 {} \\\n && rm -rf /var/lib/apt/lists/*\n",
                debian.name
            )
        }
        Way::Copy { file } => {
            format!("# Copy {file} beside the Dockerfile first.\nCOPY {file} {word}\n")
        }
    };
    format!("{head}\n{install}ENV LD_PRELOAD={word}\n")
}

pub fn compose(wish: &Wish) -> String {
    format!(
        "\
# {}; {}.
services:
  NAME:
    environment:
      LD_PRELOAD: \"{}\"
",
        wish.name,
        wish.needs(),
        wish.word()
    )
}

pub fn kubernetes(wish: &Wish) -> String {
    format!(
        "\
# {}; {}.
# kubectl patch deployment NAME --patch-file THIS-FILE
spec:
  template:
    spec:
      containers:
        - name: NAME
          env:
            - name: LD_PRELOAD
              value: \"{}\"
",
        wish.name,
        wish.needs(),
        wish.word()
    )
}

pub fn procfile(wish: &Wish) -> String {
    format!("web: env LD_PRELOAD={} COMMAND\n", wish.word())
}

pub fn supervisor(wish: &Wish) -> String {
    let (name, word) = (&wish.name, wish.word());
    format!("[program:NAME]\n; {name}; {}\nenvironment=LD_PRELOAD=\"{word}\"\n", wish.needs())
}
