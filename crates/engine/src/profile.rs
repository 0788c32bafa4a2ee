//! Finding and reading the profile that fits a path: what was measured on its storage by earlier runs of the lab.
//!
//! It is read once a process and storage, and used only if the file belongs to this user or root and nobody else can write it. What
//! does not fit (another kernel, read-ahead window or mount option) is ignored with the reason. Parsing all curves would take longer
//! than everything else together, so a plan parses those of its own conditions, when it first asks for them.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use std::{env, fmt, io};

use seekless_method::{self as method, Method, Operation};
use seekless_record::{
    Cache, Conditions, Curve, DocumentError, MAX_PROFILE_BYTES, Profile, ProfileHead, StorageId, UseSummary,
    is_same_memory,
};
use seekless_sys::{Access, lock_mutex};

use crate::files::{open_own, read_within};
use crate::log;

mod borrowed;
mod name;
mod uses;

pub use borrowed::{MOST_BORROWED, directory_of_borrowed};
pub(crate) use name::user_directory;
pub use name::{OF_SYSTEM, StorageName, directories, file_name, own_directory};
pub use uses::StorageUses;

/// The variable that names another profile; if it is empty, none is used.
pub const VARIABLE: &str = "SEEKLESS_PROFILE";

/// A profile, with its methods.
#[derive(Debug, PartialEq)]
pub struct StorageProfile {
    /// What it is of.
    pub head: ProfileHead,
    /// Its file.
    pub path: PathBuf,
    /// Why it is not used for the cache states in which memory decides, if so.
    pub without_warm: Option<&'static str>,
    /// The uses that its curves do not predict.
    pub off: Vec<UseSummary>,
    curves: Vec<LazyCurve>,
}

/// A curve with its method; `None` for one that this version does not know, that does something else, or that takes impossible times.
type KnownCurve = (Option<Method>, Curve);

/// The line of a curve, or how it begins, and the curve once it was parsed; `None` where the line is damaged.
#[derive(Debug, PartialEq)]
struct LazyCurve {
    line: String,
    parsed: OnceLock<Option<KnownCurve>>,
}

impl LazyCurve {
    fn get(&self) -> Option<&KnownCurve> {
        let parse = || match Curve::from_line(self.line.as_bytes(), 0) {
            Ok(curve) => Some(with_method(curve)),
            Err(error) => {
                log::debug!(error = crate::full_text(&error), "planned without a curve of a profile");
                None
            }
        };
        self.parsed.get_or_init(parse).as_ref()
    }
}

/// Why a profile is not used.
#[derive(Debug)]
pub enum ProfileMismatch {
    /// None was made for this storage.
    Missing,
    /// It was asked not to be used.
    Unwanted,
    /// It has no costs, by which updates are planned.
    WithoutCosts,
    /// The storage cannot be examined.
    Unknown(crate::Error),
    /// It cannot be read, or others can write it.
    Unreadable(PathBuf, io::Error),
    /// It is damaged, or of another version.
    Document(PathBuf, DocumentError),
    /// It is of other conditions: what differs, then what the profile has, and what there is here.
    Other(&'static str, String, String),
}

impl fmt::Display for ProfileMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("nothing was measured on this storage"),
            Self::Unwanted => f.write_str("profiles are turned off"),
            Self::WithoutCosts => f.write_str("the profile has no costs of calls and bytes"),
            Self::Unknown(error) => write!(f, "{}", crate::full_text(error)),
            Self::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Document(path, error) => write!(f, "{}: {}", path.display(), crate::full_text(error)),
            Self::Other(what, of_profile, here) => {
                write!(f, "the profile is for another {what} ({of_profile}; here {here})")
            }
        }
    }
}

