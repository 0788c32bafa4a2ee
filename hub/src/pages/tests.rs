//! Pages of generated runs: what they say, what they weigh, and that no text of a stranger becomes markup.

use std::collections::HashMap;

use seekless_results::statistics::median;

use super::*;
use crate::figure::{Figure, Place};
use crate::store::{News, Stored};
use crate::trends;

/// A run of a machine with rows: a place, a method and its seconds; the fastest of a place is the best.
fn add(index: &mut Index, machine: &str, marks: &str, rows: &[(Place, &str, f64)]) {
    let sequence = index.runs().last().map_or(1, |run| run.stored.sequence + 1);
    let stored = Stored {
        sequence,
        id: format!("{sequence:032x}"),
        received_unix_seconds: 0,
        day: format!("2026-11-{:02}", sequence % 28 + 1),
        machine: machine.to_owned(),
        marks: marks.to_owned(),
        secret: String::new(),
    };
    let figure = |(place, method, seconds): &(Place, &str, f64)| {
        let of_place = rows.iter().filter(|(other, ..)| other == place);
        let best = of_place.map(|(.., seconds)| *seconds).fold(f64::INFINITY, f64::min);
        Figure {
            run: sequence,
            contest: 0,
            place: place.number(),
            method: (*method).to_owned(),
            ratio: seconds / best,
            is_best: i64::from(*seconds <= best),
            seconds: *seconds,
        }
    };
    index.add(News {
        runs: vec![stored],
        places: rows.iter().map(|(place, ..)| (place.number(), place.clone())).collect(),
        figures: rows.iter().map(figure).collect(),
    });
}

fn place(kind: &str, model: &str, kernel: &str, size_bytes: i64) -> Place {
    let words = [
        kind, "read", "cold", "fresh", "none", "sum", model, "ext4", kernel, "1.2",
    ];
    Place {
        words: words.map(str::to_owned),
        size_bytes,
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
            let (operation, target) = [("read", "fresh"), ("copy", "fresh"), ("write", "overwrite")][at / 10 % 3];
            here.words[Word::Operation as usize] = operation.to_owned();
            here.words[Word::Target as usize] = target.to_owned();
            here.words[Word::Cache as usize] = ["cold", "warm", "none"][at / 30 % 3].to_owned();
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
        add(&mut index, &format!("machine-{machine}"), "", &rows);
    }
    index
}

fn of_kind(kind: DeviceKind) -> Filter {
    Filter::default().with(Word::Kind, Some(kind.slug()))
}

