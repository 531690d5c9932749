// SPDX-License-Identifier: MIT
//! Answers over HTTP, by hyper. Nothing that somebody sends changes anything: there are GET and HEAD
//! alone, bodies are not read, and connections are bounded in number and in time.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mallow_os::threads;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio_io_timeout::TimeoutStream;

use super::accept::Form;
use super::collect::Snapshot;
use super::convert::{self, Converter, Kind};
use super::guests::{Guest, Guests, PAUSE, Watched};
use super::listen::Listener;
use super::metrics;
use super::page;
use super::profile::{self, Dump};
use super::tls::Identity;
use super::token::Token;
use crate::error::{Error, Result};

/// For a request to come in, for a part of the answer to go out, and for the whole of a connection.
const HEADER_TIME: Duration = Duration::from_secs(10);
const WRITE_TIME: Duration = Duration::from_secs(5);
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// Connections that are open at the end may finish their answer.
const GRACE: Duration = Duration::from_secs(2);
/// How long a thread waits for work.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

type Answer = Response<Full<Bytes>>;
/// What was asked for, or why not.
type Reply<T> = std::result::Result<T, (StatusCode, String)>;
/// Where to send a request for a reading of all targets.
pub type Readings = mpsc::Sender<oneshot::Sender<Arc<Snapshot>>>;

pub struct Server {
    pub token: Option<Token>,
    pub tls: Option<Arc<Identity>>,
    pub readings: Readings,
    pub converter: Arc<Converter>,
}

/// With one thread for work that blocks, which stays: without any tokio panics, and for more it waits.
pub fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let built = builder.enable_all().thread_keep_alive(FOR_EVER).build();
    let runtime = built.map_err(Error::io("The server cannot be started"))?;
    let _ = threads::spawn("probe", || ())?.join();
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

/// Serves until SIGTERM, SIGHUP or Ctrl-C, and does what else there is to do meanwhile.
pub fn serve(
    runtime: Runtime,
    listener: Listener,
    server: Server,
    beside: Vec<impl Future<Output = ()> + Send + 'static>,
) -> Result<()> {
    let failed = || Error::io("The server cannot be started");
    let outcome = runtime.block_on(async {
        let mut end = signal(SignalKind::terminate()).map_err(failed())?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed())?;
        // Under nohup it is ignored, and stays so.
        let hangs_up = !mallow_os::is_ignored(nix::libc::SIGHUP);
        let mut hangup = if hangs_up { signal(SignalKind::hangup()).ok() } else { None };
        for task in beside {
            tokio::spawn(task);
        }
        tokio::select! {
            outcome = accept(&listener, Arc::new(server)) => outcome.map_err(failed()),
            _ = end.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
            Some(_) = next(&mut hangup) => Ok(()),
        }
    });
    runtime.shutdown_timeout(GRACE);
    if let Listener::Unix(_, path) = &listener {
        let _ = std::fs::remove_file(path);
    }
    outcome
}

/// Never ends for a signal that nobody waits for.
async fn next(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

async fn accept(listener: &Listener, server: Arc<Server>) -> std::io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
            admit(server, async || Ok(listener.accept().await?.0)).await
        }
        Listener::Unix(listener, _) => {
            let listener = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
            admit(server, async || Ok(listener.accept().await?.0)).await
        }
    }
}

