//! Checks afterwards, by its counters, whether a trial was in the state that it claims.

use seekless_engine::Method;
use seekless_engine::method::CachePolicy;
use seekless_record::{Cache, Contest, Trial};

/// The smallest part of the allocated bytes that must come from the device in a cold trial.
const COLD_PART: f64 = 0.98;
/// The largest part that may come from the device in a warm trial.
const WARM_PART: f64 = 0.01;
/// The smallest part of a file twice as large as the memory allowed that must come from the device again.
const OVER_PART: f64 = 0.4;
/// The device's count agrees with the trial's within these factors; the difference is metadata and read-ahead.
const AGREE: std::ops::RangeInclusive<f64> = 0.98..=1.10;

/// Why the bytes of a trial came from the wrong source; `None` if they did not, or it is unknown. A cold read must read
/// `device_bytes` from the device, unless it need not read all of the files: if the result shares blocks with the source,
/// or a difference ends the trial early.
pub fn wrong_source(
    trial: &Trial,
    method: Option<&Method>,
    contest: &Contest,
    device_bytes: Option<u64>,
    reads_all: bool,
) -> Option<String> {
    let (read, device_bytes) = trial.source_bytes.zip(device_bytes)?;
    let part = read as f64 / device_bytes.max(1) as f64;
    let percent = part * 100.0;
    // Direct I/O reads the device whatever the page cache holds.
    let reads_device = method.is_some_and(|method| method.options().cache() == CachePolicy::Direct);
    match contest.cache {
        // The files have only holes, so no byte can come from the device.
        _ if device_bytes == 0 => None,
        // It may hold all data of a file that is mostly holes.
        Cache::Over if contest.memory_bytes.is_some_and(|memory| device_bytes <= memory) => None,
        Cache::Cold | Cache::Over if !reads_all => None,
        Cache::Cold if part < COLD_PART => Some(format!(
            "only {percent:.1} % of its bytes came from the device, so it was not cold"
        )),
        Cache::Warm if part > WARM_PART && !reads_device => Some(format!(
            "{percent:.1} % of its bytes came from the device, so it was not warm"
        )),
        Cache::Over if part < OVER_PART => Some(format!(
            "only {percent:.1} % of its bytes came from the device; the memory allowed held the rest"
        )),
        _ => None,
    }
}

/// Whether the device's count is that of the trial alone: no other process used the device, and no request was missed.
pub fn is_device_ours(trial: &Trial) -> bool {
    let Some((device, read)) = trial.device.zip(trial.source_bytes) else {
        return false;
    };
    let agrees = |device: u64, own: u64| {
        // Small differences are the file system's own blocks.
        device.abs_diff(own) <= 64 << 10 || AGREE.contains(&(device as f64 / own.max(1) as f64))
    };
    let written = trial.sink_bytes.unwrap_or(0);
    // Dirtied bytes may be written later, but written bytes must have been dirtied.
    agrees(device.read_bytes, read) && (device.write_bytes <= written || agrees(device.write_bytes, written))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a trial of such a contest is found out that read this many bytes, of this many on the device.
    fn is_wrong(source: impl Into<Option<u64>>, contest: &Contest, device: impl Into<Option<u64>>) -> bool {
        is_wrong_by(None, source, contest, device, true)
    }

    fn is_wrong_by(
        method: Option<&Method>,
        source: impl Into<Option<u64>>,
        contest: &Contest,
        device: impl Into<Option<u64>>,
        reads_all: bool,
    ) -> bool {
        let trial = Trial {
            source_bytes: source.into(),
            ..Trial::default()
        };
        wrong_source(&trial, method, contest, device.into(), reads_all).is_some()
    }

    fn contest(cache: Cache, memory_bytes: Option<u64>) -> Contest {
        Contest {
            cache,
            memory_bytes,
            ..Contest::default()
        }
    }

    #[test]
    fn a_cold_trial_that_read_from_memory_is_found_out() {
        let cold = contest(Cache::Cold, None);
        assert!(is_wrong(979, &cold, 1000) && !is_wrong(980, &cold, 1000));
        assert!(!is_wrong_by(None, 0, &cold, 1000, false));
        assert!(!is_wrong(None, &cold, 1000) && !is_wrong(0, &cold, None));
    }

    #[test]
    fn account_finds_device_reads_of_warm_trials_unless_direct() {
        let warm = contest(Cache::Warm, None);
        assert!(is_wrong(11, &warm, 1000) && !is_wrong(10, &warm, 1000));
        let direct: Method = "read/sync,direct".parse().unwrap();
        assert!(!is_wrong_by(Some(&direct), 1000, &warm, 1000, true));
    }

    #[test]
    fn account_of_holes_expects_no_bytes_of_the_device() {
        let [over, cold] = [Cache::Over, Cache::Cold].map(|cache| contest(cache, Some(600)));
        assert!(is_wrong(300, &over, 1000) && !is_wrong(0, &over, 600));
        assert!(!is_wrong(0, &cold, 0));
        assert!(is_wrong(900, &cold, 1000), "of what is allocated, all of it");
    }
}
