//! The rows of a listing: the number of a byte, and its value in each file.
//!
//! If files differ everywhere, printing is most of the work, so numbers are incremented in place and bytes come from
//! tables.

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowStyle {
    /// `  7 146 130`: counted from one, decimal, the bytes in octal.
    Octal,
    /// `  7 146 f    130 X`: the same with the bytes as characters.
    OctalAndCharacters,
    /// `00000006 66 58`: counted from zero, all hexadecimal.
    Hexadecimal,
}

/// The digits of `u64::MAX`.
const DIGITS_MAX: usize = 20;
/// Copied for each byte, whatever its length: a copy of fixed length is two moves.
const CELL_BYTES: usize = 16;
/// Copied for each row, for the same reason.
const ROW_BYTES: usize = DIGITS_MAX + 2 * CELL_BYTES;
/// FreeBSD's cmp pads offsets to this many hexadecimal digits.
const HEXADECIMAL_WIDTH: usize = 8;

/// How a byte is written, and the length of that.
type Cell = ([u8; CELL_BYTES], usize);

/// Writes rows.
pub(super) struct Rows {
    is_hexadecimal: bool,
    width: usize,
    /// Each byte in the first column, and in the last, with the newline.
    cells: [Vec<Cell>; 2],
    /// The last number that was written, right-aligned, and room for two cells behind it.
    row: [u8; ROW_BYTES],
    first_digit: usize,
    number: u64,
}

impl Rows {
    /// Rows with numbers padded to the width of `last`, the largest number expected.
    pub(super) fn new(style: RowStyle, last: u64) -> Self {
        let is_hexadecimal = style == RowStyle::Hexadecimal;
        let cells = |is_last: bool| (0..=u8::MAX).map(|byte| cell(style, byte, is_last)).collect();
        let mut rows = Self {
            is_hexadecimal,
            width: match style {
                RowStyle::Hexadecimal => HEXADECIMAL_WIDTH,
                _ => last.checked_ilog10().map_or(1, |log| log as usize + 1),
            },
            cells: [cells(false), cells(true)],
            row: [0; ROW_BYTES],
            first_digit: 0,
            number: 0,
        };
        rows.set_number(0);
        rows
    }

    /// Appends the row of the byte at `offset`.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, offset: u64, one: u8, other: u8) {
        self.count_to(offset + u64::from(!self.is_hexadecimal));
        let from = self.first_digit.min(DIGITS_MAX - self.width);
        let mut end = DIGITS_MAX;
        for (cells, byte) in self.cells.iter().zip([one, other]) {
            let (cell, length) = &cells[usize::from(byte)];
            self.row[end..end + CELL_BYTES].copy_from_slice(cell);
            end += length;
        }
        let length = out.len() + end - from;
        out.extend_from_slice(&self.row[from..]);
        out.truncate(length);
    }

    /// Sets the number of the row; incrementing the last one is cheap.
    fn count_to(&mut self, number: u64) {
        if number != self.number + 1 {
            return self.set_number(number);
        }
        self.number = number;
        let last_digit = if self.is_hexadecimal { b'f' } else { b'9' };
        let mut place = DIGITS_MAX - 1;
        while self.row[place] == last_digit {
            self.row[place] = b'0';
            // 2^64 has no more digits than there are places.
            place -= 1;
        }
        self.first_digit = self.first_digit.min(place);
        self.row[place] = match self.row[place] {
            b' ' => b'1',
            b'9' => b'a',
            digit => digit + 1,
        };
    }

    fn set_number(&mut self, number: u64) {
        let (base, padding) = if self.is_hexadecimal { (16, b'0') } else { (10, b' ') };
        self.number = number;
        self.row[..DIGITS_MAX].fill(padding);
        self.first_digit = DIGITS_MAX;
        let mut rest = number;
        loop {
            self.first_digit -= 1;
            self.row[self.first_digit] = b"0123456789abcdef"[(rest % base) as usize];
            rest /= base;
            if rest == 0 {
                break;
            }
        }
    }
}

fn cell(style: RowStyle, byte: u8, is_last: bool) -> Cell {
    let text = match style {
        RowStyle::Octal => format!(" {byte:>3o}"),
        RowStyle::OctalAndCharacters if is_last => format!(" {byte:>3o} {}", visible_byte(byte)),
        RowStyle::OctalAndCharacters => format!(" {byte:>3o} {:<4}", visible_byte(byte)),
        RowStyle::Hexadecimal => format!(" {byte:02x}"),
    };
    let text = if is_last { text + "\n" } else { text };
    let mut cell = [0; CELL_BYTES];
    cell[..text.len()].copy_from_slice(text.as_bytes());
    (cell, text.len())
}

/// A byte as `cat -v` shows it, control characters as `^A` and bytes above 127 with `M-`.
#[must_use]
pub fn visible_byte(byte: u8) -> String {
    let meta = if byte >= 128 { "M-" } else { "" };
    match byte & 127 {
        low @ 0..32 => format!("{meta}^{}", char::from(low + 64)),
        127 => format!("{meta}^?"),
        low => format!("{meta}{}", char::from(low)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_shown_as_characters() {
        let shown = [0, 9, 31, 32, b'a', 127, 128, 160, 254, 255].map(visible_byte);
        assert_eq!(shown, ["^@", "^I", "^_", " ", "a", "^?", "M-^@", "M- ", "M-~", "M-^?"]);
    }

    proptest! {
        #[test]
        fn rows_are_those_of_format(
            start in prop_oneof![0..2000_u64, any::<u64>().prop_map(|start| start / 2), Just(u64::MAX - 40_000)],
            steps in proptest::collection::vec(prop_oneof![Just(1_u64), 1..1000_u64], 1..40),
            last in prop_oneof![0..100_u64, any::<u64>()],
            one in any::<u8>(),
            other in any::<u8>(),
        ) {
            for style in [RowStyle::Octal, RowStyle::OctalAndCharacters, RowStyle::Hexadecimal] {
                let mut rows = Rows::new(style, last);
                let width = last.to_string().len();
                let (mut out, mut expected, mut offset) = (Vec::new(), String::new(), start);
                for step in &steps {
                    rows.push(&mut out, offset, one, other);
                    let row = match style {
                        RowStyle::Octal => format!("{:>width$} {one:>3o} {other:>3o}\n", offset + 1),
                        RowStyle::OctalAndCharacters => {
                            let (shown, next) = (visible_byte(one), visible_byte(other));
                            format!("{:>width$} {one:>3o} {shown:<4} {other:>3o} {next}\n", offset + 1)
                        }
                        RowStyle::Hexadecimal => format!("{offset:08x} {one:02x} {other:02x}\n"),
                    };
                    expected.push_str(&row);
                    offset += step;
                }
                prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }
}