/// The profiles that plans rest on. Each is found and read once, when a plan first asks for it.
#[derive(Debug)]
pub struct Profiles {
    is_unwanted: AtomicBool,
    /// The file of one that is used instead of those that would be found.
    named: Option<PathBuf>,
    /// The devices that plans asked about, each with the profile that fits. There are few.
    found: OnceLock<Vec<OnceLock<FoundProfile>>>,
    /// The expected time of everything that was planned, in ns.
    expected_ns: Mutex<f64>,
}

/// A device, and the profile that fits its storage.
type FoundProfile = (u64, Option<StorageProfile>);

/// Plans on more devices use no profile.
const DEVICES_MAX: usize = 64;

static OF_PROCESS: Profiles = Profiles::new();

impl Default for Profiles {
    fn default() -> Self {
        Self::new()
    }
}

impl Profiles {
    /// Those that are found for a path: the user's, then the system's.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            is_unwanted: AtomicBool::new(false),
            named: None,
            found: OnceLock::new(),
            expected_ns: Mutex::new(0.0),
        }
    }

    /// None: plans rest on what they measure themselves.
    #[must_use]
    pub fn none() -> Self {
        Self {
            is_unwanted: true.into(),
            ..Self::new()
        }
    }

    /// The profile in this file, wherever it fits.
    #[must_use]
    pub fn of_file(path: PathBuf) -> Self {
        Self {
            named: Some(path),
            ..Self::new()
        }
    }

    /// Those of calls that name no others.
    #[must_use]
    pub fn of_process() -> &'static Self {
        &OF_PROCESS
    }

    /// Whether plans use the profiles that are found for a path, so that their uses tell something of these.
    pub(crate) fn are_found(&self) -> bool {
        self.named.is_none() && !cfg!(test) && !self.is_unwanted.load(Relaxed) && env::var_os(VARIABLE).is_none()
    }

    /// The profile for plans on a path and its device; `None` if none fits.
    pub(crate) fn of_device(&self, path: &Path, device: u64) -> Option<&StorageProfile> {
        if self.is_unwanted.load(Relaxed) || cfg!(test) && self.named.is_none() {
            return None;
        }
        let places = || (0..DEVICES_MAX).map(|_| OnceLock::new()).collect();
        for place in self.found.get_or_init(places) {
            if place.get().is_none() {
                let found = match StorageProfile::found(path, self, StorageProfile::read_head) {
                    Ok(found) => Some(found),
                    // Another path on the device may be found: this one may have no name any more.
                    Err(ProfileMismatch::Unknown(_)) => return None,
                    Err(why) => {
                        log::debug!(path = %path.display(), %why, "planned without a profile");
                        None
                    }
                };
                // Another thread may have taken the place.
                let _ = place.set((device, found));
            }
            if let Some((_, found)) = place.get().filter(|(known, _)| *known == device) {
                return found.as_ref();
            }
        }
        None
    }

    /// Whether asking a profile takes little of this expected time, and reading it little of that of everything planned so far.
    pub(crate) fn pays(&self, expected_ns: f64) -> bool {
        let mut all_ns = lock_mutex(&self.expected_ns);
        *all_ns += expected_ns;
        is_little(*all_ns, expected_ns)
    }
}

/// Whether plans of this process are to use no profiles. Returns what was set before.
pub fn without_profiles(unwanted: bool) -> bool {
    OF_PROCESS.is_unwanted.swap(unwanted, Relaxed)
}

/// The time that finding and reading a profile takes, and that of a plan by it, in nanoseconds: `examples/profile.rs` measures them.
const READING_NS: f64 = 300_000.0;
const PLANNING_NS: f64 = 20_000.0;
/// Asking a profile may take this part of the time of what is planned.
const ASKING_PART: f64 = 0.02;

fn is_little(all_ns: f64, expected_ns: f64) -> bool {
    ASKING_PART * expected_ns >= PLANNING_NS && ASKING_PART * all_ns >= READING_NS
}

/// No call that moves a block takes less than this.
const CALL_SECONDS: f64 = 20e-9;

