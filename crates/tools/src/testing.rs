//! How much the tests of this crate try: a long run tries everything, a short one a part that takes less than a second.

/// Whether tests try everything: `SEEKLESS_TEST_LONG` is set.
pub fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}

/// A value for long runs, or the one for short runs.
pub fn long_or<T>(long: T, short: T) -> T {
    if is_long() { long } else { short }
}

/// The cases of a property test: so many in a long run, a twelfth in a short one.
pub fn cases(long: u32) -> proptest::prelude::ProptestConfig {
    proptest::prelude::ProptestConfig::with_cases(long_or(long, long.div_ceil(12)))
}
