//! The layouts of test files: data, holes, and written zeros.
//!
//! A layout has one text form: `dense`, `fragmented`, or pieces such as `1023M hole, 1M data` and `1000 x (4K hole,
//! 196K data)`. It says nothing about the data itself: that is a stream of the run's seed.

mod file;
mod fragments;
mod text;

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use seekless_record::Contest;

pub use self::file::verify;

seekless_record::words! {
    /// What a stretch of a file is.
    StretchKind {
        /// Incompressible bytes.
        Data = "data",
        /// No blocks; reads as zeros.
        Hole = "hole",
        /// Zeros that were written: the bytes of a hole, with blocks.
        Zeros = "zeros",
    }
}

/// Bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    bytes: u64,
    kind: StretchKind,
}

/// Stretches that follow each other, this many times; what comes once is a single stretch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    times: u64,
    stretches: Vec<Stretch>,
}

/// How a file is laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// Data throughout, whatever the size.
    #[default]
    Dense,
    /// The same, scattered over the device.
    Fragmented,
    /// Pieces of whole blocks, which determine the size.
    Pieces(Vec<Piece>),
}

/// What all stretches are a multiple of: the usual block of file systems, and the page.
pub const BLOCK_BYTES: u64 = 4 << 10;

/// Makes a new file of a layout other than dense, with the stream of a seed as its data, written through to the device. If
/// the file system creates another layout, returns a sentence, and removes the file.
///
/// # Errors
/// The system's, of creating, writing and syncing.
pub fn make(path: &Path, layout: &Layout, bytes: u64, seed: u64) -> io::Result<Result<(), String>> {
    let laid_out = match layout {
        Layout::Fragmented => fragments::make_fragmented(path, bytes, seed),
        _ => file::lay_out(path, layout, seed),
    };
    let made = laid_out.and_then(|()| verify(path, layout));
    if !matches!(made, Ok(Ok(()))) {
        let _ = fs::remove_file(path);
    }
    made
}

impl Layout {
    /// The layout of a contest's files. Its text is valid, because a run with an invalid one is not resumed.
    #[must_use]
    pub fn of(contest: &Contest) -> Self {
        let layout = contest.layout.as_deref().and_then(|text| text.parse().ok());
        layout.unwrap_or_default()
    }

    /// The pieces; none where it has data throughout.
    fn pieces(&self) -> &[Piece] {
        match self {
            Self::Dense | Self::Fragmented => &[],
            Self::Pieces(pieces) => pieces,
        }
    }

    /// All stretches in order: where they are, and what.
    pub fn stretches(&self) -> impl Iterator<Item = (Range<u64>, StretchKind)> {
        let all = self
            .pieces()
            .iter()
            .flat_map(|piece| (0..piece.times).flat_map(|_| &piece.stretches));
        all.scan(0, |at, stretch| {
            let start = *at;
            *at += stretch.bytes;
            Some((start..*at, stretch.kind))
        })
    }

    /// Where the file has blocks, neighbours as one.
    #[must_use]
    pub fn allocated(&self) -> Vec<Range<u64>> {
        self.ranges_where(|kind| kind != StretchKind::Hole)
    }

    /// Where it reads as zeros, neighbours as one.
    #[must_use]
    pub fn zeros(&self) -> Vec<Range<u64>> {
        self.ranges_where(|kind| kind != StretchKind::Data)
    }

    fn ranges_where(&self, is_meant: impl Fn(StretchKind) -> bool) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (range, _) in self.stretches().filter(|(_, kind)| is_meant(*kind)) {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// The size that the pieces make up; 0 where there are none.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_where(|_| true)
    }

    /// What of it are holes.
    #[must_use]
    pub fn hole_bytes(&self) -> u64 {
        self.bytes_where(|kind| kind == StretchKind::Hole)
    }

    fn bytes_where(&self, is_meant: impl Fn(StretchKind) -> bool) -> u64 {
        let meant = self.stretches().filter(|(_, kind)| is_meant(*kind));
        meant.map(|(range, _)| range.end - range.start).sum()
    }

