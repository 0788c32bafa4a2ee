//! Ten thousand runs, and many clients at a time: `SEEKLESS_TEST_LONG=1 cargo test --release load`.

use std::time::{Duration, Instant};

use crate::common::{Database, Hub};
use crate::generated;
use crate::kills::start;

const RUNS: u64 = 10_000;
const CLIENTS: u64 = 50;
/// Targets: of a page alone, in bytes and time, and of the server's memory.
const MAX_BYTES: usize = 200_000;
const MAX_TIME: Duration = Duration::from_millis(100);
const MAX_MEMORY: u64 = 200 << 20;

/// What each of so many acts took, of so many threads.
fn timed(threads: u64, acts: u64, act: impl Fn(u64) + Sync) -> Vec<Duration> {
    let one = |number| {
        let start = Instant::now();
        act(number);
        start.elapsed()
    };
    let mut all: Vec<Duration> = std::thread::scope(|scope| {
        let spawn = |of: u64| scope.spawn(move || (of..acts).step_by(threads as usize).map(one).collect::<Vec<_>>());
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort();
    all
}

/// The median and the 99th percentile, in milliseconds.
fn told(times: &[Duration]) -> String {
    let of = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    format!("{:.1} | {:.1}", of(50), of(99))
}

/// The memory of a process, now and at most, in bytes.
fn memory(process: u32) -> [u64; 2] {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    })
}

fn get(hub: &Hub, path: &str) -> usize {
    let answer = hub.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.body.len()
}

/// The addresses that are measured, pages first.
fn paths(hub: &Hub) -> Vec<String> {
    let runs = hub.get("/api/v1/runs?limit=2").json()["runs"].clone();
    let [a, b] = [0, 1].map(|at| runs[at]["id"].as_str().unwrap().to_owned());
    let pages = [
        "/",
        "/kinds/nvme",
        "/devices/Samsung%20SSD%20980%20PRO%201TB",
        "/runs",
        "/runs?file_system=ext4&method=read/mmap",
    ];
    let others = [
        "/about",
        "/api",
        "/api/v1/table",
        "/api/v1/runs?file_system=ext4",
        "/api/v1/profiles/nvme",
    ];
    let of_runs = [
        format!("/runs/{a}"),
        format!("/compare?a={a}&b={b}"),
        format!("/api/v1/runs/{a}"),
        format!("/api/v1/compare?a={a}&b={b}"),
    ];
    pages
        .into_iter()
        .chain(others)
        .map(str::to_owned)
        .chain(of_runs)
        .collect()
}

/// Measures an address alone, each time with something of its own so that no answer is kept, and of many clients.
fn measure(hub: &Hub, path: &str, acts: u64, is_long: bool) -> String {
    let other = |number: u64| format!("{path}{}other={number}", if path.contains('?') { '&' } else { '?' });
    let bytes = get(hub, path);
    let alone = timed(1, if path.contains("profiles") { 3 } else { 30 }, |number| {
        get(hub, &other(number));
    });
    let many = timed(CLIENTS, acts, |_| {
        get(hub, path);
    });
    if !path.starts_with("/api/") {
        assert!(bytes < MAX_BYTES, "{path}: {bytes} bytes");
        let is_soon = !is_long || cfg!(debug_assertions) || alone[alone.len() / 2] < MAX_TIME;
        assert!(is_soon, "{path}: {alone:?}");
    }
    format!("{path:.42} | {bytes} | {} | {}", told(&alone), told(&many))
}

#[test]
fn hub_pages_of_many_runs_are_small_and_soon_and_memory_is_bounded() {
    let is_long = std::env::var_os("SEEKLESS_TEST_LONG").is_some();
    // Without optimisation, ten thousand runs take half an hour, and the time of a page says nothing.
    let (runs, acts) = match (is_long, cfg!(debug_assertions)) {
        (true, false) => (RUNS, 2000),
        (true, true) => (RUNS / 10, 200),
        (false, _) => (30, 100),
    };
    for database in Database::all() {
        let (mut server, hub) = start(&database.url, "");
        let share = |number| {
            let answer = hub.share(&generated::run(number % (runs / 5), number));
            assert_eq!(answer.status, 201, "{}", answer.text());
        };
        let name = database.name;
        println!(
            "| {name} | uploads of 4 clients | | | | {} |",
            told(&timed(4, runs, share))
        );
        let paths = paths(&hub);
        for path in &paths {
            println!("| {name} | {} |", measure(&hub, path, acts, is_long));
        }
        let mixed = timed(CLIENTS, 2 * acts, |number| match number % 50 {
            7 => share(runs + number),
            _ => drop(hub.get(&paths[number as usize % 5])),
        });
        println!("| {name} | five pages, and runs that come | | | | {} |", told(&mixed));
        let [now, most] = memory(server.id());
        println!("| {name} | memory: {} MiB, at most {} MiB |", now >> 20, most >> 20);
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(!is_long || most < MAX_MEMORY, "{name}: {most} bytes");
        let started = Instant::now();
        let (mut server, hub) = start(&database.url, "");
        println!("| {name} | it starts in {:.1} s |", started.elapsed().as_secs_f64());
        get(&hub, "/");
        server.kill().unwrap();
        server.wait().unwrap();
    }
}
