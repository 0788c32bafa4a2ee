//! The progress line on standard error: the work, the file, the part that is done, the rate, and the time left.
//!
//! A process has one progress line. It appears when nothing was printed for half a second. [`stdout`] and [`stderr`]
//! erase it before they print. There is none if standard error is a pipe, in the background, or on a terminal without
//! escapes. Workers report each block or file, and a report redraws the line at most ten times a second. A thread draws it
//! only for work that reports seldom ([`StatusLine::keep_drawn`]).

use std::collections::VecDeque;
use std::io::{self, BufWriter, LineWriter, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use seekless_results::{bytes, files, rate, thousands};
use seekless_sys::lock_mutex;
use seekless_tools::{ClosureWatch, JobPhase, JobProgress, Stop};

use super::units::nearest;
use super::wrap::{columns_of, head, tail};
use super::{DIM, PLAIN};
use crate::call::{self, Stream};

/// The line appears after this time without output.
const SILENCE: Duration = Duration::from_millis(500);
/// The shortest time between two drawings.
const REDRAWN: Duration = Duration::from_millis(100);
/// The rate is measured over this time.
const RATED: Duration = Duration::from_secs(5);
/// Columns of the bar.
const BAR: usize = 16;
/// The columns of a name that take precedence over the bar, and the fewest that are useful.
const NAME: usize = 24;
const SHORTEST_NAME: usize = 6;

const DONE: Style = AnsiColor::Cyan.on_default();

/// The progress line of this process.
pub static PROGRESS: StatusLine = StatusLine {
    is_on: AtomicBool::new(false),
    state: Mutex::new(None),
};

/// The progress line.
pub struct StatusLine {
    is_on: AtomicBool,
    state: Mutex<Option<State>>,
}

/// A watch of a job whose progress is shown, and whose events one thread at a time receives.
pub fn showing<F: Send>(stop: &Stop, event: F) -> ClosureWatch<'_, fn(&JobProgress), F> {
    ClosureWatch::new(stop, |progress| PROGRESS.report(progress), event)
}

/// The work in progress.
#[derive(Clone, Debug, Default)]
struct Activity {
    /// A verb, as in `comparing`.
    doing: &'static str,
    /// The name of the file, without control characters. If there is no room, its start is cut off.
    name: String,
    amount: Amount,
}

/// Makes words of a figure.
type Words<T> = fn(T) -> String;

/// An amount of work.
#[derive(Clone, Debug)]
pub enum Amount {
    /// Bytes, counted as they are done; the total, if known.
    Bytes(Option<u64>),
    /// The same for files.
    Files(Option<u64>),
    /// A description of what is done, and its part of the whole, 0 to 1, if known.
    Words(String, Option<f64>),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Words(String::new(), None)
    }
}

struct State {
    /// What the job is for, while its phases have verbs of their own.
    begun: (&'static str, Amount),
    work: Activity,
    /// Bytes or files.
    done: u64,
    /// Times, and what was done by then.
    samples: VecDeque<(Instant, u64)>,
    /// The earliest time to draw it.
    next: Instant,
    is_drawn: bool,
}

impl StatusLine {
    /// Starts to show work, if that is wanted and standard error is a terminal. Returns whether it does.
    pub fn begin(&self, is_wanted: bool, doing: &'static str, name: String, amount: Amount) -> bool {
        let is_on = is_wanted && call::error().is_terminal() && std::env::var_os("TERM").is_none_or(|it| it != "dumb");
        let now = Instant::now();
        let state = State {
            begun: (doing, amount.clone()),
            work: Activity { doing, name, amount },
            done: 0,
            samples: VecDeque::from([(now, 0)]),
            next: now + SILENCE,
            is_drawn: false,
        };
        self.end();
        *lock_mutex(&self.state) = is_on.then_some(state);
        self.is_on.store(is_on, Ordering::Relaxed);
        is_on
    }

