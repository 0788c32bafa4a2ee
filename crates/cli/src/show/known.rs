//! What earlier runs conclude about a storage, shown before it is measured again.

use std::io;

use seekless_record::Run;
use seekless_results::{ContestAnswer, ContestView, View, Visible, pool, storage_words, visible};

use super::page::Page;
use super::runs::when;
use super::{BOLD, DIM};

/// Shows what earlier runs, the newest first, conclude for the storages of a new run.
pub fn show_known(page: &mut Page<'_>, new: &Run, earlier: &[Run]) -> io::Result<()> {
    let Some((last, before)) = earlier.split_first() else {
        return Ok(());
    };
    let pooled = Visible::of(&pool(last, before));
    let view = View::of(&pooled);
    let is_here = |contest: &&ContestView<'_>| {
        let storage = view.run.storages.get(contest.contest.storage);
        (new.storages.iter()).any(|new| storage.is_some_and(|storage| storage.id == new.id))
    };
    let contests = view.contests.iter().filter(is_here);
    let answers = contests.filter_map(|contest| contest.answer.as_ref());
    let decided = answers.filter(|answer| !answer.certainty.is_empty());
    let lines: Vec<String> = decided.map(ContestAnswer::sentence).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let storages: Vec<String> = new.storages.iter().map(storage_words).collect();
    let sentence = format!(
        "{}, last measured {}; this run will be combined with it (--alone: ignore it).",
        visible(&storages.join("; ")),
        when(&last.started)
    );
    page.labelled(BOLD, "Known", 9, &sentence)?;
    lines.iter().try_for_each(|line| page.aside(DIM, line))
}
