//! A profile: what all sittings kept for one storage say about each method, as curves over the size of a file. It is a digest,
//! made again from the runs whenever one is saved or removed, and never edited.
//!
//! Its version is its own. A profile of a newer version is left alone, and is an error.

use seekless_method::{Durability, Operation};

use crate::check::{self, Problem};
use crate::versions::{self, DocumentError};
use crate::visit::Field;
use crate::{Bounds, Cache, Contest, Differ, Interval, Revision, StorageId, Target, Text};

/// The version of profiles that this crate reads and writes.
pub const PROFILE_VERSION: u32 = 1;

/// The largest profile that is read, in bytes: some hundred methods at a dozen sizes, in ten cache states and durabilities.
pub const MAX_PROFILE_BYTES: usize = 8 << 20;

documents! {
    /// A digest of all sittings kept for one storage.
    pub struct Profile {
        /// The version of this document's form.
        pub version: u32,
        /// The version of seekless that made it.
        pub seekless: String => Text::Version,
        /// When the newest sitting began, in seconds since 1970.
        pub newest_unix_seconds: u64 => Bounds::COUNT,
        /// How many sittings there are.
        pub sittings: u32,
        /// The revision of trials and mechanisms. Runs of others are left out.
        pub revision: Revision,
        /// The storage.
        pub storage: StorageId,
        /// Where it was mounted, which identifies a storage without a UUID.
        pub mount_point: Option<String> => Text::Path,
        /// The mount's options.
        pub mount_options: Option<String> => Text::MountOptions,
        /// The number of processors.
        pub processors: u32,
        /// Memory, in bytes.
        pub memory_bytes: Option<u64> => Bounds::COUNT,
        /// The time of a cold direct read of 4 KiB at a random place, minus that of a sequential one, in nanoseconds.
        pub alternating_ns: Option<f64> => Bounds::NANOSECONDS_DIFFERENCE,
        /// A curve for each method under the same conditions.
        pub curves: Vec<Curve>,
    }

    /// What makes times comparable, besides the size.
    #[derive(Copy, Eq, Hash)]
    pub struct Conditions {
        /// What is done with a file.
        pub operation: Operation,
        /// The cache state. The metadata of small cold files is cold, too, where the lab may drop it.
        pub cache: Cache,
        /// What is written to.
        pub target: Target,
        /// What is on the device at the end.
        pub durability: Durability,
    }

    /// The times of a method over the size of a file.
    pub struct Curve {
        /// The conditions.
        pub conditions: Conditions,
        /// The method.
        pub method: String => Text::Method,
        /// At each measured size, ascending.
        pub points: Vec<CurvePoint>,
    }

    /// What is known of a method at one size.
    pub struct CurvePoint {
        /// The size of a file.
        pub bytes: u64 => Bounds::POSITIVE,
        /// The seconds that a file takes, from open to close, fsync included, with bounds for the next sitting.
        pub seconds: Interval => Bounds::SECONDS,
        /// The standard deviation, between sittings, of their logarithm; with one sitting, the usual one.
        pub deviation: f64 => Bounds::RATIO,
        /// The seconds of set-up before, which a tool takes once.
        pub setup_seconds: f64 => Bounds::SECONDS,
        /// The processor's part of the time; more than 1 with several threads.
        pub cpu_part: f64 => Bounds::RATIO,
        /// How many sittings.
        pub sittings: u32,
        /// When the newest of them began, in seconds since 1970.
        pub newest_unix_seconds: u64 => Bounds::COUNT,
    }
}

impl Conditions {
    /// Those of a contest of whole files of data; `None` for anything else.
    #[must_use]
    pub fn of(contest: &Contest) -> Option<Self> {
        // What the lab does with bytes if nothing else is asked for.
        let kernel = if contest.operation == Operation::Read {
            "count"
        } else {
            "none"
        };
        let is_plain = contest.tree.is_none()
            && contest.part_of_bytes.is_none()
            && contest.other_storage.is_none()
            && contest.random.is_none()
            && contest.updates.is_none()
            && contest.layout.is_none()
            && contest.memory_bytes.is_none()
            && contest.read_ahead_kib.is_none()
            && contest.kernel == kernel
            && contest.work_ns_per_kib == 0
            && contest.differ == Differ::None
            && !contest.sustained
            && !contest.shared_blocks;
        is_plain.then_some(Self {
            operation: contest.operation,
            cache: contest.cache,
            target: contest.target,
            durability: contest.durability,
        })
    }
}

