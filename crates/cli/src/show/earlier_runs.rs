//! What earlier runs conclude about a storage, shown before it is measured again.

use std::io;

use seekless_record::{Contest, Run, Storage};
use seekless_results::{ContestAnswer, pool_newest, storage_words, visible};

use super::page::Page;
use super::runs::when;
use super::{BOLD, DIM};

/// Shows what earlier runs, the newest first, conclude for the storages of a new run.
pub fn show_known(page: &mut Page<'_>, new: &Run, earlier: &[Run]) -> io::Result<()> {
    let mut answers: Vec<ContestAnswer> = Vec::new();
    for pooled in pool_newest(earlier).iter().flatten() {
        let is_here = |contest: &&Contest| {
            let storage = pooled.storages.get(contest.storage);
            let id = storage.and_then(|storage| storage.id.as_ref());
            let is_same = |new: &Storage| id.zip(new.id.as_ref()).is_some_and(|(id, new)| id.is_same(new));
            is_asked(contest, new) && new.storages.iter().any(is_same)
        };
        let contests = pooled.contests.iter().filter(is_here);
        for answer in contests.filter_map(|contest| ContestAnswer::of(pooled, contest)) {
            if answer.certainty.is_some() && answers.iter().all(|known| known.question != answer.question) {
                answers.push(answer);
            }
        }
    }
    let Some(last) = earlier.first().filter(|_| !answers.is_empty()) else {
        return Ok(());
    };
    let storages: Vec<String> = new.storages.iter().map(storage_words).collect();
    let (storages, when) = (storages.join("; "), when(&last.started));
    let storages = visible(&storages);
    let sentence = format!("{storages}, last measured {when}; this run will be combined with it (--alone: ignore it).");
    page.labelled(BOLD, "Known", 9, &sentence)?;
    let mut answers = answers.iter();
    answers.try_for_each(|answer| page.aside(DIM, &visible(&answer.sentence())))
}

/// Whether a new run asks about the same: its experiments, and reading, writing, copying and comparing whole files.
fn is_asked(contest: &Contest, new: &Run) -> bool {
    contest.random.is_none() || new.experiments.contains(&contest.experiment)
}