    /// Erases the line and stops showing it.
    pub fn end(&self) {
        self.erase();
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Shows another part of the same work.
    pub fn set(&self, doing: &'static str, name: String, amount: Amount) {
        self.with(|state, now| {
            state.work = Activity { doing, name, amount };
            state.draw(now);
        });
    }

    /// Draws the line four times a second until it ends, for work that reports nothing for a while.
    pub fn keep_drawn(&'static self) {
        let drawn = move || {
            while self.is_on.load(Ordering::Relaxed) {
                std::thread::sleep(SILENCE / 2);
                self.with(State::draw);
            }
        };
        // Without a thread, it is drawn at the next report.
        let _ = std::thread::Builder::new().spawn(drawn);
    }

    /// Counts more bytes as done.
    pub fn add(&self, bytes: u64) {
        self.with(|state, now| {
            state.done += bytes;
            state.draw(now);
        });
    }

    /// Shows how far a job is: its work in the unit that it was begun with, and in files what comes before it. A total that the job
    /// does not know stays. Each phase has a rate of its own.
    pub fn report(&self, progress: &JobProgress) {
        self.with(|state, now| {
            let (doing, known) = match progress.phase {
                JobPhase::Listing => ("listing", Amount::Files(None)),
                JobPhase::Beginnings => ("reading", Amount::Files(None)),
                JobPhase::Work => state.begun.clone(),
            };
            let (done, amount) = match known {
                Amount::Files(of) => (progress.done_entries, Amount::Files(progress.of_entries.or(of))),
                Amount::Bytes(of) => (progress.done_bytes, Amount::Bytes(progress.of_bytes.or(of))),
                words @ Amount::Words(..) => (0, words),
            };
            if state.work.doing != doing {
                state.work.doing = doing;
                state.samples = VecDeque::from([(now, done)]);
            }
            state.done = done;
            state.work.amount = amount;
            state.draw(now);
        });
    }

    /// Sets the name of the current file.
    pub fn name(&self, name: impl FnOnce() -> String) {
        self.with(|state, _| state.work.name = name());
    }

    /// Erases the line, and leaves the output visible for half a second.
    fn erase(&self) {
        self.with(|state, now| {
            state.next = now + SILENCE;
            if std::mem::take(&mut state.is_drawn) {
                write("\r\x1b[K");
            }
        });
    }

    fn with(&self, change: impl FnOnce(&mut State, Instant)) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        if let Some(state) = &mut *lock_mutex(&self.state) {
            change(state, Instant::now());
        }
    }
}

impl State {
    fn draw(&mut self, now: Instant) {
        if now < self.next {
            return;
        }
        self.next = now + REDRAWN;
        self.sample(now);
        if !is_in_foreground() {
            return;
        }
        let width = call::error().terminal_size().map_or(80, |(width, _)| width.0);
        // The last column stays empty, because a cursor there would wrap.
        let room = usize::from(width).saturating_sub(1);
        let (part, text) = self.work.fitted(self.done, self.rate(), room);
        let bar = part.map_or_else(String::new, |part| bar(part) + " ");
        write(&format!("\r{bar}{text}\x1b[K"));
        self.is_drawn = true;
    }

    fn sample(&mut self, now: Instant) {
        self.samples.push_back((now, self.done));
        while self.samples.len() > 2 && now - self.samples[0].0 > RATED {
            self.samples.pop_front();
        }
    }

    /// Bytes or files per second over the last seconds.
    fn rate(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let seconds = (last.0 - first.0).as_secs_f64();
        let done = last.1.saturating_sub(first.1);
        (seconds > 0.0 && done > 0).then(|| done as f64 / seconds)
    }
}

/// Whether this process is in the foreground. A background process would write into what the user types.
fn is_in_foreground() -> bool {
    // For a terminal of another session, the call fails.
    rustix::termios::tcgetpgrp(call::error()).map_or(true, |group| group == rustix::process::getpgrp())
}

/// Writes past [`Cleared`], which would erase it.
fn write(text: &str) {
    let _ = call::error().write(text.as_bytes());
}

impl Activity {
    /// The part to draw as a bar, if there is room for one, and the text after it.
    fn fitted(&self, done: u64, rate: Option<f64>, room: usize) -> (Option<f64>, String) {
        let (part, figures) = self.figures(done, rate);
        let taken = columns_of(self.doing) + columns_of(&figures) + ": ".len();
        let name = columns_of(&self.name) + " ".len();
        let part = part.filter(|_| BAR + " ".len() + taken + name.min(NAME) <= room);
        let room = room - part.map_or(0, |_| BAR + " ".len());
        let name = match room.saturating_sub(taken + " ".len()) {
            _ if self.name.is_empty() => String::new(),
            ..SHORTEST_NAME => String::new(),
            room => format!(" {}", tail(&self.name, room)),
        };
        let colon = if figures.is_empty() { "" } else { ": " };
        (part, head(&format!("{}{name}{colon}{figures}", self.doing), room))
    }

