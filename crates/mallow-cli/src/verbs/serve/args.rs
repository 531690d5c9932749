// SPDX-License-Identifier: MIT
//! The command line of `mallow serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::parse;

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("repeated").args(["textfile", "otlp", "pyroscope"]).multiple(true))]
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

    /// Push the metrics to an OpenTelemetry collector too, by OTLP over HTTP: http://HOST:4318
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,

    /// Send the headers in FILE to the collector, such as a token: lines of NAME: VALUE
    #[arg(long, value_name = "FILE", requires = "otlp")]
    pub otlp_headers: Option<PathBuf>,

    /// Trust a collector with one of the certificates in FILE (PEM), not with the system's
    #[arg(long, value_name = "FILE", requires = "otlp")]
    pub otlp_ca: Option<PathBuf>,

    /// Write the metrics to FILE instead, for the node exporter: once, or with --interval again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "token_file", "no_token",
          "tls_cert", "otlp", "pyroscope"])]
    pub textfile: Option<PathBuf>,

    /// Push new heap profiles to Pyroscope, or to a Grafana Alloy that takes them: http://HOST:4040
    #[arg(long, value_name = "URL")]
    pub pyroscope: Option<String>,

    /// Send the headers in FILE to Pyroscope, such as a token: lines of NAME: VALUE
    #[arg(long, value_name = "FILE", requires = "pyroscope")]
    pub pyroscope_headers: Option<PathBuf>,

    /// Trust a Pyroscope with one of the certificates in FILE (PEM), not with the system's
    #[arg(long, value_name = "FILE", requires = "pyroscope")]
    pub pyroscope_ca: Option<PathBuf>,

    /// Push or write again after this time, until Ctrl-C; pushes come every 60 s without it
    #[arg(short, long, value_name = "TIME", value_parser = parse::duration, requires = "repeated")]
    pub interval: Option<Duration>,
}
