//! Sending runs to a hub, withdrawing them, and fetching profiles. Nothing is read without a limit, and no redirect is followed: a
//! secret and a run reach the hub that the user named, and no other host.

use std::fs;
use std::io::{self, Read};
use std::time::Duration;

use seekless_record::{DocumentError, MAX_PROFILE_BYTES, Profile, Run};
use seekless_results::{DeviceKind, Known, PSEUDONYM, anonymous};
use serde::Deserialize;
use ureq::http::{Response, StatusCode, Uri, header};
use ureq::{Agent, Body};

use crate::gzip::compressed;
pub use crate::receipt::Receipt;
use crate::receipt::{WITHDRAWAL, digest, hidden, is_hex};

/// Why something could not be done at a hub.
#[derive(Debug, thiserror::Error)]
#[error("{url}: cannot {doing}: {failure}")]
pub struct ClientError {
    /// What was tried, as in `send the run`.
    pub doing: &'static str,
    /// The address that was asked, or what was given as one.
    pub url: String,
    /// The reason.
    pub failure: ClientFailure,
}

/// The reason for a [`ClientError`].
#[derive(Debug, thiserror::Error)]
pub enum ClientFailure {
    /// It is not an address of a hub.
    #[error("not the address of a hub; write, for example, https://hub.example.org")]
    Address,
    /// Not an ID or a secret, as they are in a receipt.
    #[error("not {0}, as a receipt has it")]
    Receipt(&'static str),
    /// The hub could not be reached, or the connection was lost.
    #[error("{0}; check the address and the network, then try again")]
    Connection(Box<ureq::Error>),
    /// The hub is elsewhere; nothing was sent there.
    #[error("the hub redirects to {0}; if you trust that address, use it")]
    Redirected(String),
    /// The hub refused, with this status and its reason.
    #[error("{detail} (status {status}){}", advice(*status))]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// The hub's reason.
        detail: String,
    },
    /// The answer is longer than this many bytes.
    #[error("the answer is longer than {0} bytes; check that the address is that of a hub")]
    TooLong(usize),
    /// The answer is not that of a hub.
    #[error("the answer is not that of a hub; check the address")]
    NotAHub,
    /// The document is not what it should be.
    #[error(transparent)]
    Document(#[from] DocumentError),
}

impl ClientError {
    /// Whether the hub has certainly not kept what was sent. After a timeout (408), it may have.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self.failure {
            ClientFailure::Address | ClientFailure::Redirected(_) => true,
            ClientFailure::Refused { status, .. } => status < 500 && status != 408,
            _ => false,
        }
    }
}

/// What to try after a status.
fn advice(status: u16) -> &'static str {
    match status {
        413 => "; share a run with fewer samples",
        429 => "; wait, then try again",
        500.. => "; try again later",
        _ => "",
    }
}

impl From<ureq::Error> for ClientFailure {
    fn from(error: ureq::Error) -> Self {
        Self::Connection(Box::new(error))
    }
}

/// The run as it is sent to a hub: anonymous, with the pseudonym of this machine.
#[must_use]
pub fn prepared(hub: &str, run: &Run, known: &Known) -> Run {
    let mut run = run.clone();
    run.machine.host = pseudonym(hub);
    anonymous(&run, known)
}

/// The pseudonym of this machine for a hub, which tells machines apart there and cannot be linked to that of another hub; `None`
/// without a `/etc/machine-id`.
#[must_use]
pub fn pseudonym(hub: &str) -> Option<String> {
    let id = fs::read_to_string("/etc/machine-id").ok()?;
    pseudonym_of(id.trim(), hub)
}

fn pseudonym_of(machine_id: &str, hub: &str) -> Option<String> {
    is_hex(machine_id, 32).then_some(())?;
    let mut hasher = blake3::Hasher::new_derive_key("seekless hub machine");
    hasher.update(machine_id.as_bytes());
    hasher.update(hub.trim_end_matches('/').to_ascii_lowercase().as_bytes());
    let digits = hasher.finalize().to_hex();
    Some(format!("{PSEUDONYM}{}", &digits[..16]))
}

