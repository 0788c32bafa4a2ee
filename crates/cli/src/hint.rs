//! Hints for errors: the libraries' errors name no options, so the options and commands that help are here.

use std::fmt;

use seekless_engine::ParseError;
use seekless_engine::error::{Error, SidecarKind, UpdateErrorKind};
use seekless_lab::store::StoreError;
use seekless_lab::{BenchError, Obstacle};
use seekless_results::NotComparable;
use seekless_tools::dupes::act::RefusalReason;
use seekless_tools::holes::{self, HoleErrorKind};

/// A hint for each error of a chain that has one, the outermost first.
pub fn hints(error: &anyhow::Error) -> impl Iterator<Item = &'static str> {
    error.chain().filter_map(|cause| {
        // The source of an engine's error may be a boxed one.
        let boxed = || cause.downcast_ref::<Box<Error>>().map(|error| &**error);
        let of_engine = cause.downcast_ref().or_else(boxed).and_then(of_engine);
        of_engine
            .or_else(|| cause.downcast_ref().and_then(of_method))
            .or_else(|| cause.downcast_ref().and_then(of_holes))
            .or_else(|| cause.downcast_ref().and_then(of_bench))
            .or_else(|| cause.downcast_ref().and_then(of_resuming))
            .or_else(|| cause.downcast_ref().and_then(of_store))
            .or_else(|| cause.downcast_ref().map(|_: &NotComparable| SIZES_DIFFER))
            .or_else(|| cause.downcast_ref().and_then(of_acting))
            .or_else(|| cause.downcast_ref().map(|hinted: &Hinted| hinted.hint))
            .or_else(|| of_device(cause))
    })
}

/// A sentence about a failure, with a hint of its own.
#[derive(Debug)]
pub struct Hinted {
    pub sentence: String,
    pub hint: &'static str,
}

impl fmt::Display for Hinted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence)
    }
}

impl std::error::Error for Hinted {}

/// How to act on files where no lease keeps other processes out.
pub const WITHOUT_LEASES: &str = "with --without-leases, remove, move and trash act there, too (see --help)";

fn of_acting(why: &RefusalReason) -> Option<&'static str> {
    why.is_of_file_system().then_some(WITHOUT_LEASES)
}

const SIZES_DIFFER: &str = "if only the sizes differ, set them with --size, because the lab chooses them for each run";

#[cfg(all(feature = "sim", target_os = "linux"))]
fn of_device(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    use seekless_sim::device::DeviceError;
    Some(match error.downcast_ref()? {
        DeviceError::NoSpace { .. } => "free some space, or use --backing FILE on another disk",
        DeviceError::Busy { .. } => "close it, or detach it with `seekless sim stop --force`",
        DeviceError::Unknown(_) => "`seekless sim list` prints the names",
        _ => return None,
    })
}

#[cfg(not(all(feature = "sim", target_os = "linux")))]
fn of_device(_: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    None
}

fn of_engine(error: &Error) -> Option<&'static str> {
    Some(match error.update_kind()? {
        UpdateErrorKind::Running => "wait until it ends",
        UpdateErrorKind::Interrupted(_) => "use --recover",
        UpdateErrorKind::MountPoint(_) => "name the file by the path in its own directory, or use --safety in-place",
        UpdateErrorKind::HardLinks { beside, .. } => match beside {
            SidecarKind::Journal => "use --safety in-place, or allow it with --unsafe",
            SidecarKind::NewFile => "use --safety in-place",
        },
        UpdateErrorKind::NameTooLong => "use --safety replace or in-place, or shorten the name",
        UpdateErrorKind::PastEnd { .. } => "to extend the file, use --grow",
        UpdateErrorKind::NotKept { .. } => "use --safety in-place or journal, which do not replace the file",
        UpdateErrorKind::Replaced | UpdateErrorKind::Opened | UpdateErrorKind::Changed => "run it again",
        UpdateErrorKind::NotExclusive { .. } => {
            "write only the updates (--method ascending), or accept that writes by others may be lost (--unsafe)"
        }
        UpdateErrorKind::HasWriters(_) => {
            "close the file in that process, use --safety in-place, or accept the loss (--unsafe)"
        }
        UpdateErrorKind::NoExchange(_) => "use --safety in-place or journal",
        UpdateErrorKind::PartlyUpdated { .. } => "once the cause is gone, rerun with the same updates to finish",
        UpdateErrorKind::NotUndone { .. } => "once the cause is gone, recover the file with --recover",
        UpdateErrorKind::JournalLeft(_) => "if the journal exists, now or after a crash, use --recover",
        UpdateErrorKind::NotLasting { .. } => {
            "check the file before you rely on it, and find the cause (dmesg reports failing devices); --recover \
             removes the old file"
        }
        _ => return None,
    })
}

fn of_method(error: &ParseError) -> Option<&'static str> {
    matches!(error, ParseError::UnknownMethod { .. }).then_some("`seekless methods` lists all methods")
}

fn of_holes(error: &holes::Error) -> Option<&'static str> {
    match &error.kind {
        HoleErrorKind::Unavailable(_) => {
            Some("`seekless storage` shows what works there; this works on local ext4, XFS, btrfs and tmpfs")
        }
        HoleErrorKind::Shared(_) => Some(
            "use a copy on a local ext4, XFS, btrfs or tmpfs, or accept that what others write meanwhile may be lost (--unsafe)",
        ),
        other => other.advice(),
    }
}

fn of_bench(error: &BenchError) -> Option<&'static str> {
    Some(match error {
        BenchError::Look { .. } => "name an existing directory",
        BenchError::NotADirectory { .. } => "--dir takes a directory; --file takes a file to read",
        BenchError::ReadOnly { .. } => "use --file to read a file on it",
        BenchError::FileChanged { .. } => "try again when nothing changes the file, or read a copy of it",
        BenchError::NoTestFiles { .. } => "choose another directory with --dir",
        BenchError::NoSpace { .. } => "free some space, or choose a smaller --size",
        BenchError::MostWritten { .. } => "use a larger --most-written, or a smaller --size",
        BenchError::NothingToRead => "only read experiments take --file",
        BenchError::NoTime(_) => "use a larger --budget, or fewer methods (--methods)",
        BenchError::AllMeasured(_) => "`seekless runs show ID` shows it",
        _ => return None,
    })
}

fn of_resuming(obstacle: &Obstacle) -> Option<&'static str> {
    match obstacle {
        Obstacle::Storages(_) => Some(
            "name a directory on each storage with --dir, in the same order, and the directory of the second files \
             with --other",
        ),
        Obstacle::Storage { .. } => Some("change to a directory on that storage, or name one with --dir"),
        _ => None,
    }
}

fn of_store(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::NoSuch { nearest, .. } if nearest.is_empty() => Some("`seekless bench` measures one"),
        StoreError::NoSuch { .. } => Some("`seekless runs` lists all runs; `latest` is the newest of your own"),
        StoreError::Full { .. } => Some("`seekless runs remove --down-to 500M` removes the oldest"),
        _ => None,
    }
}