/// Takes each connection that comes, for ever.
async fn admit<S>(server: Arc<Server>, next: impl AsyncFn() -> std::io::Result<S>) -> !
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut guests = Guests::new();
    loop {
        match next().await {
            Ok(stream) => start(stream, server.clone(), guests.admit().await),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn start<S>(stream: S, server: Arc<Server>, guest: Option<Arc<Guest>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(guest) = guest else { return };
    tokio::spawn(async move {
        tokio::select! {
            () = greet(stream, server, guest.clone()) => {}
            () = guest.leaves.notified() => {}
        }
    });
}

async fn greet<S>(stream: S, server: Arc<Server>, guest: Arc<Guest>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(tls) = server.tls.clone() else { return converse(stream, server, guest).await };
    // It may read files.
    let Ok(tls) = tokio::task::spawn_blocking(move || tls.acceptor()).await else { return };
    // Who speaks no TLS, or not in time, is not answered.
    if let Ok(Ok(stream)) = tokio::time::timeout(HEADER_TIME, tls.accept(stream)).await {
        converse(stream, server, guest).await;
    }
}

async fn converse<S>(stream: S, server: Arc<Server>, guest: Arc<Guest>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watched = Watched { stream, guest: guest.clone() };
    let service = service_fn(move |request| {
        let (server, guest) = (server.clone(), guest.clone());
        async move {
            guest.waits(true);
            let answer = server.answer(request, &guest).await;
            guest.waits(false);
            Ok::<_, Infallible>(answer)
        }
    });
    // Who does not read what he has asked for gives his place away.
    let mut stream = TimeoutStream::new(watched);
    stream.set_write_timeout(Some(WRITE_TIME));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    // What goes wrong with one connection is of no interest to others.
    let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
}

impl Server {
    async fn answer(self: &Arc<Server>, request: Request<Incoming>, guest: &Guest) -> Answer {
        let is_allowed = self.token.as_ref().is_none_or(|token| token.is_in(request.headers()));
        if is_allowed {
            guest.is_allowed();
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer =
                sentence(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are served.");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let path = request.uri().path();
        if path == "/healthz" {
            return text(StatusCode::OK, "text/plain; charset=utf-8", "ok\n");
        }
        if !is_allowed {
            let what =
                "A bearer token is needed: the first line of the file given with --token-file.";
            let mut answer = sentence(StatusCode::UNAUTHORIZED, what);
            let ask = HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
            return answer;
        }
        match path {
            "/metrics" => self.metrics(request.headers()).await,
            "/" => match self.snapshot().await {
                Some(snapshot) => {
                    text(StatusCode::OK, "text/html; charset=utf-8", page::render(&snapshot))
                }
                None => broken(),
            },
            "/debug/pprof/heap" => self.profile(Kind::Heap, request.uri().query()).await,
            "/debug/pprof/allocs" => self.profile(Kind::Allocs, request.uri().query()).await,
            _ => sentence(
                StatusCode::NOT_FOUND,
                "There are /, /metrics, /healthz, /debug/pprof/heap?pid= and /debug/pprof/allocs?pid=.",
            ),
        }
    }

    async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let (sender, receiver) = oneshot::channel();
        self.readings.send(sender).ok()?;
        receiver.await.ok()
    }

    async fn metrics(&self, headers: &HeaderMap) -> Answer {
        let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let form = Form::of(&accept.collect::<Vec<_>>().join(","));
        match self.snapshot().await {
            Some(snapshot) => {
                text(StatusCode::OK, form.content_type(), metrics::render(&snapshot, form))
            }
            None => broken(),
        }
    }

    async fn profile(self: &Arc<Server>, kind: Kind, query: Option<&str>) -> Answer {
        let pairs = || query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let number = |name: &str| {
            let mut found = pairs().filter(|(key, _)| *key == name);
            found.find_map(|(_, value)| value.parse::<u32>().ok())
        };
        let Some(snapshot) = self.snapshot().await else { return broken() };
        let pid = match (number("pid"), snapshot.targets.as_slice()) {
            (Some(pid), _) => pid,
            (None, [only]) => only.pid,
            (None, []) => {
                let what = "No process is served: what was chosen has ended, or is not there yet.";
                return sentence(StatusCode::NOT_FOUND, what);
            }
            _ => {
                let what = "Say which process: /debug/pprof/heap?pid=PID.";
                return sentence(StatusCode::BAD_REQUEST, what);
            }
        };
        let Some(target) = snapshot.targets.iter().find(|target| target.pid == pid) else {
            let what = format!("Process {pid} is not served: it has ended, or was not chosen.");
            return sentence(StatusCode::NOT_FOUND, &what);
        };
        let (uid, process) = (target.vitals.uid, (pid, target.vitals.started));
        let as_text = number("debug").is_some_and(|debug| debug > 0);
        // It goes on if who asked does not wait: the answer is kept for the next time.
        let server = self.clone();
        let work = tokio::spawn(async move {
            if as_text {
                server.text(pid, uid).await
            } else {
                server.pprof(process, uid, kind).await
            }
        });
        match work.await {
            Ok(Ok(bytes)) if as_text => text(StatusCode::OK, "text/plain; charset=utf-8", bytes),
            Ok(Ok(bytes)) => {
                let mut answer = text(StatusCode::OK, "application/octet-stream", bytes);
                let name = format!("attachment; filename=\"{}.pb.gz\"", kind.name());
                if let Ok(name) = HeaderValue::from_str(&name) {
                    answer.headers_mut().insert(header::CONTENT_DISPOSITION, name);
                }
                answer
            }
            Ok(Err((status, what))) => sentence(status, &what),
            Err(_) => broken(),
        }
    }

    /// As the process wrote it.
    async fn text(&self, pid: u32, uid: u32) -> Reply<Bytes> {
        let read = move || {
            let dumps = profile::newest(pid, uid)?;
            let text = dumps.iter().find_map(Dump::text);
            text.ok_or_else(|| format!("The profile of process {pid} could not be read."))
        };
        blocking(read).await.map(Bytes::from)
    }

    async fn pprof(&self, process: convert::Process, uid: u32, kind: Kind) -> Reply<Bytes> {
        let (pid, _) = process;
        let find = move || {
            let place = profile::surroundings(pid);
            let place =
                place.ok_or_else(|| format!("Process {pid} has ended, or may not be read."))?;
            Ok((profile::newest(pid, uid)?, place))
        };
        let (dumps, place) = blocking(find).await?;
        let mut first = None;
        for dump in dumps {
            match self.converter.convert(process, kind, uid, &place, dump).await {
                Ok(bytes) => return Ok(bytes),
                // Of several, the newest one's.
                Err(what) => first = first.or(Some(what)),
            }
        }
        Err((StatusCode::INTERNAL_SERVER_ERROR, first.unwrap_or_default()))
    }
}

/// What is not there is 404, with the sentence.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, String> + Send + 'static,
) -> Reply<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(|what| (StatusCode::NOT_FOUND, what)),
        Err(_) => Err((StatusCode::INTERNAL_SERVER_ERROR, "The profile could not be read.".into())),
    }
}

fn broken() -> Answer {
    sentence(StatusCode::INTERNAL_SERVER_ERROR, "The processes could not be read.")
}

fn sentence(status: StatusCode, what: &str) -> Answer {
    text(status, "text/plain; charset=utf-8", format!("{what}\n"))
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
