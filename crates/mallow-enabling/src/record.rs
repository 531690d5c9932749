// SPDX-License-Identifier: MIT
//! The record of what was enabled: which files, by whom they are used, what they were before.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mallow_process::elf::ElfInfo;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::{self, Content, Kept};
use crate::{Place, Stamp, System, has_way_up, now};

const SCHEMA: &str = "mallow.enabled/1";
/// To lock the record's folder: each that fails is the end of another call, which took the folder away.
const TRIES: usize = 1000;

/// A file that is to be there.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub place: Place,
    pub allocator: String,
    /// What LD_PRELOAD gets.
    pub word: String,
    /// The allocator's file, as the system sees it.
    pub library: PathBuf,
    /// The file to write, as the system sees it.
    pub file: PathBuf,
    pub text: String,
    pub mode: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    #[serde(flatten)]
    pub place: Place,
    pub allocator: String,
    pub word: String,
    pub library: PathBuf,
    pub file: PathBuf,
    pub since: Stamp,
    before: Option<Kept>,
    /// What mallow wrote: the last one holds. The one before it is there if the last change was
    /// interrupted.
    written: Vec<Content>,
    /// Made for the file, the outermost first, as the system sees them.
    folders: Vec<PathBuf>,
}

/// What a file of the record is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    InPlace,
    /// Somebody wrote something else into it.
    Changed,
    Removed,
    LibraryMissing,
    /// It is there, but is no whole ELF file: cut short, or something else by now.
    LibraryDamaged,
    /// In no record: a package or somebody else wrote it.
    Elsewhere,
    /// The same, but the script of `mallow enable` takes its place.
    Superseded,
}

/// What came of a wish, or would come of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "replaced", rename_all = "kebab-case")]
pub enum Outcome {
    Unchanged,
    /// This user cannot write it; a dry run says so.
    Refused,
    Written,
    /// Another allocator had been enabled there.
    Replaced(String),
    /// There was a file of somebody else.
    Kept,
}

#[derive(Debug, Serialize, Deserialize)]
struct Data {
    schema: String,
    /// Made for the record, as the system sees them.
    folders: Vec<PathBuf>,
    entries: Vec<Entry>,
}

pub struct Record {
    system: System,
    file: PathBuf,
    data: Data,
    /// Nobody else changes anything meanwhile.
    _lock: Option<Flock<File>>,
}

impl Record {
    pub fn read(system: &System, file: &Path) -> Result<Record> {
        let data = match files::read(file)? {
            None => Data { schema: SCHEMA.into(), folders: Vec::new(), entries: Vec::new() },
            Some(kept) => parse(file, kept, system)?,
        };
        Ok(Record { system: system.clone(), file: file.to_owned(), data, _lock: None })
    }

    pub fn open(system: &System, file: &Path) -> Result<Record> {
        files::check_way(&system.root, file)?;
        let folder = file.parent().unwrap_or(Path::new("/"));
        for _ in 0..TRIES {
            let missing = files::missing_folders(file);
            files::make_folders(&missing)?;
            // Whoever held it before may have taken the folder away.
            let Some(lock) = lock(folder, FlockArg::LockExclusive)? else { continue };
            let mut record = Record::read(system, file)?;
            record.data.folders.extend(missing.iter().map(|folder| system.seen(folder)));
            record._lock = Some(lock);
            return Ok(record);
        }
        let file = file.display();
        Err(Error::Unmet(format!(
            "{file} is changed by others all the time. Repeat it when they are done."
        )))
    }

    pub fn entries(&self) -> &[Entry] {
        &self.data.entries
    }

    /// What putting it would do. Fails if the file has been changed by somebody else, or the record, which is text, cannot
    /// hold its name.
    pub fn foresee(&self, wanted: &Wanted, force: bool) -> Result<Outcome> {
        let mut paths = [&wanted.file, &wanted.library].into_iter();
        if let Some(path) = paths.find(|path| path.to_str().is_none()) {
            return Err(Error::Unsupported(format!(
                "The path {} is no UTF-8, so the record of what is enabled cannot hold it. Use a folder of \
                 another name.",
                path.display()
            )));
        }
        let path = self.system.at(&wanted.file);
        files::check_way(&self.system.root, &path)?;
        let current = files::read(&path)?;
        let Some(entry) = self.entry(&wanted.file) else {
            let is_foreign = current.is_some_and(|current| !current.is_of_mallow());
            return Ok(if is_foreign { Outcome::Kept } else { Outcome::Written });
        };
        let is_own = entry.is_own(current.as_ref());
        if !is_own && !force {
            return Err(self.changed(entry, "enable"));
        }
        let text = Content::Text(wanted.text.clone());
        let is_there = current.is_some_and(|current| current.content == text);
        Ok(match entry.allocator == wanted.allocator {
            true if is_there => Outcome::Unchanged,
            true => Outcome::Written,
            false => Outcome::Replaced(entry.allocator.clone()),
        })
    }

