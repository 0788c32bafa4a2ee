//! Sizes as people write them: `4K`, `1.5G`, `128KiB`, `2kB`.

/// Reads a size in bytes: a number and a unit. With a unit, the number may have decimals: `1.5G`. `K`, `M`, `G`, `T` and `KiB`… are powers of 1024; `kB`, `MB`, `GB`,
/// `TB` are powers of 1000; none or `B` is bytes.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let factor: u64 = match unit {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "m" | "MiB" => 1 << 20,
        "G" | "g" | "GiB" => 1 << 30,
        "T" | "t" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => {
            return Err(format!(
                "`{text}` is not a size: write a number and K, M, G or T, as in 128K or 1.5G"
            ));
        }
    };
    if number.is_empty() {
        return Err(format!("`{text}` is not a size: it has no number"));
    }
    let too_large = || format!("`{text}` is too large");
    let (number, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let are_digits = decimals.chars().all(|c| c.is_ascii_digit());
    if number.is_empty() || !(1..=MOST_DECIMALS).contains(&decimals.len()) || !are_digits {
        return Err(format!("`{text}` is not a size: write a number as in 128K or 1.5G"));
    }
    if decimals != "0" && factor == 1 {
        return Err(format!("`{text}` is not a size: it is not a whole number of bytes"));
    }
    let number: u64 = number.parse().map_err(|_| too_large())?;
    // The nearest byte.
    let (part, of) = (
        decimals.parse::<u128>().unwrap_or(0),
        10_u128.pow(decimals.len() as u32),
    );
    let part = (part * u128::from(factor) + of / 2) / of;
    let bytes = number
        .checked_mul(factor)
        .and_then(|bytes| bytes.checked_add(part as u64));
    bytes.filter(|&bytes| bytes <= 1 << 62).ok_or_else(too_large)
}

/// More decimals mean nothing.
const MOST_DECIMALS: usize = 18;

/// Formats a size so that [`parse_size`] returns the same: in the largest unit of 1024 that divides it, or in `MB`.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    match bytes {
        mega if mega != 0 && mega.is_multiple_of(1_000_000) => format!("{}MB", mega / 1_000_000),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_told_apart() {
        let texts = ["4K", "4KiB", "4kB", "17", "1.5G", "0.5K", "2.25MB", "1.1K"];
        let bytes = [4096, 4096, 4000, 17, 3 << 29, 512, 2_250_000, 1126];
        assert_eq!(texts.map(parse_size), bytes.map(Ok));
        let wrong = ["", "K", "-1", "1.5", "1.5B", "1.M", ".5M", ".", "1.2.3M", "1,5M", "4X"];
        let large = [
            "99999999999999999999",
            "9999999999T",
            "4194304.5T",
            "1.0000000000000000001K",
        ];
        for wrong in wrong.into_iter().chain(large) {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_written_size_reads_the_same(bytes in 0u64..=1 << 62) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
    }
}
