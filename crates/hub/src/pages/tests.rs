//! Pages of generated runs: what they say, what they weigh, and that no text of a stranger becomes markup.

use std::collections::{BTreeMap, BTreeSet};

use seekless_results::statistics::median;

use super::*;
use crate::accept::Mark;
use crate::figure::Place;
use crate::store::{FigureRow, Stored};

/// A run of a machine with rows: a place, a method and its seconds; the fastest of a place is the best.
fn add(index: &mut Index, machine: &str, marks: &[Mark], rows: &[(Place, &str, f64)]) {
    let sequence = i64::try_from(index.runs().len()).unwrap() + 1;
    let run = index.add_run(Stored {
        sequence,
        id: format!("{sequence:032x}"),
        received_unix_seconds: 0,
        day: format!("2026-11-{:02}", sequence % 28 + 1),
        machine: machine.to_owned(),
        marks: marks.to_vec(),
        secret: String::new(),
    });
    for (place, method, seconds) in rows {
        let of_place = rows.iter().filter(|(other, ..)| other == place);
        let best = of_place.map(|(.., seconds)| *seconds).fold(f64::INFINITY, f64::min);
        let (ratio, is_best) = (seconds / best, *seconds <= best);
        index.add_row(
            run,
            place,
            FigureRow {
                run: sequence,
                place: place.number(),
                method,
                ratio,
                seconds: *seconds,
                is_best,
            },
        );
    }
}

fn place(kind: &str, model: &str, kernel: &str, size_bytes: i64) -> Place {
    Place {
        kind: kind.to_owned(),
        model: model.to_owned(),
        file_system: "ext4".to_owned(),
        kernel: kernel.to_owned(),
        operation: "read".to_owned(),
        cache: "cold".to_owned(),
        target: "fresh".to_owned(),
        durability: "none".to_owned(),
        work: "sum".to_owned(),
        size_bytes,
        revision: "1.2".to_owned(),
    }
}

const METHODS: [&str; 8] = [
    "read/sync,block=128K",
    "read/sync,block=1M",
    "read/mmap",
    "read/sync,direct,block=1M",
    "read/double-buffer,block=1M",
    "read/io_uring,block=256K",
    "read/threads=4,block=1M",
    "read/posix-aio,block=1M",
];

/// So many runs of so many machines, each with 8 methods in each of so many places.
fn many(runs: usize, machines: usize, places: usize) -> Index {
    let mut index = Index::default();
    let mut rng = fastrand::Rng::with_seed(7);
    for run in 0..runs {
        let machine = run % machines;
        let kind = ["nvme", "ssd-sata", "hdd-sata", "virtual-disk"][machine % 4];
        let model = [
            "Samsung SSD 970 EVO 1TB",
            "WDC WD10EZEX-08WN4A0",
            "KINGSTON SA400S37240G",
            "ST2000DM008",
        ][machine / 4 % 4];
        let kernel = ["Linux 6.1", "Linux 6.12", "Linux 6.18"][run / machines % 3];
        let slow = 2.0_f64.powi(i32::try_from(machine % 4).unwrap()) * rng.f64().mul_add(0.6, 0.7);
        let mut rows: Vec<(Place, &str, f64)> = Vec::new();
        for at in 0..places {
            let mut here = place(kind, model, kernel, 4096 << (2 * (at % 10)));
            (here.operation, here.target) = [("read", "fresh"), ("copy", "fresh"), ("write", "overwrite")]
                .map(|(one, other)| (one.to_owned(), other.to_owned()))[at / 10 % 3]
                .clone();
            here.cache = ["cold", "warm", "none"][at / 30 % 3].into();
            let bytes = here.size_bytes as f64;
            for (number, method) in METHODS.iter().enumerate() {
                let regression = if kernel == "Linux 6.18" && *method == "read/mmap" {
                    1.4
                } else {
                    1.0
                };
                let setup = 1e-5 * (1.0 + 4.0 * number as f64);
                let seconds = setup
                    + slow * bytes / 2e9 / (1.0 + 0.15 * number as f64) * regression * rng.f64().mul_add(0.1, 0.95);
                rows.push((here.clone(), *method, seconds));
            }
        }
        add(&mut index, &format!("machine-{machine}"), &[], &rows);
    }
    index
}

fn of_kind(kind: DeviceKind) -> Filter {
    Filter {
        kind: Some(kind.slug().to_owned()),
        ..Filter::default()
    }
}

/// All pages of an index, each with its name.
fn pages(index: &Index) -> Vec<(&'static str, String)> {
    let model = index.values()[1].last().cloned().unwrap_or_default();
    let of_model = Filter {
        model: Some(model.clone()),
        ..Filter::default()
    };
    let document = serde_json::to_value(wire::Api::openapi()).expect("JSON");
    let all = [
        ("start", start::page(index, &Filter::default())),
        (
            "kind",
            storages::kind(index, DeviceKind::Nvme, &of_kind(DeviceKind::Nvme)),
        ),
        ("device", storages::device(index, &model, &of_model)),
        ("runs", storages::runs(index, &Filter::default(), None)),
        ("compare", texts::compare_form(&Asked::default())),
        ("about", texts::about()),
        ("api", texts::api(&document, "https://hub.example")),
        ("error", texts::problem(&Problem::missing("such page"))),
    ];
    all.into_iter()
        .map(|(name, body)| (name, framed(name, &body, SITE).into_string()))
        .collect()
}

