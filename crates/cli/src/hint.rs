//! What to do about an error: a library's error speaks of the thing, and here is which command or option helps.

use seekless::ParseError;
use seekless::error::{Beside, Error, UpdateErrorKind};
use seekless_lab::store::StoreError;
use seekless_lab::{BenchError, Obstacle};
use seekless_results::NotComparable;
use seekless_tools::holes;

/// A hint for each error of a chain that has one, the outermost first.
pub fn hints(error: &anyhow::Error) -> impl Iterator<Item = &'static str> {
    error.chain().filter_map(|cause| {
        // The reason of another error of the engine is in a box.
        let boxed = || cause.downcast_ref::<Box<Error>>().map(|error| &**error);
        let of_engine = cause.downcast_ref().or_else(boxed).and_then(of_engine);
        of_engine
            .or_else(|| cause.downcast_ref().and_then(of_method))
            .or_else(|| cause.downcast_ref().and_then(of_holes))
            .or_else(|| cause.downcast_ref().and_then(of_bench))
            .or_else(|| cause.downcast_ref().and_then(of_resuming))
            .or_else(|| cause.downcast_ref().and_then(of_store))
            .or_else(|| cause.downcast_ref().map(|_: &NotComparable| SIZES_DIFFER))
    })
}

const SIZES_DIFFER: &str = "sizes chosen by the lab differ from run to run: name them with --size";

fn of_engine(error: &Error) -> Option<&'static str> {
    Some(match error.update_kind()? {
        UpdateErrorKind::Running => "wait until it ends",
        UpdateErrorKind::Interrupted(_) => "--recover does that",
        UpdateErrorKind::HardLinks { beside, .. } => match beside {
            Beside::Journal => "use --safety in-place, or accept that (--unsafe)",
            Beside::NewFile => "use --safety in-place",
        },
        UpdateErrorKind::NameTooLong => "use --safety replace or in-place, or shorten the name",
        UpdateErrorKind::PastEnd { .. } => "to extend the file, use --grow",
        UpdateErrorKind::NeedsMemory(_) => "use another order, or raise --memory",
        UpdateErrorKind::NotKept { .. } => "--safety in-place and journal lose nothing",
        UpdateErrorKind::Replaced | UpdateErrorKind::Opened | UpdateErrorKind::Changed => "run it again",
        UpdateErrorKind::NotExclusive { .. } => {
            "write only what updates name (order=ascending), or accept that bytes of others may be lost (--unsafe)"
        }
        UpdateErrorKind::HasWriters(_) => "close it there, use --safety in-place, or accept the loss (--unsafe)",
        UpdateErrorKind::NoExchange(_) => "use --safety in-place or journal",
        UpdateErrorKind::PartlyUpdated { .. } => "give all updates again when the reason is gone",
        UpdateErrorKind::NotUndone { .. } => "recover the file when the reason is gone (--recover)",
        UpdateErrorKind::JournalLeft(_) => "then recover the file (--recover), which writes the same once more",
        UpdateErrorKind::NotLasting { .. } => {
            "read the file before you rely on it, and look for the reason (dmesg tells of broken devices); --recover removes \
             the old file"
        }
        _ => return None,
    })
}

fn of_method(error: &ParseError) -> Option<&'static str> {
    matches!(error, ParseError::UnknownMethod { .. }).then_some("`seekless methods` lists all methods")
}

fn of_holes(error: &holes::Error) -> Option<&'static str> {
    match error {
        holes::Error::Unavailable { .. } => {
            Some("`seekless storage` shows what works there; on a local ext4, XFS, btrfs or tmpfs this does")
        }
        other => other.advice(),
    }
}

fn of_bench(error: &BenchError) -> Option<&'static str> {
    Some(match error {
        BenchError::Look { .. } => "give a folder that exists",
        BenchError::NotAFolder { .. } => "--dir takes a folder, --file a file to read",
        BenchError::ReadOnly { .. } => "read a file of it with --file",
        BenchError::NoTestFiles { .. } => "choose another with --dir",
        BenchError::NoSpace { .. } => "free some, or ask for less with --size",
        BenchError::NothingToRead => "only read experiments take --file",
        BenchError::AllMeasured(_) => "`seekless runs show` with its ID shows it",
        _ => return None,
    })
}

fn of_resuming(obstacle: &Obstacle) -> Option<&'static str> {
    match obstacle {
        Obstacle::Storages(_) => {
            Some("name a folder of each with --dir, in the same order, and with --other that of the second files")
        }
        Obstacle::Storage { .. } => Some("go to a folder of that storage, or name one with --dir"),
        _ => None,
    }
}

fn of_store(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::NoSuch { nearest, .. } if nearest.is_empty() => Some("`seekless bench` measures one"),
        StoreError::NoSuch { .. } => Some("`seekless runs` lists all, and `latest` is the last of your own"),
        StoreError::Full { .. } => Some("`seekless runs remove --down-to 500M` removes the oldest"),
        _ => None,
    }
}