/// A time by a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveTime {
    /// The logarithm of the seconds.
    pub log_seconds: f64,
    /// Its standard error for the next sitting, that of interpolation included.
    pub error: f64,
    /// The part of the time that the processor works.
    pub cpu_part: f64,
    /// The seconds of set-up.
    pub setup_seconds: f64,
    /// Whether the size is among those that were measured, not beyond them.
    pub is_within: bool,
    /// The sittings of the measured size with the fewest.
    pub sittings: u32,
    /// When the newest of them began, in seconds since 1970.
    pub newest_unix_seconds: u64,
}

/// A curve is not asked about sizes more than this factor beyond those measured.
const BEYOND: f64 = 4.0;
/// The standard error of interpolation between sizes that are a factor of two apart.
const ERROR_OF_DOUBLING: f64 = 0.03;
/// The bounds of a curve's times, which hold with a probability of 95 %, are this many standard errors from the value.
pub const ERRORS_OF_BOUNDS: f64 = 1.96;

impl Curve {
    /// The time for a file of a size: between the nearest measured sizes, so much for the file and so much for each byte; beyond
    /// them, a straight line of logarithms. `None` far from all of them.
    #[must_use]
    pub fn at(&self, bytes: u64) -> Option<CurveTime> {
        let place = (bytes.max(1) as f64).ln();
        let at = |point: &CurvePoint| (point.bytes.max(1) as f64).ln();
        let (first, last) = (self.points.first()?, self.points.last()?);
        if place < at(first) - BEYOND.ln() || place > at(last) + BEYOND.ln() {
            return None;
        }
        let after = self.points.partition_point(|point| at(point) < place);
        // Beyond its ends, the line of the last two sizes goes on.
        let after = after.clamp(1, self.points.len().max(2) - 1);
        let left = &self.points[after - 1];
        let right = self.points.get(after).unwrap_or(left);
        let apart = at(right) - at(left);
        let part = if apart > 0.0 { (place - at(left)) / apart } else { 0.0 };
        let between = |of: &dyn Fn(&CurvePoint) -> f64| of(left) + part * (of(right) - of(left));
        let nearest = (place - at(left)).abs().min((place - at(right)).abs());
        let interpolated = ERROR_OF_DOUBLING * nearest / 2_f64.ln();
        let seconds = |point: &CurvePoint| point.seconds.median.max(f64::MIN_POSITIVE);
        let is_within = (first.bytes..=last.bytes).contains(&bytes);
        let log_seconds = if apart <= 0.0 {
            // One size says nothing of the slope: as bytes do.
            seconds(left).ln() + place - at(left)
        } else if is_within && seconds(left) <= seconds(right) {
            let part = (bytes - left.bytes) as f64 / (right.bytes - left.bytes) as f64;
            (seconds(left) + part * (seconds(right) - seconds(left))).ln()
        } else {
            between(&|point| seconds(point).ln())
        };
        Some(CurveTime {
            log_seconds,
            error: between(&CurvePoint::error).max(0.0).hypot(interpolated),
            cpu_part: between(&|point| point.cpu_part).max(0.0),
            setup_seconds: between(&|point| point.setup_seconds).max(0.0),
            is_within,
            sittings: left.sittings.min(right.sittings),
            newest_unix_seconds: left.newest_unix_seconds.max(right.newest_unix_seconds),
        })
    }
}

impl CurvePoint {
    /// The standard error of the logarithm of its seconds.
    fn error(&self) -> f64 {
        let Interval { low, high, .. } = self.seconds;
        if low > 0.0 {
            (high / low).ln() / (2.0 * ERRORS_OF_BOUNDS)
        } else {
            f64::MAX.ln()
        }
    }
}

impl Profile {
    /// Reads a profile, which is checked: figures are plausible, texts have at most 64 KiB, and sizes ascend.
    ///
    /// # Errors
    /// [`DocumentError`] if it is too large, of another version, damaged, or has impossible values.
    pub fn from_json(text: &[u8]) -> Result<Self, DocumentError> {
        let mut profile: Self = versions::read(text, MAX_PROFILE_BYTES, PROFILE_VERSION)?;
        check::fields(|fields| Field::visit(&mut profile, &mut String::new(), (), fields))?;
        let ascend = |curve: &Curve| curve.points.is_sorted_by(|one, other| one.bytes < other.bytes);
        if let Some(wrong) = profile.curves.iter().position(|curve| !ascend(curve)) {
            let field = format!("curves[{wrong}].points");
            let why = "their sizes must ascend".to_owned();
            return Err(Problem { field, why }.into());
        }
        Ok(profile)
    }