/// A new secret by which a run can be withdrawn: 64 hexadecimal digits.
///
/// # Errors
/// If the system has no random numbers.
pub fn new_secret() -> io::Result<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)?;
    Ok(blake3::Hash::from_bytes(random).to_hex().to_string())
}

/// The ID that an anonymous run gets at a hub of this version.
///
/// # Errors
/// If it cannot be written as a document.
pub fn id(run: &Run) -> Result<String, DocumentError> {
    Ok(digest(&serde_json::to_vec(run)?))
}

/// Sends a run as it is, which must be anonymous, and lets it be withdrawn by this secret, of which the hub gets a digest.
///
/// # Errors
/// If the hub cannot be reached or refuses the run.
pub fn share(hub: &str, run: &Run, secret: &str) -> Result<Receipt, ClientError> {
    let call = Call::of(hub, "runs", "send the run")?;
    call.done(|url| {
        let document = seekless_record::to_json(run)?;
        let body = compressed(document.as_bytes());
        let request = agent().post(url).content_type("application/json");
        let request = request
            .header(header::CONTENT_ENCODING, "gzip")
            .header(WITHDRAWAL, hidden(secret));
        let answer = accepted(request.send(&body.map_err(ureq::Error::from)?[..])?)?;
        let receipt: Receipt =
            serde_json::from_slice(&read(answer, MAX_ANSWER_BYTES)?).map_err(|_| ClientFailure::NotAHub)?;
        let is_receipt = is_hex(&receipt.id, 32) && receipt.url.len() <= MAX_DETAIL;
        is_receipt.then_some(receipt).ok_or(ClientFailure::NotAHub)
    })
}

/// Withdraws a run by the secret that it was sent with.
///
/// # Errors
/// If the hub cannot be reached, has no such run, or the secret is another run's.
pub fn withdraw(hub: &str, id: &str, secret: &str) -> Result<(), ClientError> {
    let call = Call::of(hub, &format!("runs/{id}"), "withdraw the run")?;
    call.done(|url| {
        for (text, digits, name) in [(id, 32, "the ID of a run"), (secret, 64, "the secret of a run")] {
            if !is_hex(text, digits) {
                return Err(ClientFailure::Receipt(name));
            }
        }
        let request = agent().delete(url);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {secret}"));
        accepted(request.call()?).map(drop)
    })
}

/// Fetches the profile of a kind of storage over all machines of a hub, or over those with this file system, kernel (as in `6.18`) and
/// model.
///
/// # Errors
/// If the hub cannot be reached, has no such profile, or answers something else.
pub fn fetch_profile(
    hub: &str,
    kind: DeviceKind,
    file_system: Option<&str>,
    kernel: Option<&str>,
    model: Option<&str>,
) -> Result<Profile, ClientError> {
    let call = Call::of(hub, &format!("profiles/{}", kind.slug()), "fetch a profile")?;
    call.done(|url| {
        let filters = [("file_system", file_system), ("kernel", kernel), ("model", model)];
        let given = filters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let answer = accepted(agent().get(url).query_pairs(given).call()?)?;
        Ok(Profile::from_text(&read(answer, MAX_PROFILE_BYTES)?)?)
    })
}

/// The longest answer that is not a profile.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// The longest reason of a hub that is told, in characters.
const MAX_DETAIL: usize = 500;

/// One call of the API.
struct Call {
    doing: &'static str,
    url: String,
}

