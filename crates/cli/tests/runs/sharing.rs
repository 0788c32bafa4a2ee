//! Runs are shared with a hub, withdrawn, and profiles are fetched from it.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use seekless_results::PSEUDONYM;

use crate::common::place::{Ended, Place};
use crate::common::terminal::Terminal;

/// A run with every field filled.
const FULL: &[u8] = include_bytes!("../../../record/testdata/full-run.json");

fn with_a_run() -> Place {
    let place = Place::new();
    let directory = place.directory().join("../data/seekless/runs");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("2026-11-20T14-03-22-read+write.json"), FULL).unwrap();
    place
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    (listener, address)
}

/// A hub that gives one answer. Returns its address, and the head of the request.
fn hub(status: &'static str, answer: String) -> (String, JoinHandle<String>) {
    let (listener, address) = listener();
    (address, answering(listener, status, answer))
}

fn answering(listener: TcpListener, status: &'static str, answer: String) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            stream.read_line(&mut head).unwrap();
        }
        let mut lines = head.lines().map(str::to_ascii_lowercase);
        let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        stream.read_exact(&mut vec![0; length.unwrap_or(0)]).unwrap();
        let length = answer.len();
        write!(
            stream.get_mut(),
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}"
        )
        .unwrap();
        head
    })
}

const ID: &str = "00112233445566778899aabbccddeeff";