/// All pages of an index, each with its name.
fn pages(index: &Index) -> Vec<(&'static str, String)> {
    let model = index.values(Word::Model as usize).pop_last().unwrap_or_default();
    let document = serde_json::to_value(wire::Api::openapi()).expect("JSON");
    let all = [
        ("start", start::page(index, &Filter::default())),
        (
            "kind",
            storages::kind(index, DeviceKind::Nvme, &of_kind(DeviceKind::Nvme)),
        ),
        ("device", storages::device(index, model, &Filter::default())),
        ("runs", storages::runs(index, &Filter::default(), wire::Part::default())),
        ("compare", texts::compare_form(&wire::Pair::default())),
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
        for word in &mut there.words[Word::Operation as usize..Word::Revision as usize] {
            wild.clone_into(word);
        }
        let mut other = there.clone();
        other.words[Word::Kernel as usize] += " 2";
        add(&mut index, machine, "", &[(there, wild, 1.0), (other, wild, 2.0)]);
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
fn of_two(machines: &[(&str, [f64; 2])], kind: &str, marks: &str) -> Index {
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
        &of_two(&[("a", [1.0, 2.0]), ("b", [1.0, 2.0]), ("c", [2.0, 1.0])], "nvme", ""),
        &Filter::default(),
    );
    assert!(
        page.contains("best on 2 of 3") && page.contains(">sync,<wbr>block=1M<wbr>"),
        "{page}"
    );
    assert!(
        page.contains("3 machines, 3 sittings") && page.contains("; revision 1.2</caption>"),
        "{page}"
    );
}

#[test]
fn fewer_than_three_machines_are_said_to_be_so_in_words() {
    let index = of_two(&[("a", [1.0, 2.0]), ("a", [1.0, 2.0]), ("b", [1.0, 2.0])], "nvme", "");
    assert!(start_of(&index, &Filter::default()).contains("only 2 machines"));
    let page = storages::kind(&index, DeviceKind::Nvme, &of_kind(DeviceKind::Nvme)).into_string();
    assert!(
        page.contains("only 2 machines, 3 sittings, 3 runs, revision 1.2; fewer than three machines are no trend."),
        "{page}"
    );
}

#[test]
fn one_machine_s_tenth_run_does_not_outweigh_two_machines() {
    let mut machines = vec![("busy", [1.0, 2.0]); 10];
    machines.extend([("a", [2.0, 1.0]), ("b", [2.0, 1.0])]);
    let page = start_of(&of_two(&machines, "nvme", ""), &Filter::default());
    assert!(page.contains(">mmap<wbr>") && page.contains("best on 2 of 3"), "{page}");
}

#[test]
fn simulated_disks_are_shown_only_if_they_are_asked_for_and_busy_runs_never() {
    let three = [("a", [1.0, 2.0]), ("b", [1.0, 2.0]), ("c", [1.0, 2.0])];
    let simulated = of_two(&three, "simulated", "simulated");
    assert!(start_of(&simulated, &Filter::default()).contains("No run that counts fits this"));
    assert!(start_of(&simulated, &of_kind(DeviceKind::Simulated)).contains("best on 3 of 3"));
    let busy = of_two(&three, "nvme", "busy");
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
        storages::runs(&busy, &Filter::default(), wire::Part::default())
            .into_string()
            .contains("<td>busy</td>")
    );
}

#[test]
fn the_first_run_of_a_new_revision_does_not_empty_the_pages() {
    let mut index = of_two(&[("a", [1.0, 2.0]), ("b", [1.0, 2.0]), ("c", [1.0, 2.0])], "nvme", "");
    let mut newer = place("nvme", "", "Linux 6.12", 1 << 20);
    "1.10".clone_into(&mut newer.words[Word::Revision as usize]);
    for (machine, marks, shown) in [
        ("d", "", "1.2"),
        ("e", "busy", "1.2"),
        ("f", "", "1.2"),
        ("g", "", "1.10"),
    ] {
        add(&mut index, machine, marks, &[(newer.clone(), METHODS[0], 1.0)]);
        let page = start_of(&index, &Filter::default());
        assert!(page.contains(&format!("revision {shown}<")), "{machine}: {page}");
    }
}

#[test]
fn a_page_without_figures_says_why() {
    let page = |index: &Index| start_of(index, &Filter::default());
    assert!(page(&Index::default()).contains("No run was shared yet"));
    let busy = page(&of_two(&[("a", [1.0, 2.0])], "nvme", "busy"));
    assert!(busy.contains(">1 run</a> (busy)"), "{busy}");
    let simulated = page(&of_two(&[("a", [1.0, 2.0])], "simulated", "simulated"));
    assert!(simulated.contains("href=\"/?kind=simulated\""), "{simulated}");
}

