//! Sizes as people write them: `4K`, `1M`, `128KiB`, `2kB`.

/// Reads a size in bytes: a whole number and a unit. `K`, `M`, `G`, `T` and `KiB`… are powers of 1024; `kB`, `MB`, `GB`,
/// `TB` are powers of 1000; none or `B` is bytes.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
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
                "`{text}` is not a size: write a whole number and K, M, G or T, as in 128K"
            ));
        }
    };
    if number.is_empty() {
        return Err(format!("`{text}` is not a size: it has no number"));
    }
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is too large"))?;
    number
        .checked_mul(factor)
        .filter(|&bytes| bytes <= 1 << 62)
        .ok_or_else(|| format!("`{text}` is too large"))
}

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
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("4KiB"), Ok(4096));
        assert_eq!(parse_size("4kB"), Ok(4000));
        assert_eq!(parse_size("17"), Ok(17));
        for wrong in ["", "K", "-1", "1.5M", "4X", "99999999999999999999", "9999999999T"] {
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