fn receipts(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("../data/seekless/shared"))
        .into_iter()
        .flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_would_be_sent_is_shown_and_nothing_is_sent_unasked() {
    let place = with_a_run();
    let (listener, address) = listener();
    listener.set_nonblocking(true).unwrap();
    let host = seekless_record::from_json(FULL).unwrap().machine.host.unwrap();
    let ended = place.run(&["runs", "share", "--hub", &address]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("use --yes to send the run"), "{}", ended.stderr);
    for word in [&address, "2026-11-20T14-03-22-read+write", "samples", "Not sent"] {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    let document = place
        .run(&["runs", "share", "--hub", &address, "--dry-run"])
        .succeeded()
        .stdout;
    let sent = seekless_record::from_json(document.as_bytes()).unwrap();
    assert!(sent.machine.host.is_none_or(|host| host.starts_with(PSEUDONYM)));
    assert!(!document.contains(&format!("\"{host}\"")) && sent.trials.len() > 1);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let unnamed = place.run(&["runs", "share", "--yes"]).refused();
    assert!(unnamed.contains("no hub is named; use --hub URL"), "{unnamed}");
}

#[test]
fn on_a_terminal_a_run_is_sent_after_yes_only() {
    let place = with_a_run();
    let answered = |address: &str, answer: &str| {
        let mut command = place.command();
        command.args(["runs", "share", "--hub", address]);
        Terminal::of(80).answer(command, answer)
    };
    let (silent, address) = listener();
    silent.set_nonblocking(true).unwrap();
    let (printed, code) = answered(&address, "n\n");
    assert!(
        printed.contains("Not sent") && printed.contains("nothing was done") && code == Some(2),
        "{printed}"
    );
    assert_eq!(silent.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let answer =
        format!(r#"{{"id":"{ID}","url":"http://h/runs/{ID}","withdrawable":false,"counted":true,"marks":[]}}"#);
    let (address, request) = hub("200 OK", answer);
    let (printed, code) = answered(&address, "y\n");
    assert!(
        printed.contains("The hub had this run already") && code == Some(0),
        "{printed}"
    );
    request.join().unwrap();
    assert!(receipts(&place).is_empty());
}

#[test]
fn a_shared_run_is_withdrawn_by_its_receipt() {
    let place = with_a_run();
    let answer =
        format!(r#"{{"id":"{ID}","url":"http://h/runs/{ID}","withdrawable":true,"counted":false,"marks":["busy"]}}"#);
    let (address, request) = hub("201 Created", answer);
    let mut command = place.command();
    command
        .args(["runs", "share", "--yes"])
        .env("SEEKLESS_HUB", format!("{address}/"));
    let told = Ended::of(command.spawn().unwrap()).succeeded().stdout;
    let sent = request.join().unwrap();
    assert!(sent.starts_with("POST /api/v1/runs "));
    let apart = "the hub keeps it apart from its figures: busy";
    assert!(told.contains("http://h/runs/") && told.contains(apart), "{told}");
    let [receipt] = &receipts(&place)[..] else { panic!() };
    assert_eq!(fs::metadata(receipt).unwrap().permissions().mode() & 0o777, 0o600);
    // The hub has moved to another port.
    let (address, request) = hub("204 No Content", String::new());
    let text = fs::read_to_string(receipt).unwrap();
    let secret = text.split("\"secret\": \"").nth(1).unwrap()[..64].to_owned();
    assert!(!sent.contains(&secret), "only its digest is sent: {sent}");
    let moved = text.lines().map(|line| {
        let is_hub = line.contains("\"hub\"");
        if is_hub {
            format!("\"hub\": \"{address}\",")
        } else {
            line.to_owned()
        }
    });
    fs::write(receipt, moved.collect::<String>()).unwrap();
    place.run(&["runs", "share", "--withdraw", "latest"]).succeeded();
    let head = request.join().unwrap();
    assert!(
        head.starts_with(&format!("DELETE /api/v1/runs/{ID} ")) && head.contains(&secret),
        "{head}"
    );
    assert!(receipts(&place).is_empty());
    let gone = place.run(&["runs", "share", "--withdraw", ID]).refused();
    assert!(gone.contains("there is no receipt of"), "{gone}");
}

#[test]
fn a_run_whose_answer_is_lost_can_be_withdrawn_and_is_sent_again_with_its_secret() {
    let place = with_a_run();
    let withdrawal = |head: &str| {
        let mut lines = head.lines();
        lines
            .find_map(|line| line.strip_prefix("seekless-withdrawal: ").map(str::to_owned))
            .unwrap()
    };
    let (address, request) = hub("500 Internal Server Error", String::new());
    assert_eq!(place.run(&["runs", "share", "--yes", "--hub", &address]).code, Some(2));
    let first = request.join().unwrap();
    let [receipt] = &receipts(&place)[..] else { panic!() };
    let text = fs::read_to_string(receipt).unwrap();
    // The same hub is there again.
    let listener = TcpListener::bind(address.strip_prefix("http://").unwrap()).unwrap();
    let answer = format!(r#"{{"id":"{ID}","url":"http://h/runs/{ID}","withdrawable":true,"counted":true,"marks":[]}}"#);
    let again = answering(listener, "200 OK", answer);
    place.run(&["runs", "share", "--yes", "--hub", &address]).succeeded();
    assert_eq!(withdrawal(&again.join().unwrap()), withdrawal(&first));
    let [receipt] = &receipts(&place)[..] else { panic!() };
    let known = fs::read_to_string(receipt).unwrap();
    assert!(
        known.contains(ID) && !text.contains(ID),
        "the hub's ID is kept: {known}"
    );
}

#[test]
fn a_run_that_the_hub_refuses_leaves_no_receipt_and_says_why() {
    let place = with_a_run();
    let problem = r#"{"title":"Unprocessable","status":422,"detail":"trials[3].seconds: is too small"}"#;
    let (address, _request) = hub("422 Unprocessable Content", problem.to_owned());
    let ended = place.run(&["runs", "share", "--yes", "--hub", &address]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("trials[3].seconds: is too small (status 422)"),
        "{}",
        ended.stderr
    );
    assert!(receipts(&place).is_empty());
}

#[test]
fn a_fetched_profile_is_used_where_nothing_was_measured_and_says_on_how_many_machines_it_rests() {
    let (place, other) = (Place::new(), Place::new());
    let methods = ["--methods", "read/mmap", "--methods", "read/sync,block=1M"];
    let how = [
        "bench", "read", "--size", "64K", "--size", "1M", "--rounds", "3", "--quiet",
    ];
    place.run(&[&how[..], &methods].concat()).succeeded();
    let profile = place.run(&["profile", "export"]).succeeded().stdout;
    for machines in [2, 12] {
        let fetched = profile.replacen('{', &format!("{{\"machines\":{machines},"), 1);
        let (address, request) = hub("200 OK", fetched);
        fs::create_dir_all(other.path("../config/seekless")).unwrap();
        fs::write(
            other.path("../config/seekless/config.toml"),
            format!("hub = \"{address}\"\n"),
        )
        .unwrap();
        let told = other.run(&["runs", "fetch", "--kind", "ssd-sata"]).succeeded().stdout;
        assert!(request.join().unwrap().starts_with("GET /api/v1/profiles/ssd-sata "));
        assert!(told.contains(&format!("{machines} machines of this kind")), "{told}");
    }
    let advice = other.run(&["advise", "read", ".", "--size", "512K"]).succeeded().stdout;
    // The address of each hub is another, so both are kept.
    assert!(
        advice.contains("not measured here") && advice.contains("by 12 machines of this kind"),
        "{advice}"
    );
}
