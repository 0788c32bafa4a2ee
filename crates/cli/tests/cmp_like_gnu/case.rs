//! Random cases: two inputs and the words of a command line.

use std::ffi::OsString;
use std::fmt;

use fastrand::Rng;

/// Edges of pages, of the blocks of either program, of the first read, of a megabyte.
const EDGES: [usize; 9] = [1, 2, 4096, 8192, 16 << 10, 64 << 10, 80 << 10, 128 << 10, 1 << 20];

/// Where an input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    File,
    StandardInput,
    StandardInputByPipe,
    Fifo,
    Missing,
    Directory,
    Null,
    Zero,
    /// The other input under its own name, under another, and by a symbolic link.
    Same,
    HardLink,
    SymbolicLink,
    /// A file that claims to be empty.
    Proc,
}

/// Where standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    Pipe,
    File,
    Null,
    Full,
}

#[derive(Clone)]
pub struct Case {
    pub contents: [Vec<u8>; 2],
    pub sources: [Source; 2],
    pub sink: Sink,
    pub words: Vec<OsString>,
    /// How much of standard input was read before, if it is a file.
    pub consumed_bytes: u64,
    pub posixly: bool,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens = self.contents.each_ref().map(Vec::len);
        let pairs = self.contents[0].iter().zip(&self.contents[1]);
        let first = pairs.clone().position(|(one, other)| one != other);
        let count = pairs.filter(|(one, other)| one != other).count();
        write!(f, "cmp {:?} with {:?} of {lens:?} bytes", self.words, self.sources)?;
        write!(
            f,
            ", {count} different from {first:?}; stdout {:?}, consumed {}",
            self.sink, self.consumed_bytes
        )?;
        write!(f, "{}", if self.posixly { ", POSIXLY_CORRECT" } else { "" })
    }
}

impl Case {
    /// Two files without options.
    pub fn plain(one: &[u8], other: &[u8]) -> Self {
        Self {
            contents: [one.to_vec(), other.to_vec()],
            sources: [Source::File; 2],
            sink: Sink::Pipe,
            words: vec!["one".into(), "other".into()],
            consumed_bytes: 0,
            posixly: false,
        }
    }

    pub fn random(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let random = &mut random;
        let contents = contents(random);
        let sources = sources(random);
        let mut words = options(random, contents[0].len() as u64);
        let operands = operands(random, sources, contents[0].len() as u64);
        if sources.contains(&Source::Zero) {
            words.push(format!("-n{}", random.u32(0..200_000)).into());
        }
        words = shuffled_into(random, words, operands);
        if random.u8(..) < 12 {
            // Neither an option nor an operand.
            let at = random.usize(0..=words.len());
            words.insert(at, odd_word(random));
        }
        let sink = match random.u8(..) {
            0..20 => Sink::Null,
            20..30 => Sink::Full,
            30..50 => Sink::File,
            _ => Sink::Pipe,
        };
        Self {
            consumed_bytes: if random.bool() { 0 } else { random.u64(0..9000) },
            posixly: random.u8(..) < 10,
            contents,
            sources,
            sink,
            words,
        }
    }
}

fn len(random: &mut Rng) -> usize {
    match random.u8(..) {
        0..16 => 0,
        16..100 => random.usize(0..200),
        100..250 => {
            let edges = if random.u8(..) < 40 {
                &EDGES[..]
            } else {
                &EDGES[..EDGES.len() - 2]
            };
            let edge = edges[random.usize(0..edges.len())];
            edge - 1 + random.usize(0..3)
        }
        _ => random.usize(0..300_000),
    }
}

fn contents(random: &mut Rng) -> [Vec<u8>; 2] {
    let len = len(random);
    let letters: &[u8] = match random.u8(0..4) {
        0 => b"ab\n",
        1 => b"\0",
        2 => b"abcdefghijklmnopqrstuvwxyz0123456789\n",
        _ => &[],
    };
    let byte = |random: &mut Rng| match letters {
        [] => random.u8(..),
        letters => letters[random.usize(0..letters.len())],
    };
    let one: Vec<u8> = (0..len).map(|_| byte(random)).collect();
    let mut other = one.clone();
    match random.u8(..) {
        0..60 => {}
        60..80 if len < 140_000 => other.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)),
        80..110 if len < 140_000 => other
            .iter_mut()
            .for_each(|byte| *byte ^= random.u8(..) & random.u8(0..2)),
        _ => {
            for _ in 0..random.usize(1..6) {
                let edge = EDGES[random.usize(0..EDGES.len())] - 1 + random.usize(0..3);
                let index = if random.bool() { edge } else { random.usize(0..=len) };
                if let Some(byte) = other.get_mut(index) {
                    *byte ^= random.u8(1..);
                }
            }
        }
    }
    match random.u8(..) {
        0..40 => other.truncate(random.usize(0..=len)),
        40..70 => other.truncate(len.saturating_sub(random.usize(0..3))),
        70..100 => other.extend((0..random.usize(0..5000)).map(|_| b'x')),
        _ => {}
    }
    if random.bool() { [one, other] } else { [other, one] }
}

