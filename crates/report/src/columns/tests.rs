//! Which measurements share a table, and which never do.

use seekless_method::{Durability, Operation};
use seekless_record::{Cache, Column, Contest, Draw, Entry, Finding, Target, UpdatePattern};
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
    let mut run = simulation::concluded(simulation::run(&[(method, seconds)], 6));
    run.contests[0].entries.remove(0)
}

/// A contest of updates in an order, or of writes.
fn contest(size_bytes: u64, draw: Option<Draw>, durability: Durability, entries: Vec<Entry>) -> Contest {
    let (operation, cache, target) = match draw {
        Some(_) => (Operation::Update, Cache::Warm, Target::Overwrite),
        None => (Operation::Write, Cache::None, Target::Fresh),
    };
    Contest {
        experiment: "saving".to_owned(),
        operation,
        cache,
        target,
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
    let (drawn, other) = (Some(Draw::Shuffled), Some(Draw::Ascending));
    run.columns = vec![
        column("Initial write", Operation::Write, None, "write/sync*"),
        column("Random", Operation::Update, drawn, "update/sync*as-given"),
    ];
    run.contests.clear();
    for (size_bytes, factor) in [(4_000_000, 1.0), (400_000, 0.1)] {
        let writes = vec![
            entry("write/sync,block=4K,write-through", 0.2 * factor),
            entry("write/sync,block=1M,write-through", 0.02 * factor),
            entry("write/mmap,block=1M", 9.0),
        ];
        let updates = |seconds| vec![entry("update/sync,block=1M,write-through,order=as-given", seconds)];
        for (draw, entries) in [(None, writes), (drawn, updates(2.0 * factor)), (other, updates(7.0))] {
            let through = contest(size_bytes, draw, Durability::WriteThrough, entries);
            run.contests.push(through);
        }
    }
    let unsynced = vec![entry("write/sync,block=4K", 0.004)];
    run.contests.push(contest(400_000, None, Durability::None, unsynced));
    run
}

#[test]
fn columns_table_each_buffer_and_durability() {
    let run = run();
    let shown = Visible::of(&run);
    let tables = View::of(&shown).columns;
    let titles: Vec<String> = tables.iter().map(Table::title).collect();
    let through = "write-through, buffer ";
    let expected = [
        "not synced, buffer 4K",
        &format!("{through}4K"),
        &format!("{through}1M"),
    ];
    assert_eq!(titles, expected);
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
    let small = (400_000, vec![Some(0.001), Some(0.1)]);
    assert_eq!(seconds(&tables[2]), [small, (4_000_000, vec![Some(0.01), Some(1.0)])]);
}

/// The lines of each table.
fn blocks(run: &Run) -> Vec<Vec<String>> {
    let text = to_columns(run).unwrap();
    let blocks = text.split("\n\n");
    blocks.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

#[test]
fn columns_export_has_a_line_for_each_size() {
    let mut run = run();
    run.storages[0].path = "/a\nb".to_owned();
    run.trials.extend([3, 5].map(|extents| seekless_record::Trial {
        extents: Some(extents),
        ..simulation::trial(0, 0, 0.4)
    }));
    let blocks = blocks(&run);
    assert_eq!(blocks.len(), 3);
    let title = &blocks[1][0];
    assert!(title.starts_with("# simulated: /a\\nb, "), "{title}");
    let end = "write-through, buffer 4K; milliseconds of a file";
    assert!(title.ends_with(end), "{title}");
    let expected = [
        "Bytes\tInitial write\tRandom\tExtents",
        "400000\t10.000\t100.000\t",
        "4000000\t100.000\t1000.000\t4",
    ];
    assert_eq!(blocks[1][1..], expected);
    assert_eq!(blocks[0][2], "400000\t2.000\t\t");
}

#[test]
fn columns_show_published_figures_below_measured_ones() {
    let mut run = run();
    let finding = |method: &str, block: &str, seconds| Finding {
        operation: Operation::Write,
        at_least_bytes: Some(4_000_000),
        method: method.to_owned(),
        block: Some(block.to_owned()),
        durability: Some(Durability::WriteThrough),
        seconds: Some(seconds),
        ..Finding::default()
    };
    let of_machine = |machine: &str, findings| seekless_record::Published {
        experiment: "saving".to_owned(),
        source: "a document".to_owned(),
        machine: machine.to_owned(),
        findings,
    };
    let first = [finding("Initial write", "4K", 1.5), finding("Random", "4K", 300.0)];
    let second = [finding("Random", "4K", 2.0), finding("Nothing", "4K", 1.0)];
    let third = [finding("Random", "64K", 2.0), finding("Random", "4K", f64::NAN)];
    run.published = vec![
        of_machine("a\tdisk", first.to_vec()),
        of_machine("another", second.to_vec()),
        of_machine("a third", third.to_vec()),
    ];
    let blocks = blocks(&run);
    let expected = [
        "Bytes\tInitial write\tRandom\tExtents\tPublished",
        "400000\t10.000\t100.000\t\t",
        "4000000\t100.000\t1000.000\t\t",
        "4000000\t1500.000\t300000.000\t\ta\\tdisk",
        "4000000\t\t2000.000\t\tanother",
    ];
    assert_eq!(blocks[1][1..], expected);
    assert_eq!(blocks[0][1], "Bytes\tInitial write\tRandom\tExtents");
}

#[test]
fn columns_of_nothing_are_nothing() {
    let mut run = run();
    run.columns.clear();
    assert_eq!(to_columns(&run).unwrap(), "");
    run.columns = vec![column("a", Operation::Write, None, "[")];
    assert_eq!(to_columns(&run).unwrap(), "", "a glob of a stranger that is none");
}
