//! The command line: the one definition that help, and later man page and completions, come from.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::report::ReportArgs;
use mallow_launch::options;

const EXIT_CODES: &str = "Exit codes: 0 or the command's own; 2 usage; 3 expectation not met; \
4 the target cannot be served; 5 no permission; 6 inconclusive; 7 damaged input; 70 internal error; \
125, 126, 127 as env; 128+n after signal n.";

/// Run, compare and verify memory allocators.
#[derive(Parser, Debug)]
#[command(name = "mallow", version, disable_help_subcommand = true, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,

    /// Print no progress and no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Show the allocators that can be used here, and how to install the others
    List(ListArgs),
    /// Run a command under an allocator
    Run(RunArgs),
    /// Measure a command under several allocators and say which is better, or that none is
    Compare(Box<CompareArgs>),
    /// Say who serves malloc, free and operator new in a process
    Verify(VerifyArgs),
    /// Record every allocation of a command, or of a running process
    Record(RecordArgs),
    /// Say where the memory of a process is, and why, without stopping it
    Explain(ExplainArgs),
    /// Show memory and faults of a process over time, and the difference between two runs
    Watch(WatchArgs),
    /// Explain a verb, or a finding such as MLW2101
    #[command(name = "help")]
    Help(HelpArgs),
    /// Carry out the calls of a recorded run on several allocators
    Replay(Box<ReplayArgs>),
    /// Say what a recorded trace holds: calls, sizes, threads, stacks, peak, leaks, over time
    Report(Box<ReportArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Csv,
    Md,
    Html,
}

#[derive(Args, Debug)]
pub struct OutputArgs {
    /// How to print the result
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    /// Write the result to FILE instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl OutputArgs {
    pub fn chosen_format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    /// The allocator: a name from `mallow list`, NAME=/path/lib.so, or a path
    #[arg(short, long, value_name = "NAME", default_value = "mallow")]
    pub allocator: String,

    /// Mallow's secure build
    #[arg(long, conflicts_with_all = ["debug", "allocator"])]
    pub secure: bool,

    /// Mallow's debug build
    #[arg(long, conflicts_with = "allocator")]
    pub debug: bool,

    /// An option of the allocator, such as dirty_decay_ms:0; may be repeated
    #[arg(long = "opt", value_name = "K:V", value_parser = options::parse_pair)]
    pub options: Vec<(String, String)>,