    fn figures(&self, done: u64, per_second: Option<f64>) -> (Option<f64>, String) {
        let (of, is_files) = match &self.amount {
            Amount::Words(words, part) => return (*part, words.clone()),
            Amount::Bytes(of) => (*of, false),
            Amount::Files(of) => (*of, true),
        };
        let left = of.zip(per_second).map(|(of, per_second)| {
            let left = of.saturating_sub(done) as f64 / per_second;
            whole_time(Duration::from_secs_f64(left.min(1e9)))
        });
        let (part, whole, rate): (Words<u64>, Words<u64>, Words<f64>) = if is_files {
            (thousands, files, |per_second| format!("{per_second:.0} files/s"))
        } else {
            (bytes, bytes, rate)
        };
        let amounts = of.map_or_else(|| whole(done), |of| format!("{} of {}", part(done), whole(of)));
        let figures = [
            Some(amounts),
            per_second.map(|per_second| format!(", {}", rate(per_second))),
            left.map(|left| format!(", {left} left")),
        ];
        let part = of.map(|of| done as f64 / of.max(1) as f64);
        (part, figures.into_iter().flatten().collect())
    }
}

fn bar(part: f64) -> String {
    let (done, rest) = match call::error().choice() {
        ColorChoice::Never => (PLAIN, PLAIN),
        _ => (DONE, DIM),
    };
    let halves = nearest(part * (2 * BAR) as f64, 2 * BAR);
    let filled = "━".repeat(halves / 2) + if halves % 2 == 1 { "╸" } else { "" };
    let blank = "─".repeat(BAR - halves.div_ceil(2));
    format!("{done}{filled}{done:#}{rest}{blank}{rest:#}")
}

/// A time in whole units, as in `90 s`, `25 min` or `7 h 30 min`.
pub fn whole_time(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    match time.as_secs() {
        ..600 => format!("{} s", time.as_secs().max(1)),
        600..7200 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// A stream that, if it is a terminal, erases the progress line before it writes.
pub struct Cleared(pub Stream);

/// Standard output, for text: written line by line.
pub fn stdout() -> impl Write + Send {
    lines(call::output())
}

/// Standard output, for much text: styles are removed, where they are, before lines are gathered, not after.
pub fn buffered_stdout() -> impl Write + Send {
    adapted(plain_stdout(), call::output().choice())
}

/// The same, for text without styles, and for what no adapter is to change.
pub fn plain_stdout() -> impl Write + Send {
    BufWriter::with_capacity(64 << 10, Cleared(call::output()))
}

/// Whether standard output shows styles.
pub fn has_styles() -> bool {
    call::output().choice() != ColorChoice::Never
}

/// Standard error, for text: written line by line.
pub fn stderr() -> impl Write + Send {
    lines(call::error())
}

/// A longer line may be torn apart by what another thread writes.
const LINE_BYTES: usize = 8 << 10;

fn lines(stream: Stream) -> impl Write + Send {
    let choice = stream.choice();
    adapted(LineWriter::with_capacity(LINE_BYTES, Cleared(stream)), choice)
}

/// Keeps or removes styles.
fn adapted(text: impl Write + Send + 'static, choice: ColorChoice) -> impl Write + Send {
    AutoStream::new(Box::new(text) as Box<dyn Write + Send>, choice)
}

impl Write for Cleared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if PROGRESS.is_on.load(Ordering::Relaxed) && self.0.is_terminal() {
            PROGRESS.erase();
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, amount: Amount, room: usize) -> String {
        let work = Activity {
            doing: "comparing",
            name: name.to_owned(),
            amount,
        };
        let (part, text) = work.fitted(1_000_000_000, Some(500e6), room);
        let text = if part.is_some() { format!("[] {text}") } else { text };
        assert!(
            columns_of(&text) + if part.is_some() { BAR - 2 } else { 0 } <= room,
            "{room}: {text}"
        );
        text
    }

    #[test]
    fn what_is_done_to_which_file_how_much_how_fast_and_how_long_yet() {
        let bytes = |of| Amount::Bytes(of);
        assert_eq!(
            text("disk.img", bytes(Some(4_000_000_000)), 99),
            "[] comparing disk.img: 954 MiB of 3.73 GiB, 500 MB/s, 6 s left"
        );
        assert_eq!(text("", bytes(None), 99), "comparing: 954 MiB, 500 MB/s");
        let files = |of| Amount::Files(of);
        assert_eq!(
            text("photos", files(Some(4_000_000_000)), 120),
            "[] comparing photos: 1,000,000,000 of 4,000,000,000 files, 500000000 files/s, 6 s left"
        );
        assert_eq!(
            text("photos", files(None), 99),
            "comparing photos: 1,000,000,000 files, 500000000 files/s"
        );
        let words = Amount::Words("3 files".to_owned(), None);
        assert_eq!(text("photos", words, 99), "comparing photos: 3 files");
    }

    #[test]
    fn the_bar_goes_first_then_the_start_of_the_name_then_the_end_of_the_text() {
        let text = |room| text("photos/2019/disk.img", Amount::Bytes(Some(4_000_000_000)), room);
        assert!(text(91).starts_with("[] comparing photos/2019/disk.img: "));
        assert!(text(85).starts_with("comparing photos/2019/disk.img: "));
        assert!(text(59).starts_with("comparing …isk.img: 954 MiB of"), "{}", text(59));
        assert!(text(52).starts_with("comparing: 954 MiB of"), "{}", text(52));
        for room in 0..100 {
            text(room);
        }
    }

    #[test]
    fn the_bar_has_halves() {
        let plain = |part| anstream::adapter::strip_str(&bar(part)).to_string();
        assert_eq!(plain(0.0), "─".repeat(16));
        assert_eq!(plain(0.5), "━".repeat(8) + &"─".repeat(8));
        assert_eq!(
            plain(0.25 + 1.0 / 32.0),
            format!("{}╸{}", "━".repeat(4), "─".repeat(11))
        );
        assert_eq!(plain(7.0), "━".repeat(16));
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut state = State {
            begun: ("", Amount::default()),
            work: Activity::default(),
            done: 0,
            samples: VecDeque::from([(now, 0)]),
            next: now,
            is_drawn: false,
        };
        assert_eq!(state.rate(), None);
        for second in 1..=20 {
            state.done += if second <= 10 { 1000 } else { 10 };
            state.sample(at(second));
        }
        assert_eq!(state.rate(), Some(10.0));
    }
}