    /// Writes it, with a newline at its end.
    ///
    /// # Errors
    /// [`DocumentError::Damaged`] if a figure is not finite.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(bytes: u64, seconds: f64) -> CurvePoint {
        CurvePoint {
            bytes,
            seconds: Interval {
                low: seconds / 1.1,
                median: seconds,
                high: seconds * 1.1,
                coverage: Some(0.95),
            },
            deviation: 0.05,
            setup_seconds: 0.0,
            cpu_part: 1.0,
            sittings: 2,
            newest_unix_seconds: 1_800_000_000,
        }
    }

    fn profile(points: Vec<CurvePoint>) -> Profile {
        Profile {
            version: PROFILE_VERSION,
            seekless: "0.1.0".to_owned(),
            newest_unix_seconds: 1_800_000_000,
            sittings: 2,
            revision: Revision {
                protocol: 1,
                mechanisms: 1,
            },
            storage: StorageId::default(),
            mount_point: Some("/".to_owned()),
            mount_options: None,
            processors: 2,
            memory_bytes: None,
            alternating_ns: None,
            curves: vec![Curve {
                conditions: Conditions {
                    operation: Operation::Read,
                    cache: Cache::Cold,
                    target: Target::Fresh,
                    durability: Durability::None,
                },
                method: "read/mmap".to_owned(),
                points,
            }],
        }
    }

    #[test]
    fn a_written_profile_reads_the_same() {
        let written = profile(vec![point(1 << 10, 0.1 + 0.2), point(1 << 20, 1.0 / 3.0)]);
        assert_eq!(
            Profile::from_json(written.to_json().unwrap().as_bytes()).unwrap(),
            written
        );
    }

    #[test]
    fn what_no_profile_can_have_is_refused() {
        let refused = |profile: &Profile| Profile::from_json(profile.to_json().unwrap().as_bytes()).unwrap_err();
        let unsorted = refused(&profile(vec![point(2, 1.0), point(1, 1.0)]));
        assert!(matches!(unsorted, DocumentError::Impossible(_)), "{unsorted}");
        let twice = refused(&profile(vec![point(2, 1.0), point(2, 1.0)]));
        assert!(matches!(twice, DocumentError::Impossible(_)), "{twice}");
        let negative = refused(&profile(vec![point(2, -1.0)]));
        assert!(matches!(negative, DocumentError::Impossible(_)), "{negative}");
        let newer = refused(&Profile {
            version: PROFILE_VERSION + 1,
            ..profile(Vec::new())
        });
        assert!(matches!(newer, DocumentError::Newer { .. }), "{newer}");
        let unknown = profile(Vec::new()).to_json().unwrap().replacen('{', "{\"more\":1,", 1);
        assert!(matches!(
            Profile::from_json(unknown.as_bytes()),
            Err(DocumentError::Damaged(_))
        ));
        let large = vec![b' '; MAX_PROFILE_BYTES + 1];
        assert!(matches!(
            Profile::from_json(&large),
            Err(DocumentError::TooLarge { .. })
        ));
    }

    #[test]
    fn between_measured_sizes_each_byte_takes_as_long_and_beyond_them_a_curve_goes_straight_on() {
        let seconds = |bytes: u64| 1e-4 + 1e-9 * bytes as f64;
        let points = [1 << 14, 1 << 20, 1 << 26].map(|bytes| point(bytes, seconds(bytes)));
        let curve = profile(points.to_vec()).curves.remove(0);
        let slope = |one: u64, other: u64| (seconds(other) / seconds(one)).ln() / (other as f64 / one as f64).ln();
        let beyond = |bytes: u64| match bytes {
            ..0x4000 => seconds(1 << 14).ln() + slope(1 << 14, 1 << 20) * (bytes as f64 / f64::from(1 << 14)).ln(),
            0x400_0001.. => seconds(1 << 26).ln() + slope(1 << 20, 1 << 26) * (bytes as f64 / f64::from(1 << 26)).ln(),
            _ => seconds(bytes).ln(),
        };
        for bytes in [1 << 13, 1 << 14, 1 << 17, 3 << 20, 1 << 26, 1 << 27] {
            let found = curve.at(bytes).unwrap();
            assert!((found.log_seconds - beyond(bytes)).abs() < 1e-9, "{bytes}");
            assert_eq!(found.is_within, ((1 << 14)..=(1 << 26)).contains(&bytes), "{bytes}");
        }
        assert!(curve.at(1 << 17).unwrap().error > curve.at(1 << 20).unwrap().error);
        assert_eq!(
            (curve.at(1 << 11), curve.at(1 << 29)),
            (None, None),
            "too far from what was measured"
        );
        let one = profile(vec![point(1 << 20, 0.5)]).curves.remove(0);
        assert!((one.at(1 << 21).unwrap().log_seconds - 1_f64.ln()).abs() < 1e-9);
        assert_eq!(profile(Vec::new()).curves[0].at(1 << 20), None);
    }
}
