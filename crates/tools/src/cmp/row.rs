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
/// The longest octal row: a number, two bytes, a newline.
const ROW_BYTES_MAX: usize = DIGITS_MAX + 4 + 4 + 1;
/// Copied for each row, whatever its length: a copy of fixed length is two moves.
const COPIED_BYTES: usize = 32;
/// FreeBSD's cmp pads offsets to this many hexadecimal digits.
const HEXADECIMAL_WIDTH: usize = 8;

/// Writes rows.
pub(super) struct Rows {
    style: RowStyle,
    width: usize,
    octal: [[u8; 4]; 256],
    /// The last number that was written, right-aligned among blanks, and room for the rest of an octal row behind it.
    row: [u8; DIGITS_MAX + COPIED_BYTES],
    first_digit: usize,
    number: u64,
}

impl Rows {
    /// Rows with numbers padded to the width of `last`, the largest number expected.
    pub(super) fn new(style: RowStyle, last: u64) -> Self {
        let width = match style {
            RowStyle::Hexadecimal => HEXADECIMAL_WIDTH,
            _ => last.checked_ilog10().map_or(1, |log| log as usize + 1),
        };
        let octal = std::array::from_fn(|byte| octal(byte as u8));
        let mut rows = Self {
            style,
            width,
            octal,
            row: [b' '; DIGITS_MAX + COPIED_BYTES],
            first_digit: DIGITS_MAX,
            number: 0,
        };
        rows.set_number(0);
        rows
    }

    /// Appends the row of the byte at `offset`.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, offset: u64, one: u8, other: u8) {
        match self.style {
            RowStyle::Octal => {
                self.count_to(offset + 1);
                let from = self.first_digit.min(DIGITS_MAX - self.width);
                self.row[DIGITS_MAX..DIGITS_MAX + 4].copy_from_slice(&self.octal[usize::from(one)]);
                self.row[DIGITS_MAX + 4..DIGITS_MAX + 8].copy_from_slice(&self.octal[usize::from(other)]);
                self.row[ROW_BYTES_MAX - 1] = b'\n';
                let end = out.len() + ROW_BYTES_MAX - from;
                out.extend_from_slice(&self.row[from..from + COPIED_BYTES]);
                out.truncate(end);
            }
            RowStyle::OctalAndCharacters => {
                self.count_to(offset + 1);
                let from = self.first_digit.min(DIGITS_MAX - self.width);
                out.extend_from_slice(&self.row[from..DIGITS_MAX]);
                out.extend_from_slice(&self.octal[usize::from(one)]);
                let (shown, len) = visible_byte(one);
                out.push(b' ');
                out.extend_from_slice(&shown[..len]);
                out.extend_from_slice(&b"    "[len..]);
                out.extend_from_slice(&self.octal[usize::from(other)]);
                let (shown, len) = visible_byte(other);
                out.push(b' ');
                out.extend_from_slice(&shown[..len]);
                out.push(b'\n');
            }
            RowStyle::Hexadecimal => {
                let digits = (offset.checked_ilog2().unwrap_or(0) as usize / 4 + 1).max(self.width);
                for digit in (0..digits).rev() {
                    out.push(hexadecimal((offset >> (4 * digit)) as u8 & 15));
                }
                for byte in [one, other] {
                    out.extend_from_slice(&[b' ', hexadecimal(byte >> 4), hexadecimal(byte & 15)]);
                }
                out.push(b'\n');
            }
        }
    }

    /// Sets the number of the row; incrementing the last one is cheap.
    fn count_to(&mut self, number: u64) {
        if number != self.number + 1 {
            return self.set_number(number);
        }
        self.number = number;
        let mut place = DIGITS_MAX - 1;
        while self.row[place] == b'9' {
            self.row[place] = b'0';
            // 2^64 has no more digits than there are places.
            place -= 1;
        }
        if self.row[place] == b' ' {
            self.row[place] = b'0';
            self.first_digit = place;
        }
        self.row[place] += 1;
    }

    fn set_number(&mut self, number: u64) {
        self.number = number;
        self.row[..DIGITS_MAX].fill(b' ');
        self.first_digit = DIGITS_MAX;
        let mut rest = number;
        loop {
            self.first_digit -= 1;
            self.row[self.first_digit] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
    }
}

/// A blank and three octal digits, leading zeros as blanks.
fn octal(byte: u8) -> [u8; 4] {
    let digit = |shift: u32| b'0' + (byte >> shift & 7);
    let blank_below = |limit: u8, digit: u8| if byte < limit { b' ' } else { digit };
    [b' ', blank_below(64, digit(6)), blank_below(8, digit(3)), digit(0)]
}

fn hexadecimal(digit: u8) -> u8 {
    b"0123456789abcdef"[usize::from(digit)]
}

/// Three octal digits, right-aligned, as in the message for a first difference.
#[must_use]
pub fn octal_digits(byte: u8) -> [u8; 3] {
    let [_, digits @ ..] = octal(byte);
    digits
}

/// A byte as `cat -v` shows it, control characters as `^A` and bytes above 127 with `M-`; and how long that is.
#[must_use]
pub fn visible_byte(byte: u8) -> ([u8; 4], usize) {
    let mut shown = [0; 4];
    let mut len = 0;
    let mut push = |character| {
        shown[len] = character;
        len += 1;
    };
    if byte >= 128 {
        push(b'M');
        push(b'-');
    }
    match byte & 127 {
        low @ 0..32 => {
            push(b'^');
            push(low + 64);
        }
        127 => {
            push(b'^');
            push(b'?');
        }
        low => push(low),
    }
    (shown, len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(byte: u8) -> String {
        let (shown, len) = visible_byte(byte);
        String::from_utf8(shown[..len].to_vec()).unwrap()
    }

    #[test]
    fn bytes_are_shown_as_characters() {
        let shown = [0, 9, 31, 32, b'a', 127, 128, 160, 254, 255].map(text);
        assert_eq!(shown, ["^@", "^I", "^_", " ", "a", "^?", "M-^@", "M- ", "M-~", "M-^?"]);
    }

    #[test]
    fn numbers_wider_than_expected_push_the_row_to_the_right() {
        let mut rows = Rows::new(RowStyle::Octal, 9);
        let mut out = Vec::new();
        for offset in [7, 8, 9, 99, 100, u64::MAX - 1] {
            rows.push(&mut out, offset, 0, 255);
        }
        let expected = "8   0 377\n9   0 377\n10   0 377\n100   0 377\n101   0 377\n18446744073709551615   0 377\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn rows_are_those_of_format(
            start in prop_oneof![0..2000_u64, any::<u64>().prop_map(|start| start / 2)],
            steps in proptest::collection::vec(prop_oneof![Just(1_u64), 1..1000_u64], 1..40),
            last in any::<u64>(),
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
                            let (shown, next) = (text(one), text(other));
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
