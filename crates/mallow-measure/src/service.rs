// SPDX-License-Identifier: MIT
//! A service under measurement: started, waited for, put under load, stopped.

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mallow_os::{ChildSetup, Ending, StartPeak, threads};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use regex_lite::Regex;

use crate::error::{Error, Result};
use crate::run::{self, Limits, Outcome, Sample, Sampler};
use crate::values::{Pattern, each_line};

const READY_WITHIN: Duration = Duration::from_secs(60);
/// A port of this machine answers at once, or has a queue that is full.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// How often the limits are looked at while a server begins.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Characters of a server's last line that are shown.
const LONGEST_WORD: usize = 200;
/// A server that was asked to end is killed after this time.
pub const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// What shows that a server is ready.
#[derive(Debug)]
enum Sign {
    Line(Regex),
    /// Connections are taken at one of these addresses.
    Tcp(Vec<SocketAddr>),
    Socket(PathBuf),
}

impl Sign {
    fn parse(ready: &str) -> Result<Sign> {
        if let Some(path) = ready.strip_prefix("unix:") {
            return Ok(Sign::Socket(path.into()));
        }
        if let Some((hosts, port)) = address(ready) {
            let port = port.parse().ok().filter(|port| *port != 0);
            let port = port.ok_or_else(|| Error::BadPort(ready.into()))?;
            return Ok(Sign::Tcp(addresses(&hosts, port)?));
        }
        let line = Regex::new(ready).map_err(|error| Error::BadPattern(error.to_string()))?;
        Ok(Sign::Line(line))
    }

    /// Whether somebody takes connections; never of a line.
    fn answers(&self) -> bool {
        match self {
            Sign::Line(_) => false,
            Sign::Tcp(addresses) => addresses
                .iter()
                .any(|address| TcpStream::connect_timeout(address, ANSWERS_WITHIN).is_ok()),
            Sign::Socket(path) => UnixStream::connect(path).is_ok(),
        }
    }

    /// What was waited for in vain.
    fn missing(&self) -> String {
        match self {
            Sign::Line(line) => format!("no line that it printed matches {line}"),
            Sign::Tcp(addresses) => {
                let all: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
                format!("nobody answers at {}", all.join(" or "))
            }
            Sign::Socket(path) => format!("nobody answers at {}", path.display()),
        }
    }

    /// The line to look for.
    fn line(&self) -> Option<Regex> {
        match self {
            Sign::Line(line) => Some(line.clone()),
            Sign::Tcp(..) | Sign::Socket(_) => None,
        }
    }
}

/// Asked for once, before anything is started: a name may take long to be found.
fn addresses(hosts: &[String], port: u16) -> Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for host in hosts {
        let unknown = |reason: String| Error::UnknownHost { host: host.clone(), reason };
        let found = (host.as_str(), port).to_socket_addrs();
        addresses.extend(found.map_err(|error| unknown(error.to_string()))?);
    }
    Ok(addresses)
}

