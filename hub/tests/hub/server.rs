//! What a hub answers.

use std::io::Write;
use std::thread;

use parquet::file::reader::{FileReader, SerializedFileReader};
use seekless_hub::{Admin, client};
use seekless_record::{Ended, Revision, from_json};
use seekless_results::DeviceKind;

use crate::common::{Database, Hub, KNOWN};
use crate::generated;

#[test]
fn a_run_sent_twice_is_once_and_its_sender_can_withdraw_it() {
    for database in Database::all() {
        let hub = Hub::start(&database);
        let run = generated::run(1, 1);
        let secret = client::new_secret().unwrap();
        let first = hub.share_with(&run, &secret);
        assert_eq!(first.status, 201, "{}: {}", database.name, first.text());
        assert_eq!(
            (first.json()["counted"].as_bool(), first.json()["marks"].to_string()),
            (Some(true), "[]".to_owned())
        );
        let id = first.field("id");
        assert_eq!(id, client::id(&run).unwrap(), "known before it was sent");
        // Of the same sender, to whom no answer came, and of others.
        let other = client::new_secret().unwrap();
        for (again, is_own) in [
            (hub.share_with(&run, &secret), true),
            (hub.share_with(&run, &other), false),
            (hub.share(&run), false),
        ] {
            assert_eq!((again.status, again.field("id")), (200, id.clone()));
            assert_eq!(again.json()["withdrawable"].as_bool(), Some(is_own));
        }
        let stored = hub.get(&format!("/api/v1/runs/{id}"));
        assert_eq!(from_json(&stored.body).unwrap(), run, "{}", database.name);
        assert_eq!(hub.get("/api/v1/runs").json()["runs"].as_array().unwrap().len(), 1);
        for wrong in [&other, &"0".repeat(64), ""] {
            assert_eq!(hub.withdraw(&id, wrong).status, 403);
        }
        assert_eq!(hub.withdraw(&id, &secret).status, 204);
        for path in ["/api/v1/runs/", "/runs/"] {
            assert_eq!(hub.get(&format!("{path}{id}")).status, 404, "{}: {path}", database.name);
        }
        assert_eq!(hub.get("/api/v1/runs").json()["runs"].to_string(), "[]");
        let id = hub.share(&run).field("id");
        for wrong in ["", &secret] {
            assert_eq!(hub.withdraw(&id, wrong).status, 403, "it came without a secret");
        }
    }
}

#[test]
fn what_the_client_sends_can_be_fetched_as_a_profile_until_it_is_withdrawn() {
    for database in Database::all() {
        let hub = Hub::start(&database);
        let runs = (0..20).map(|machine| generated::run(machine, 1));
        let of_xfs: Vec<_> = runs.filter(|run| run.storages[0].file_system == "xfs").collect();
        let kind = DeviceKind::of(&of_xfs[0].storages[0]);
        let machines = of_xfs.iter().filter(|run| DeviceKind::of(&run.storages[0]) == kind);
        let machines = u32::try_from(machines.count()).unwrap();
        let secret = client::new_secret().unwrap();
        let sent = of_xfs.iter().map(|run| client::share(&hub.url, run, &secret));
        let receipts: Vec<_> = sent.map(Result::unwrap).collect();
        assert!(receipts.iter().all(|receipt| receipt.counted && receipt.withdrawable));
        let fetch = |file_system| client::fetch_profile(&hub.url, kind, Some(file_system), None, None);
        let profile = fetch("xfs").unwrap();
        assert_eq!(profile.head.machines, Some(machines), "{}", database.name);
        let why = fetch("zfs & ext4").unwrap_err().to_string();
        assert!(why.contains("no machine has measured one (status 404)"), "{why}");
        for receipt in &receipts {
            let why = client::withdraw(&hub.url, &receipt.id, &"0".repeat(64)).unwrap_err();
            assert!(why.to_string().contains("(status 403)"), "{why}");
            client::withdraw(&hub.url, &receipt.id, &secret).unwrap();
        }
        fetch("xfs").unwrap_err();
    }
}

