//! Pages of generated runs: what they say, what they weigh, and that no text of a stranger becomes markup.

use std::time::Instant;

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

#[test]
fn write_pages() {
    let Ok(directory) = std::env::var("PAGES") else { return };
    let numbers: Vec<usize> = std::env::var("MANY").map_or(vec![60, 20, 60], |of| {
        of.split(' ').map(|n| n.parse().unwrap()).collect()
    });
    let started = Instant::now();
    let index = many(numbers[0], numbers[1], numbers[2]);
    println!("made in {:?}", started.elapsed());
    for _ in 0..3 {
        let started = Instant::now();
        start::page(&index, &Filter::default());
        println!("start {:?}", started.elapsed());
    }
    let started = Instant::now();
    storages::kind(&index, DeviceKind::Nvme, &of_kind(DeviceKind::Nvme));
    println!("kind {:?}", started.elapsed());
    let started = Instant::now();
    let model = "WDC WD10EZEX-08WN4A0";
    storages::device(
        &index,
        model,
        &Filter {
            model: Some(model.to_owned()),
            ..Filter::default()
        },
    );
    println!("device {:?}", started.elapsed());
    for (name, page) in pages(&index) {
        println!("{name}: {} bytes", page.len());
        std::fs::write(
            format!("{directory}/{name}.html"),
            page.replace("\"/style.css\"", "\"style.css\""),
        )
        .expect("a file");
    }
    let style = format!("{STYLE}{}", include_str!("style.css"));
    std::fs::write(format!("{directory}/style.css"), style).expect("a file");
}
