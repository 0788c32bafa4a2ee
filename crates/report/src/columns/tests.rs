//! Which measurements share a table, and which never do.

use seekless_method::{Durability, Operation};
use seekless_record::{
    Cache, Column, Contest, Draw, Entry, Finding, Interval, Status, Subject, Summary, Target, UpdatePattern,
};
use seekless_results::{Line, simulation};

use super::*;

fn column(name: &str, operation: Operation, draw: Option<Draw>, methods: &str) -> Column {
    Column {
        experiment: "saving".to_owned(),
        name: name.to_owned(),
        operation,
        target: (operation == Operation::Write).then_some(Target::Fresh),
        draw,
        methods: methods.to_owned(),
    }
}

fn entry(method: &str, seconds: f64) -> Entry {
    Entry {
        subject: Subject::Method(method.to_owned()),
        label: None,
        status: Status::Measured,
        summary: Some(Summary {
            rounds: 6,
            invalid: 0,
            seconds: Interval {
                low: seconds,
                median: seconds,
                high: seconds,
                coverage: Some(0.97),
            },
            mean_seconds: seconds,
            deviation_seconds: None,
            p90_seconds: None,
            bytes_per_second: 1.0,
            cpu_seconds: 0.0,
            fsync_seconds: 0.0,
            setup_seconds: 0.0,
            user_seconds: None,
            system_seconds: None,
            calls: None,
            device_reads: None,
            device_request_bytes: None,
            amplification: None,
            predicted_seconds: None,
            planned: None,
            latency: None,
            read_latency: None,
            system: None,
        }),
        standing: None,
    }
}

fn contest(
    operation: Operation,
    size_bytes: u64,
    draw: Option<Draw>,
    durability: Durability,
    entries: Vec<Entry>,
) -> Contest {
    Contest {
        experiment: "saving".to_owned(),
        operation,
        cache: if draw.is_some() { Cache::Warm } else { Cache::None },
        target: if draw.is_some() {
            Target::Overwrite
        } else {
            Target::Fresh
        },
        durability,
        files: 2,
        updates: draw.map(|draw| UpdatePattern {
            bytes: 4,
            every_bytes: 400,
            draw,
        }),
        ..simulation::contest(size_bytes, entries)
    }
}

/// Two sizes, two buffers of the initial write, one way of updating, written through; and one write that is not.
fn run() -> Run {
    let mut run = simulation::run(&[], 0);
    run.columns = vec![
        column("Initial write", Operation::Write, None, "write/sync*"),
        column(
            "Random",
            Operation::Update,
            Some(Draw::Shuffled),
            "update/sync*as-given",
        ),
    ];
    run.contests.clear();
    for (size_bytes, factor) in [(4_000_000, 1.0), (400_000, 0.1)] {
        let writes = vec![
            entry("write/sync,block=4K,write-through", 0.2 * factor),
            entry("write/sync,block=1M,write-through", 0.02 * factor),
            entry("write/mmap,block=1M", 9.0),
        ];
        run.contests.push(contest(
            Operation::Write,
            size_bytes,
            None,
            Durability::WriteThrough,
            writes,
        ));
        let updates = vec![entry("update/sync,block=1M,write-through,order=as-given", 2.0 * factor)];
        let (drawn, other) = (Some(Draw::Shuffled), Some(Draw::Ascending));
        run.contests.push(contest(
            Operation::Update,
            size_bytes,
            drawn,
            Durability::WriteThrough,
            updates.clone(),
        ));
        run.contests.push(contest(
            Operation::Update,
            size_bytes,
            other,
            Durability::WriteThrough,
            vec![entry(&updates[0].name(), 7.0)],
        ));
    }
    run.contests.push(contest(
        Operation::Write,
        400_000,
        None,
        Durability::None,
        vec![entry("write/sync,block=4K", 0.004)],
    ));
    run
}

