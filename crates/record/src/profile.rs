//! A profile: what all sittings kept for one storage say about each method, as curves over the size of a file. It is a digest,
//! made again from the runs whenever one is saved or removed, and never edited.
//!
//! It is written as lines of JSON: the head, then one for each curve. The curves under the same conditions stand together, and each line
//! begins with its conditions, so that a plan reads the lines that it needs only.
//!
//! Its version is its own. A profile of a newer version is left alone, and is an error; one of an older version is made again.

use std::collections::HashSet;

use seekless_method::{Durability, Operation};

use crate::check::{self, Problem};
use crate::versions::{self, DocumentError};
use crate::visit::Field;
use crate::{Bounds, Cache, Contest, Differ, Interval, Revision, StorageCosts, StorageId, Target, Text};

/// The version of profiles that this crate reads and writes.
pub const PROFILE_VERSION: u32 = 3;

/// The largest profile that is read, in bytes: some hundred methods at a dozen sizes, in ten cache states and durabilities.
pub const MAX_PROFILE_BYTES: usize = 8 << 20;

/// A digest of all sittings kept for one storage.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Profile {
    /// What it is of.
    #[serde(flatten)]
    pub head: ProfileHead,
    /// A curve for each method under the same conditions.
    pub curves: Vec<Curve>,
}

