// SPDX-License-Identifier: MIT
//! Sends a message: one request, on a connection of its own, in bounded time.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::error::{Error, Result};
use crate::verbs::serve::tls;

/// For a message to be sent and answered; OpenTelemetry's own libraries wait as long.
const TIMEOUT: Duration = Duration::from_secs(10);
const LARGEST_ANSWER: usize = 64 << 10;

/// Why a message was not taken.
pub struct Failure {
    /// The end of a sentence.
    pub why: String,
    /// The same message may well be taken a little later.
    pub is_passing: bool,
    /// As the collector asks for.
    pub after: Option<Duration>,
}

impl Failure {
    pub fn away(why: impl Display) -> Failure {
        Failure { is_passing: true, ..Failure::here(why) }
    }

    pub fn here(why: impl Display) -> Failure {
        let why = why.to_string().trim_end_matches('.').to_owned();
        Failure { why, is_passing: false, after: None }
    }
}

type Outcome<T> = std::result::Result<T, Failure>;

pub struct Client {
    /// As it was given.
    pub url: String,
    /// What is connected to.
    host: String,
    port: u16,
    authority: String,
    path: String,
    has_tls: bool,
    headers: Option<PathBuf>,
    ca: Option<PathBuf>,
    /// The option that this is for; those for its files begin so too.
    option: &'static str,
}

/// What is sent.
pub struct Body {
    kind: &'static str,
    is_gzip: bool,
    bytes: Bytes,
}

impl Body {
    pub fn plain(kind: &'static str, bytes: impl Into<Bytes>) -> Body {
        Body { kind, is_gzip: false, bytes: bytes.into() }
    }

    pub fn gzip(kind: &'static str, bytes: impl Into<Bytes>) -> Body {
        Body { is_gzip: true, ..Body::plain(kind, bytes) }
    }
}

/// What is read of files before each push, so that renewed tokens and certificates are used.
pub struct Connection {
    headers: HeaderMap,
    tls: Option<TlsConnector>,
}

impl Client {
    /// `path` is where things are taken, below the address that the other side is known by.
    pub fn new(
        url: &str,
        path: &str,
        headers: Option<PathBuf>,
        ca: Option<PathBuf>,
        option: &'static str,
    ) -> Result<Client> {
        let wrong = || {
            Error::Usage(format!(
                "{url} is no address for {option}. Write it as http://HOST:PORT or https://HOST:PORT."
            ))
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong());
        };
        if !matches!(scheme, "http" | "https") || authority.as_str().contains('@') {
            return Err(wrong());
        }
        let has_tls = scheme == "https";
        if ca.is_some() && !has_tls {
            return Err(Error::Usage(format!(
                "{option}-ca is for an address that begins with https, and {url} does not."
            )));
        }
        let port = authority.port_u16().unwrap_or(if has_tls { 443 } else { 80 });
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong());
        }
        let given = uri.path().trim_end_matches('/');
        let path = if given.ends_with(path) { given.into() } else { format!("{given}{path}") };
        let (host, authority) = (host.to_owned(), authority.to_string());
        Ok(Client { url: url.into(), host, port, authority, path, has_tls, headers, ca, option })
    }

    pub fn connection(&self) -> Result<Connection> {
        let headers = self.headers.as_deref().map(headers).transpose()?.unwrap_or_default();
        let ca = self.ca.as_deref();
        Ok(Connection {
            headers,
            tls: self.has_tls.then(|| tls::connector(ca, self.option)).transpose()?,
        })
    }

    /// The answer to a message that was taken.
    pub async fn post(&self, connection: &Connection, body: Body) -> Outcome<Bytes> {
        match tokio::time::timeout(TIMEOUT, self.exchange(connection, body)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::away(format_args!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }

    async fn exchange(&self, connection: &Connection, body: Body) -> Outcome<Bytes> {
        let stream = TcpStream::connect((self.host.as_str(), self.port));
        let stream = stream.await.map_err(Failure::away)?;
        let Some(tls) = &connection.tls else {
            return self.converse(stream, connection, body).await;
        };
        let name = ServerName::try_from(self.host.clone()).map_err(Failure::here)?;
        let stream = tls.connect(name, stream).await.map_err(Failure::away)?;
        self.converse(stream, connection, body).await
    }

    async fn converse<S>(&self, stream: S, connection: &Connection, body: Body) -> Outcome<Bytes>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let spoken = |error: hyper::Error| match self.port {
            4317 if self.option == "--otlp" => Failure::here(format_args!(
                "{error}; port 4317 is for gRPC as a rule, and 4318 for HTTP"
            )),
            _ => Failure::away(error),
        };
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, driver) = handshake.map_err(spoken)?;
        // It ends with the sender; what goes wrong with it the sender tells.
        tokio::spawn(driver);
        let request = self.request(connection, body).map_err(Failure::here)?;
        let answer = sender.send_request(request).await.map_err(spoken)?;
        let (status, after) = (answer.status(), retry_after(&answer));
        let bytes = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await;
        if status.is_success() {
            return Ok(bytes.map(|bytes| bytes.to_bytes()).unwrap_or_default());
        }
        Err(Failure { after, ..self.refused(status) })
    }

    fn request(
        &self,
        connection: &Connection,
        body: Body,
    ) -> hyper::http::Result<Request<Full<Bytes>>> {
        let agent = concat!("mallow/", env!("CARGO_PKG_VERSION"));
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::USER_AGENT, agent)
            .header(header::CONTENT_TYPE, body.kind)
            .body(Full::new(body.bytes))?;
        if body.is_gzip {
            let gzip = HeaderValue::from_static("gzip");
            request.headers_mut().insert(header::CONTENT_ENCODING, gzip);
        }
        request.headers_mut().extend(connection.headers.clone());
        Ok(request)
    }

    /// Which answers are worth a further try, OTLP says itself.
    fn refused(&self, status: StatusCode) -> Failure {
        match status.as_u16() {
            429 | 502 | 503 | 504 => Failure::away(format_args!("it answers {status}")),
            401 | 403 => Failure::here(format_args!(
                "it answers {status}; {}-headers FILE sends a token, as Authorization: Bearer ...",
                self.option
            )),
            _ => Failure::here(format_args!("it answers {status}")),
        }
    }
}

