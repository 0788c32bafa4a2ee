//! The heat map: which methods win, by kind of storage and task in rows, and size of files in columns.

use std::collections::BTreeMap;

use maud::{Markup, html};
use seekless_report::parts::{breaking, heading};
use seekless_results::{DeviceKind, plural};

use super::{FEW, address, class, colour, encoded, form, kind_words, rests_on, short, title};
use crate::index::{Filter, Index};
use crate::trends::{Cell, Task, cells};

/// Rows of all tables; a page stays below 200 kB.
const MOST_ROWS: usize = 60;

/// The page. Simulated disks are shown if they are asked for.
pub fn page(index: &Index, filter: &Filter) -> Markup {
    let cells = cells(index, filter);
    let is_asked = |cell: &&Cell| filter.kind.is_some() || cell.task.kind != DeviceKind::Simulated.slug();
    let mut kinds: BTreeMap<&str, BTreeMap<&Task, Vec<&Cell>>> = BTreeMap::new();
    for cell in cells.iter().filter(is_asked) {
        kinds
            .entry(&cell.task.kind)
            .or_default()
            .entry(&cell.task)
            .or_default()
            .push(cell);
    }
    let rows: usize = kinds.values().map(BTreeMap::len).sum();
    let mut left = MOST_ROWS;
    let sections = kinds.iter().map(|(kind, tasks)| {
        let taken = left.min(tasks.len());
        left -= taken;
        section(kind, tasks, taken, filter)
    });
    html! {
        header {
            h1 { "Which method is fastest, and where" }
            p {
                "Reading, writing, copying and comparing files can be done in many ways. This is what was measured by "
                code { "seekless bench" } " on machines whose owners shared their runs."
            }
        }
        main {
            (form("/", index, filter, ""))
            @if rows == 0 { p.warnings { "No run that counts fits this." } }
            @for section in sections { (section) }
            @if rows > MOST_ROWS { p.warnings { (rows - MOST_ROWS) " more rows are not shown. Choose a kind or an operation." } }
            p.legend {
                "A cell has the method whose median time over the machines is closest to that of the best there, and on how many of them it \
                 is the best: the stronger the colour, the larger the part. Machines count, not runs. "
                a href="/about" { "What counts" } "."
            }
        }
    }
}

fn section(kind: &str, tasks: &BTreeMap<&Task, Vec<&Cell>>, taken: usize, filter: &Filter) -> Markup {
    if taken == 0 {
        return html! {};
    }
    let mut classes: Vec<(u64, u64)> = tasks
        .values()
        .flatten()
        .map(|cell| (cell.above_bytes, cell.up_to_bytes))
        .collect();
    classes.sort_unstable();
    classes.dedup();
    let of_kind = Filter {
        kind: None,
        ..filter.clone()
    };
    html! {
        section id={"kind-" (kind)} {
            h2 { a href=(address(&format!("/kinds/{}", encoded(kind)), &of_kind)) { (heading(&kind_words(kind))) } }
            div.scroll { table.heat {
                caption { "The fastest method on " (kind_words(kind)) ", by task and size of files" }
                thead { tr {
                    th scope="col" { "files" }
                    @for (above, up_to) in &classes { th scope="col" { (class(*above, *up_to)) } }
                } }
                tbody {
                    @for (task, cells) in tasks.iter().take(taken) {
                        tr {
                            th scope="row" { (title(task, tasks.keys().copied())) }
                            @for class in &classes {
                                @match cells.iter().find(|cell| (cell.above_bytes, cell.up_to_bytes) == *class) {
                                    Some(cell) => (shown(cell, filter)),
                                    None => td.none { "·" },
                                }
                            }
                        }
                    }
                }
            } }
        }
    }
}

fn shown(cell: &Cell, filter: &Filter) -> Markup {
    let Some(winner) = cell.winner() else {
        return html! { td.none { "·" } };
    };
    let machines = cell.basis.machines;
    let part = winner.best_on as f64 / winner.machines.max(1) as f64;
    let class = if machines < FEW { "few".to_owned() } else { colour(part) };
    html! {
        td class=(class) title={(winner.method) "; " (rests_on(&cell.basis))} {
            a.m href=(address(&format!("/kinds/{}", encoded(&cell.task.kind)), &of_task(&cell.task, filter))) {
                (breaking(short(&winner.method)))
            }
            small {
                @if machines < FEW { "only " (plural(machines as u64, "machine", "machines")) }
                @else { "best on " (winner.best_on) " of " (winner.machines) }
            }
        }
    }
}

/// The filter that asks for a task of a kind.
fn of_task(task: &Task, filter: &Filter) -> Filter {
    Filter {
        kind: None,
        operation: Some(task.operation.clone()),
        cache: Some(task.cache.clone()),
        target: Some(task.target.clone()),
        durability: Some(task.durability.clone()),
        ..filter.clone()
    }
}
