//! The line of progress on standard error: what is done, to which file, how much of it, how fast, and the time left.
//!
//! There is one, as there is one terminal. It appears when nothing was printed for half a second, [`stdout`] and [`stderr`] erase
//! it before they print, and it is gone at the end. There is none in a pipe, in the background, and on a terminal without
//! escapes. No thread draws it: whoever works tells of each block or file, and at most ten times a second that draws.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Stderr, StderrLock, Stdout, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use seekless_results::{bytes, rate};

use super::page::{columns_of, head, tail};
use super::units::nearest;
use super::{DIM, PLAIN};

/// Nothing was printed for so long when the line appears.
const SILENCE: Duration = Duration::from_millis(500);
/// It is drawn so often at most.
const REDRAWN: Duration = Duration::from_millis(100);
/// Its rate is that of the last seconds.
const RATED: Duration = Duration::from_secs(5);
/// Columns of its bar.
const BAR: usize = 16;
/// The part of a name that is worth more than the bar, and the least that tells something.
const NAME: usize = 24;
const SHORTEST_NAME: usize = 6;

const DONE: Style = AnsiColor::Cyan.on_default();

/// The line of this process's terminal.
pub static LINE: Line = Line {
    is_on: AtomicBool::new(false),
    state: Mutex::new(None),
};

/// See the module.
pub struct Line {
    is_on: AtomicBool,
    state: Mutex<Option<State>>,
}

/// What is under way.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// A verb, as in `comparing`.
    pub doing: &'static str,
    /// To which file. It is cut at its start where there is no room, and may have no control characters.
    pub name: String,
    /// How much there is to do.
    pub amount: Amount,
}

/// How much of a work there is.
#[derive(Clone, Debug)]
pub enum Amount {
    /// Bytes, which are counted as they are done; of how many, where that is known.
    Bytes(Option<u64>),
    /// What is done in words, and as a part of 0 to 1 where that is known.
    Words(String, Option<f64>),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Words(String::new(), None)
    }
}

struct State {
    work: Activity,
    done_bytes: u64,
    /// When how many bytes were done.
    samples: VecDeque<(Instant, u64)>,
    /// Not drawn before.
    next: Instant,
    is_drawn: bool,
}

impl Line {
    /// Shows a work from now on, where that is wanted and standard error is a terminal. Tells whether it does.
    pub fn begin(&self, is_wanted: bool, work: Activity) -> bool {
        let is_on = is_wanted && io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|it| it != "dumb");
        let now = Instant::now();
        let state = State {
            work,
            done_bytes: 0,
            samples: VecDeque::from([(now, 0)]),
            next: now + SILENCE,
            is_drawn: false,
        };
        self.end();
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = is_on.then_some(state);
        self.is_on.store(is_on, Ordering::Relaxed);
        is_on
    }

    /// Shows nothing any more.
    pub fn end(&self) {
        self.erase();
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Shows this instead, a part of the same work.
    pub fn set(&self, work: Activity) {
        self.with(|state, now| {
            state.work = work;
            state.draw(now);
        });
    }

    /// So many bytes more are done.
    pub fn add(&self, bytes: u64) {
        self.with(|state, now| {
            state.done_bytes += bytes;
            state.draw(now);
        });
    }

    /// So many bytes are done, of so many where that is known.
    pub fn moved(&self, done_bytes: u64, of_bytes: Option<u64>) {
        self.with(|state, now| {
            state.done_bytes = done_bytes;
            state.work.amount = Amount::Bytes(of_bytes);
            state.draw(now);
        });
    }

    /// The file that is worked on now.
    pub fn name(&self, name: impl FnOnce() -> String) {
        self.with(|state, _| state.work.name = name());
    }

    /// Erases it, and lets what is printed now be seen for half a second.
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
        if let Some(state) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
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
        let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| width.0);
        // In the last column the cursor would wait to wrap.
        let (part, text) = self
            .work
            .fitted(self.done_bytes, self.rate(), usize::from(width).saturating_sub(1));
        let bar = part.map_or_else(String::new, |part| bar(part) + " ");
        write(&format!("\r{bar}{text}\x1b[K"));
        self.is_drawn = true;
    }

    fn sample(&mut self, now: Instant) {
        self.samples.push_back((now, self.done_bytes));
        while self.samples.len() > 2 && now - self.samples[0].0 > RATED {
            self.samples.pop_front();
        }
    }

    /// Bytes per second, of the last seconds.
    fn rate(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let seconds = (last.0 - first.0).as_secs_f64();
        let bytes = last.1.saturating_sub(first.1);
        (seconds > 0.0 && bytes > 0).then(|| bytes as f64 / seconds)
    }
}

/// Whether this process may write to the terminal: one in the background would write into what is typed.
fn is_in_foreground() -> bool {
    // A terminal that is not this session's has no foreground.
    rustix::termios::tcgetpgrp(io::stderr()).map_or(true, |group| group == rustix::process::getpgrp())
}

/// Writes without the lock of std, which another thread may hold while it waits for this line to be erased.
fn write(text: &str) {
    let _ = rustix::io::write(io::stderr(), text.as_bytes());
}

impl Activity {
    /// The part for a bar, if there is room for one, and the text behind it.
    fn fitted(&self, done_bytes: u64, rate: Option<f64>, room: usize) -> (Option<f64>, String) {
        let (part, figures) = self.figures(done_bytes, rate);
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

    fn figures(&self, done_bytes: u64, per_second: Option<f64>) -> (Option<f64>, String) {
        let of = match &self.amount {
            Amount::Words(words, part) => return (*part, words.clone()),
            Amount::Bytes(of) => *of,
        };
        let left = of.zip(per_second).map(|(of, per_second)| {
            let left = of.saturating_sub(done_bytes) as f64 / per_second;
            whole_time(Duration::from_secs_f64(left.min(1e9)))
        });
        let figures = [
            Some(bytes(done_bytes)),
            of.map(|of| format!(" of {}", bytes(of))),
            per_second.map(|per_second| format!(", {}", rate(per_second))),
            left.map(|left| format!(", {left} left")),
        ];
        let part = of.map(|of| done_bytes as f64 / of.max(1) as f64);
        (part, figures.into_iter().flatten().collect())
    }
}

fn bar(part: f64) -> String {
    let (done, rest) = match AutoStream::choice(&io::stderr()) {
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

/// A stream that erases the line before anything is written to it, where it leads to a terminal.
pub struct Cleared<W, T> {
    stream: W,
    end: T,
}

impl<W: Write, T: IsTerminal> Cleared<W, T> {
    /// A stream that leads to `end`.
    pub fn of(stream: W, end: T) -> Self {
        Self { stream, end }
    }
}

/// Standard output, for text.
pub fn stdout() -> Cleared<AutoStream<StdoutLock<'static>>, Stdout> {
    Cleared::of(anstream::stdout().lock(), io::stdout())
}

/// Standard error, for text.
pub fn stderr() -> Cleared<AutoStream<StderrLock<'static>>, Stderr> {
    Cleared::of(anstream::stderr().lock(), io::stderr())
}

impl<W: Write, T: IsTerminal> Write for Cleared<W, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if LINE.is_on.load(Ordering::Relaxed) && self.end.is_terminal() {
            LINE.erase();
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
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
            work: Activity::default(),
            done_bytes: 0,
            samples: VecDeque::from([(now, 0)]),
            next: now,
            is_drawn: false,
        };
        assert_eq!(state.rate(), None);
        for second in 1..=20 {
            state.done_bytes += if second <= 10 { 1000 } else { 10 };
            state.sample(at(second));
        }
        assert_eq!(state.rate(), Some(10.0));
    }
}
