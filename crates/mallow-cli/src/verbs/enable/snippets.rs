// SPDX-License-Identifier: MIT
//! The lines that belong into files which others own: images, deployments, process managers.

use crate::enabling::System;
use crate::error::Result;
use mallow_launch::installed;
use mallow_process::allocators::{self, Origin};

/// An allocator inside of an image.
pub struct Wish {
    name: String,
    /// What LD_PRELOAD has to hold there.
    word: String,
    way: Way,
}

/// How the library comes into the image.
enum Way {
    Package { debian: &'static str, alpine: Option<&'static str> },
    Copy { file: String },
}

impl Wish {
    pub fn new(name: &str, system: &System) -> Result<Wish> {
        let known = allocators::by_name(name);
        if let Some(known) = known.filter(|known| known.origin == Origin::Embedded) {
            let file = format!("{}.so", known.stems[0]);
            let word = format!("/usr/local/lib/{file}");
            return Ok(Wish { name: name.into(), word, way: Way::Copy { file } });
        }
        let found = installed::find(&system.root, name)?;
        let file = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(match known.and_then(|known| Some((known.debian?, known.alpine))) {
            Some((debian, alpine)) => {
                let word = if found.is_bare() { found.word } else { file };
                Wish { name: found.name, word, way: Way::Package { debian, alpine } }
            }
            None => Wish {
                name: found.name,
                word: format!("/usr/local/lib/{file}"),
                way: Way::Copy { file },
            },
        })
    }

    /// What the other forms ask of the image.
    fn needs(&self) -> String {
        match &self.way {
            Way::Package { debian, alpine: Some(alpine) } => {
                format!("the image needs the package {debian} (Debian) or {alpine} (Alpine)")
            }
            Way::Package { debian, .. } => format!("the image needs the package {debian}"),
            Way::Copy { .. } => format!("the image needs {}", self.word),
        }
    }
}

pub fn docker(wish: &Wish) -> String {
    let (name, word) = (&wish.name, &wish.word);
    let head = format!("# {name} for every program of the image.");
    let install = match &wish.way {
        Way::Package { debian, alpine } => {
            let alpine = alpine.map_or(String::new(), |package| {
                format!("# Alpine: RUN apk add --no-cache {package}\n")
            });
            format!(
                "{alpine}RUN apt-get update \\\n && apt-get install -y --no-install-recommends \
                 {debian} \\\n && rm -rf /var/lib/apt/lists/*\n"
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
        wish.word
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
        wish.word
    )
}

pub fn procfile(wish: &Wish) -> String {
    format!("web: env LD_PRELOAD={} COMMAND\n", wish.word)
}

pub fn supervisor(wish: &Wish) -> String {
    format!("[program:NAME]\n; {}\nenvironment=LD_PRELOAD=\"{}\"\n", wish.name, wish.word)
}
