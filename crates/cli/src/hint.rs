//! What to do about an error: a library's error speaks of the thing, and here is which command or option helps.

use seekless::ParseError;
use seekless::error::{Beside, Error, UpdateErrorKind};

/// A hint for each error of a chain that has one, the outermost first.
pub fn hints(error: &anyhow::Error) -> impl Iterator<Item = &'static str> {
    error.chain().filter_map(|cause| {
        // The reason of another error of the engine is in a box.
        let boxed = || cause.downcast_ref::<Box<Error>>().map(|error| &**error);
        let of_engine = cause.downcast_ref().or_else(boxed).and_then(of_engine);
        of_engine.or_else(|| cause.downcast_ref().and_then(of_method))
    })
}

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
