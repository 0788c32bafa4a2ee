//! What strangers do to a hub.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use seekless_record::{Run, to_json};
use seekless_results::anonymous;

use crate::common::{Database, Hub, KNOWN};
use crate::generated;

const SCRIPT: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
const PAGES: [&str; 6] = [
    "/",
    "/runs",
    "/kinds/nvme",
    "/about",
    "/api",
    "/devices/Samsung%20SSD%20980%20PRO%201TB",
];

/// Plants a text in a run.
type Change = fn(&mut Run);

#[test]
fn a_run_that_names_anything_private_is_refused() {
    let hub = Hub::alone();
    let changes: [(&str, Change); 8] = [
        ("/machine/host", |run| run.machine.host = Some("laptop".to_owned())),
        ("/storages/0/path", |run| {
            run.storages[0].path = "/home/someone".to_owned();
        }),
        ("/storages/0/mount_point", |run| {
            run.storages[0].mount_point = Some("/home".to_owned());
        }),
        ("/storages/0/device/model", |run| {
            run.storages[0].device.as_mut().unwrap().model = Some(SCRIPT.to_owned());
        }),
        ("/experiments/0", |run| run.experiments[0] = SCRIPT.to_owned()),
        ("/warnings", |run| run.warnings.push(SCRIPT.to_owned())),
        ("/machine/processor", |run| {
            run.machine.processor = Some(format!("Intel(R) {SCRIPT}"));
        }),
        ("/started", |run| run.started = "2026-01-01T10:11:12Z".to_owned()),
    ];
    for (place, change) in changes {
        let mut run = generated::run(1, 1);
        change(&mut run);
        let answer = hub.share(&run);
        assert_eq!(answer.status, 422, "{place}: {}", answer.text());
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert!(answer.field("detail").contains(place), "{place}: {}", answer.text());
    }
    assert_eq!(hub.get("/api/v1/runs").json()["runs"].to_string(), "[]");
}

/// Writes a script into each text that is not one of certain words.
struct Hostile;
impl seekless_record::Visitor for Hostile {
    fn text(&mut self, _: &str, about: seekless_record::Text, text: &mut String) -> bool {
        if !matches!(
            about,
            seekless_record::Text::Method | seekless_record::Text::Started | seekless_record::Text::Consumer
        ) {
            SCRIPT.clone_into(text);
        }
        true
    }
}

#[test]
fn no_text_of_a_stranger_runs_on_a_page() {
    let hub = Hub::alone();
    // All texts at once, made as anonymous as they can be: what is left must be harmless.
    let mut run = generated::run(1, 1);
    run.visit(&mut Hostile);
    let id = hub.share(&anonymous(&run, &KNOWN)).field("id");
    assert!(!id.is_empty());
    hub.share(&generated::run(2, 1));
    let script = encoded(SCRIPT);
    let mut pages: Vec<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    pages.extend([
        format!("/runs/{id}"),
        format!("/kinds/{script}"),
        format!("/devices/{script}"),
        format!("/{script}"),
    ]);
    for name in [
        "kind",
        "model",
        "file_system",
        "kernel",
        "operation",
        "cache",
        "work",
        "method",
        "revision",
        "a",
        "b",
    ] {
        pages.extend(["/", "/runs", "/compare", "/kinds/nvme"].map(|page| format!("{page}?{name}={script}")));
    }
    for page in pages {
        let answer = hub.get(&page);
        let text = answer.text();
        assert!(answer.status < 500, "{page}: {text}");
        assert!(!text.contains("<script") && !text.contains("<img"), "{page}: {text}");
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && !policy.contains("unsafe"),
            "{page}: {policy}"
        );
        assert!(!policy.contains("script-src"), "nothing runs: {policy}");
        assert!(answer.headers.get("set-cookie").is_none(), "{page}");
    }
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[test]
fn statements_in_parameters_are_words_like_others() {
    for database in Database::all() {
        let hub = Hub::start(&database);
        let receipt = hub.share(&generated::run(1, 1));
        let before = hub.get("/api/v1/runs").text();
        for attack in [
            "' OR '1'='1",
            "'; DROP TABLE runs; --",
            "\" OR 1=1 --",
            "1); DELETE FROM runs; --",
            "\0",
            "%' --",
        ] {
            let attack = encoded(attack);
            for name in [
                "kind",
                "model",
                "file_system",
                "kernel",
                "operation",
                "cache",
                "target",
                "durability",
                "work",
                "method",
                "revision",
                "size",
                "before",
                "limit",
            ] {
                let answer = hub.get(&format!("/api/v1/runs?{name}={attack}"));
                assert!(answer.status < 500, "{name}={attack}: {}", answer.text());
                assert!(
                    answer.status != 200 || !answer.text().contains(&receipt.field("id")),
                    "{name}={attack}: {}",
                    answer.text()
                );
            }
            for path in ["/api/v1/runs/", "/runs/", "/api/v1/profiles/", "/kinds/"] {
                assert!(
                    (400..500).contains(&hub.get(&format!("{path}{attack}")).status),
                    "{path}{attack}"
                );
            }
            assert!(hub.withdraw(&receipt.field("id"), "' OR '1'='1").status == 403);
        }
        assert_eq!(hub.get("/api/v1/runs").text(), before, "{}", database.name);
    }
}