/// Whether a trial can have taken these times: a block is moved by a call at least.
fn is_possible(method: &Method, curve: &Curve) -> bool {
    let options = method.options();
    let block_bytes = options
        .block_bytes()
        .unwrap_or(u64::MAX)
        .saturating_mul(options.threads().into());
    let calls = |bytes: u64| bytes as f64 / block_bytes as f64;
    let mut points = curve.points.iter();
    points.all(|point| point.seconds.median >= CALL_SECONDS * calls(point.bytes))
}

fn with_method(curve: Curve) -> KnownCurve {
    let Conditions {
        operation, durability, ..
    } = curve.conditions;
    let method = curve.method.parse().ok().filter(|method| is_possible(method, &curve));
    let its =
        method.filter(|found: &Method| found.operation() == operation && found.options().durability() == durability);
    (its, curve)
}

impl StorageProfile {
    /// The profile that fits the storage of a path.
    ///
    /// # Errors
    /// Why none does.
    pub fn of(path: &Path) -> Result<Self, ProfileMismatch> {
        Self::found(path, &OF_PROCESS, Self::read)
    }

    /// The same for plans: curves are parsed when a plan asks for them, and left out where their lines are damaged.
    ///
    /// # Errors
    /// Why none fits.
    pub fn for_plans(path: &Path) -> Result<Self, ProfileMismatch> {
        Self::found(path, &OF_PROCESS, Self::read_head)
    }