fn sources(random: &mut Rng) -> [Source; 2] {
    let special = |random: &mut Rng| match random.u8(..) {
        0..50 => Source::StandardInput,
        50..100 => Source::StandardInputByPipe,
        100..130 => Source::Fifo,
        130..150 => Source::Missing,
        150..170 => Source::Directory,
        170..185 => Source::Null,
        185..200 => Source::Zero,
        200..210 => Source::Same,
        210..220 => Source::HardLink,
        220..230 => Source::SymbolicLink,
        _ => Source::Proc,
    };
    match random.u8(..) {
        0..130 => [Source::File; 2],
        130..190 => [special(random), Source::File],
        190..245 => [Source::File, special(random)],
        _ => {
            // Two inputs that each refer to the other would be nothing.
            let is_other = |source| matches!(source, Source::Same | Source::HardLink | Source::SymbolicLink);
            let pair = [special(random), special(random)];
            let is_input = |source| matches!(source, Source::StandardInput | Source::StandardInputByPipe);
            // One stream cannot be read at two places.
            if pair.into_iter().any(is_other) || pair.into_iter().all(is_input) {
                [Source::Fifo, Source::StandardInput]
            } else {
                pair
            }
        }
    }
}

fn options(random: &mut Rng, len: u64) -> Vec<OsString> {
    let mut words = Vec::new();
    let count = [0, 0, 1, 1, 2, 3][random.usize(0..6)];
    for _ in 0..count {
        let word = match random.u8(0..10) {
            0 | 1 => ["-b", "--print-bytes", "-c", "--print-c", "--print-b"][random.usize(0..5)].to_owned(),
            2 | 3 => ["-l", "--verbose", "--verb", "-lb", "-bl"][random.usize(0..5)].to_owned(),
            4 => ["-s", "--silent", "--quiet", "--q", "--s"][random.usize(0..5)].to_owned(),
            5..=7 => {
                let skip = skip(random, len);
                ["-i", "-bi", "--ignore-initial=", "--i="][random.usize(0..4)].to_owned() + &skip
            }
            _ => {
                let amount = amount(random, len);
                ["-n", "--bytes=", "--b=", "--by="][random.usize(0..4)].to_owned() + &amount
            }
        };
        // A value may be a word of its own.
        match word.split_once('=') {
            Some((name, value)) if random.bool() => words.extend([name.into(), value.into()]),
            _ => words.push(word.into()),
        }
    }
    words
}

fn skip(random: &mut Rng, len: u64) -> String {
    let mut amount = || match amount(random, len) {
        // Beyond the largest file offset, -s of GNU cmp counts differently from its other options.
        text if ["4P", "7E", "9223372036854775807"].contains(&text.as_str()) => "1".to_owned(),
        text => text,
    };
    let (one, other) = (amount(), amount());
    if random.bool() { one } else { format!("{one}:{other}") }
}

/// A number of bytes, as a rule within the file or near its end.
fn amount(random: &mut Rng, len: u64) -> String {
    let odd = [
        "K",
        "kB",
        "1k",
        "1K",
        "1KiB",
        "2kD",
        "M",
        "1MB",
        "0x1f",
        "017",
        " 5",
        "+3",
        "-0",
        "0Y",
        "7E",
        "8E",
        "-1",
        "x",
        "",
        "9",
        "1m",
        "08",
        "1Ki",
        "99999999999999999999",
        "9223372036854775807",
        "4P",
    ];
    match random.u8(..) {
        0..30 => odd[random.usize(0..odd.len())].to_owned(),
        30..100 => random.u64(0..20).to_string(),
        100..180 => (len + 2).saturating_sub(random.u64(0..5)).to_string(),
        _ => random.u64(0..=len + 10).to_string(),
    }
}

fn operands(random: &mut Rng, sources: [Source; 2], len: u64) -> Vec<OsString> {
    let name = |source: Source, side: usize| -> OsString {
        let own = ["one", "other"][side];
        match source {
            Source::StandardInput | Source::StandardInputByPipe => "-".into(),
            Source::Null => "/dev/null".into(),
            Source::Zero => "/dev/zero".into(),
            Source::Proc => "/proc/version".into(),
            Source::Same => ["other", "one"][side].into(),
            _ => own.into(),
        }
    };
    let mut operands = vec![name(sources[0], 0), name(sources[1], 1)];
    match random.u8(..) {
        0..25 => operands.push(skip(random, len).into()),
        25..50 => operands.extend([skip(random, len).into(), skip(random, len).into()]),
        50..53 => operands.truncate(1),
        53..55 => operands.clear(),
        55..58 => operands.extend(["1".into(), "2".into(), "3".into()]),
        _ => {}
    }
    operands
}

/// Puts options between and behind operands, whose order stays.
fn shuffled_into(random: &mut Rng, options: Vec<OsString>, operands: Vec<OsString>) -> Vec<OsString> {
    if random.bool() {
        return [options, operands].concat();
    }
    let mut at: Vec<usize> = operands.iter().map(|_| random.usize(0..=options.len())).collect();
    at.sort_unstable();
    let mut words = options;
    for (before, (at, operand)) in at.into_iter().zip(operands).enumerate() {
        words.insert(at + before, operand);
    }
    words
}

fn odd_word(random: &mut Rng) -> OsString {
    let words = [
        "-q",
        "--foo",
        "--foo=bar",
        "--v",
        "--p",
        "--p=1",
        "--ver",
        "--silent=1",
        "-n",
        "-i",
        "--bytes",
        "--",
        "-",
        "-i:",
        "-i1:",
        "-n=5",
        "-b5",
        "--verbose=",
        "--=",
        "-i1:2:3",
        "---",
        "-bl-",
        "no such file",
        "n\nl",
        "-\u{e9}",
        "--print-bytes=x",
        "",
    ];
    words[random.usize(0..words.len())].into()
}
