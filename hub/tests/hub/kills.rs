//! A server that is killed while runs come, and one whose disk is full.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use seekless_hub::{Admin, Options, serve};

use crate::common::{Database, Hub, KNOWN};
use crate::generated;

/// The database of a server in a process of its own.
const SERVED: &str = "SEEKLESS_HUB_SERVED";

/// Not a test of its own: what the others start, and kill.
#[test]
fn a_server_in_a_process_of_its_own() {
    let Ok(database) = std::env::var(SERVED) else { return };
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        database,
        public_url: None,
        rate: 0,
        behind_proxy: false,
    };
    serve(&options, KNOWN, |address| println!("\nserving {address}")).unwrap();
}

pub fn start(database: &str, limits: &str) -> (Child, Hub) {
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "{limits} exec {} --exact kills::a_server_in_a_process_of_its_own --nocapture",
        program.display()
    );
    let mut server = Command::new("sh");
    server
        .args(["-c", &script])
        .env(SERVED, database)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = server.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines
        .find_map(|line| Some(line.unwrap().strip_prefix("serving ")?.to_owned()))
        .expect("it serves");
    // It says after a minute that it still runs.
    std::thread::spawn(move || lines.for_each(drop));
    let hub = Hub {
        url: format!("http://{address}"),
        address: address.parse().unwrap(),
        database: None,
    };
    (child, hub)
}

#[test]
fn a_run_that_was_acknowledged_survives_a_kill_and_none_is_half_stored() {
    let kills = if std::env::var_os("SEEKLESS_TEST_LONG").is_some() {
        100
    } else {
        6
    };
    for database in Database::all() {
        let acknowledged: Arc<Mutex<Vec<String>>> = Arc::default();
        let next = Arc::new(AtomicU64::new(0));
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..kills {
            let (mut child, hub) = start(&database.url, "");
            let hub = Arc::new(hub);
            let ends = Arc::new(AtomicBool::new(false));
            let senders: Vec<_> = (0..4)
                .map(|_| {
                    let (hub, next, acknowledged, ends) =
                        (hub.clone(), next.clone(), acknowledged.clone(), ends.clone());
                    std::thread::spawn(move || {
                        while !ends.load(Ordering::Relaxed) {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            let Some(answer) = hub.try_share(&generated::run(number % 50, number)) else {
                                return;
                            };
                            assert_eq!(answer.status, 201, "{}", answer.text());
                            acknowledged.lock().unwrap().push(answer.field("id"));
                        }
                    })
                })
                .collect();
            // Under load: after it acknowledged one.
            let (before, until) = (
                acknowledged.lock().unwrap().len(),
                Instant::now() + Duration::from_secs(30),
            );
            while acknowledged.lock().unwrap().len() == before && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(random.u64(..400)));
            child.kill().unwrap();
            child.wait().unwrap();
            ends.store(true, Ordering::Relaxed);
            for sender in senders {
                sender.join().unwrap();
            }
        }
        let verified = Admin::open(&database.url).unwrap().verify(&KNOWN).unwrap();
        assert_eq!(verified.damaged, Vec::<String>::new(), "{}", database.name);
        let acknowledged = acknowledged.lock().unwrap();
        println!(
            "{}: {kills} kills, {} acknowledged, {} stored",
            database.name,
            acknowledged.len(),
            verified.runs
        );
        assert!(acknowledged.len() > kills, "{}", acknowledged.len());
        assert!(verified.runs >= acknowledged.len(), "{}", database.name);
        let hub = Hub::start(&database);
        for id in acknowledged.iter() {
            assert_eq!(
                hub.get(&format!("/api/v1/runs/{id}")).status,
                200,
                "{}: {id} is lost",
                database.name
            );
        }
    }
}

#[test]
fn a_full_disk_refuses_runs_and_loses_none() {
    let database = Database::sqlite();
    // SIGXFSZ is ignored, so that writes beyond the limit fail, as on a full disk.
    let (mut child, hub) = start(&database.url, "trap '' XFSZ; ulimit -f 1500;");
    let mut stored = Vec::new();
    let refused = (0..400).find_map(|number| {
        let answer = hub.share(&generated::run(number, 1));
        match answer.status {
            201 => stored.push(answer.field("id")),
            _ => return Some(answer),
        }
        None
    });
    let refused = refused.expect("the disk gets full");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(!stored.is_empty());
    for id in &stored {
        assert_eq!(hub.get(&format!("/api/v1/runs/{id}")).status, 200, "it still serves");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let verified = Admin::open(&database.url).unwrap().verify(&KNOWN).unwrap();
    assert_eq!((verified.runs, verified.damaged), (stored.len(), Vec::new()));
}