/// What stands between two texts, each time.
fn between<'a>(page: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    page.split(start)
        .skip(1)
        .filter_map(|rest| rest.split(end).next())
        .collect()
}

#[test]
fn pages_need_no_more_than_their_policy_allows_and_link_only_to_the_hub() {
    for (name, page) in pages(&many(60, 20, 60)) {
        for unwanted in ["<script", "<style", " style=", " onclick", "javascript:", "data:"] {
            assert!(!page.contains(unwanted), "{name}: {unwanted}");
        }
        for link in [between(&page, "href=\"", "\""), between(&page, "action=\"", "\"")].concat() {
            assert!(
                link.starts_with(['/', '#']) && !link.starts_with("//"),
                "{name}: {link}"
            );
        }
        let ids = between(&page, " id=\"", "\"");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{name}: {ids:?}");
        assert!(page.len() < 200_000, "{name}: {} bytes", page.len());
    }
}

#[test]
fn texts_of_strangers_stay_texts() {
    let wild = "\"'><script>alert(1)</script><img src=x onerror=y>/../?a=b&c#d%00\u{202e}";
    let mut index = Index::default();
    for machine in ["a", "b", "c"] {
        let mut there = place("nvme", wild, wild, 1 << 20);
        let words = [
            &mut there.file_system,
            &mut there.operation,
            &mut there.cache,
            &mut there.target,
            &mut there.durability,
            &mut there.work,
        ];
        for word in words {
            wild.clone_into(word);
        }
        let other = Place {
            kernel: format!("{wild} 2"),
            ..there.clone()
        };
        add(&mut index, machine, &[], &[(there, wild, 1.0), (other, wild, 2.0)]);
    }
    for (name, page) in pages(&index) {
        assert!(!page.contains("<script") && !page.contains("<img"), "{name}");
        for link in [between(&page, "href=\"", "\""), between(&page, "action=\"", "\"")].concat() {
            let is_plain = link
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/?&;=%#-_.".contains(&byte));
            assert!(is_plain, "{name}: {link}");
        }
    }
    assert!(pages(&index)[1].1.contains("&lt;script&gt;"), "the model is named");
}

/// An index of machines, each with one method's seconds for one file, and the other's.
fn of_two(machines: &[(&str, [f64; 2])], kind: &str, marks: &[Mark]) -> Index {
    let mut index = Index::default();
    for (machine, [sync, mmap]) in machines {
        let there = place(kind, "", "Linux 6.18", 1 << 20);
        add(
            &mut index,
            machine,
            marks,
            &[
                (there.clone(), "read/sync,block=1M", *sync),
                (there, "read/mmap", *mmap),
            ],
        );
    }
    index
}

fn start_of(index: &Index, filter: &Filter) -> String {
    start::page(index, filter).into_string()
}

#[test]
fn a_cell_names_the_winner_and_on_how_many_machines_it_is_the_best() {
    let page = start_of(
        &of_two(&[("a", [1.0, 2.0]), ("b", [1.0, 2.0]), ("c", [2.0, 1.0])], "nvme", &[]),
        &Filter::default(),
    );
    assert!(
        page.contains("best on 2 of 3") && page.contains(">sync,<wbr>block=1M<wbr>"),
        "{page}"
    );
    assert!(page.contains("3 machines, 3 sittings, 3 runs, revision 1.2"), "{page}");
}

#[test]
fn fewer_than_three_machines_are_said_to_be_so_in_words() {
    let index = of_two(&[("a", [1.0, 2.0]), ("a", [1.0, 2.0]), ("b", [1.0, 2.0])], "nvme", &[]);
    assert!(start_of(&index, &Filter::default()).contains("only 2 machines"));
    let page = storages::kind(&index, DeviceKind::Nvme, &of_kind(DeviceKind::Nvme)).into_string();
    assert!(
        page.contains("2 machines (fewer than three: no trend), 3 sittings, 3 runs"),
        "{page}"
    );
}

#[test]
fn one_machine_s_tenth_run_does_not_outweigh_two_machines() {
    let mut machines = vec![("busy", [1.0, 2.0]); 10];
    machines.extend([("a", [2.0, 1.0]), ("b", [2.0, 1.0])]);
    let page = start_of(&of_two(&machines, "nvme", &[]), &Filter::default());
    assert!(page.contains(">mmap<wbr>") && page.contains("best on 2 of 3"), "{page}");
}

