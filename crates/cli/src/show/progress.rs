//! What happens during a run: one bar on standard error, where that is a terminal; elsewhere only what will be written is
//! said. What was measured so far is kept.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use seekless::full_text;
use seekless_lab::store::{Document, Kept, Store, StoreError};
use seekless_lab::{Event, Watch};
use seekless_record::{Phase, Run};
use seekless_results::bytes;

use crate::signals::ending;

/// A bar on standard error, where that is a terminal and it is wanted. It goes with the last who has it.
pub fn progress_bar(is_wanted: bool, template: &str) -> ProgressBar {
    if !is_wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar
}

/// A run under way: shows its progress, and saves it every few minutes, so that a power cut costs minutes.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    quiet: bool,
    kept: Result<Kept, StoreError>,
}

impl Progress {
    /// For a new run, or one that is resumed and has a document already. The bar is shown where standard error is a terminal
    /// and it is wanted.
    pub fn new(quiet: bool, document: Option<&Document>) -> Self {
        Self {
            bar: progress_bar(!quiet, "{bar:16.cyan/dim} {wide_msg}"),
            started: Instant::now(),
            quiet,
            kept: Store::of_user().map(|store| Kept::new(store, document)),
        }
    }

    /// Saves the run as it is, and gives its file.
    pub fn save(&mut self, run: &Run) -> anyhow::Result<&Path> {
        let kept = self.kept.as_mut().map_err(|error| anyhow!(full_text(error)))?;
        let _ending = ending();
        Ok(kept.save(run)?)
    }

    /// Says a sentence above the bar.
    fn say(&self, sentence: &str) {
        if !self.quiet {
            self.bar.suspend(|| {
                let _ = writeln!(anstream::stderr(), "{sentence}");
            });
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
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
                self.bar.set_length(expected.as_millis() as u64);
                let (expected_time, needed_time) = (time(*expected), time(*needed));
                if *write_bytes > 0 {
                    self.say(&format!(
                        "Writes at most {} in all (about {} are expected), {} at a time; takes about {expected_time}.",
                        bytes(*write_bytes),
                        bytes(*expected_write_bytes.min(write_bytes)),
                        bytes(*space_bytes)
                    ));
                }
                if *one_by_one {
                    self.say(&format!(
                        "Plans {contests} contests with {entries} methods, which need about {needed_time} in all: one \
                         after the other, the smallest files first. What is left then, `--resume` goes on with."
                    ));
                } else if needed.as_secs_f64() > TOO_LITTLE * expected.as_secs_f64() {
                    self.say(&format!(
                        "Three rounds of everything would need about {needed_time}: some of it will stay undecided."
                    ));
                }
            }
            Event::Calibrating { write_bytes } => {
                let size = bytes(*write_bytes);
                self.say(&format!("Writes {size} first, to learn how fast this is."));
                self.bar.set_message("learning how fast this is");
            }
            Event::Making { bytes: size } => {
                let size = bytes(*size);
                self.bar.set_message(format!("making a test file of {size}"));
            }
            Event::Trial {
                contest,
                method,
                round,
                phase,
                left,
            } => {
                self.bar.set_position(self.started.elapsed().as_millis() as u64);
                let doing = match phase {
                    Phase::Screening => format!("round {round}"),
                    Phase::Contending => format!("round {round}, of what is not beaten"),
                    Phase::Confirming => "measuring the winner again".to_owned(),
                };
                let left = left.map_or_else(String::new, |left: Duration| format!("{} left, ", time(left)));
                let name = method.split_once('/').map_or(*method, |(_, name)| name);
                // What is cut off at the edge of a narrow terminal comes last.
                self.bar.set_message(format!("{left}{doing}: {contest}: {name}"));
            }
            Event::Yielding => self.say("Other processes are using the disk: waiting (at most 10 minutes per run)."),
            Event::Checkpoint(run) => {
                // At the end it is tried again, and that is told.
                if let Err(error) = self.save(run) {
                    tracing::warn!("what was measured so far could not be saved: {error:#}");
                }
            }
        }
    }
}

/// A time in whole units, as in `90 s`, `25 min` or `7 h 30 min`.
fn time(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    match time.as_secs() {
        ..600 => format!("{} s", time.as_secs().max(1)),
        600..7200 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}