#[test]
fn a_form_keeps_what_is_asked_and_what_it_leaves_empty_asks_nothing() {
    let query = [("kernel", "Linux 6.12"), ("cache", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let filter = Filter::try_from(HashMap::from(query)).unwrap();
    assert_eq!(filter, Filter::default().with(Word::Kernel, Some("Linux 6.12")));
    let page = start_of(&many(60, 20, 20), &filter);
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
    let task = |kind: &str, work: &str| [kind, "read", "cold", "fresh", "none", work].map(str::to_owned);
    let all = [task("nvme", "sum"), task("nvme", "none"), task("loop", "sum")];
    let titles = |all: &[[String; 6]]| {
        let tasks = || all.iter().map(|words| Task(words));
        tasks().map(|task| title(task, tasks())).collect::<Vec<_>>()
    };
    assert_eq!(titles(&all[..1]), ["read, cold"]);
    assert_eq!(titles(&all[..2]), ["read, cold, sum", "read, cold, none"]);
    assert_eq!(titles(&all)[2], "read, cold, loop");
}

#[test]
fn older_runs_are_a_page_further() {
    let index = many(120, 20, 1);
    let page = storages::runs(&index, &Filter::default(), wire::Part::default()).into_string();
    assert!(page.contains("href=\"/runs?before=71\""), "{page}");
    let before = wire::Part {
        before: Some(21),
        ..wire::Part::default()
    };
    let last = storages::runs(&index, &Filter::default(), before).into_string();
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
    let cells = trends::cells(&index, &Filter::default());
    assert!(cells.len() > 8);
    for cell in &cells {
        // For each method and machine, the ratios of all its runs.
        let mut methods: BTreeMap<&str, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        for there in index.places_of(&Filter::default()) {
            let class = cell.class;
            let is_in = there.words[..6] == *class.task.0;
            if is_in && there.size() > class.above_bytes && there.size() <= class.up_to_bytes {
                for (method, seen) in index.seen_at(there) {
                    for one in seen {
                        let machines = methods.entry(method).or_default();
                        machines.entry(one.machine).or_default().push(one.ratio.into());
                    }
                }
            }
        }
        for method in &cell.methods {
            let machines: Vec<f64> = methods[method.method]
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

#[test]
fn a_machine_s_change_is_the_median_of_what_both_kernels_measured() {
    let mut index = Index::default();
    let there = |kernel: &str, bytes: i64| place("nvme", "", kernel, bytes);
    let run = |kernel: &str, seconds: &[(i64, f64)]| -> Vec<_> {
        seconds
            .iter()
            .map(|(bytes, seconds)| (there(kernel, *bytes), "read/mmap", *seconds))
            .collect()
    };
    add(&mut index, "a", "", &run("Linux 6.1", &[(1, 1.0), (2, 1.0)]));
    add(&mut index, "b", "", &run("Linux 6.1", &[(1, 1.0)]));
    add(&mut index, "a", "", &run("Linux 6.2", &[(1, 1.5), (2, 2.5)]));
    add(&mut index, "c", "", &run("Linux 6.2", &[(1, 9.0)]));
    let asked = trends::Asked::of(&index, &Filter::default());
    let task = trends::curves(&asked, 1).0[0].task;
    let step = trends::kernels(&asked, &task).unwrap().steps[1].clone();
    let change = step.change.unwrap();
    assert_eq!(
        (change.quartiles, change.basis.machines, change.basis.sittings),
        ([2.0; 3], 1, 2)
    );
    assert_eq!(step.most, Some(("read/mmap", change)));
}

#[test]
fn each_figure_says_its_machines_sittings_and_revision() {
    let index = many(60, 20, 60);
    let kind = storages::kind(&index, DeviceKind::Nvme, &Filter::default()).into_string();
    let model = index.values(Word::Model as usize).pop_last().unwrap();
    let device = storages::device(&index, model, &Filter::default()).into_string();
    for page in [start_of(&index, &Filter::default()), kind, device] {
        for table in between(&page, "<table", "</table>") {
            if table.contains("<caption>Runs</caption>") {
                continue;
            }
            assert!(table.contains("; revision 1.2</caption>"), "{table}");
            for cell in between(table, "<td", "</td>") {
                let says_nothing =
                    cell.ends_with('>') || cell.ends_with('·') || cell.contains("no machine measured both");
                assert!(
                    says_nothing && !cell.contains("small") || cell.contains(" machine") && cell.contains(" sitting"),
                    "{cell}"
                );
            }
        }
    }
}
