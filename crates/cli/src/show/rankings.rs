//! Rankings of methods across machines.

use std::io::{self, Write};

use seekless_engine::method::Operation;
use seekless_results::{Place, Ranked, Ranking, chosen_size, short, size_class, state_words, visible};

use super::page::Page;
use super::table::{TableRow, TextTable};
use super::units::counted;
use super::{BOLD, DIM, GOOD, PLAIN};

/// Shows the rankings.
pub fn show_rankings(page: &mut Page<'_>, rankings: &[Ranking], all: bool) -> io::Result<()> {
    for (index, ranking) in rankings.iter().enumerate() {
        if index > 0 {
            writeln!(page)?;
        }
        show_ranking(page, ranking, all)?;
    }
    Ok(())
}

/// The number of methods to show of a ranking.
const BEST_SHOWN: usize = 5;

fn show_ranking(page: &mut Page<'_>, ranking: &Ranking, all: bool) -> io::Result<()> {
    let machines = counted(ranking.machines as u64, "machine");
    let runs = counted(ranking.runs as u64, "run");
    let on = match ranking.imported {
        0 => format!("{machines}, {runs}"),
        imported => format!("{machines}, {runs} ({imported} imported)"),
    };
    let has_range = ranking.machines > 1;
    let range = |method: &Ranked| match method.range {
        [low, high] if has_range => format!("{low:.2} to {high:.2}"),
        _ => String::new(),
    };
    let row = |method: &Ranked| TableRow {
        name: short(&method.method),
        cells: vec![
            format!("{:.2}x", method.ratio),
            range(method),
            method.best_on.to_string(),
            method.machines.to_string(),
        ],
        style: if method.best_on > 0 { GOOD } else { PLAIN },
        ..TableRow::default()
    };
    let place = &ranking.place;
    let device = format!("{}, {}, {}", place.device, place.file_system, place.kernel);
    page.indented(BOLD, "", 2, &visible(&format!("{}; {device}", place_title(place))))?;
    let shown = if all { ranking.methods.len() } else { BEST_SHOWN };
    let heads = ["time", if has_range { "range" } else { "" }, "best on", "machines"];
    TextTable::new(Some(&on), &heads, ranking.methods.iter().take(shown).map(row)).print(page, &[1])?;
    if ranking.methods.len() > shown {
        let more = ranking.methods.len() - shown;
        writeln!(page, "{DIM}  ... {more} more (--all shows them){DIM:#}")?;
    }
    Ok(())
}

/// What was measured, as in `read, 1 MiB to 16 MiB, cold`.
fn place_title(place: &Place) -> String {
    let (least, most) = size_class(place.at_least_bytes + 1);
    let size = match (least, most) {
        (0, most) => format!("up to {}", chosen_size(most)),
        (least, u64::MAX) => format!("more than {}", chosen_size(least)),
        (least, most) => format!("{} to {}", chosen_size(least), chosen_size(most)),
    };
    let state = state_words(place.cache, place.target);
    let mut words = vec![place.operation.to_string(), size, state.to_owned()];
    match place.operation {
        Operation::Read | Operation::Scan => words.push(place.work.trim_end_matches(", 0 ns/KiB").to_owned()),
        Operation::Compare => {}
        _ => {
            words.push(place.durability.to_string());
            words.extend(place.shared_blocks.then(|| "sharing blocks".to_owned()));
            let work = place.work.strip_prefix("none, ").filter(|work| *work != "0 ns/KiB");
            words.extend(work.map(str::to_owned));
        }
    }
    words.join(", ") + &place.pair
}
