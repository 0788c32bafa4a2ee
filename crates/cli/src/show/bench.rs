//! What happens during a run: the line of progress, and what will be written. What was measured so far is kept.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use seekless::full_text;
use seekless_lab::store::{Document, Kept, StoreError};
use seekless_lab::{Event, Watch};
use seekless_record::{Phase, Run};
use seekless_results::{bytes, visible};

use super::PLAIN;
use super::page::Page;
use super::progress::{Activity, Amount, LINE, whole_time};
use crate::signals::ending;

/// A run under way: shows its progress, and saves it every few minutes, so that a power cut costs minutes.
pub struct Progress {
    started: Instant,
    expected: Duration,
    quiet: bool,
    kept: Result<Kept, StoreError>,
}

impl Progress {
    /// For a new run, or one that is resumed and has a document already.
    pub fn new(quiet: bool, document: Option<&Document>) -> Self {
        LINE.begin(!quiet, Activity::default());
        Self {
            started: Instant::now(),
            expected: Duration::ZERO,
            quiet,
            kept: crate::config::store().map(|store| Kept::new(store, document)),
        }
    }

    /// Saves the run as it is, and gives its file.
    pub fn save(&mut self, run: &Run) -> anyhow::Result<&Path> {
        let kept = self.kept.as_mut().map_err(|error| anyhow!(full_text(error)))?;
        let _ending = ending();
        Ok(kept.save(run)?)
    }

    fn say(&self, sentence: &str) {
        if !self.quiet {
            // Nobody is left to be told where this fails.
            let _ = Page::stderr().say(PLAIN, sentence);
        }
    }

    fn show(&self, doing: &'static str, name: &str, words: String) {
        let part = self.started.elapsed().as_secs_f64() / self.expected.as_secs_f64();
        LINE.set(Activity {
            doing,
            name: visible(name).into_owned(),
            amount: Amount::Words(words, part.is_finite().then_some(part)),
        });
    }
}

/// Where the time needed is more than this times the time given, it is said beforehand.
const TOO_LITTLE: f64 = 1.25;

impl Watch for Progress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Planned {
                write_bytes,
                expected_write_bytes,
                space_bytes,
                expected,
                needed,
                contests,
                entries,
                one_by_one,
            } => {
                self.expected = *expected;
                let (expected_time, needed_time) = (whole_time(*expected), whole_time(*needed));
                if *write_bytes > 0 {
                    self.say(&format!(
                        "Writes at most {} in total (about {} expected), {} at a time. Takes about {expected_time}.",
                        bytes(*write_bytes),
                        bytes(*expected_write_bytes.min(write_bytes)),
                        bytes(*space_bytes)
                    ));
                }
                if *one_by_one {
                    self.say(&format!(
                        "{contests} contests with {entries} methods need about {needed_time}. They are measured one after \
                         the other, smallest files first; `seekless bench --resume latest` measures the rest."
                    ));
                } else if needed.as_secs_f64() > TOO_LITTLE * expected.as_secs_f64() {
                    self.say(&format!(
                        "Three rounds of everything need about {needed_time}, so some contests will stay undecided."
                    ));
                }
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
                let doing = match phase {
                    Phase::Screening => format!("round {round}"),
                    Phase::Contending => format!("round {round} of the best"),
                    Phase::Confirming => "winner again".to_owned(),
                };
                let left = left.map_or_else(String::new, |left: Duration| format!(", {} left", whole_time(left)));
                let method = method.split_once('/').map_or(*method, |(_, name)| name);
                self.show("measuring", &format!("{contest}, {method}"), format!("{doing}{left}"));
            }
            Event::Yielding => self.say("Other processes are using the disk: waiting (at most 10 minutes per run)."),
            Event::Checkpoint(run) => {
                // At the end it is tried again, and that is told.
                if let Err(error) = self.save(run) {
                    tracing::warn!("cannot save what was measured so far: {error:#}");
                }
            }
        }
    }
}
