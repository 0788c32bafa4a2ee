//! Timing calls: facts from several times.

use std::io;
use std::time::Instant;

use super::Fact;

/// How often each call is timed.
pub(super) const ROUNDS: u32 = 3;

/// A fact from some times: their bounds, and their (lower) median, because noise only adds to times.
pub(super) fn spread(mut times: Vec<f64>, of: impl Fn(f64) -> f64) -> Fact {
    times.sort_by(f64::total_cmp);
    let [low, middle, high] = [0, (times.len() - 1) / 2, times.len() - 1].map(|place| of(times[place]));
    Fact::between(low, middle, high)
}

/// Times some rounds of work, in nanoseconds. The fastest counts, because other activity only adds to times.
pub(super) fn timed_rounds(mut work: impl FnMut(u32) -> io::Result<()>) -> io::Result<Fact> {
    let (mut least, mut most) = (f64::MAX, 0.0_f64);
    for round in 0..ROUNDS {
        let nanoseconds = timed(|| work(round))?;
        (least, most) = (least.min(nanoseconds), most.max(nanoseconds));
    }
    Ok(Fact::between(least, least, most))
}

pub(super) fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_call_that_stalls_once_is_not_what_calls_cost() {
        let stall = Duration::from_millis(50);
        let slow_at = |slow: u32| {
            timed_rounds(|round| {
                if round == slow {
                    std::thread::sleep(stall);
                }
                Ok(())
            })
        };
        for round in 0..ROUNDS {
            let found = slow_at(round).unwrap();
            assert!(found.value < stall.as_nanos() as f64, "{round}");
            assert!(found.high >= stall.as_nanos() as f64, "{round}");
        }
    }
}
