//! The command line of `mallow serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::parse;

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Where to listen: ADDRESS:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9095")]
    pub listen: String,

    /// Only this process, and the children that it has then; may be given again
    #[arg(short, long, value_name = "PID")]
    pub pid: Vec<u32>,

    /// Only processes whose name or command line this regular expression finds
    #[arg(long, value_name = "REGEX", conflicts_with = "pid")]
    pub r#match: Option<String>,

    /// Only the processes of this systemd unit
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "match"])]
    pub unit: Option<String>,

    /// All processes that may be read; this is the default
    #[arg(long, conflicts_with_all = ["pid", "match", "unit"])]
    pub all: bool,

    /// Serve so many processes at most: those with Mallow first, then the largest
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub most: u32,

    /// Who asks has to send the first line of FILE as bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    pub token_file: Option<PathBuf>,

    /// Listen on an address that others reach, and answer everybody
    #[arg(long)]
    pub no_token: bool,

    /// Answer over TLS: FILE has the server's certificate, and those up to a known one (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Write the metrics to FILE instead, for the node exporter: once, or with --interval again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "token_file", "no_token",
          "tls_cert"])]
    pub textfile: Option<PathBuf>,

    /// Write FILE again after this time, until Ctrl-C
    #[arg(short, long, value_name = "TIME", value_parser = parse::duration, requires = "textfile")]
    pub interval: Option<Duration>,
}