#[test]
fn a_buffer_and_a_durability_have_a_table_each_and_what_has_one_buffer_stands_in_all() {
    let run = run();
    let shown = Visible::of(&run);
    let tables = View::of(&shown).columns;
    let titles: Vec<String> = tables.iter().map(Table::title).collect();
    assert_eq!(
        titles,
        [
            "not synced, buffer 4K",
            "write-through, buffer 4K",
            "write-through, buffer 1M"
        ]
    );
    let seconds = |table: &Table<'_>| {
        let line = |line: &Line<'_>| {
            let cells = line
                .cells
                .iter()
                .map(|cell| cell.map(|cell| (cell.seconds * 1e4).round() / 1e4));
            (line.size_bytes, cells.collect::<Vec<_>>())
        };
        table.lines.iter().map(line).collect::<Vec<_>>()
    };
    // A trial has two files.
    assert_eq!(seconds(&tables[0]), [(400_000, vec![Some(0.002), None])]);
    assert_eq!(
        seconds(&tables[2]),
        [
            (400_000, vec![Some(0.001), Some(0.1)]),
            (4_000_000, vec![Some(0.01), Some(1.0)])
        ]
    );
}

#[test]
fn the_export_has_the_columns_of_the_document_a_line_for_each_size() {
    let mut run = run();
    run.storages[0].path = "/a\nb".to_owned();
    run.trials.extend([3, 5].map(|extents| seekless_record::Trial {
        extents: Some(extents),
        ..simulation::trial(0, 0, 0.4)
    }));
    let text = to_columns(&run).unwrap();
    let blocks: Vec<Vec<&str>> = text.split("\n\n").map(|block| block.lines().collect()).collect();
    assert_eq!(blocks.len(), 3);
    assert!(blocks[1][0].starts_with("# simulated: /a\\nb, "), "{}", blocks[1][0]);
    assert!(
        blocks[1][0].ends_with("write-through, buffer 4K; milliseconds of a file"),
        "{}",
        blocks[1][0]
    );
    assert_eq!(
        blocks[1][1..],
        [
            "Bytes\tInitial write\tRandom\tExtents",
            "400000\t10.000\t100.000\t",
            "4000000\t100.000\t1000.000\t4"
        ]
    );
    assert_eq!(blocks[0][2], "400000\t2.000\t\t");
}

#[test]
fn what_was_published_of_a_table_stands_below_what_was_measured() {
    let mut run = run();
    let finding = |method: &str, block: &str, seconds| Finding {
        operation: Operation::Write,
        kind: seekless_record::FindingKind::Any,
        at_least_bytes: Some(4_000_000),
        below_bytes: None,
        method: method.to_owned(),
        block: Some(block.to_owned()),
        cache: None,
        layout: None,
        durability: Some(Durability::WriteThrough),
        seconds: Some(seconds),
        cpu_seconds: None,
        bytes_per_second: None,
        system: None,
    };
    let of_machine = |machine: &str, findings| seekless_record::Published {
        experiment: "saving".to_owned(),
        source: "a document".to_owned(),
        machine: machine.to_owned(),
        findings,
    };
    run.published = vec![
        of_machine(
            "a\tdisk",
            vec![finding("Initial write", "4K", 1.5), finding("Random", "4K", 300.0)],
        ),
        of_machine(
            "another",
            vec![finding("Random", "4K", 2.0), finding("Nothing", "4K", 1.0)],
        ),
        of_machine(
            "a third",
            vec![finding("Random", "64K", 2.0), finding("Random", "4K", f64::NAN)],
        ),
    ];
    let text = to_columns(&run).unwrap();
    let blocks: Vec<Vec<&str>> = text.split("\n\n").map(|block| block.lines().collect()).collect();
    assert_eq!(
        blocks[1][1..],
        [
            "Bytes\tInitial write\tRandom\tExtents\tPublished",
            "400000\t10.000\t100.000\t\t",
            "4000000\t100.000\t1000.000\t\t",
            "4000000\t1500.000\t300000.000\t\ta\\tdisk",
            "4000000\t\t2000.000\t\tanother",
        ]
    );
    assert_eq!(blocks[0][1], "Bytes\tInitial write\tRandom\tExtents");
}

#[test]
fn without_columns_there_is_nothing() {
    let mut run = run();
    run.columns.clear();
    assert_eq!(to_columns(&run).unwrap(), "");
    run.columns = vec![column("a", Operation::Write, None, "[")];
    assert_eq!(to_columns(&run).unwrap(), "", "a glob of a stranger that is none");
}