    /// Fails where this file, or the record, can neither be written nor removed.
    pub fn check_writable(&self, file: &Path) -> Result<()> {
        files::check_writable(&self.file)?;
        files::check_writable(&self.system.at(file))
    }

    /// Writes the file, and before that into the record what it was.
    pub fn put(&mut self, wanted: &Wanted, force: bool) -> Result<Outcome> {
        let outcome = self.foresee(wanted, force)?;
        if outcome == Outcome::Unchanged {
            return Ok(outcome);
        }
        let path = self.system.at(&wanted.file);
        let former = self.entry(&wanted.file).cloned();
        let content = Content::Text(wanted.text.clone());
        let mut written: Vec<Content> =
            former.iter().filter_map(|entry| entry.written.last().cloned()).collect();
        written.push(content.clone());
        let (before, folders) = match &former {
            Some(entry) => (entry.before.clone(), entry.folders.clone()),
            // What mallow wrote, and has no record of any more, is nothing to come back to.
            None => {
                let foreign = files::read(&path)?.filter(|kept| !kept.is_of_mallow());
                (foreign, self.folders_for(&wanted.file))
            }
        };
        let entry = Entry {
            place: wanted.place.clone(),
            allocator: wanted.allocator.clone(),
            word: wanted.word.clone(),
            library: wanted.library.clone(),
            file: wanted.file.clone(),
            since: now(),
            before,
            written,
            folders: folders.clone(),
        };
        self.data.entries.retain(|entry| entry.file != wanted.file);
        self.data.entries.push(entry);
        self.save()?;
        let made = files::make_folders(&self.places(&folders))
            .and_then(|()| files::write(&path, &content, wanted.mode, None));
        if let Err(error) = made {
            self.data.entries.retain(|entry| entry.file != wanted.file);
            if former.is_none() {
                files::remove_folders(&self.places(&folders));
            }
            self.data.entries.extend(former);
            self.save()?;
            return Err(error);
        }
        Ok(outcome)
    }

    /// Fails if the file lies outside of the system by now.
    pub fn check_way(&self, entry: &Entry) -> Result<()> {
        files::check_way(&self.system.root, &self.system.at(&entry.file))
    }

    /// The same, or if it has been changed by somebody else.
    pub fn check_removal(&self, entry: &Entry) -> Result<()> {
        self.check_way(entry)?;
        let path = self.system.at(&entry.file);
        let current = files::read(&path)?;
        match entry.is_own(current.as_ref()) {
            true => Ok(()),
            false => Err(self.changed(entry, "disable")),
        }
    }

    /// Makes the file what it was before.
    pub fn take(&mut self, entry: &Entry) -> Result<()> {
        self.check_way(entry)?;
        let path = self.system.at(&entry.file);
        files::remove_draft(&path);
        match &entry.before {
            Some(kept) if files::read(&path).ok().flatten().as_ref() == Some(kept) => {}
            Some(kept) => {
                let owner = Some((kept.uid, kept.gid));
                files::make_folders(&files::missing_folders(&path))?;
                files::write(&path, &kept.content, kept.mode, owner)?;
            }
            None => files::remove(&path)?,
        }
        files::remove_folders(&self.places(&entry.folders));
        self.data.entries.retain(|other| other.file != entry.file);
        self.save()
    }

    pub fn state(&self, entry: &Entry) -> State {
        // A wrapper goes through the command, which has or looks for the library itself.
        let is_direct = !matches!(entry.place, Place::Wrapper { .. });
        let library = self.system.resolved(&entry.library);
        match files::read(&self.system.at(&entry.file)) {
            Ok(None) => State::Removed,
            Ok(Some(kept)) if entry.written.last() != Some(&kept.content) => State::Changed,
            Ok(Some(_)) if is_direct && !library.exists() => State::LibraryMissing,
            Ok(Some(_)) if is_direct && is_damaged(&library) => State::LibraryDamaged,
            // Who may not read it knows no better.
            Ok(Some(_)) | Err(_) => State::InPlace,
        }
    }

    pub fn entry(&self, file: &Path) -> Option<&Entry> {
        self.data.entries.iter().find(|entry| entry.file == file)
    }

    /// Those that are made for the file, and those that were made for its neighbours: who goes last
    /// takes them away.
    fn folders_for(&self, file: &Path) -> Vec<PathBuf> {
        let others = self.data.entries.iter().flat_map(|entry| &entry.folders);
        let mut folders: Vec<PathBuf> =
            others.filter(|folder| file.starts_with(folder)).cloned().collect();
        let missing = files::missing_folders(&self.system.at(file));
        folders.extend(missing.iter().map(|folder| self.system.seen(folder)));
        folders.sort();
        folders.dedup();
        folders
    }

    /// Where folders of the record are, seen from here; without those that a link leads out of the system.
    fn places(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let places = folders.iter().map(|folder| self.system.at(folder));
        places.filter(|place| files::check_way(&self.system.root, place).is_ok()).collect()
    }

    fn changed(&self, entry: &Entry, verb: &str) -> Error {
        Error::Unmet(format!(
            "{} was changed by somebody else since mallow wrote it. Look at it, and if the change \
             may go, repeat mallow {verb} with --force.",
            self.system.at(&entry.file).display()
        ))
    }

