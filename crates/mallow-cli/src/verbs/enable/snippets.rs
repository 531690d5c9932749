// SPDX-License-Identifier: MIT
//! The lines that belong into files which others own: images, deployments, process managers.

use crate::error::Result;
use mallow_enabling::System;
use mallow_launch::installed::{self, Installed};
use mallow_process::allocators::{self, Known, Origin, Packaged};

/// An allocator inside of an image.
pub struct Wish {
    pub name: String,
    way: Way,
}

/// How the library comes into the image.
enum Way {
    Package { debian: Package, alpine: Option<Package> },
    Copy { file: String },
}

struct Package {
    name: String,
    /// What LD_PRELOAD has to hold there.
    word: String,
    repository: Option<&'static str>,
}

impl Package {
    /// As the table has it; `None` where that does not say how its loader finds the library.
    fn known(brought: Packaged) -> Option<Package> {
        let word = brought.file?.to_owned();
        Some(Package { name: brought.package.into(), word, repository: brought.repository })
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
        let Way::Package { debian, alpine } = &self.way else {
            return format!("the image needs {}", self.word());
        };
        let on_alpine = alpine.as_ref().map(|package| {
            let from = package.repository.map_or(String::new(), |name| format!(", from {name}"));
            let word = Some(&package.word).filter(|word| **word != debian.word);
            let word = word.map_or(String::new(), |word| format!("; LD_PRELOAD is {word} there"));
            format!(" or {} (Alpine{from}{word})", package.name)
        });
        format!(
            "the image needs the package {} (Debian){}",
            debian.name,
            on_alpine.unwrap_or_default()
        )
    }
}

/// Those of Debian and Alpine, if Debian has one. Where that is installed here, it is known how it is called.
fn packages(known: &Known, found: Option<&Installed>, system: &System) -> Option<Way> {
    let here = found.and_then(|found| {
        let name = installed::debian_package(&system.root, found)?;
        Some(Package { name, word: found.word.clone(), repository: None })
    });
    let debian = here.or_else(|| Package::known(known.debian?))?;
    Some(Way::Package { debian, alpine: known.alpine.and_then(Package::known) })
}

/// Of those that are for one kind of file.
pub type Form = fn(&Wish) -> String;

pub fn docker(wish: &Wish) -> String {
    let (name, word) = (&wish.name, wish.word());
    let head = format!("# {name} for every program of the image.");
    let install = match &wish.way {
        Way::Package { debian, alpine } => {
            let alpine = alpine.as_ref().map_or(String::new(), |package| {
                let from = package.repository.map_or(String::new(), |name| format!(" ({name})"));
                format!(
                    "# Alpine{from}: RUN apk add --no-cache {}\n#         ENV LD_PRELOAD={}\n",
                    package.name, package.word
                )
            });
            format!(
                "{alpine}RUN apt-get update \\\n && apt-get install -y --no-install-recommends \
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
