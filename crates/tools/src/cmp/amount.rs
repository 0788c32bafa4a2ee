//! Numbers of bytes as cmp(1) takes them: decimal, octal (`010`) or hexadecimal (`0x10`), and a suffix.
//!
//! More liberal than [`seekless_engine::method::parse_size`] because a drop-in must take what scripts give it.

/// Letters for powers of 1024, or of 1000 if `B` or `D` follows. `k` is the only lower-case letter.
const POWERS: [(&[u8], u32); 8] = [
    (b"kK", 1),
    (b"M", 2),
    (b"G", 3),
    (b"T", 4),
    (b"P", 5),
    (b"E", 6),
    (b"Z", 7),
    (b"Y", 8),
];

/// The largest offset that the system's calls take.
const LARGEST: u64 = i64::MAX as u64;

/// A number of bytes: blanks, a sign, digits, and one of `kB` (1000), `K`, `KiB` (1024), `MB`, `M`, `MiB` and so on to
/// `Y`. A suffix without a number stands for 1 of it. `None` for anything else, and for more than the largest file
/// offset.
#[must_use]
pub fn parse_amount(text: &[u8]) -> Option<u64> {
    let (number, suffix) = leading_number(text)?;
    let factor = match suffix {
        [] => 1,
        [letter, rest @ ..] => {
            let (_, power) = POWERS.iter().find(|(letters, _)| letters.contains(letter))?;
            let base: u128 = match rest {
                b"" | b"iB" => 1024,
                b"B" | b"D" => 1000,
                _ => return None,
            };
            base.pow(*power)
        }
    };
    let bytes = number.checked_mul(factor)?;
    u64::try_from(bytes).ok().filter(|&bytes| bytes <= LARGEST)
}

/// The number at the start of a text, as strtol(3) reads it, and the rest.
fn leading_number(text: &[u8]) -> Option<(u128, &[u8])> {
    let unsigned = text.trim_ascii_start();
    // A vertical tab is white space in C, but not in Rust.
    let unsigned = match unsigned {
        [0x0b, ..] => return leading_number(&unsigned[1..]),
        other => other,
    };
    let (is_negative, digits) = match unsigned {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, unsigned),
    };
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', first, ..] if first.is_ascii_hexdigit() => (16, &digits[2..]),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let value = |byte: &u8| char::from(*byte).to_digit(radix);
    let count = digits.iter().take_while(|byte| value(byte).is_some()).count();
    if count == 0 {
        // A suffix without a number is allowed only at the start of the text.
        return (!text.is_empty() && digits.len() == text.len()).then_some((1, text));
    }
    let number = digits[..count].iter().try_fold(0_u128, |number, byte| {
        let number = number * u128::from(radix) + u128::from(value(byte)?);
        (number <= u128::from(u64::MAX)).then_some(number)
    })?;
    (!is_negative || number == 0).then_some((number, &digits[count..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024_and_with_b_of_1000() {
        for (text, bytes) in [
            ("0", 0),
            ("7", 7),
            ("010", 8),
            ("0x1E", 30),
            (" \t\u{b}+07", 7),
            ("-0", 0),
            ("-0K", 0),
            ("K", 1024),
            ("1k", 1024),
            ("kB", 1000),
            ("2KiB", 2048),
            ("1kD", 1000),
            ("3M", 3 << 20),
            ("MiB", 1 << 20),
            ("1MB", 1_000_000),
            ("1G", 1 << 30),
            ("2TB", 2_000_000_000_000),
            ("1P", 1 << 50),
            ("7E", 7 << 60),
            ("0Y", 0),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(parse_amount(text.as_bytes()), Some(bytes), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        let words = "x -1 1m 1g 1b 1B 1KK 1K0 1Ki 1kb 1KiBx 1.5K +K -K 08 0x 0xK 8E 1Z 1Y 1YB 9223372036854775808 \
            18446744073709551616 99999999999999999999999999999999999999999999999 0b1 1_000 1: +-1 \u{e9}";
        for text in words.split_whitespace().chain(["", "1 K", " K"]) {
            assert_eq!(parse_amount(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..12)) {
            let _ = parse_amount(&text);
        }

        #[test]
        fn every_offset_is_taken_in_decimal_and_hexadecimal(bytes in 0..=i64::MAX as u64) {
            prop_assert_eq!(parse_amount(bytes.to_string().as_bytes()), Some(bytes));
            prop_assert_eq!(parse_amount(format!("{bytes:#x}").as_bytes()), Some(bytes));
            prop_assert_eq!(parse_amount(format!("0{bytes:o}").as_bytes()), Some(bytes));
        }
    }
}