/// In seconds; a date is taken for none.
fn retry_after(answer: &Response<Incoming>) -> Option<Duration> {
    let value = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// Lines of `Name: value`; empty ones, and those that begin with #, are left out.
fn headers(file: &Path) -> Result<HeaderMap> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(Error::io(format!("The headers cannot be read from {name}")))?;
    let lines = text.lines().map(str::trim).enumerate();
    let mut headers = HeaderMap::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        // The value may be a secret, so it is not shown.
        let wrong = || {
            Error::Usage(format!(
                "Line {} of {name} is no header. Write it as Authorization: Bearer ....",
                number + 1
            ))
        };
        let (key, value) = line.split_once(':').ok_or_else(wrong)?;
        let key: HeaderName = key.trim().parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_collector() {
        let new = |url| Client::new(url, "/v1/metrics", None, None, "--otlp");
        let client = |url| new(url).unwrap();
        let plain = client("http://127.0.0.1:4318");
        assert_eq!((plain.path.as_str(), plain.port, plain.has_tls), ("/v1/metrics", 4318, false));
        assert_eq!(client("https://x.example/otlp/").path, "/otlp/v1/metrics");
        assert_eq!(client("https://x.example/v1/metrics").path, "/v1/metrics");
        let six = client("https://[::1]:1");
        assert_eq!((six.host.as_str(), six.authority.as_str()), ("::1", "[::1]:1"));
        assert_eq!(client("https://x.example").port, 443);
        for wrong in ["here", "127.0.0.1:4318", "grpc://x:1", "http://", "http://me:you@x", "/x"] {
            assert!(new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_are_read_and_kept_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("headers");
        std::fs::write(&file, "# one\n\nAuthorization: Bearer a:b\nX-Scope-OrgID: 7\n").unwrap();
        let found = headers(&file).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found["authorization"], "Bearer a:b");
        for wrong in ["secret", "a b: secret", "x: secret\u{1}"] {
            std::fs::write(&file, wrong).unwrap();
            let said = headers(&file).unwrap_err().to_string();
            assert!(said.contains("Line 1") && !said.contains("secret"), "{said}");
        }
    }
}
