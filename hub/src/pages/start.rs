//! The heat map: which methods win, by kind of storage and task in rows, and size of files in columns.

use maud::{Markup, html};
use seekless_report::parts::{breaking, heading};
use seekless_results::DeviceKind;

use super::{FEW, address, colour, encoded, form, heat, kind_words, nothing, rests_on, revisions, short};
use crate::figure::Word;
use crate::index::{Filter, Index};
use crate::trends::{Cell, Task, cells};

/// Rows of all tables; a page stays below 200 kB.
const MOST_ROWS: usize = 60;

/// The page. Simulated disks are shown if they are asked for.
pub fn page(index: &Index, filter: &Filter) -> Markup {
    let mut cells = cells(index, filter);
    let is_asked =
        |task: Task<'_>| filter.word(Word::Kind).is_some() || task[Word::Kind] != DeviceKind::Simulated.slug();
    let all = cells.len();
    cells.retain(|cell| is_asked(cell.class.task));
    let rows = |cells: &[Cell<'_>]| cells.chunk_by(|one, other| one.class.task == other.class.task).count();
    let mut left = MOST_ROWS;
    let kinds = cells.chunk_by(|one, other| one.class.task[Word::Kind] == other.class.task[Word::Kind]);
    let kinds = kinds.map(|cells| {
        let most = left;
        left -= rows(cells).min(left);
        html! { @if most > 0 { (section(cells, most, filter)) } }
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
            (form("/", index, filter, None))
            p.legend {
                "A cell has the method whose median time over the machines is closest to that of the best there, and on how many of them it \
                 is the best: the stronger the colour, the larger the part. Machines count, not runs. "
                a href="/about" { "What counts" } "."
            }
            @if cells.is_empty() { (nothing(index, filter)) }
            @for kind in kinds { (kind) }
            @if rows(&cells) > MOST_ROWS { p.warnings { (rows(&cells) - MOST_ROWS) " more rows are not shown. Choose a kind or an operation." } }
            @if cells.len() < all {
                @let simulated = filter.with(Word::Kind, Some(DeviceKind::Simulated.slug()));
                p { "Simulated disks are " a href=(address("/", &simulated)) { "apart" } "." }
            }
        }
    }
}

fn section(cells: &[Cell<'_>], most: usize, filter: &Filter) -> Markup {
    let kind = &cells[0].class.task[Word::Kind];
    let words = kind_words(kind);
    let path = format!("/kinds/{}", encoded(kind));
    let caption = format!(
        "The fastest method on {words}, by task and size of files; {}",
        revisions(&cells[0].basis)
    );
    html! {
        section id={"kind-" (kind)} {
            h2 { a href=(address(&path, &filter.with(Word::Kind, None))) { (heading(&words)) } }
            (heat(&caption, cells, most, |cell| cell.class, |cell| shown(cell, &path, filter)))
        }
    }
}

fn shown(cell: &Cell<'_>, path: &str, filter: &Filter) -> Markup {
    let Some(winner) = cell.winner() else {
        return html! { td.none { "·" } };
    };
    let task = cell.class.task;
    let mut of_task = filter.with(Word::Kind, None);
    for word in [Word::Operation, Word::Cache, Word::Target, Word::Durability] {
        of_task = of_task.with(word, Some(&task[word]));
    }
    let is_few = cell.basis.machines < FEW;
    let part = winner.best_on as f64 / winner.machines.max(1) as f64;
    html! {
        td class=(if is_few { "few".to_owned() } else { colour(part) }) title=(winner.method) {
            a.m href=(address(path, &of_task)) { (breaking(short(winner.method))) }
            @if !is_few { small { "best on " (winner.best_on) " of " (winner.machines) } }
            small { (rests_on(&cell.basis)) }
        }
    }
}