    /// The profile; `read` reads the profile from its file.
    fn found(
        path: &Path,
        profiles: &Profiles,
        read: fn(&Path) -> Result<Self, ProfileMismatch>,
    ) -> Result<Self, ProfileMismatch> {
        let of_environment = || env::var_os(VARIABLE).map(PathBuf::from);
        let named = profiles.named.clone().or_else(of_environment);
        if profiles.is_unwanted.load(Relaxed) || named.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(ProfileMismatch::Unwanted);
        }
        let directories = directories();
        if named.is_none() && !directories.iter().any(|directory| directory.is_dir()) {
            return Err(ProfileMismatch::Missing);
        }
        let name = StorageName::of(path).map_err(ProfileMismatch::Unknown)?;
        let of_name = || {
            directories
                .iter()
                .map(|directory| directory.join(&name.file))
                .find(|path| path.exists())
        };
        let borrow = || borrowed::find(&directories, &name.id, read);
        let is_named = named.is_some();
        let Some(file) = named.or_else(of_name) else {
            return borrow().ok_or(ProfileMismatch::Missing);
        };
        let found = read(&file).map_err(|why| match why {
            ProfileMismatch::Missing => ProfileMismatch::Unreadable(file.clone(), rustix::io::Errno::NOENT.into()),
            why => why,
        })?;
        // A short run may have left one without curves.
        let borrowed = (found.curves.is_empty() && !is_named).then(borrow).flatten();
        let mut found = borrowed.map_or_else(|| found.fits(&name), Ok)?;
        found.off = StorageUses::of(&name).off();
        Ok(found)
    }

    /// Reads a profile that nobody else can have written.
    ///
    /// # Errors
    /// [`ProfileMismatch`] if it cannot be read, others can write it, or it is damaged.
    pub fn read(path: &Path) -> Result<Self, ProfileMismatch> {
        let profile = Profile::from_text(&text_of(path)?);
        Ok(Self::new(profile.map_err(damaged(path))?, path.to_owned()))
    }

    /// The same; curves are parsed when they are asked for.
    fn read_head(path: &Path) -> Result<Self, ProfileMismatch> {
        let text = text_of(path)?;
        let (head, lines) = ProfileHead::from_text(&text).map_err(damaged(path))?;
        let lines = str::from_utf8(lines);
        let lines = lines.map_err(|error| ProfileMismatch::Unreadable(path.to_owned(), io::Error::other(error)))?;
        let curves = lines.lines().map(|line| LazyCurve {
            line: line.to_owned(),
            parsed: OnceLock::new(),
        });
        Ok(Self {
            head,
            path: path.to_owned(),
            without_warm: None,
            off: Vec::new(),
            curves: curves.collect(),
        })
    }

    /// A profile that was read from a file.
    #[must_use]
    pub fn new(profile: Profile, path: PathBuf) -> Self {
        let curves = profile.curves.into_iter().map(|curve| LazyCurve {
            line: curve.conditions.line_start(),
            parsed: Some(with_method(curve)).into(),
        });
        Self {
            head: profile.head,
            path,
            without_warm: None,
            off: Vec::new(),
            curves: curves.collect(),
        }
    }

    /// The whole profile.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let curves = self.curves.iter().filter_map(LazyCurve::get);
        Profile {
            head: self.head.clone(),
            curves: curves.map(|(_, curve)| curve.clone()).collect(),
        }
    }

    /// Itself, if it is of this storage and of this version's mechanisms.
    fn fits(self, name: &StorageName) -> Result<Self, ProfileMismatch> {
        let StorageName {
            id,
            mount_point,
            mount_options,
            ..
        } = name;
        let ProfileHead { storage, revision, .. } = &self.head;
        let words = |text: Option<&str>| text.unwrap_or("none").to_owned();
        let number = |kib: Option<u64>| kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{kib} KiB"));
        let devices = |id: &StorageId| {
            let names = id
                .devices
                .iter()
                .map(|device| device.model.as_ref().unwrap_or(&device.name).as_str());
            names.collect::<Vec<_>>().join(" on ")
        };
        // A UUID identifies the storage wherever it is mounted.
        let mounted = |point: Option<&str>| words(point.filter(|_| storage.uuid.is_none()));
        let of_devices = devices(if storage.has_same_devices(id) { id } else { storage });
        let differing = [
            (
                "version of the methods",
                revision.mechanisms.to_string(),
                method::REVISION.to_string(),
            ),
            ("file system", storage.file_system.clone(), id.file_system.clone()),
            ("UUID", words(storage.uuid.as_deref()), words(id.uuid.as_deref())),
            (
                "mount point",
                mounted(self.head.mount_point.as_deref()),
                mounted(mount_point.as_deref()),
            ),
            ("device", of_devices, devices(id)),
            ("kernel", storage.kernel.clone(), id.kernel.clone()),
            (
                "read-ahead window",
                number(storage.read_ahead_kib),
                number(id.read_ahead_kib),
            ),
            (
                "set of mount options",
                words(self.head.mount_options.as_deref()),
                words(mount_options.as_deref()),
            ),
        ];
        if let Some((what, of_profile, here)) = differing.into_iter().find(|(_, one, other)| one != other) {
            return Err(ProfileMismatch::Other(what, of_profile, here));
        }
        Ok(self.without_unlike_memory())
    }

    /// The same, without cached files if the processors or the memory differ from those here.
    fn without_unlike_memory(mut self) -> Self {
        let memory = seekless_sys::memory().ok().and_then(seekless_sys::Support::available);
        let memory = self.head.memory_bytes.zip(memory.map(|memory| memory.total_bytes));
        self.without_warm = if self.head.processors as usize != seekless_sys::processors() {
            Some("measured with another number of processors")
        } else if memory.is_some_and(|(one, other)| !is_same_memory(one, other)) {
            Some("measured with another size of memory")
        } else {
            None
        };
        self
    }

    /// How long ago its newest sitting began; `None` if that is in the future.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        time_since(self.head.newest_unix_seconds)
    }

    /// By how much uses under some conditions differed from what was predicted, as the logarithm of a factor, if they no longer agree
    /// with a sitting of this time or an older one.
    pub(crate) fn deviation_in_use(&self, is_alike: impl Fn(&Conditions) -> bool, newest_unix_seconds: u64) -> f64 {
        let off = self.off.iter().filter(|summary| {
            is_alike(&summary.conditions)
                && summary
                    .sitting_unix_seconds
                    .is_some_and(|sitting| newest_unix_seconds <= sitting)
        });
        off.map(|summary| summary.median.ln().abs()).fold(0.0, f64::max)
    }

    /// Whether it no longer predicts uses, and nothing was measured since under their conditions.
    #[must_use]
    pub fn is_off(&self, uses: &UseSummary) -> bool {
        let conditions = uses.conditions;
        let points = self.curves(conditions).flat_map(|(_, curve)| &curve.points);
        let measured = points.map(|point| point.newest_unix_seconds);
        let costs = self
            .head
            .costs
            .as_ref()
            .filter(|_| conditions.operation == Operation::Update);
        let newest = measured.chain(costs.map(|costs| costs.newest_unix_seconds)).max();
        uses.is_off() && newest <= uses.sitting_unix_seconds
    }

    /// The curves of known methods under some conditions.
    pub fn curves(&self, conditions: Conditions) -> impl Iterator<Item = (&Method, &Curve)> {
        let is_left_out = self.without_warm.is_some() && matches!(conditions.cache, Cache::Warm | Cache::FirstTouch);
        let start = conditions.line_start();
        let alike = self.curves.iter();
        let alike = alike.filter(move |curve| !is_left_out && curve.line.starts_with(&start));
        let curves = alike.filter_map(LazyCurve::get);
        curves.filter_map(|(method, curve)| Some((method.as_ref()?, curve)))
    }
}