/// The hosts and the port that are meant; `None` of an expression. A name that is no host for certain needs
/// tcp://, since a server may print `ready:1`.
fn address(ready: &str) -> Option<(Vec<String>, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let here = || vec![Ipv4Addr::LOCALHOST.to_string(), Ipv6Addr::LOCALHOST.to_string()];
    if let Some(port) = ready.strip_prefix("port:").or(is_number(ready).then_some(ready)) {
        return Some((here(), port));
    }
    let named = ready.strip_prefix("tcp://");
    let (host, port) = match named.unwrap_or(ready).rsplit_once(':') {
        Some((host, port)) if is_number(port) => (host, port),
        _ => return named.map(|rest| (here(), rest)),
    };
    if named.is_some() && host.contains(':') && !host.starts_with('[') {
        return Some((here(), "")); // of an IPv6 address without brackets nobody knows where it ends
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = named.is_some()
        || host == "localhost"
        || host.parse::<Ipv4Addr>().is_ok()
        || bare.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    match host {
        "" | "*" => Some((here(), port)),
        _ => is_host.then(|| (vec![bare.unwrap_or(host).into()], port)),
    }
}

#[derive(Debug)]
pub struct Service {
    ready: Sign,
    load: Vec<OsString>,
}

impl Service {
    /// Ready when connections are taken at the address, or at the socket `unix:PATH`, or when a line of its
    /// output matches the expression; `load` is the client.
    pub fn new(ready: &str, load: Vec<OsString>) -> Result<Service> {
        let ready = Sign::parse(ready)?;
        if load.is_empty() {
            return Err(Error::NoLoad);
        }
        Ok(Service { ready, load })
    }

    /// One run: the time and the values are those of the load, CPU and memory are the server's. The
    /// load has `environment` too.
    pub fn run(
        &self,
        mut server: Command,
        environment: &[(String, String)],
        limits: Limits,
        patterns: &[Pattern],
        interrupted: &AtomicBool,
    ) -> Result<Sample> {
        let name = server.get_program().to_string_lossy().into_owned();
        let setup = ChildSetup {
            dies_with_parent: true,
            cpu_count: limits.cpu_count,
            ..ChildSetup::default()
        };
        if self.ready.answers() {
            // Otherwise the load would be on that one.
            let reason = "has its place taken: another program answers there already".into();
            return Err(Error::NotReady { server: name, reason });
        }
        mallow_os::configure(&mut server, setup).map_err(Error::not_started(&name))?;
        let (reader, writer) = std::io::pipe().map_err(Error::not_started(&name))?;
        let second = writer.try_clone().map_err(Error::not_started(&name))?;
        server.stdout(writer).stderr(second);
        let readiness = read_lines(reader, self.ready.line())?;
        let begun_as = StartPeak::of(&mut server).map_err(Error::not_started(&name))?;
        let pid = server.spawn().map_err(Error::not_started(&name))?.id();
        // The command holds the pipe's writing end; without it the pipe closes with the server.
        drop(server);
        let begun = wait_until_ready(&self.ready, &readiness, pid, limits, interrupted);
        let served = match begun.map_err(Error::not_started(&name))? {
            Begun::Ready => {
                let mut load = self.load()?;
                load.envs(environment.iter().map(|(name, value)| (name, value)));
                // The load may be any client; the limits on memory are the server's.
                let limits = Limits { cpu_count: None, ..limits };
                run::run_sampled(load, limits, patterns, interrupted, Sampler::new(pid))
            }
            Begun::Cut(outcome) => Ok(Sample::cut(outcome)),
            Begun::Failed(reason) => Err(Error::NotReady { server: name.clone(), reason }),
        };
        let stopped = stop(pid);
        let mut sample = served?;
        let Stopped { ending, usage, was_gone } = stopped.map_err(Error::not_started(&name))?;
        if sample.outcome == Outcome::Finished {
            sample.outcome = judged(ending, was_gone);
        }
        sample.user_s = usage.user.as_secs_f64();
        sample.system_s = usage.system.as_secs_f64();
        sample.peak_rss = run::peak(usage, begun_as.bytes());
        sample.most_rss = usage.peak_rss_bytes as f64;
        sample.minor_faults = usage.minor_faults as f64;
        sample.major_faults = usage.major_faults as f64;
        Ok(sample)
    }

    fn load(&self) -> Result<Command> {
        let (program, arguments) = self.load.split_first().ok_or(Error::NoLoad)?;
        let mut load = Command::new(program);
        load.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(load)
    }
}

/// Reports the first line that matches; reads on so that the server never waits for us.
fn read_lines(reader: std::io::PipeReader, ready: Option<Regex>) -> Result<Readiness> {
    let (sender, matched) = channel();
    let last = Arc::<Mutex<String>>::default();
    let said = Arc::clone(&last);
    threads::spawn("server", move || {
        let mut sender = Some(sender);
        each_line(reader, |line| {
            if let Some(mut said) = said.lock().ok().filter(|_| !line.trim().is_empty()) {
                line.trim().clone_into(&mut said);
            }
            if sender.is_some() && ready.as_ref().is_some_and(|ready| ready.is_match(line)) {
                let _ = sender.take().map(|sender| sender.send(()));
            }
        });
    })?;
    Ok(Readiness { matched, last })
}

/// What is heard of a server.
struct Readiness {
    /// That a line matched. Disconnected where there will be no more lines.
    matched: Receiver<()>,
    last: Arc<Mutex<String>>,
}

impl Readiness {
    /// Mostly its last line says why.
    fn ended(&self) -> String {
        let said = self.last.lock().map(|said| said.clone()).unwrap_or_default();
        let said: String = said.chars().take(LONGEST_WORD).collect();
        let said = said.replace(char::is_control, " ");
        match said.trim_end_matches(['.', '!', '?']) {
            "" => "ended before it was ready".into(),
            said => format!("ended before it was ready, and said last: {said}"),
        }
    }
}

/// How a server began.
enum Begun {
    Ready,
    Failed(String),
    Cut(Outcome),
}

fn wait_until_ready(
    ready: &Sign,
    readiness: &Readiness,
    server: u32,
    limits: Limits,
    interrupted: &AtomicBool,
) -> std::io::Result<Begun> {
    let mut sampler = Sampler::new(server);
    let pidfd = mallow_os::pidfd_open(server)?;
    let start = Instant::now();
    let ready_within = limits.begin.map_or(READY_WITHIN, |limit| limit.min(READY_WITHIN));
    loop {
        match readiness.matched.recv_timeout(LOOK_EVERY) {
            Ok(()) => return Ok(Begun::Ready),
            // Who is to take connections may close its output.
            Err(RecvTimeoutError::Disconnected)
                if ready.line().is_some() || mallow_os::wait_readable(&pidfd, LOOK_EVERY)? =>
            {
                return Ok(Begun::Failed(readiness.ended()));
            }
            Err(_) if ready.answers() => return Ok(Begun::Ready),
            Err(_) => {}
        }
        let resident = sampler.take();
        if interrupted.load(Ordering::Relaxed) {
            return Ok(Begun::Cut(Outcome::Interrupted));
        } else if limits.memory.is_some_and(|limit| resident > limit) {
            return Ok(Begun::Cut(Outcome::OverMemory));
        } else if start.elapsed() >= ready_within {
            return Ok(Begun::Failed(too_late(ready_within, ready)));
        }
    }
}

fn too_late(within: Duration, ready: &Sign) -> String {
    let missing = ready.missing();
    match within {
        READY_WITHIN => format!("was not ready within a minute: {missing}"),
        timeout => {
            format!("was not ready within the {} s of --timeout: {missing}", timeout.as_secs_f64())
        }
    }
}

/// How a server ended.
struct Stopped {
    ending: Ending,
    usage: mallow_os::Usage,
    /// Before it was asked to.
    was_gone: bool,
}

/// Of a server whose load has finished. One that ended under the load did not serve all of it, whatever
/// its exit code says. One that is asked to end may do so by SIGTERM or by any exit code, but does not
/// crash.
fn judged(ending: Ending, was_gone: bool) -> Outcome {
    match ending {
        Ending::Code(0) if was_gone => Outcome::Gone,
        Ending::Code(code) if was_gone => Outcome::Failed { code },
        Ending::Signal(signal) if was_gone || signal != Signal::SIGTERM as i32 => {
            Outcome::Killed { signal }
        }
        Ending::Code(_) | Ending::Signal(_) => Outcome::Finished,
    }
}

fn stop(pid: u32) -> std::io::Result<Stopped> {
    let group = Pid::from_raw(pid.cast_signed());
    let pidfd = mallow_os::pidfd_open(pid)?;
    let was_gone = mallow_os::wait_readable(&pidfd, Duration::ZERO)?;
    let _ = killpg(group, Signal::SIGTERM);
    let start = Instant::now();
    if !mallow_os::wait_readable(&pidfd, STOPS_WITHIN.saturating_sub(start.elapsed()))? {
        let _ = killpg(group, Signal::SIGKILL);
    }
    let ended = mallow_os::wait4(pid);
    let _ = killpg(group, Signal::SIGKILL);
    let (ending, usage) = ended?;
    Ok(Stopped { ending, usage, was_gone })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(server: &str, limits: Limits) -> Result<Sample> {
        let load = ["/bin/sleep", "0.3"].map(OsString::from).to_vec();
        let service = Service::new("^up$", load).expect("a pattern and a load");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", server]);
        service.run(command, &[], limits, &[], &AtomicBool::new(false))
    }

    fn outcome(server: &str) -> Outcome {
        run(server, Limits::default()).expect("sh starts").outcome
    }

    /// A minute was waited for each of them whatever the limit.
    #[test]
    fn the_time_limit_holds_for_a_server_that_does_not_become_ready() {
        let limits = Limits { begin: Some(Duration::from_millis(200)), ..Limits::default() };
        let said = run("exec sleep 100", limits).map(|sample| sample.outcome);
        let said = said.map_err(|error| error.to_string());
        let text = said.expect_err("it is not ready");
        let sentence =
            "was not ready within the 0.2 s of --timeout: no line that it printed matches ^up$";
        assert!(text.contains(sentence), "{text}");
        let minute = too_late(READY_WITHIN, &Sign::parse(":9").expect("an address"));
        let both = "nobody answers at 127.0.0.1:9 or [::1]:9";
        assert_eq!(minute, format!("was not ready within a minute: {both}"));
    }

    #[test]
    fn a_server_that_ends_has_its_last_word() {
        let said = |server: &str| run(server, Limits::default()).expect_err("it ends").to_string();
        let text = said("echo begin; echo 'no such port.' >&2; echo; exit 1");
        assert!(
            text.contains("ended before it was ready, and said last: no such port. "),
            "{text}"
        );
        assert!(said("exit 1").contains("ended before it was ready. "));
    }

    #[test]
    fn an_address_is_no_expression() {
        let here = "127.0.0.1 ::1";
        for (ready, hosts, port) in [
            ("127.0.0.1:80", "127.0.0.1", "80"),
            ("localhost:80", "localhost", "80"),
            ("[::1]:80", "::1", "80"),
            ("tcp://db.example:80", "db.example", "80"),
            ("tcp://[fe80::2]:80", "fe80::2", "80"),
            ("tcp://:80", here, "80"),
            ("tcp://80", here, "80"),
            ("port:80", here, "80"),
            ("*:80", here, "80"),
            (":80", here, "80"),
            ("80", here, "80"),
        ] {
            let (found, at) = address(ready).expect(ready);
            assert_eq!((found.join(" ").as_str(), at), (hosts, port), "{ready}");
        }
        for ready in ["ready:1", "on 127.0.0.1:80", "::1:80", "[:]:80", "80$", "", "unix:80", "up:"]
        {
            assert_eq!(address(ready), None, "{ready}");
        }
        for ready in
            ["port:0", "port:70000", "70000", ":0", "tcp://db.example", "tcp://", "tcp://::1"]
        {
            assert!(matches!(Sign::parse(ready), Err(Error::BadPort(_))), "{ready}");
        }
    }

    #[test]
    fn a_server_has_to_last_as_long_as_its_load() {
        assert_eq!(outcome("echo up; exec sleep 100"), Outcome::Finished);
        assert_eq!(outcome("echo up; sleep 0.1; exit 3"), Outcome::Failed { code: 3 });
        assert_eq!(outcome("echo up; sleep 0.1; kill $$; wait"), Outcome::Killed { signal: 15 });
        let gone = outcome("echo up; sleep 0.1; exit 0");
        assert_eq!((gone, gone.code()), (Outcome::Gone, 1));
        assert_eq!(gone.describe(), "ended before the load did");
    }

    /// Servers have an exit code of their own for it.
    #[test]
    fn a_server_that_is_asked_to_end_may_end_with_any_code() {
        let server = "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done";
        assert_eq!(outcome(server), Outcome::Finished);
    }
}