#[test]
fn an_answer_that_the_client_has_is_not_sent_again() {
    let hub = Hub::alone();
    let id = hub.share(&generated::run(1, 1)).field("id");
    for path in [
        format!("/api/v1/runs/{id}"),
        "/".to_owned(),
        "/api/v1/table".to_owned(),
        format!("/runs/{id}"),
    ] {
        let first = hub.get(&path);
        let tag = first.header("etag").to_owned();
        assert!(first.status == 200 && tag.starts_with('"'), "{path}: {first:?}");
        let again = hub.get_with(&path, &[("If-None-Match", &tag)]);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    let tag = hub.get("/").header("etag").to_owned();
    hub.share(&generated::run(2, 1));
    assert_eq!(
        hub.get_with("/", &[("If-None-Match", &tag)]).status,
        200,
        "another run came"
    );
}

#[test]
fn runs_are_searched_by_what_they_were_measured_on_page_by_page() {
    for database in Database::all() {
        let hub = Hub::start(&database);
        let runs: Vec<_> = (0..12).map(|machine| generated::run(machine, 1)).collect();
        let ids: Vec<String> = runs.iter().map(|run| hub.share(run).field("id")).collect();
        let found = |query: &str| {
            let (mut ids, mut next) = (Vec::new(), String::new());
            loop {
                let page = hub.get(&format!("/api/v1/runs?limit=5&{query}{next}")).json();
                let runs = page["runs"].as_array().unwrap();
                assert!(runs.len() <= 5);
                ids.extend(runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()));
                match page["next"].as_i64() {
                    Some(before) => next = format!("&before={before}"),
                    None => return ids,
                }
            }
        };
        let wanted = |is_it: &dyn Fn(&seekless_record::Run) -> bool| {
            let of_it = ids.iter().zip(&runs).rev().filter(|(_, run)| is_it(run));
            of_it.map(|(id, _)| id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(""), wanted(&|_| true), "{}", database.name);
        for file_system in ["ext4", "xfs", "btrfs", "zfs"] {
            assert_eq!(
                found(&format!("file_system={file_system}")),
                wanted(&|run| run.storages[0].file_system == file_system)
            );
        }
        let has_kernel = |run: &seekless_record::Run| run.machine.kernel.starts_with("6.18.");
        assert_eq!(found("kernel=Linux%206.18"), wanted(&has_kernel));
        assert_eq!(found("method=read/mmap").len(), 12);
        assert_eq!(found("method=read/sync&operation=write"), Vec::<String>::new());
    }
}

#[test]
fn an_export_that_is_imported_elsewhere_is_equal() {
    for (from, to) in Database::all().zip([Some(Database::sqlite()), Database::postgres()]) {
        let Some(to) = to else { continue };
        let hub = Hub::start(&from);
        let ids: Vec<String> = (0..6)
            .map(|number| hub.share(&generated::run(number, 1)).field("id"))
            .collect();
        let admin = Admin::open(&from.url).unwrap();
        assert!(admin.remove(&ids[1]).unwrap() && !admin.remove(&ids[1]).unwrap());
        let (banned, removed) = admin.ban(&ids[3]).unwrap();
        assert_eq!(removed, 1, "{banned}");
        let export = |admin: &Admin| {
            let mut text = Vec::new();
            admin.export(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let text = export(&admin);
        let other = Admin::open(&to.url).unwrap();
        assert_eq!(other.import(text.as_bytes(), &KNOWN, true).unwrap(), 4);
        assert_eq!(export(&other), text, "{} to {}", from.name, to.name);
        assert_eq!(other.import(text.as_bytes(), &KNOWN, true).unwrap(), 0, "twice is once");
        let verified = other.verify(&KNOWN).unwrap();
        assert_eq!((verified.runs, verified.damaged), (4, Vec::new()), "{}", to.name);
        let (hub, restored) = (Hub::start(&from), Hub::start(&to));
        assert_eq!(restored.share(&generated::run(3, 2)).status, 403, "the ban came along");
        for path in ["/", "/api/v1/table", "/api/v1/dump.jsonl"] {
            assert_eq!(restored.get(path).body.len(), hub.get(path).body.len(), "{path}");
        }
    }
}

#[test]
fn a_dump_of_somebody_else_bans_nobody_and_does_not_say_what_counts() {
    let (database, elsewhere) = (Database::sqlite(), Database::sqlite());
    let (hub, there) = (Hub::start(&database), Hub::start(&elsewhere));
    hub.share(&generated::run(1, 1));
    let mut busy = generated::run(2, 1);
    busy.ended = Ended::Interrupted;
    assert_eq!(there.share(&busy).json()["marks"].to_string(), "[\"unfinished\"]");
    let mut dump = Vec::new();
    Admin::open(&elsewhere.url).unwrap().export(&mut dump).unwrap();
    let dump = String::from_utf8(dump)
        .unwrap()
        .replace("\"marks\":\"unfinished\"", "\"marks\":\"\"");
    let admin = Admin::open(&database.url).unwrap();
    let machine = "machine-0000000000000001";
    let lines = format!("{{\"banned\":\"{machine}\"}}\n{dump}");
    assert_eq!(admin.import(lines.as_bytes(), &KNOWN, false).unwrap(), 1);
    let served = Hub::start(&database);
    let runs = served.get("/api/v1/runs").json();
    let counted: Vec<_> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["counted"].as_bool())
        .collect();
    assert_eq!(counted, [Some(false), Some(true)], "the newest first");
    assert_eq!(served.share(&generated::run(1, 2)).status, 201, "it is not banned");
}

#[test]
fn a_run_of_a_newer_revision_is_kept_apart() {
    let hub = Hub::alone();
    for (machine, revision) in (1..).zip([
        Revision {
            protocol: u32::MAX,
            mechanisms: 1,
        },
        Revision {
            protocol: 1,
            mechanisms: u32::MAX,
        },
    ]) {
        let mut run = generated::run(machine, 1);
        run.revision = Some(revision);
        let receipt = hub.share(&run);
        assert_eq!(receipt.json()["marks"].to_string(), "[\"newer than this hub\"]");
        let page = hub.get(&format!("/runs/{}", receipt.field("id"))).text();
        assert!(page.contains("kept apart from the figures of this hub: newer than this hub."));
    }
    assert_eq!(hub.get("/api/v1/table").json().as_array().map(Vec::len), Some(0));
}

#[test]
fn dumps_that_nobody_reads_hold_no_more_than_two_turns() {
    let hub = Hub::alone();
    for machine in 0..40 {
        hub.share(&generated::run(machine, 1));
    }
    let asked = || {
        let mut stream = std::net::TcpStream::connect(hub.address).unwrap();
        stream
            .write_all(b"GET /api/v1/dump.jsonl HTTP/1.1\r\nHost: hub\r\n\r\n")
            .unwrap();
        stream
    };
    let is_refused = || hub.get("/api/v1/dump.jsonl").status == 503;
    // One that comes while we ask is refused itself.
    let mut unread = vec![asked()];
    while !is_refused() {
        assert!(unread.len() < 20);
        unread.push(asked());
    }
    drop(unread);
    assert!((0..100).any(|_| !is_refused() || {
        thread::sleep(std::time::Duration::from_millis(100));
        false
    }));
}

#[test]
fn several_servers_of_one_database_show_the_same() {
    for database in Database::all() {
        let hubs = [Hub::start(&database), Hub::start(&database)];
        let secret = client::new_secret().unwrap();
        let receipt = hubs[0].share_with(&generated::run(1, 1), &secret);
        let count = |hub: &Hub| hub.get("/api/v1/runs").json()["runs"].as_array().unwrap().len();
        let reaches = |wanted: usize| {
            (0..100).any(|_| {
                thread::sleep(std::time::Duration::from_millis(100));
                count(&hubs[1]) == wanted
            })
        };
        assert!(reaches(1), "{}", database.name);
        assert_eq!(hubs[1].withdraw(&receipt.field("id"), &secret).status, 204);
        assert_eq!(count(&hubs[1]), 0);
    }
}

#[test]
fn dumps_have_all_runs() {
    let hub = Hub::alone();
    for number in 0..5 {
        hub.share(&generated::run(number, 1));
    }
    let lines = hub.get("/api/v1/dump.jsonl").text();
    assert_eq!(lines.lines().count(), 5);
    assert!(!lines.contains("\"secret\""), "secrets stay here");
    let parquet = hub.get("/api/v1/dump.parquet");
    assert!(
        parquet.body.starts_with(b"PAR1") && parquet.body.ends_with(b"PAR1"),
        "{:?}",
        parquet.status
    );
    let reader = SerializedFileReader::new(axum::body::Bytes::from(parquet.body)).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let wanted: usize = (0..5)
        .map(|number| {
            generated::run(number, 1)
                .contests
                .iter()
                .map(|one| one.entries.len())
                .sum::<usize>()
        })
        .sum();
    assert_eq!(rows.len(), wanted);
}
