//! Checks afterwards, by its counters, whether a trial was in the state that it claims.

use seekless::Method;
use seekless::method::CachePolicy;
use seekless_record::{Cache, Trial};

/// The smallest part of the allocated bytes that must come from the device in a cold trial.
const COLD_PART: f64 = 0.98;
/// The largest part that may come from the device in a warm trial.
const WARM_PART: f64 = 0.01;
/// The smallest part of a file twice as large as the memory allowed that must come from the device again.
const OVER_PART: f64 = 0.4;
/// The device's count agrees with the trial's within these factors; the difference is metadata and read-ahead.
const AGREE: std::ops::RangeInclusive<f64> = 0.98..=1.10;

/// What a trial is expected to read.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Bytes that a cold read must read from the device; `None` if unknown.
    pub device_bytes: Option<u64>,
    /// The state claimed.
    pub cache: Cache,
    /// The memory allowed, if it is limited. It may hold all data of a file that is mostly holes.
    pub memory_bytes: Option<u64>,
    /// Whether the whole files must be read: not if the result shares blocks with the source, or a difference ends the
    /// trial early.
    pub reads_all: bool,
}

/// Why the bytes of a trial came from the wrong source; `None` if they did not, or it is unknown.
pub fn wrong_source(trial: &Trial, method: Option<&Method>, expected: Expected) -> Option<String> {
    let (Some(read), Some(device_bytes)) = (trial.source_bytes, expected.device_bytes) else {
        return None;
    };
    let part = read as f64 / device_bytes.max(1) as f64;
    // Direct I/O reads the device whatever the page cache holds.
    let reads_device = method.is_some_and(|method| method.options().cache() == CachePolicy::Direct);
    match expected.cache {
        // The files have only holes, so no byte can come from the device.
        _ if device_bytes == 0 => None,
        Cache::Over if expected.memory_bytes.is_some_and(|memory| device_bytes <= memory) => None,
        Cache::Cold | Cache::FirstTouch | Cache::Over if !expected.reads_all => None,
        Cache::Cold | Cache::FirstTouch if part < COLD_PART => Some(format!(
            "only {:.1} % of its bytes came from the device, so it was not cold",
            part * 100.0
        )),
        Cache::Warm if part > WARM_PART && !reads_device => Some(format!(
            "{:.1} % of its bytes came from the device, so it was not warm",
            part * 100.0
        )),
        Cache::Over if part < OVER_PART => Some(format!(
            "only {:.1} % of its bytes came from the device; the memory allowed held the rest",
            part * 100.0
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

    fn trial(source_bytes: Option<u64>) -> Trial {
        Trial {
            source_bytes,
            ..Trial::default()
        }
    }

    #[test]
    fn a_cold_trial_that_read_from_memory_is_found_out() {
        let expected = Expected {
            device_bytes: Some(1000),
            cache: Cache::Cold,
            memory_bytes: None,
            reads_all: true,
        };
        assert!(wrong_source(&trial(Some(979)), None, expected).is_some());
        assert!(wrong_source(&trial(Some(980)), None, expected).is_none());
        assert!(
            wrong_source(
                &trial(Some(0)),
                None,
                Expected {
                    reads_all: false,
                    ..expected
                }
            )
            .is_none()
        );
        assert!(wrong_source(&trial(None), None, expected).is_none());
        assert!(
            wrong_source(
                &trial(Some(0)),
                None,
                Expected {
                    device_bytes: None,
                    ..expected
                }
            )
            .is_none()
        );
    }

    #[test]
    fn a_warm_trial_that_read_from_the_device_is_found_out_unless_it_is_direct() {
        let expected = Expected {
            device_bytes: Some(1000),
            cache: Cache::Warm,
            memory_bytes: None,
            reads_all: true,
        };
        assert!(wrong_source(&trial(Some(11)), None, expected).is_some());
        assert!(wrong_source(&trial(Some(10)), None, expected).is_none());
        let direct: Method = "read/sync,direct".parse().unwrap();
        assert!(wrong_source(&trial(Some(1000)), Some(&direct), expected).is_none());
    }

    #[test]
    fn holes_need_not_come_from_the_device_and_memory_may_hold_the_little_data_of_a_sparse_file() {
        let expected = Expected {
            device_bytes: Some(1000),
            cache: Cache::Over,
            memory_bytes: Some(600),
            reads_all: true,
        };
        assert!(wrong_source(&trial(Some(300)), None, expected).is_some());
        let sparse = Expected {
            device_bytes: Some(600),
            ..expected
        };
        assert_eq!(wrong_source(&trial(Some(0)), None, sparse), None);
        let hole = Expected {
            device_bytes: Some(0),
            cache: Cache::Cold,
            ..expected
        };
        assert_eq!(wrong_source(&trial(Some(0)), None, hole), None);
        let cold = Expected {
            cache: Cache::Cold,
            ..expected
        };
        assert!(
            wrong_source(&trial(Some(900)), None, cold).is_some(),
            "of what is allocated, all of it"
        );
    }
}