#[test]
fn malformed_uploads_are_refused_and_change_nothing() {
    let hub = Hub::alone();
    let good = to_json(&generated::run(1, 1)).unwrap().into_bytes();
    let mut random = fastrand::Rng::with_seed(7);
    let uploads = if std::env::var_os("SEEKLESS_TEST_LONG").is_some() {
        10_000
    } else {
        400
    };
    let mut stored = 0;
    for upload in 0..uploads {
        let mut text = good.clone();
        match upload % 5 {
            0 => text.truncate(random.usize(..text.len())),
            1 => (0..=random.usize(..4)).for_each(|_| {
                let at = random.usize(..text.len());
                text[at] = random.u8(..);
            }),
            2 => {
                let (from, to) = (random.usize(..text.len()), random.usize(..text.len()));
                text.drain(from.min(to)..from.max(to));
            }
            3 => {
                let at = random.usize(..text.len());
                let digits = text[at..].iter().position(u8::is_ascii_digit);
                let huge = ["1e308", "-1", "NaN", "99999999999999999999"][random.usize(..4)];
                if let Some(digit) = digits {
                    text.splice(at + digit..=at + digit, huge.bytes());
                }
            }
            _ => text = (0..random.usize(..2000)).map(|_| random.u8(..)).collect(),
        }
        let answer = hub.post(&text);
        assert!(
            [200, 201, 422].contains(&answer.status),
            "{}: {}",
            answer.status,
            answer.text()
        );
        stored += usize::from(answer.status == 201);
    }
    let runs = hub.get("/api/v1/runs?limit=200").json()["runs"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(runs, stored.min(200));
    assert_eq!(hub.share(&generated::run(2, 2)).status, 201, "it goes on");
}

#[test]
fn what_is_too_large_too_deep_or_too_costly_is_refused_soon() {
    let hub = Hub::alone();
    let started = Instant::now();
    let deep = [b"{\"version\":1,\"id\":".to_vec(), vec![b'['; 1 << 20]].concat();
    assert_eq!(hub.post(&deep).status, 422);
    assert!(sent(&hub, "", &vec![b' '; 20 << 20]).starts_with("HTTP/1.1 413"));
    // A small body that is large when it is decompressed.
    let mut bomb = Vec::new();
    flate2::read::GzEncoder::new(std::io::repeat(b' ').take(1 << 30), flate2::Compression::default())
        .read_to_end(&mut bomb)
        .unwrap();
    assert!(bomb.len() < 2 << 20);
    assert!(sent(&hub, "Content-Encoding: gzip\r\n", &bomb).starts_with("HTTP/1.1 413"));
    let mut wide = generated::run(1, 1);
    let entry = wide.contests[0].entries[0].clone();
    wide.contests[0].entries.resize(401, entry);
    let answer = hub.share(&wide);
    assert!(
        answer.status == 422 && answer.field("detail").contains("401 entries"),
        "{}",
        answer.text()
    );
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// The answer to a body, which a server need not read to its end.
fn sent(hub: &Hub, headers: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(hub.address).unwrap();
    let length = body.len();
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\nHost: hub\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn slow_clients_do_not_keep_others_waiting() {
    let hub = Hub::alone();
    let mut slow: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(hub.address).unwrap()).collect();
    for (at, stream) in slow.iter_mut().enumerate() {
        let half: &[u8] = match at % 3 {
            0 => b"",
            1 => b"GET / HTTP/1.1\r\nHo",
            _ => b"POST /api/v1/runs HTTP/1.1\r\nHost: hub\r\nContent-Length: 100000\r\n\r\n{",
        };
        stream.write_all(half).unwrap();
    }
    let started = Instant::now();
    assert_eq!(hub.share(&generated::run(1, 1)).status, 201);
    assert_eq!(hub.get("/").status, 200);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // One that never ends its headers is left.
    let stream = &mut slow[1];
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).is_ok(), "it is still connected");
}

