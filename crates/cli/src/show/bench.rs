//! Messages during a run: the progress line, and how much will be written. Also saves the run from time to time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use seekless_engine::full_text;
use seekless_lab::store::{Document, RunDocument, StoreError};
use seekless_lab::{Event, RunWatch};
use seekless_record::{Phase, Run};
use seekless_results::{bytes, counted, visible};

use super::PLAIN;
use super::page::Page;
use super::progress::{Amount, PROGRESS, whole_time};
use crate::signals::ending;

/// Shows the progress of a run, and saves the run every few minutes, so that a power cut loses no more.
pub struct BenchProgress {
    started: Instant,
    expected: Duration,
    quiet: bool,
    kept: Result<RunDocument, StoreError>,
}

impl BenchProgress {
    /// For a new run, or a resumed one, which already has a document.
    pub fn new(quiet: bool, document: Option<&Document>) -> Self {
        if PROGRESS.begin(!quiet, "preparing", String::new(), Amount::default()) {
            PROGRESS.keep_drawn();
        }
        Self {
            started: Instant::now(),
            expected: Duration::ZERO,
            quiet,
            kept: crate::config::store().map(|store| RunDocument::new(store, document)),
        }
    }

    /// Saves the run as it is, and returns its path.
    pub fn save(&mut self, run: &Run) -> anyhow::Result<&Path> {
        let kept = self.kept.as_mut().map_err(|error| anyhow!(full_text(error)))?;
        let _ending = ending();
        Ok(kept.save(run)?)
    }

    fn say(&self, sentence: &str) {
        if !self.quiet {
            // If this fails, there is nowhere to report it.
            let _ = Page::stderr().say(PLAIN, sentence);
        }
    }

    /// Says how much time a run needs if that is more than it has: of contests and methods one after the other, or of all rounds.
    fn say_needed(&self, needed: Duration, is_short: bool, one_by_one: Option<(usize, usize)>) {
        let needed = whole_time(needed);
        if let Some((contests, methods)) = one_by_one {
            let (contests, methods) = (counted(contests as u64, "contest"), counted(methods as u64, "method"));
            self.say(&format!(
                "{contests} with {methods} need about {needed}. They are measured one after the other, smallest files \
                 first; `seekless bench --resume latest` measures the rest."
            ));
        } else if is_short {
            self.say(&format!(
                "Three rounds of everything need about {needed}, so some contests will stay undecided."
            ));
        }
    }

    fn show(&self, doing: &'static str, name: &str, words: String) {
        let part = self.started.elapsed().as_secs_f64() / self.expected.as_secs_f64();
        let amount = Amount::Words(words, part.is_finite().then_some(part));
        PROGRESS.set(doing, visible(name).into_owned(), amount);
    }
}

/// If the needed time exceeds the budget by this factor, a message says so first.
const TOO_LITTLE: f64 = 1.25;

impl RunWatch for BenchProgress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Planned {
                write_bytes,
                expected_write_bytes,
                space_bytes,
                expected,
                needed,
                least,
                contests,
                entries,
                one_by_one,
            } => {
                self.expected = *expected;
                let takes = whole_time(*expected);
                if *write_bytes > 0 {
                    let sizes = [write_bytes, expected_write_bytes.min(write_bytes), space_bytes];
                    let [most, about, space] = sizes.map(|size| bytes(*size));
                    self.say(&format!(
                        "Writes at most {most} in total (about {about} expected), {space} at a time. Takes about {takes}."
                    ));
                }
                if let Some(least) = least {
                    let least = whole_time(*least);
                    self.say(&format!(
                        "Preparing the test files and one trial take about {least}, longer than the budget: --size takes \
                         smaller files."
                    ));
                }
                let is_short = needed.as_secs_f64() > TOO_LITTLE * expected.as_secs_f64();
                self.say_needed(*needed, is_short, one_by_one.then_some((*contests, *entries)));
            }
            Event::Calibrating { write_bytes } => {
                self.say(&format!("Writes {} first to calibrate sizes.", bytes(*write_bytes)));
                self.show("calibrating", "", String::new());
            }
            Event::Making { bytes: size } => self.show("writing a test file", "", bytes(*size)),
            Event::Trial {
                contest,
                method,
                round,
                phase,
                left,
            } => {
                let doing = phase_words(*phase, *round);
                let left = left.map_or_else(String::new, |left: Duration| format!(", {} left", whole_time(left)));
                let method = method.split_once('/').map_or(*method, |(_, name)| name);
                self.show("measuring", &format!("{contest}, {method}"), format!("{doing}{left}"));
            }
            Event::Checkpoint(run) => {
                // Saving is tried again at the end, and reports its error.
                if let Err(error) = self.save(run) {
                    tracing::warn!("cannot save what was measured so far: {error:#}");
                }
            }
        }
    }
}

fn phase_words(phase: Phase, round: u32) -> String {
    match phase {
        Phase::Screening => format!("round {round}"),
        Phase::Contending => format!("round {round} of the best"),
        Phase::Confirming => "winner again".to_owned(),
    }
}