    /// A small file of this kind, for testing the file system: its shortest hole with some data around it. `None` if
    /// there is nothing to test.
    #[must_use]
    pub fn sample(&self) -> Option<(Self, u64)> {
        const AROUND_BYTES: u64 = 64 << 10;
        if *self == Self::Fragmented {
            return Some((Self::Fragmented, fragments::FEWEST_PIECES * BLOCK_BYTES));
        }
        let stretches = self.pieces().iter().flat_map(|piece| &piece.stretches);
        let hole = stretches.filter(|stretch| stretch.kind == StretchKind::Hole).min()?;
        let (bytes, kind) = (AROUND_BYTES, StretchKind::Data);
        let around = Stretch { bytes, kind };
        let sample = Self::Pieces(repeated(1, vec![around, *hole, around]));
        let bytes = sample.bytes();
        Some((sample, bytes))
    }

    /// The same with about another size: repeated pieces are repeated more or less often, single pieces become longer
    /// or shorter. No piece vanishes.
    #[must_use]
    pub fn scaled(&self, bytes: u64) -> Self {
        let own = self.bytes();
        let part = |of: u64| (u128::from(of) * u128::from(bytes) / u128::from(own)) as u64;
        let stretch = |&Stretch { bytes, kind }: &Stretch| Stretch {
            bytes: (part(bytes) / BLOCK_BYTES).max(1) * BLOCK_BYTES,
            kind,
        };
        let piece = |piece: &Piece| match piece.times {
            1 => repeated(1, piece.stretches.iter().map(stretch).collect()),
            times => repeated(part(times), piece.stretches.clone()),
        };
        match self {
            Self::Pieces(pieces) => Self::Pieces(pieces.iter().flat_map(piece).collect()),
            other => other.clone(),
        }
    }

    /// The layout of a file of about this many bytes, with its exact size.
    #[must_use]
    pub fn of_size(&self, bytes: u64) -> (Self, u64) {
        let scaled = self.scaled(bytes);
        let bytes = scaled.own_bytes().unwrap_or(bytes);
        (scaled, bytes)
    }

    /// The size that the pieces make up; `None` where it has none of its own.
    #[must_use]
    pub fn own_bytes(&self) -> Option<u64> {
        (!self.pieces().is_empty()).then(|| self.bytes())
    }
}

/// Stretches repeated this many times; without repetition, a piece each.
fn repeated(times: u64, stretches: Vec<Stretch>) -> Vec<Piece> {
    let piece = |times, stretches| Piece { times, stretches };
    if times > 1 {
        vec![piece(times, stretches)]
    } else {
        stretches.into_iter().map(|stretch| piece(1, vec![stretch])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Layout {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn what_has_blocks_is_what_is_no_hole() {
        let pieces = pieces("8K hole, 4K data, 4K zeros, 2 x (4K hole, 8K data)");
        assert_eq!(pieces.allocated(), [8192..16384, 20480..28672, 32768..40960]);
        assert_eq!((pieces.bytes(), pieces.hole_bytes()), (40960, 16384));
        let (sample, bytes) = pieces.sample().unwrap();
        assert_eq!(sample.to_string(), "64K data, 4K hole, 64K data");
        assert_eq!(bytes, sample.bytes());
    }

    #[test]
    fn another_size_keeps_the_kind_of_file() {
        for (text, bytes, scaled) in [
            ("1023M hole, 1M data", 8 << 20, "8184K hole, 8K data"),
            ("1000 x (4K hole, 196K data)", 2 << 20, "10 x (4K hole, 196K data)"),
            ("1000 x (4K hole, 196K data)", 4096, "4K hole, 196K data"),
            ("1G data, 1M hole, 1G data", 2 << 20, "1020K data, 4K hole, 1020K data"),
        ] {
            assert_eq!(pieces(text).scaled(bytes).to_string(), scaled, "{text} of {bytes}");
        }
        let whole = pieces("1023M hole, 1M data");
        assert_eq!(whole.scaled(whole.bytes()), whole);
    }
}