impl Call {
    fn of(hub: &str, path: &str, doing: &'static str) -> Result<Self, ClientError> {
        let base = hub.trim_end_matches('/');
        let is_address = base.parse::<Uri>().is_ok_and(|uri| {
            let host = uri.authority().filter(|authority| !authority.as_str().contains('@'));
            matches!(uri.scheme_str(), Some("http" | "https")) && host.is_some() && uri.query().is_none()
        });
        let url = format!("{base}/api/v1/{path}");
        if is_address && !hub.contains('#') {
            return Ok(Self { doing, url });
        }
        Err(ClientError {
            doing,
            url: hub.to_owned(),
            failure: ClientFailure::Address,
        })
    }

    fn done<T>(self, act: impl FnOnce(&str) -> Result<T, ClientFailure>) -> Result<T, ClientError> {
        act(&self.url).map_err(|failure| ClientError {
            doing: self.doing,
            url: self.url,
            failure,
        })
    }
}

fn agent() -> Agent {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(seconds(15))
        .timeout_recv_response(seconds(60))
        .timeout_global(seconds(300))
        .user_agent(concat!("seekless-hub/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// The answer, unless it is an error or a redirect.
fn accepted(answer: Response<Body>) -> Result<Response<Body>, ClientFailure> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    if status.is_redirection() {
        let location = answer.headers().get(header::LOCATION);
        let location = location
            .and_then(|location| location.to_str().ok())
            .unwrap_or("another address");
        return Err(ClientFailure::Redirected(told(location)));
    }
    Err(ClientFailure::Refused {
        status: status.as_u16(),
        detail: detail(status, answer),
    })
}

/// What a hub says of an error (RFC 9457).
#[derive(Default, Deserialize)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
}

fn detail(status: StatusCode, answer: Response<Body>) -> String {
    let text = read(answer, MAX_ANSWER_BYTES).unwrap_or_default();
    let problem: Problem = serde_json::from_slice(&text).unwrap_or_default();
    let reason = problem.detail.or(problem.title);
    let usual = || status.canonical_reason().unwrap_or("no reason is given");
    reason.map_or_else(|| usual().to_owned(), |reason| told(&reason))
}

/// A text of the hub, as far as it is told: it may be a stranger's.
fn told(text: &str) -> String {
    let plain = text.chars().take(MAX_DETAIL);
    plain.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Reads an answer of at most this many bytes, decompressed.
fn read(answer: Response<Body>, most: usize) -> Result<Vec<u8>, ClientFailure> {
    let mut text = Vec::new();
    let body = answer.into_body().into_reader();
    let read = body.take(most as u64 + 1).read_to_end(&mut text);
    read.map_err(ureq::Error::from)?;
    if text.len() > most {
        return Err(ClientFailure::TooLong(most));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use flate2::Compression;
    use flate2::read::GzDecoder;
    use flate2::write::GzEncoder;
    use seekless_record::{PROFILE_VERSION, ProfileHead, Revision, StorageId};
    use seekless_results::simulation;

    use super::*;

    const ID: &str = "00112233445566778899aabbccddeeff";

    fn secret() -> String {
        "5e".repeat(32)
    }

    /// A hub that answers one request with these bytes, again and again if they are endless. Returns its address, and the head and body
    /// of the request.
    fn hub(answer: Vec<u8>, is_endless: bool) -> (String, JoinHandle<(String, Vec<u8>)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let request = thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut head, mut body) = (String::new(), Vec::new());
            while !head.ends_with("\r\n\r\n") {
                stream.read_line(&mut head).unwrap();
            }
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            body.resize(length.unwrap_or(0), 0);
            stream.read_exact(&mut body).unwrap();
            let mut stream = stream.into_inner();
            while stream.write_all(&answer).is_ok() && is_endless {}
            (head, body)
        });
        (address, request)
    }

    fn answering(status: &str, headers: &str, body: &str) -> (String, JoinHandle<(String, Vec<u8>)>) {
        let length = body.len();
        let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        hub(text.into_bytes(), false)
    }

    fn run() -> Run {
        simulation::run(&[("read/mmap", 1.0)], 3)
    }

    #[test]
    fn a_run_is_sent_as_its_compressed_document_and_its_receipt_is_read() {
        let receipt =
            format!(r#"{{"id":"{ID}","url":"https://h/runs/{ID}","withdrawable":true,"counted":true,"marks":[]}}"#);
        let (address, request) = answering("201 Created", "", &receipt);
        let found = share(&format!("{address}/"), &run(), &secret()).unwrap();
        assert_eq!((found.id.as_str(), found.withdrawable, found.counted), (ID, true, true));
        let (head, body) = request.join().unwrap();
        assert!(head.starts_with("POST /api/v1/runs HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains(&blake3::hash(secret().as_bytes()).to_hex()[..]) && !head.contains(&secret()),
            "{head}"
        );
        let mut document = Vec::new();
        GzDecoder::new(&body[..]).read_to_end(&mut document).unwrap();
        assert_eq!(seekless_record::from_json(&document).unwrap(), run());
    }

    #[test]
    fn the_reason_of_a_refusal_is_told_without_control_characters() {
        let problem = r#"{"type":"about:blank","title":"Unprocessable","status":422,"detail":"trials[3].seconds: is \u001b negative"}"#;
        let (address, _request) = answering(
            "422 Unprocessable Content",
            "Content-Type: application/problem+json\r\n",
            problem,
        );
        let why = share(&address, &run(), &secret()).unwrap_err().to_string();
        let expected = "/api/v1/runs: cannot send the run: trials[3].seconds: is   negative (status 422)";
        assert_eq!(why, format!("{address}{expected}"));
        let (address, _request) = answering("429 Too Many Requests", "", "<html>");
        let why = share(&address, &run(), &secret()).unwrap_err();
        assert!(why.is_refusal(), "the hub has not looked at it");
        let why = why.to_string();
        assert!(
            why.ends_with("Too Many Requests (status 429); wait, then try again"),
            "{why}"
        );
        for status in ["408 Request Timeout", "503 Service Unavailable"] {
            let (address, _request) = answering(status, "", "");
            let why = share(&address, &run(), &secret()).unwrap_err();
            assert!(!why.is_refusal(), "{status}: its work may have gone on");
        }
    }

    #[test]
    fn a_cut_connection_and_an_answer_of_something_else_are_errors() {
        let half = b"HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\n{\"id\":".to_vec();
        for answer in [half, Vec::new()] {
            let (address, _request) = hub(answer, false);
            let why = share(&address, &run(), &secret()).unwrap_err();
            assert!(matches!(why.failure, ClientFailure::Connection(_)), "{why}");
            assert!(!why.is_refusal(), "the hub may have it");
        }
        for body in ["<html>", r#"{"id":"../x","url":"","withdrawable":true,"counted":true}"#] {
            let (address, _request) = answering("200 OK", "", body);
            let why = share(&address, &run(), &secret()).unwrap_err();
            assert!(matches!(why.failure, ClientFailure::NotAHub), "{why}");
        }
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let why = share(&format!("http://{nobody}"), &run(), &secret())
            .unwrap_err()
            .to_string();
        assert!(
            why.ends_with("check the address and the network, then try again"),
            "{why}"
        );
    }

    #[test]
    fn an_endless_answer_is_not_read_to_its_end() {
        let zeros = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = [zeros].map(|mut zeros| {
            zeros.write_all(&vec![b' '; 64 << 20]).unwrap();
            zeros.finish().unwrap()
        });
        let bomb = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            zeros[0].len()
        );
        let bomb = [bomb.as_bytes(), &zeros[0]].concat();
        let endless = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n".to_vec();
        for (answer, is_endless) in [(bomb, false), (endless, true)] {
            let (address, request) = hub(answer, is_endless);
            let why = fetch_profile(&address, DeviceKind::Nvme, None, None, None).unwrap_err();
            assert!(
                matches!(why.failure, ClientFailure::TooLong(MAX_PROFILE_BYTES)),
                "{why}"
            );
            request.join().unwrap();
        }
    }

    #[test]
    fn a_redirect_is_told_and_neither_run_nor_secret_follows_it() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        other.set_nonblocking(true).unwrap();
        let location = format!("Location: http://{}/\r\n", other.local_addr().unwrap());
        for status in ["307 Temporary Redirect", "302 Found"] {
            let (address, request) = answering(status, &location, "");
            let why = withdraw(&address, ID, &secret()).unwrap_err();
            assert!(matches!(why.failure, ClientFailure::Redirected(_)), "{why}");
            assert!(request.join().unwrap().0.contains(&format!("Bearer {}", secret())));
            let (address, _request) = answering(status, &location, "");
            assert!(matches!(
                share(&address, &run(), &secret()).unwrap_err().failure,
                ClientFailure::Redirected(_)
            ));
        }
        assert_eq!(other.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_run_is_withdrawn_by_its_secret() {
        let (address, request) = answering("204 No Content", "", "");
        withdraw(&address, ID, &secret()).unwrap();
        let (head, _) = request.join().unwrap();
        assert!(head.starts_with(&format!("DELETE /api/v1/runs/{ID} ")), "{head}");
        let why = withdraw("http://127.0.0.1:1", "../profiles", &secret()).unwrap_err();
        assert!(matches!(why.failure, ClientFailure::Receipt(_)), "{why}");
    }

    #[test]
    fn a_profile_is_fetched_by_kind_and_filters() {
        let head = ProfileHead {
            version: PROFILE_VERSION,
            seekless: "0.1.0".to_owned(),
            newest_unix_seconds: 0,
            sittings: 12,
            machines: Some(12),
            claims_rotational: Some(false),
            revision: Revision {
                protocol: 1,
                mechanisms: 1,
            },
            storage: StorageId::default(),
            mount_point: None,
            mount_options: None,
            processors: 0,
            memory_bytes: None,
            alternating_ns: None,
            costs: None,
        };
        let profile = Profile {
            head,
            curves: Vec::new(),
        };
        let (address, request) = answering("200 OK", "", &profile.to_text().unwrap());
        let found = fetch_profile(&address, DeviceKind::SteadyDisk, Some("ext4"), None, Some("A&B C"));
        assert_eq!(found.unwrap(), profile);
        let (head, _) = request.join().unwrap();
        let path = "GET /api/v1/profiles/ssd-sata?file_system=ext4&model=A%26B%20C HTTP/1.1\r\n";
        assert!(head.starts_with(path), "{head}");
    }

    #[test]
    fn what_is_not_the_address_of_a_hub_is_refused() {
        for address in [
            "",
            "hub.example.org",
            "ftp://h",
            "http://",
            "http://me:key@h",
            "http://h?a=b",
            "http://h#a",
            "http://h\n",
        ] {
            let why = share(address, &run(), &secret()).unwrap_err();
            assert!(matches!(why.failure, ClientFailure::Address), "{address}");
        }
    }

    #[test]
    fn a_machine_has_another_pseudonym_at_each_hub() {
        let of = |hub: &str| pseudonym_of(ID, hub).unwrap();
        assert_eq!(of("https://a.org/"), of("https://A.org"));
        assert_ne!(of("https://a.org"), of("https://b.org"));
        let digits = of("https://a.org");
        assert!(is_hex(digits.strip_prefix(PSEUDONYM).unwrap(), 16));
        assert_eq!(pseudonym_of("uninitialized", "https://a.org"), None);
        // Every run of it is told from those of others, and is otherwise anonymous.
        let mut sent = run();
        sent.machine.host = Some(digits.clone());
        let known = Known {
            experiment: |_| None,
            is_kernel: |_| true,
            layout: |_| None,
        };
        assert_eq!(anonymous(&sent, &known).machine.host, Some(digits));
        assert_ne!(prepared("https://a.org", &sent, &known).storages[0].path, "/data");
    }
}