/// The text of a profile that nobody else can have written.
fn text_of(path: &Path) -> Result<Vec<u8>, ProfileMismatch> {
    let text = open_own(path, Access::Read).and_then(|file: File| read_within(file, MAX_PROFILE_BYTES as u64));
    text.map_err(|error| match error.kind() {
        ErrorKind::NotFound => ProfileMismatch::Missing,
        _ => ProfileMismatch::Unreadable(path.to_owned(), error),
    })
}

fn damaged(path: &Path) -> impl Fn(DocumentError) -> ProfileMismatch {
    |error| ProfileMismatch::Document(path.to_owned(), error)
}

/// The time since a moment in seconds since 1970; `None` for one in the future.
pub(crate) fn time_since(unix_seconds: u64) -> Option<Duration> {
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(unix_seconds))?;
    moment.elapsed().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use seekless_record::{DeviceId, PROFILE_VERSION, Revision};

    use super::*;

    pub(crate) fn head(id: &StorageId) -> ProfileHead {
        ProfileHead {
            version: PROFILE_VERSION,
            seekless: "0.1.0".to_owned(),
            sittings: 1,
            revision: Revision {
                protocol: 1,
                mechanisms: method::REVISION,
            },
            storage: id.clone(),
            mount_point: Some("/".to_owned()),
            mount_options: Some("rw".to_owned()),
            processors: seekless_sys::processors() as u32,
            ..ProfileHead::default()
        }
    }

    pub(super) fn without_curves(head: ProfileHead) -> Profile {
        let curves = Vec::new();
        Profile { head, curves }
    }

    pub(crate) fn id() -> StorageId {
        StorageId {
            file_system: "ext4".to_owned(),
            uuid: Some("0-1".to_owned()),
            devices: vec![DeviceId {
                name: "vda".to_owned(),
                model: None,
                serial: Some("A".to_owned()),
            }],
            kernel: "6.18".to_owned(),
            read_ahead_kib: Some(128),
        }
    }

    pub(super) fn id_with(change: impl FnOnce(&mut StorageId)) -> StorageId {
        let mut id = id();
        change(&mut id);
        id
    }

    #[test]
    fn what_differs_from_the_storage_here_is_named() {
        let renamed = id_with(|id| id.devices[0].name = "vdb".to_owned());
        let fit = |head: ProfileHead, options: Option<&str>| {
            let found = StorageProfile::new(without_curves(head), PathBuf::new());
            found.fits(&StorageName::new(
                id(),
                Some("/".to_owned()),
                options.map(str::to_owned),
            ))
        };
        assert_eq!(fit(head(&id()), Some("rw")).unwrap().without_warm, None);
        // A serial number identifies the disk.
        assert!(fit(head(&renamed), Some("rw")).is_ok());
        let kernel = id_with(|id| id.kernel = "7.0".to_owned());
        let window = id_with(|id| id.read_ahead_kib = Some(4096));
        for (id, options, word) in [
            (kernel, Some("rw"), "another kernel (7.0; here 6.18)"),
            (window, Some("rw"), "another read-ahead window (4096 KiB; here 128 KiB)"),
            (id(), Some("rw,sync"), "another set of mount options (rw; here rw,sync)"),
        ] {
            let why = fit(head(&id), options).unwrap_err().to_string();
            assert!(why.contains(word), "{why}");
        }
        let mut more = head(&id());
        more.processors = 1000;
        assert!(fit(more, Some("rw")).unwrap().without_warm.is_some());
    }

    fn written(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_profile_is_asked_where_that_is_little_of_the_time() {
        let milliseconds = 1e6;
        let asks = |all, expected| is_little(all * milliseconds, expected * milliseconds);
        assert_eq!([10.0, 20.0].map(|all| asks(all, 10.0)), [false, true]);
        assert_eq!([0.5, 2.0].map(|expected| asks(100.0, expected)), [false, true]);
        // Of many small files, one is asked for at last.
        let profiles = Profiles::new();
        assert!((0..100).any(|_| profiles.pays(milliseconds)));
    }

    #[test]
    fn a_plan_gets_the_curves_of_its_conditions_whose_methods_are_known_and_lines_are_sound() {
        let of = |operation, cache| Conditions {
            operation,
            cache,
            ..Conditions::default()
        };
        let [read, warm] = [Cache::Cold, Cache::Warm].map(|cache| of(Operation::Read, cache));
        let compare = of(Operation::Compare, Cache::Cold);
        let curve = |conditions, method: &str| Curve {
            conditions,
            method: method.to_owned(),
            ..Curve::default()
        };
        let profile = Profile {
            head: head(&id()),
            curves: vec![
                curve(read, "read/sync,block=1M"),
                curve(read, "read/mmap"),
                curve(compare, "compare/sync,block=1M"),
                curve(warm, "read/mmap"),
                curve(warm, "read/of-the-future"),
            ],
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.json");
        let text = profile.to_text().unwrap();
        written(&path, &text);
        let methods = |found: &StorageProfile| {
            [read, warm, compare].map(|conditions| {
                let curves = found.curves(conditions);
                let methods: Vec<_> = curves.map(|(method, _)| method.to_string()).collect();
                methods.join(" ")
            })
        };
        let wanted = ["read/sync,block=1M read/mmap", "read/mmap", "compare/sync,block=1M"];
        let (found, whole) = (StorageProfile::read_head(&path), StorageProfile::read(&path));
        for found in [found.unwrap(), whole.unwrap()] {
            assert_eq!(methods(&found), wanted);
            assert_eq!(found.profile(), profile);
        }
        written(&path, &text.replacen("\"read/mmap\"", "\"read/mmap\",\"more\":1", 1));
        let found = StorageProfile::read_head(&path).unwrap();
        assert_eq!(methods(&found), ["read/sync,block=1M", wanted[1], wanted[2]]);
        assert!(matches!(
            StorageProfile::read(&path),
            Err(ProfileMismatch::Document(..))
        ));
    }

    #[test]
    fn a_profile_that_others_can_write_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.json");
        assert!(matches!(StorageProfile::read(&path), Err(ProfileMismatch::Missing)));
        written(&path, &without_curves(head(&id())).to_text().unwrap());
        StorageProfile::read(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(
            StorageProfile::read(&path),
            Err(ProfileMismatch::Unreadable(..))
        ));
        written(&path, "{");
        assert!(matches!(
            StorageProfile::read(&path),
            Err(ProfileMismatch::Document(..))
        ));
    }
}
