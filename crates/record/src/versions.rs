//! Reading and writing documents: bounded, versioned, strict.

use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;

use crate::Run;
use crate::check::{Problem, check};

/// The version that this crate writes, and the only one so far.
pub const CURRENT_VERSION: u32 = 1;

/// The largest document that is read, in bytes: a run of hours has some 100,000 trials of about 700 bytes each.
pub const MAX_DOCUMENT_BYTES: usize = 256 << 20;

/// Why a document was not read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is larger than the largest document that is read.
    #[error("the document has {bytes} bytes; at most {most} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest that is read, [`MAX_DOCUMENT_BYTES`] or less.
        most: usize,
    },
    /// It was written by a newer seekless.
    #[error("the document has version {found}, but this seekless reads versions up to {newest}: use a newer seekless")]
    Newer {
        /// The version found.
        found: u64,
        /// The newest that is read.
        newest: u32,
    },
    /// It was written by an older seekless, and is made again rather than converted.
    #[error("the document has version {found}, but this seekless reads versions from {oldest} on")]
    Older {
        /// The version found.
        found: u64,
        /// The oldest that is read.
        oldest: u32,
    },
    /// It has no version, so it is not a document of seekless.
    #[error("not a seekless run: no `version` field")]
    NoVersion,
    /// It is not valid JSON, or does not have the form of its version.
    #[error("the document is damaged")]
    Damaged(#[from] serde_json::Error),
    /// It has a value that no run can have.
    #[error("the document is damaged")]
    Impossible(#[from] Problem),
}

/// Reads a run of any version up to the current one. The result is checked: indices are valid, figures are plausible,
/// and texts have at most 64 KiB.
///
/// # Errors
/// [`DocumentError`] if it is too large, newer, damaged, or has impossible values.
pub fn from_json(text: &[u8]) -> Result<Run, DocumentError> {
    require_size(text, MAX_DOCUMENT_BYTES)?;
    let mut run: Run = read(text, 0..=CURRENT_VERSION)?;
    check(&mut run)?;
    Ok(run)
}

/// Refuses a document of more than `most` bytes.
pub(crate) fn require_size(text: &[u8], most: usize) -> Result<(), DocumentError> {
    let bytes = text.len();
    if bytes > most {
        return Err(DocumentError::TooLarge { bytes, most });
    }
    Ok(())
}

/// Reads a document of one of these versions.
pub(crate) fn read<T: DeserializeOwned>(text: &[u8], versions: RangeInclusive<u32>) -> Result<T, DocumentError> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: Option<u64>,
    }
    let Versioned { version } = serde_json::from_slice(text)?;
    let (oldest, newest) = versions.into_inner();
    match version {
        None => Err(DocumentError::NoVersion),
        Some(found) if found > u64::from(newest) => Err(DocumentError::Newer { found, newest }),
        Some(found) if found < u64::from(oldest) => Err(DocumentError::Older { found, oldest }),
        Some(_) => Ok(serde_json::from_slice(text)?),
    }
}

/// Writes a run, indented, with a newline at its end.
///
/// # Errors
/// [`DocumentError::Damaged`] if a figure is not finite.
pub fn to_json(run: &Run) -> Result<String, DocumentError> {
    let mut text = serde_json::to_string_pretty(run)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabCost;

    fn run() -> Run {
        Run {
            version: CURRENT_VERSION,
            id: "2026-01-01T00-00-00-read".to_owned(),
            seekless: "0.1.0".to_owned(),
            started: "2026-01-01T00:00:00Z".to_owned(),
            elapsed_seconds: 1.0 / 3.0,
            experiments: vec!["read".to_owned()],
            seed: u64::MAX,
            lab_cost: LabCost {
                null_seconds: vec![1.1e-6, 0.1 + 0.2],
                ..LabCost::default()
            },
            warnings: vec!["\u{1b}[31m \" \\ \u{0}".to_owned()],
            ..Run::default()
        }
    }

    #[test]
    fn versions_name_newer_foreign_and_misspelt_runs() {
        let text = to_json(&run()).unwrap();
        assert_eq!(from_json(text.as_bytes()).unwrap(), run());
        let version = |version: u32| text.replacen("\"version\": 1", &format!("\"version\": {version}"), 1);
        let newer = from_json(version(2).as_bytes());
        assert!(matches!(newer, Err(DocumentError::Newer { found: 2, newest: 1 })));
        assert!(matches!(from_json(b"{}"), Err(DocumentError::NoVersion)));
        assert!(matches!(from_json(b"[1]"), Err(DocumentError::Damaged(_))));
        let misspelt = text.replacen("\"seed\"", "\"sede\"", 1);
        let Err(DocumentError::Damaged(error)) = from_json(misspelt.as_bytes()) else {
            panic!("it is read");
        };
        let error = error.to_string();
        assert!(error.contains("sede") && error.contains("line"), "{error}");
        let large = from_json(&vec![b' '; MAX_DOCUMENT_BYTES + 1]);
        assert!(matches!(large, Err(DocumentError::TooLarge { .. })));
    }

    /// Runs that earlier builds wrote; only the names of machine and kernel were changed, and the version.
    #[test]
    fn every_stored_run_is_read_and_written_again() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/runs");
        let mut methods = std::collections::BTreeSet::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read(&path).unwrap();
            let run = from_json(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let written = to_json(&run).unwrap();
            assert_eq!(from_json(written.as_bytes()).unwrap(), run, "{}", path.display());
            let entries = run.contests.iter().flat_map(|contest| &contest.entries);
            methods.extend(entries.map(|entry| entry.name().into_owned()));
            for trial in run.trials.iter().filter(|trial| trial.invalid.is_none()) {
                let entry = &run.contests[trial.contest].entries[trial.entry];
                let is_planned = matches!(entry.subject, crate::Subject::Plan(_));
                assert_eq!(trial.planned.is_some(), is_planned, "{}", path.display());
            }
        }
        let nulls = ["read", "write", "copy", "compare"].map(|operation| format!("{operation}/null"));
        for method in nulls.iter().chain([&"update/planned,fsync".to_owned()]) {
            assert!(methods.contains(method), "{method}");
        }
    }

    #[test]
    fn versions_never_panic_on_cut_or_changed_documents() {
        let text = to_json(&run()).unwrap().into_bytes();
        let end = text.len() - 1;
        for at in 0..end {
            assert!(from_json(&text[..at]).is_err(), "cut at {at}");
            let mut changed = text.clone();
            changed[at] = changed[at].wrapping_add(1);
            let _ = from_json(&changed);
        }
    }
}
