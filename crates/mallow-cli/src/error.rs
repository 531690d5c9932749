// SPDX-License-Identifier: MIT
//! Everything that can go wrong, as sentences for the user with the remedy, and the exit codes.

use mallow_measure::run::Outcome;
use mallow_os::threads::NoThread;
use mallow_process::binding::Failure;
use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),

    #[error("{0}")]
    Unmet(String),

    #[error("{0}")]
    Unsupported(String),

    #[error("{0}")]
    Permission(String),

    #[error("{0}")]
    Inconclusive(String),

    #[error("{0}")]
    Damaged(String),

    #[error(transparent)]
    Launch(#[from] mallow_launch::Error),

    #[error(transparent)]
    Measure(#[from] mallow_measure::Error),

    #[error("The command {command} could not be started: {reason}.")]
    NotStarted { command: String, reason: String },

    #[error(transparent)]
    NoThread(#[from] NoThread),

    #[error("{}", failure.sentence(*pid))]
    Process { pid: u32, failure: Failure },

    #[error("{message}")]
    Child { message: String, code: u8 },

    #[error("{what}: {}", mallow_os::reason(source))]
    Io { what: String, source: std::io::Error },

    #[error(
        "This should not happen: {0}. Please report it with the command line and mallow --version."
    )]
    Internal(String),
}

impl Error {
    /// The exit codes of the command line's contract.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Unmet(_) => 3,
            Error::Unsupported(_) => 4,
            Error::Permission(_) | Error::NoThread(_) => 5,
            Error::Inconclusive(_) => 6,
            Error::Damaged(_) => 7,
            Error::Process { failure, .. } => match failure {
                Failure::NoPermission => 5,
                Failure::Vanished | Failure::Damaged(_) => 7,
            },
            Error::Child { code, .. } => *code,
            Error::Launch(error) => launch_code(error),
            Error::Measure(error) => measure_code(error),
            Error::Io { source, .. } => io_code(source),
            Error::Internal(_) => 70,
            Error::NotStarted { .. } => 125,
        }
    }

    /// Makes a text of `what` only where there is an error: some ask for each record of a trace.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { what: what.into(), source }
    }
}

impl Error {
    /// Of a command that ended so `before` anything was seen of it: its own failure says more.
    pub fn unseen(outcome: Outcome, before: &str, remedy: &str) -> Error {
        if outcome == Outcome::Finished {
            return Error::Inconclusive(format!("The command ended {before}; {remedy}."));
        }
        let how = outcome.describe();
        let message = format!("The command {how} {before}. Run it alone to see why.");
        Error::Child { message, code: outcome.code() }
    }

    /// Of a recording whose trace goes with the verb: nothing that it held can be read.
    pub fn of_temporary(error: mallow_capture::Error) -> Error {
        let mallow_capture::Error::CutOff { why, .. } = error else { return error.into() };
        match Error::from(*why) {
            Error::Io { what, source } => {
                let what = format!("{what} (set TMPDIR to a folder with more room)");
                Error::Io { what, source }
            }
            other => other,
        }
    }
}

impl From<mallow_process::processes::Error> for Error {
    fn from(error: mallow_process::processes::Error) -> Error {
        use mallow_process::processes::Error as Processes;
        let text = error.to_string();
        match error {
            Processes::Process { pid, failure } => Error::Process { pid, failure },
            Processes::List(source) => Error::io("The processes cannot be listed")(source),
            Processes::NoThread(error) => error.into(),
            Processes::ReaderEnded => Error::Internal(text),
        }
    }
}

impl From<mallow_enabling::Error> for Error {
    fn from(error: mallow_enabling::Error) -> Error {
        use mallow_enabling::Error as Enabling;
        match error {
            Enabling::Usage(text) => Error::Usage(text),
            Enabling::Unmet(text) => Error::Unmet(text),
            Enabling::Unsupported(text) => Error::Unsupported(text),
            Enabling::Permission(text) => Error::Permission(text),
            Enabling::Damaged(text) => Error::Damaged(text),
            Enabling::Io { what, source } => Error::Io { what, source },
        }
    }
}

impl From<mallow_capture::Error> for Error {
    fn from(error: mallow_capture::Error) -> Error {
        use mallow_capture::Error as Capture;
        match error {
            Capture::Launch(error) => error.into(),
            Capture::NotStarted { command, reason } => Error::NotStarted { command, reason },
            Capture::Unsupported(reason) => Error::Unsupported(reason),
            Capture::Permission(reason) => Error::Permission(reason),
            Capture::Process { pid, failure } => Error::Process { pid, failure },
            Capture::Io { what, source } => Error::Io { what, source },
            Capture::Trace(error) => Error::Internal(error.to_string()),
            Capture::CutOff { why, kept, code } => {
                let why = Error::from(*why);
                // The command's own code says more, unless it is that all went well.
                let code = if code == 0 { why.exit_code() } else { code };
                Error::Child { message: format!("{why}. The trace is cut off: {kept}."), code }
            }
        }
    }
}

fn launch_code(error: &mallow_launch::Error) -> u8 {
    use mallow_launch::Error as Launch;
    match error {
        Launch::Usage(_) | Launch::UnknownAllocator { .. } | Launch::Library { .. } => 2,
        Launch::Unsupported(_) => 4,
        Launch::Permission(_) => 5,
        Launch::Io { source, .. } => io_code(source),
        Launch::NotExecutable { .. } => 126,
        Launch::CommandNotFound(_) => 127,
    }
}

fn measure_code(error: &mallow_measure::Error) -> u8 {
    use mallow_measure::Error as Measure;
    match error {
        Measure::BadPattern(_) | Measure::BadPort(_) | Measure::BadValue(_) | Measure::NoLoad => 2,
        Measure::UnknownHost { .. } => 4,
        Measure::NotReady { .. } => 4,
        Measure::NoThread(_) => 5,
        Measure::NotStarted { .. } => 125,
        Measure::DefaultsFail { code, .. } => *code,
        Measure::Wait(source) => io_code(source),
    }
}

/// What the user can mend is not an internal error: a file that is missing, is something else, may
/// not be touched, does not fit on its disk, or a pipe that nobody reads.
fn io_code(error: &std::io::Error) -> u8 {
    use std::io::ErrorKind;
    match error.kind() {
        // A process that there is no room for. Where nothing can be read now, `input` says so in words.
        ErrorKind::WouldBlock if error.raw_os_error().is_some() => 5,
        ErrorKind::NotFound
        | ErrorKind::WouldBlock
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::AlreadyExists => 2,
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::StorageFull
        | ErrorKind::QuotaExceeded
        | ErrorKind::FileTooLarge
        | ErrorKind::OutOfMemory
        | ErrorKind::BrokenPipe => 5,
        ErrorKind::InvalidData => 7,
        _ if mallow_os::is_out_of_files(error) => 5,
        _ => 70,
    }
}