    /// Print the environment that the command would get, and do not run it
    #[arg(long)]
    pub dry_run: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackKind {
    /// No stacks
    None,
    /// By frame pointers: quick, and whole where programs and libraries are built with them
    Fp,
    /// By unwind tables, from copies of the stack: whole, and sampled unless told otherwise
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhenFull {
    /// The thread waits for the collector, and no call is lost
    Wait,
    /// The thread goes on, and what is lost is counted
    Drop,
}

#[derive(Args, Debug)]
pub struct RecordArgs {
    /// The trace to write
    #[arg(short, long, value_name = "FILE", default_value = "mallow.trace")]
    pub output: PathBuf,

    /// Stacks of allocations
    #[arg(long, value_enum, default_value = "none")]
    pub stacks: StackKind,

    /// Mean number of bytes between allocations with a stack, or `all` [default: all for fp, 64K
    /// for full]
    #[arg(long, value_name = "SIZE", value_parser = parse_sample)]
    pub sample: Option<u64>,

    /// Record the command under this allocator instead of its own
    #[arg(short, long, value_name = "NAME", requires = "command")]
    pub allocator: Option<String>,

    /// What a thread does that allocates faster than can be written
    #[arg(long, value_enum, default_value = "wait")]
    pub when_full: WhenFull,

    /// Record this running process by kernel probes, until Ctrl-C; needs root
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Stop recording after this time; a command goes on
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// The command and its arguments
    #[arg(last = true, required_unless_present = "pid", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// The process to look at
    #[arg(value_name = "PID", required_unless_present = "command", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Fail with exit code 3 unless this allocator serves the process and all its children
    #[arg(long, value_name = "NAME")]
    pub expect: Option<String>,

    /// Look at the process alone
    #[arg(long)]
    pub no_children: bool,

    /// Start the command under this allocator first
    #[arg(short, long, value_name = "NAME", requires = "command")]
    pub allocator: Option<String>,

    /// Look at a started command after this time, unless it ends before
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub after: Duration,

    #[command(flatten)]
    pub output: OutputArgs,

    /// A command to start and look at; it is ended afterwards
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The number of a process, or a folder that --save wrote
    #[arg(value_name = "PID|DIR")]
    pub target: String,

    /// List every mapping, arena and size class
    #[arg(long)]
    pub all: bool,

    /// Keep everything in DIR, to be read again later or elsewhere
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,

    /// The same as --format html: a page with a map of the address space
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub html: bool,

    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
pub struct WatchArgs {
    /// The process to watch, with its children
    #[arg(value_name = "PID", required_unless_present_any = ["command", "compare"],
          conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Time between two samples
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub interval: Duration,

    /// End after this time [default: with the process, or by Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Start the command under this allocator
    #[arg(short, long, value_name = "NAME", requires = "command")]
    pub allocator: Option<String>,

    /// Keep the run in FILE, for --compare
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// The difference between two runs that --save (or --json) wrote
    #[arg(long, value_names = ["A", "B"], num_args = 2, conflicts_with_all = ["pid", "command", "save"])]
    pub compare: Vec<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,

    /// A command to start and watch; what it writes is hidden while a chart is shown
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct HelpArgs {
    /// A verb, or the id of a finding
    pub topic: Option<String>,
}

#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Allocators to compare, separated by commas; the default is all that are installed
    #[arg(short, long = "allocators", value_name = "LIST", value_delimiter = ',')]
    pub allocators: Vec<String>,

    /// The one that the others are compared with [default: the C library's own, else the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,

    /// Add Mallow's secure build to the default allocators
    #[arg(long)]
    pub secure: bool,

    /// Add Mallow's debug build to the default allocators
    #[arg(long)]
    pub debug: bool,

    /// An option for the Mallow builds in the comparison; may be repeated
    #[arg(long = "opt", value_name = "K:V", value_parser = options::parse_pair)]
    pub options: Vec<(String, String)>,

    /// Exactly this many runs of each [default: 10, and more until the intervals are narrow]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,

    /// Runs of each that are not counted; the first also checks that the preload took effect
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub warmup: u32,

    /// Time after which no more than 10 runs of each are made
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub budget: Duration,

    /// Shell command to run before each run; not timed
    #[arg(short, long, value_name = "CMD")]
    pub prepare: Option<String>,

    /// Shell command to run once before everything
    #[arg(short, long, value_name = "CMD")]
    pub setup: Option<String>,

    /// Shell command to run once after everything
    #[arg(short, long, value_name = "CMD")]
    pub cleanup: Option<String>,

    /// End a run, with all its processes, after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,

    /// End a run whose resident memory passes SIZE (such as 400M)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub mem_limit: Option<u64>,

    /// Repeat the comparison on so many CPUs, such as 1,2,4
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,

    /// Repeat the comparison with each value of a variable; may be repeated
    #[arg(long, value_name = "ENV=A,B", value_parser = parse_matrix)]
    pub matrix: Vec<(String, Vec<String>)>,

    /// Smallest difference that matters, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = parse_margin)]
    pub margin: f64,

    /// Count runs that end with an error code as finished
    #[arg(short, long)]
    pub ignore_failure: bool,

    /// Fail with exit code 6 unless every comparison has a verdict
    #[arg(long)]
    pub strict: bool,

    /// Show memory over time as well: average, peak and end, and how it went
    #[arg(long)]
    pub timeline: bool,

    /// Let the command write to the terminal
    #[arg(long)]
    pub show_output: bool,

    /// Seed of the random order of the runs
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Also write the result as JSON to FILE
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,

    /// A service to start for each run; the command (or --load) is then its client
    #[arg(long, value_name = "CMD", requires = "ready")]
    pub server: Option<String>,

    /// The service is ready when a line of its output matches this expression
    #[arg(long, value_name = "REGEX", requires = "server")]
    pub ready: Option<String>,

    /// Shell command that puts load on the service; its time is what is measured
    #[arg(long, value_name = "CMD", requires = "server", conflicts_with = "command")]
    pub load: Option<String>,

    #[command(flatten)]
    pub output: OutputArgs,

    /// The command and its arguments
    #[arg(last = true, required_unless_present = "server", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplayMode {
    /// Lockstep for memory, free for speed
    Both,
    /// All calls in their recorded order, at the recorded times as allocators see them
    Lockstep,
    /// Each thread as fast as it can
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Touch {
    /// The first byte of each page of a block
    Pages,
    /// Every byte
    All,
    /// Nothing
    None,
}

#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// A trace written by `mallow record`
    #[arg(value_name = "FILE")]
    pub trace: PathBuf,

    /// Allocators to replay on, separated by commas; the default is all that are installed
    #[arg(short, long = "allocators", value_name = "LIST", value_delimiter = ',')]
    pub allocators: Vec<String>,

    /// The one that the others are compared with [default: the C library's own, else the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,

    /// An option for the Mallow builds; may be repeated
    #[arg(long = "opt", value_name = "K:V", value_parser = options::parse_pair)]
    pub options: Vec<(String, String)>,

    /// Which order the calls are made in
    #[arg(short, long, value_enum, default_value = "both")]
    pub mode: ReplayMode,

    /// What is written to the blocks
    #[arg(short, long, value_enum, default_value = "pages")]
    pub touch: Touch,

    /// The process to replay: its number or its program's name [default: the one that had most
    /// bytes allocated at once]
    #[arg(short, long, value_name = "PID|NAME")]
    pub process: Option<String>,

    /// Exactly this many rounds [default: 10, fewer when the budget is used up]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,

    /// Time after which no new round begins
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub budget: Duration,

    /// Smallest difference that matters, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = parse_margin)]
    pub margin: f64,

    /// Seed of the random order of the runs
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// `90`, `1.5s`, `500ms`, `2m`, `1h`; a bare number is seconds.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time is written like 500ms, 1.5s, 2m or 1h".into()),
    };
    match number.parse::<f64>() {
        Ok(number) if number * scale > 0.0 && number * scale < 1e9 => {
            Ok(Duration::from_secs_f64(number * scale))
        }
        _ => Err("a time is written like 500ms, 1.5s, 2m or 1h, and is more than 0".into()),
    }
}

/// 0 stands for all.
fn parse_sample(text: &str) -> Result<u64, String> {
    if text == "all" { Ok(0) } else { parse_size(text) }
}

fn parse_size(text: &str) -> Result<u64, String> {
    let size = options::parse_number(text.trim_end_matches(['b', 'B']));
    match size.and_then(|size| u64::try_from(size).ok()) {
        Some(size) if size > 0 => Ok(size),
        _ => Err("a size is written like 400M or 2G".into()),
    }
}

fn parse_matrix(text: &str) -> Result<(String, Vec<String>), String> {
    match text.split_once('=') {
        Some((name, values)) if !name.is_empty() => {
            Ok((name.to_owned(), values.split(',').map(str::to_owned).collect()))
        }
        _ => Err("a matrix is written NAME=value,value".into()),
    }
}

fn parse_margin(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 50.0 => Ok(percent),
        _ => Err("a margin is a percentage between 0 and 50".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_and_sizes() {
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2"), Ok(Duration::from_secs(2)));
        assert!(parse_duration("0").is_err() && parse_duration("5 years").is_err());
        assert_eq!(parse_size("400M"), Ok(400 << 20));
        assert_eq!(parse_size("2GB"), Ok(2 << 30));
        assert!(parse_size("-1").is_err() && parse_size("much").is_err());
        let matrix = parse_matrix("A=x,,y").expect("well-formed");
        assert_eq!(matrix, ("A".into(), vec!["x".into(), String::new(), "y".into()]));
    }
}
