//! How long a measurement may take.

use std::time::Duration;

/// Shorter runs measure nothing; longer ones are probably a mistake.
const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=604_800.0;

/// A number of seconds, or a duration as in `90s` and `10m`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().or_else(|| {
        let duration: jiff::SignedDuration = text.parse().ok()?;
        Some(duration.as_secs_f64())
    });
    match seconds {
        Some(seconds) if SECONDS.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Some(_) => Err("a budget is 1 second to 7 days".to_owned()),
        None => Err("write a number and s, m or h, as in 90s".to_owned()),
    }
}