#[test]
fn requests_of_one_address_are_limited() {
    let hub = Hub::alone_with_rate(1);
    let answers: Vec<_> = (0..40).map(|_| hub.get("/api/v1/runs")).collect();
    assert_eq!(answers[0].status, 200);
    let refused = answers
        .iter()
        .find(|answer| answer.status == 429)
        .expect("some are refused");
    assert!(refused.field("detail").contains("try again in"), "{}", refused.text());
}

#[test]
fn impossible_figures_are_kept_apart_and_marked() {
    let hub = Hub::alone();
    let original = generated::run(1, 1);
    hub.share(&original);
    let again = |change: &dyn Fn(&mut Run)| {
        let mut run = generated::run(2, 9);
        change(&mut run);
        let concluded = anonymous(&run, &KNOWN);
        run.contests.clone_from(&concluded.contests);
        run.id = concluded.id;
        let answer = hub.share(&run);
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert!(!answer.json()["counted"].as_bool().unwrap(), "{}", answer.text());
        answer.json()["marks"].to_string()
    };
    assert!(again(&|run| run.trials.iter_mut().for_each(|trial| trial.seconds = 1e-9)).contains("faster than memory"));
    assert!(again(&|run| run.trials.iter_mut().for_each(|trial| trial.seconds = 0.25)).contains("copied samples"));
    assert!(again(&|run| run.noise.others = Some(0.5)).contains("busy"));
    let copied = again(&|run| {
        for (own, other) in run.trials.iter_mut().zip(&original.trials) {
            own.seconds = other.seconds;
        }
    });
    assert!(copied.contains("copied samples"), "{copied}");
    // A verdict that the samples do not bear.
    let mut lying = generated::run(3, 1);
    let conclusion = lying.contests[0].conclusion.as_mut().unwrap();
    conclusion.recommended = Some("read/mmap,populate".to_owned());
    let answer = hub.share(&lying);
    assert!(
        answer.json()["marks"].to_string().contains("verdicts differ"),
        "{}",
        answer.text()
    );
    let stored = hub.get(&format!("/api/v1/runs/{}", answer.field("id"))).text();
    assert!(!stored.contains("read/mmap,populate"), "the verdict is recomputed");
    let machines = hub.get("/api/v1/table").text();
    assert!(
        machines.contains("\"machines\":1") && !machines.contains("\"machines\":2"),
        "only the first counts: {machines}"
    );
}
