//! The text of a layout.

use std::fmt;
use std::str::FromStr;

use seekless_engine::method::{format_size, parse_size};

use super::{BLOCK_BYTES, Layout, Piece, Stretch, StretchKind, repeated};

/// The word of a file that has data throughout.
const DENSE: &str = "dense";
/// The word of a file that has data throughout, in many places of the device.
const FRAGMENTED: &str = "fragmented";
/// The most stretches of a file: each is written, asked for and compared on its own.
const MOST_STRETCHES: u64 = 1 << 20;
/// The largest file: 2^50 bytes.
const MOST_BYTES: u64 = 1 << 50;

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", format_size(self.bytes), self.kind.name())
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stretches: Vec<String> = self.stretches.iter().map(ToString::to_string).collect();
        match self.times {
            1 => f.write_str(&stretches.join(", ")),
            times => write!(f, "{times} x ({})", stretches.join(", ")),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dense => f.write_str(DENSE),
            Self::Fragmented => f.write_str(FRAGMENTED),
            Self::Pieces(pieces) => {
                let pieces: Vec<String> = pieces.iter().map(ToString::to_string).collect();
                f.write_str(&pieces.join(", "))
            }
        }
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            DENSE => return Ok(Self::Dense),
            FRAGMENTED => return Ok(Self::Fragmented),
            _ => {}
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        loop {
            let (piece, behind) = piece(rest)?;
            pieces.extend(piece);
            match behind.trim_start().strip_prefix(',') {
                Some(next) => rest = next,
                None if behind.trim().is_empty() => break,
                None => return Err(format!("expected a comma before `{}`", behind.trim())),
            }
        }
        within_bounds(&pieces)?;
        Ok(Self::Pieces(pieces))
    }
}

/// The first piece of a text, and what is behind it.
fn piece(text: &str) -> Result<(Vec<Piece>, &str), String> {
    let end = text.find([',', '(', ')']).unwrap_or(text.len());
    let (before, rest) = text.split_at(end);
    let Some(inside) = rest.strip_prefix('(') else {
        return Ok((repeated(1, vec![stretch(before)?]), rest));
    };
    let times = before.trim().strip_suffix('x').map(str::trim);
    let times = times.and_then(|times| times.parse().ok()).filter(|&times| times > 0);
    let times = times.ok_or_else(|| {
        format!(
            "`{}(` has no number of repetitions, as in `1000 x (`",
            before.trim_start()
        )
    })?;
    let (inside, behind) = inside
        .split_once(')')
        .ok_or_else(|| format!("`({inside}` has no `)`"))?;
    let stretches = inside.split(',').map(stretch);
    Ok((repeated(times, stretches.collect::<Result<_, _>>()?), behind))
}

fn stretch(text: &str) -> Result<Stretch, String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is not a piece: write a size and `data`, `hole` or `zeros`, as in `4K hole`");
    let (size, kind) = text.rsplit_once(char::is_whitespace).ok_or_else(wrong)?;
    let kind = StretchKind::named(kind).ok_or_else(wrong)?;
    let bytes = parse_size(size)?;
    if bytes == 0 || bytes % BLOCK_BYTES != 0 {
        return Err(format!(
            "`{text}`: the size must be a multiple of {}, because holes consist of whole blocks",
            format_size(BLOCK_BYTES)
        ));
    }
    Ok(Stretch { bytes, kind })
}

fn within_bounds(pieces: &[Piece]) -> Result<(), String> {
    let (mut stretches, mut bytes) = (0_u128, 0_u128);
    for piece in pieces {
        let own = piece.stretches.iter().map(|stretch| u128::from(stretch.bytes));
        stretches += u128::from(piece.times) * own.len() as u128;
        bytes += u128::from(piece.times) * own.sum::<u128>();
    }
    if stretches > u128::from(MOST_STRETCHES) {
        return Err(format!(
            "a layout has at most {MOST_STRETCHES} pieces; this one has {stretches}"
        ));
    }
    if bytes > u128::from(MOST_BYTES) {
        return Err(format!("a file has at most {}", format_size(MOST_BYTES)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_stretch() -> impl Strategy<Value = Stretch> {
        let kind = prop::sample::select(StretchKind::ALL.to_vec());
        (1_u64..5000, kind).prop_map(|(blocks, kind)| Stretch {
            bytes: blocks * BLOCK_BYTES,
            kind,
        })
    }

    fn any_layout() -> impl Strategy<Value = Layout> {
        let piece = (1_u64..2000, prop::collection::vec(any_stretch(), 1..4))
            .prop_map(|(times, stretches)| repeated(times, stretches));
        let pieces = prop::collection::vec(piece, 1..6);
        prop_oneof![
            Just(Layout::Dense),
            Just(Layout::Fragmented),
            pieces.prop_map(|pieces| Layout::Pieces(pieces.concat()))
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if crate::is_long() { 256 } else { 64 }))]

        #[test]
        fn what_is_printed_reads_the_same(layout in any_layout()) {
            prop_assert_eq!(layout.to_string().parse::<Layout>(), Ok(layout));
        }

        #[test]
        fn any_text_is_a_layout_or_an_error(text in "[0-9KMGx(), a-z]{0,40}|.{0,40}") {
            if let Ok(layout) = text.parse::<Layout>() {
                prop_assert_eq!(layout.to_string().parse::<Layout>(), Ok(layout));
            }
        }

        #[test]
        fn scaling_keeps_whole_blocks_and_every_kind(layout in any_layout(), bytes in 1_u64..1 << 40) {
            let scaled = layout.scaled(bytes);
            let kinds = |layout: &Layout| {
                let all = layout.pieces().iter().flat_map(|piece| &piece.stretches);
                all.map(|stretch| stretch.kind).collect::<Vec<_>>()
            };
            prop_assert_eq!(kinds(&scaled), kinds(&layout));
            prop_assert!(scaled.bytes() % BLOCK_BYTES == 0 && (scaled.bytes() > 0 || layout.pieces().is_empty()));
        }
    }

    #[test]
    fn spaces_and_spellings_do_not_matter() {
        for (text, canonical) in [
            (" dense ", "dense"),
            (" fragmented", "fragmented"),
            ("1024M hole,1M data", "1G hole, 1M data"),
            ("3x(4096 hole,8K zeros) , 4K data", "3 x (4K hole, 8K zeros), 4K data"),
            ("1 x (4K hole, 8K data)", "4K hole, 8K data"),
        ] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn what_is_no_layout_is_told_why() {
        for (text, why) in [
            ("", "not a piece"),
            ("4K", "not a piece"),
            ("4K gap", "`data`, `hole` or `zeros`"),
            ("4K hole 4K data", "4K hole 4K"),
            ("4K hole,", "not a piece"),
            ("1000 hole", "whole blocks"),
            ("0 data", "whole blocks"),
            ("0 x (4K hole)", "number of repetitions"),
            ("many x (4K hole)", "number of repetitions"),
            ("2 x (4K hole", "no `)`"),
            ("2 x (4K hole) 4K data", "expected a comma"),
            ("2 x (2 x (4K hole))", "not a size"),
            ("4K hole)", "expected a comma"),
            ("9999999999 x (4K hole)", "at most"),
            ("999999999999999999999 x (4K hole)", "number of repetitions"),
            ("4096T data, 4096T data", "at most"),
        ] {
            let error = text.parse::<Layout>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