#[test]
fn simulated_disks_are_shown_only_if_they_are_asked_for_and_busy_runs_never() {
    let three = [("a", [1.0, 2.0]), ("b", [1.0, 2.0]), ("c", [1.0, 2.0])];
    let simulated = of_two(&three, "simulated", &[Mark::Simulated]);
    assert!(start_of(&simulated, &Filter::default()).contains("No run that counts fits this"));
    assert!(start_of(&simulated, &of_kind(DeviceKind::Simulated)).contains("best on 3 of 3"));
    let busy = of_two(&three, "nvme", &[Mark::Busy]);
    for page in [
        start_of(&busy, &Filter::default()),
        start_of(&busy, &of_kind(DeviceKind::Nvme)),
    ] {
        assert!(
            page.contains("No run that counts fits this") && !page.contains("best on"),
            "{page}"
        );
    }
    assert!(
        storages::runs(&busy, &Filter::default(), None)
            .into_string()
            .contains("<td>busy</td>")
    );
}

#[test]
fn a_form_keeps_what_is_asked_and_what_it_leaves_empty_asks_nothing() {
    let filter = Filter {
        kernel: Some("Linux 6.12".to_owned()),
        cache: Some(String::new()),
        ..Filter::default()
    };
    assert_eq!(
        asked(&filter),
        Filter {
            cache: None,
            ..filter.clone()
        }
    );
    let page = start_of(&many(60, 20, 20), &asked(&filter));
    assert!(page.contains("<option value=\"Linux 6.12\" selected>"), "{page}");
    assert!(page.contains("href=\"/kinds/nvme?kernel=Linux%206%2E12\""), "{page}");
}

#[test]
fn a_regression_of_a_kernel_is_named_with_its_method() {
    let page = storages::kind(&many(60, 20, 10), DeviceKind::Nvme, &of_kind(DeviceKind::Nvme)).into_string();
    let row = between(&page, "<th scope=\"row\">Linux 6.18</th>", "</tr>")[0];
    let changed = between(row, "<span class=\"m\">", "</td>")[0];
    assert!(
        changed.starts_with("mmap</span>: 1.3") || changed.starts_with("mmap</span>: 1.4"),
        "{row}"
    );
}

#[test]
fn a_task_is_named_by_what_differs() {
    let task = |kind: &str, work: &str| Task {
        kind: kind.to_owned(),
        operation: "read".to_owned(),
        cache: "cold".to_owned(),
        target: "fresh".to_owned(),
        durability: "none".to_owned(),
        work: work.to_owned(),
    };
    let all = [task("nvme", "sum"), task("nvme", "none"), task("loop", "sum")];
    let titles = |all: &[Task]| all.iter().map(|task| title(task, all.iter())).collect::<Vec<_>>();
    assert_eq!(titles(&all[..1]), ["read, cold"]);
    assert_eq!(titles(&all[..2]), ["read, cold, sum", "read, cold, none"]);
    assert_eq!(titles(&all)[2], "read, cold, loop");
}

#[test]
fn older_runs_are_a_page_further() {
    let index = many(120, 20, 1);
    let page = storages::runs(&index, &Filter::default(), None).into_string();
    assert!(page.contains("href=\"/runs?before=71\""), "{page}");
    let last = storages::runs(&index, &Filter::default(), Some(21)).into_string();
    assert_eq!(
        (between(&last, "href=\"/runs/", "\"").len(), last.contains("Older runs")),
        (20, false)
    );
}

#[test]
fn each_operation_of_the_api_is_described_with_an_example() {
    let document = serde_json::to_value(wire::Api::openapi()).expect("JSON");
    let page = texts::api(&document, "https://hub.example").into_string();
    let operations: usize = document["paths"]
        .as_object()
        .expect("paths")
        .values()
        .map(|of| of.as_object().expect("methods").len())
        .sum();
    assert!(operations >= 8 && page.matches("<pre>").count() == operations, "{page}");
    assert!(page.contains("https://hub.example/api/v1/runs/ID"), "{page}");
}

#[test]
fn cells_are_those_of_a_naive_count() {
    let index = many(50, 12, 8);
    let cells = crate::trends::cells(&index, &Filter::default());
    assert!(cells.len() > 8);
    for cell in &cells {
        // For each method and machine, the ratios of all its runs.
        let mut methods: BTreeMap<String, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        for place in index.places_of(&Filter::default()) {
            let there = index.place_at(place);
            let bytes = there.size_bytes.unsigned_abs();
            let is_in = there.kind == cell.task.kind
                && there.operation == cell.task.operation
                && there.cache == cell.task.cache;
            if is_in && bytes > cell.above_bytes && bytes <= cell.up_to_bytes {
                index.rows_of(place, |run, _, method, seen| {
                    methods
                        .entry(method.to_owned())
                        .or_default()
                        .entry(run.machine)
                        .or_default()
                        .push(seen.ratio.into());
                });
            }
        }
        for method in &cell.methods {
            let machines: Vec<f64> = methods[&method.method]
                .values()
                .map(|ratios| median(ratios).unwrap())
                .collect();
            assert_eq!(
                (Some(method.ratio), method.machines),
                (median(&machines), machines.len()),
                "{}",
                method.method
            );
        }
        assert_eq!(cell.methods.len(), methods.len());
    }
}