    /// Takes away what an interruption left where there is no record, or none any more. Where somebody is
    /// at work, it is theirs.
    pub fn clear(&self) {
        if files::check_way(&self.system.root, &self.file).is_err() {
            return;
        }
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let Ok(Some(_lock)) = lock(folder, FlockArg::LockExclusiveNonblock) else { return };
        let record = Record::read(&self.system, &self.file);
        if record.is_ok_and(|record| record.data.entries.is_empty()) {
            files::remove_draft(&self.file);
            self.remove_folders();
        }
    }

    /// Those that were made for the record, and the one that it is in: only mallow makes that.
    fn remove_folders(&self) {
        let own = self.file.parent().map(Path::to_owned);
        files::remove_folders(own.as_slice());
        files::remove_folders(&self.places(&self.data.folders));
    }

    /// A record without entries is no file.
    fn save(&self) -> Result<()> {
        if self.data.entries.is_empty() {
            files::remove(&self.file)?;
            self.remove_folders();
            return Ok(());
        }
        files::make_folders(&files::missing_folders(&self.file))?;
        // What only some may read is in here too.
        let is_open = |kept: &Kept| kept.mode & 0o004 != 0;
        let before = self.data.entries.iter().filter_map(|entry| entry.before.as_ref());
        let mode = if before.into_iter().all(is_open) { 0o644 } else { 0o600 };
        let text = serde_json::to_string_pretty(&self.data).map_err(|error| Error::Io {
            what: format!("{} cannot be written", self.file.display()),
            source: error.into(),
        })?;
        files::write(&self.file, &Content::Text(text + "\n"), mode, None)
    }
}

impl Drop for Record {
    /// Folders that were made for nothing.
    fn drop(&mut self) {
        if self._lock.is_some() && self.data.entries.is_empty() {
            self.remove_folders();
        }
    }
}

impl Entry {
    /// Whether there was a file before mallow wrote it.
    pub fn had_file(&self) -> bool {
        self.before.is_some()
    }

    /// Whether the file is what mallow wrote, or what it was before that.
    fn is_own(&self, current: Option<&Kept>) -> bool {
        match current {
            None => self.before.is_none(),
            Some(kept) => {
                let content = &kept.content;
                let before = self.before.as_ref().map(|before| &before.content);
                before == Some(content) || self.written.contains(content)
            }
        }
    }
}

/// Of what may not be read nothing is known. A pipe is not opened: nobody may ever write to it.
fn is_damaged(library: &Path) -> bool {
    if std::fs::metadata(library).is_ok_and(|metadata| !metadata.is_file()) {
        return true;
    }
    match ElfInfo::read(library) {
        Ok(info) => info.is_none(),
        Err(error) => error.kind() == ErrorKind::InvalidData,
    }
}

/// Holds the folder until the lock is dropped; `None` if it is not there, or not any more once it is locked.
fn lock(folder: &Path, how: FlockArg) -> Result<Option<Flock<File>>> {
    let handle = match File::open(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        handle => handle.map_err(|error| files::refused(folder, error))?,
    };
    let lock =
        Flock::lock(handle, how).map_err(|(_, error)| files::refused(folder, error.into()))?;
    let locked = lock.metadata().map_err(|error| files::refused(folder, error))?;
    let is_there = folder
        .metadata()
        .is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino()));
    Ok(is_there.then_some(lock))
}

fn parse(file: &Path, kept: Kept, system: &System) -> Result<Data> {
    let damaged = |reason: String| {
        Error::Damaged(format!(
            "{} is not a record that this mallow can read ({reason}). Look at the files that it \
             names, and move it away.",
            file.display()
        ))
    };
    let Content::Text(text) = kept.content else { return Err(damaged("it is not text".into())) };
    let mut data: Data = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    if data.schema != SCHEMA {
        return Err(damaged(format!("its form is {}", data.schema)));
    }
    // What is outside of an image is none of its record's. Out of the system that runs nothing leads.
    let may_lead_out = |entry: &&Entry| !entry.file.is_absolute() || has_way_up(&entry.file);
    if !system.is_running()
        && let Some(entry) = data.entries.iter().find(may_lead_out)
    {
        return Err(damaged(format!("it names the file {}", entry.file.display())));
    }
    keep_leading(&mut data.folders, &system.seen(file), system);
    for entry in &mut data.entries {
        keep_leading(&mut entry.folders, &entry.file, system);
    }
    Ok(data)
}

/// The record of an image may say anything: none of its folders was made for a file but those that lead to it. Earlier builds
/// wrote them as they are seen from outside of the system.
fn keep_leading(folders: &mut Vec<PathBuf>, file: &Path, system: &System) {
    let leading = |folder: PathBuf| {
        let inside = system.seen(&folder);
        [folder, inside].into_iter().find(|folder| file.starts_with(folder))
    };
    *folders = std::mem::take(folders).into_iter().filter_map(leading).collect();
}
