//! Runs are shared with a hub, withdrawn, and profiles are fetched from it.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use seekless_engine::profile::{StorageProfile, directory_of_borrowed};
use seekless_results::{DeviceKind, PSEUDONYM};

use crate::common::Hub;
use crate::generated;
use crate::place::{Ended, Place};

/// A run with every field filled.
const FULL: &[u8] = include_bytes!("../../../crates/record/testdata/full-run.json");

fn with_a_run() -> Place {
    let place = Place::new();
    let directory = place.data().join("runs");
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
    let entries = fs::read_dir(place.data().join("shared")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_would_be_sent_is_shown_and_nothing_is_sent_unasked() {
    let place = with_a_run();
    let (listener, address) = listener();
    listener.set_nonblocking(true).unwrap();
    let host = seekless_record::from_json(FULL).unwrap().machine.host.unwrap();
    let ended = place.run(&["share", "--hub", &address]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("use --yes to send the run"), "{}", ended.stderr);
    for word in [&address, "2026-11-20T14-03-22-read+write", "samples", "Not sent"] {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    let document = place.run(&["share", "--hub", &address, "--dry-run"]).succeeded();
    let sent = seekless_record::from_json(document.as_bytes()).unwrap();
    assert!(sent.machine.host.is_none_or(|host| host.starts_with(PSEUDONYM)));
    assert!(!document.contains(&format!("\"{host}\"")) && sent.trials.len() > 1);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let unnamed = place.run(&["share", "--yes"]).refused();
    assert!(unnamed.contains("no hub is named; use --hub URL"), "{unnamed}");
}

#[test]
fn on_a_terminal_a_run_is_sent_after_yes_only() {
    let place = with_a_run();
    let answered = |address: &str, answer: &str| place.answer(&["share", "--hub", address], answer);
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
    let mut command = place.command(&["share", "--yes"]);
    command.env("SEEKLESS_HUB", format!("{address}/"));
    let told = Ended::of(command.spawn().unwrap()).succeeded();
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
    place.run(&["withdraw", "latest"]).succeeded();
    let head = request.join().unwrap();
    assert!(
        head.starts_with(&format!("DELETE /api/v1/runs/{ID} ")) && head.contains(&secret),
        "{head}"
    );
    assert!(receipts(&place).is_empty());
    let gone = place.run(&["withdraw", ID]).refused();
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
    assert_eq!(place.run(&["share", "--yes", "--hub", &address]).code, Some(2));
    let first = request.join().unwrap();
    let [receipt] = &receipts(&place)[..] else { panic!() };
    let text = fs::read_to_string(receipt).unwrap();
    // The same hub is there again.
    let listener = TcpListener::bind(address.strip_prefix("http://").unwrap()).unwrap();
    let answer = format!(r#"{{"id":"{ID}","url":"http://h/runs/{ID}","withdrawable":true,"counted":true,"marks":[]}}"#);
    let again = answering(listener, "200 OK", answer);
    place.run(&["share", "--yes", "--hub", &address]).succeeded();
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
    let ended = place.run(&["share", "--yes", "--hub", &address]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("trials[3].seconds: is too small (status 422)"),
        "{}",
        ended.stderr
    );
    assert!(receipts(&place).is_empty());
}

#[test]
fn a_fetched_profile_is_kept_beside_imported_ones_and_says_on_how_many_machines_it_rests() {
    let place = Place::new();
    let storage_of = |machine| {
        let run = generated::run(machine, 1);
        (DeviceKind::of(&run.storages[0]), run.storages[0].file_system.clone())
    };
    let (kind, file_system) = storage_of(0);
    for machines in [2, 12] {
        let hub = Hub::alone();
        let alike = (0..).filter(|machine| storage_of(*machine) == (kind, file_system.clone()));
        for machine in alike.take(machines) {
            assert_eq!(hub.share(&generated::run(machine, 1)).status, 201);
        }
        // The command `seekless` has further keys.
        place.configure(&format!("hub = \"{}\"\nbudget = \"2m\"\ncolor = \"never\"\n", hub.url));
        let told = place
            .run(&["fetch", "--kind", kind.slug(), "--file-system", &file_system])
            .succeeded();
        assert!(told.contains(&format!("{machines} machines of this kind")), "{told}");
        let line = told.lines().find_map(|line| line.strip_prefix("Profile  ")).unwrap();
        let found = StorageProfile::read(line.as_ref()).unwrap();
        assert_eq!(found.head.machines, u32::try_from(machines).ok());
        assert!(found.is_borrowed() && !found.head.storage.file_system.is_empty());
    }
    // The address of each hub is another, so both are kept, where the library and the command look for them.
    let kept = fs::read_dir(directory_of_borrowed(&place.data().join("profiles"))).unwrap();
    assert_eq!(kept.count(), 2);
    let why = place.run(&["fetch", "--kind", "card"]).refused();
    assert!(why.contains("no machine has measured one (status 404)"), "{why}");
}

#[test]
fn runs_are_in_the_folder_that_the_configuration_names_and_a_bad_one_is_refused() {
    let place = Place::new();
    let folder = place.path("elsewhere");
    seekless_lab::store::Store::new(folder.clone())
        .save(&generated::run(1, 1))
        .unwrap();
    place.configure(&format!(
        "hub = \"https://hub.example.org\"\nruns = \"{}\"\n",
        folder.display()
    ));
    let document = place.run(&["share", "--dry-run"]).succeeded();
    assert!(seekless_record::from_json(document.as_bytes()).is_ok());
    for (text, reason) in [
        ("runs = \"here\"", "must be an absolute path"),
        ("hub = 1", "cannot use the configuration"),
        ("hub =", "cannot use the configuration"),
    ] {
        place.configure(text);
        let why = place.run(&["share", "--yes"]).refused();
        assert!(why.contains(reason) && why.contains("config.toml"), "{why}");
    }
    place.configure("hub = \"https://hub.example.org\"\n");
    let none = place.run(&["share", "--yes"]).refused();
    assert!(none.contains("hint: `seekless bench` measures one"), "{none}");
}