documents! {
    /// The storage and the machine of a profile, and the sittings that it rests on.
    #[derive(Default)]
    pub struct ProfileHead {
        /// The version of this document's form.
        pub version: u32,
        /// The version of seekless that made it.
        pub seekless: String => Text::Version,
        /// When the newest sitting began, in seconds since 1970.
        pub newest_unix_seconds: u64 => Bounds::COUNT,
        /// How many sittings there are.
        pub sittings: u32,
        /// Over how many machines of a kind it is; `None` for one storage.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub machines: Option<u32>,
        /// Whether their disks report as rotational, if they are of one kind that does or does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub claims_rotational: Option<bool>,
        /// The revision of trials and mechanisms. Runs of others are left out.
        pub revision: Revision,
        /// The storage.
        pub storage: StorageId,
        /// Where it was mounted, which identifies a storage without a UUID.
        pub mount_point: Option<String> => Text::Private,
        /// The mount's options.
        pub mount_options: Option<String> => Text::MountOptions,
        /// The number of processors.
        pub processors: u32,
        /// Memory, in bytes.
        pub memory_bytes: Option<u64> => Bounds::COUNT,
        /// The time of a cold direct read of 4 KiB at a random place, minus that of a sequential one, in nanoseconds.
        pub alternating_ns: Option<f64> => Bounds::NANOSECONDS_DIFFERENCE,
        /// What calls, bytes and waits cost, by which updates are planned.
        pub costs: Option<ProfileCosts>,
    }

    /// The costs of a storage over some sittings.
    pub struct ProfileCosts {
        /// The medians of the sittings.
        pub costs: StorageCosts,
        /// How many sittings.
        pub sittings: u32,
        /// When the newest of them began, in seconds since 1970.
        pub newest_unix_seconds: u64 => Bounds::COUNT,
    }

    /// What makes times comparable, besides the size.
    #[derive(Copy, Default, Eq, Hash)]
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
    #[derive(Default)]
    pub struct Curve {
        /// The conditions.
        pub conditions: Conditions,
        /// The method.
        pub method: String => Text::Method,
        /// The standard deviation, between sittings, of the logarithm of what is common to the times of all methods.
        pub level_deviation: f64 => Bounds::RATIO,
        /// At each measured size, ascending.
        pub points: Vec<CurvePoint>,
    }

    /// What is known of a method at one size.
    #[derive(Default)]
    pub struct CurvePoint {
        /// The size of a file.
        pub bytes: u64 => Bounds::POSITIVE,
        /// The seconds that a file takes, from open to close, fsync included, with bounds for the next sitting, apart from what its
        /// times have in common.
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
        let kernel = if matches!(contest.operation, Operation::Read | Operation::Scan) {
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
    /// Its standard error for the next sitting, that of interpolation included, apart from what all methods have in common.
    pub error: f64,
    /// The standard deviation of what they have in common.
    pub level_deviation: f64,
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
/// The standard deviation between storages of one kind, of the logarithm of a time. It is assumed: devices of one kind differ by a
/// factor of 1.6 within two deviations.
pub const DEVIATION_BETWEEN_STORAGES: f64 = 0.25;

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
            level_deviation: self.level_deviation,
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
    /// The seconds with set-up.
    #[must_use]
    pub fn with_setup(&self) -> f64 {
        self.seconds.median + self.setup_seconds
    }

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

impl ProfileHead {
    /// Reads the first line of a profile, which is checked: figures are plausible, and texts have at most 64 KiB. Returns the lines of
    /// the curves, too, as they are.
    ///
    /// # Errors
    /// [`DocumentError`] if the profile is too large, of another version, or its head is damaged or has impossible values.
    pub fn from_text(text: &[u8]) -> Result<(Self, &[u8]), DocumentError> {
        versions::require_size(text, MAX_PROFILE_BYTES)?;
        let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
        let (line, curves) = text.split_at(end);
        let mut head: Self = versions::read(line, PROFILE_VERSION..=PROFILE_VERSION)?;
        check::fields(|fields| Field::visit(&mut head, &mut String::new(), (), fields))?;
        let curves = curves.get(1..).unwrap_or_default();
        let lines = curves.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        check::fields(|fields| fields.list("curves", lines.count()))?;
        Ok((head, curves))
    }
}

impl Conditions {
    /// How the line of a curve under them begins.
    #[must_use]
    pub fn line_start(&self) -> String {
        let conditions = serde_json::to_string(self).unwrap_or_default();
        format!("{{\"conditions\":{conditions}")
    }
}

impl Curve {
    /// Reads the line of a curve, which is checked as the head is; sizes ascend. `index` is its place among the curves.
    ///
    /// # Errors
    /// [`DocumentError::Impossible`] for what is no curve.
    pub fn from_line(line: &[u8], index: usize) -> Result<Self, DocumentError> {
        let mut place = format!("curves[{index}]");
        let mut curve: Self = serde_json::from_slice(line).map_err(|error| Problem {
            field: format!("line {}", index + 2),
            why: error.to_string().replace(" at line 1 column", " at column"),
        })?;
        check::fields(|fields| Field::visit(&mut curve, &mut place, (), fields))?;
        let why = if !line.starts_with(curve.conditions.line_start().as_bytes()) {
            "must begin with the conditions"
        } else if !curve.points.is_sorted_by(|one, other| one.bytes < other.bytes) {
            "the sizes of its points must ascend"
        } else {
            return Ok(curve);
        };
        let why = why.to_owned();
        Err(Problem { field: place, why }.into())
    }
}

impl Profile {
    /// The same without what identifies the storage or its owner: serial numbers, UUID, mount point and mount options.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.head.storage.uuid = None;
        (self.head.mount_point, self.head.mount_options) = (None, None);
        for device in &mut self.head.storage.devices {
            device.serial = None;
        }
        self
    }

    /// Reads all of a profile.
    ///
    /// # Errors
    /// As [`ProfileHead::from_text`] and [`Curve::from_line`].
    pub fn from_text(text: &[u8]) -> Result<Self, DocumentError> {
        let (head, lines) = ProfileHead::from_text(text)?;
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        let lines = (!lines.is_empty()).then(|| lines.split(|byte| *byte == b'\n'));
        let lines = lines.into_iter().flatten().enumerate();
        let curves: Vec<Curve> = lines
            .map(|(index, line)| Curve::from_line(line, index))
            .collect::<Result<_, _>>()?;
        let groups = curves.chunk_by(|one, other| one.conditions == other.conditions);
        let mut seen = HashSet::new();
        if !groups
            .map(|group| group[0].conditions)
            .all(|conditions| seen.insert(conditions))
        {
            let (field, why) = (
                "curves".to_owned(),
                "those under the same conditions must stand together".to_owned(),
            );
            return Err(Problem { field, why }.into());
        }
        Ok(Self { head, curves })
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`DocumentError::Damaged`] if a figure is not finite.
    pub fn to_text(&self) -> Result<String, DocumentError> {
        let mut text = serde_json::to_string(&self.head)? + "\n";
        for curve in &self.curves {
            text += &serde_json::to_string(curve)?;
            text.push('\n');
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(bytes: u64, seconds: f64) -> CurvePoint {
        CurvePoint {
            bytes,
            seconds: Interval::around(seconds, 1.1, Some(0.95)),
            deviation: 0.05,
            ..CurvePoint::default()
        }
    }

    fn profile(points: Vec<CurvePoint>) -> Profile {
        let head = ProfileHead {
            version: PROFILE_VERSION,
            seekless: "0.1.0".to_owned(),
            mount_point: Some("/".to_owned()),
            ..ProfileHead::default()
        };
        let curve = Curve {
            method: "read/mmap".to_owned(),
            level_deviation: 0.1,
            points,
            ..Curve::default()
        };
        let curves = vec![curve];
        Profile { head, curves }
    }

    fn text(profile: &Profile) -> String {
        profile.to_text().unwrap()
    }

    fn refused(text: impl AsRef<[u8]>) -> DocumentError {
        Profile::from_text(text.as_ref()).unwrap_err()
    }

    #[test]
    fn a_written_profile_reads_the_same() {
        let mut written = profile(vec![point(1 << 10, 0.1 + 0.2), point(1 << 20, 1.0 / 3.0)]);
        let curve = written.curves[0].clone();
        for curves in 0..4 {
            written.curves = vec![curve.clone(); curves];
            let read = Profile::from_text(text(&written).as_bytes());
            assert_eq!(read.unwrap(), written, "{curves}");
        }
    }

    #[test]
    fn what_no_profile_can_have_is_refused_and_a_damaged_line_named() {
        let one = |points: Vec<CurvePoint>| text(&profile(points));
        for points in [&[(2, 1.0), (1, 1.0)][..], &[(2, 1.0), (2, 1.0)], &[(2, -1.0)]] {
            let points = points.iter().map(|&(bytes, seconds)| point(bytes, seconds));
            let DocumentError::Impossible(problem) = refused(one(points.collect())) else {
                panic!("it is possible")
            };
            assert!(problem.field.starts_with("curves[0]"), "{problem}");
        }
        let version = |version: u32| one(Vec::new()).replacen("\"version\":3", &format!("\"version\":{version}"), 1);
        let newer = refused(version(PROFILE_VERSION + 1));
        assert!(matches!(newer, DocumentError::Newer { .. }));
        // Of version 1, the curves are in the head.
        let older = version(1).replacen('{', "{\"curves\":[],", 1);
        assert!(matches!(refused(older), DocumentError::Older { found: 1, .. }));
        let more = refused(one(Vec::new()).replacen('{', "{\"more\":1,", 1));
        assert!(matches!(more, DocumentError::Damaged(_)));
        let large = refused(vec![b' '; MAX_PROFILE_BYTES + 1]);
        assert!(matches!(large, DocumentError::TooLarge { .. }));
        let good = text(&profile(vec![point(2, 1.0)]));
        let (head, curve) = good.split_once('\n').unwrap();
        let moved = curve.replacen("{\"conditions\"", "{ \"conditions\"", 1);
        let warm = curve.replacen("\"cold\"", "\"warm\"", 1);
        let apart = "curves: those under the same conditions must stand together";
        for (text, words) in [
            (format!("{good}{{\n"), "line 3: EOF while parsing an object at column 1"),
            (format!("{good}\n"), "line 3: EOF while parsing a value at column 0"),
            (good[..good.len() - 2].to_owned(), "line 2: EOF while parsing"),
            (format!("{head}\n{moved}"), "curves[0]: must begin with the conditions"),
            (format!("{good}{warm}{curve}"), apart),
        ] {
            let DocumentError::Impossible(problem) = refused(&text) else {
                panic!("{text}")
            };
            assert!(problem.to_string().starts_with(words), "{problem}");
        }
    }

    #[test]
    fn profile_curve_is_linear_between_and_beyond_sizes() {
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
        let too_far = [1 << 11, 1 << 29].map(|bytes| curve.at(bytes));
        assert_eq!(too_far, [None, None]);
        let one = profile(vec![point(1 << 20, 0.5)]).curves.remove(0);
        assert!((one.at(1 << 21).unwrap().log_seconds - 1_f64.ln()).abs() < 1e-9);
        assert_eq!(profile(Vec::new()).curves[0].at(1 << 20), None);
    }
}
