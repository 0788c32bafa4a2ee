//! Brings files into the cache state of a trial, and verifies that they are in it.

use std::path::Path;

use seekless_engine::cache::{self, CachedFile, Resident};
use seekless_engine::files::allocated_bytes;
use seekless_record::{Cache, DropScope};

use crate::testfile::{TestFile, go_on};

/// Whether files are in the intended state.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheState {
    /// The smallest (warm) or largest (cold) resident part, 0 to 1; `None` if it is unknown.
    pub resident: Option<f64>,
    /// Why the state is not the intended one.
    pub wrong: Option<String>,
}

impl CacheState {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        resident: None,
        wrong: None,
    };
}

/// Which files must be in the intended state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedFiles {
    /// Each file.
    Each,
    /// All bytes together, except for a small part: some files of an existing directory are mapped by running programs, which keeps them in memory.
    Together,
}

/// The part of the bytes that may be in another state if files are judged together.
const ASTRAY_PART: f64 = 0.02;

/// Brings files into a state, and reads the state back. Warming ends early if it is stopped.
///
/// # Errors
/// The engine's, where a file cannot be opened, synced or read.
pub fn bring<'a>(
    files: impl Iterator<Item = &'a Path> + Clone,
    state: Cache,
    drop: DropScope,
    judged: JudgedFiles,
    is_stopped: &dyn Fn() -> bool,
) -> seekless_engine::Result<CacheState> {
    let goes_on = |_| go_on(is_stopped);
    let warm = |path: &Path| CachedFile::open(path)?.warm(goes_on);
    let brought: &dyn Fn(&Path) -> seekless_engine::Result<Resident> = match state {
        // Files that are read once are no longer measured.
        Cache::None | Cache::FirstTouch => return Ok(CacheState::UNKNOWN),
        // The storage is synced, so dirty pages are an exception, found by reading back.
        Cache::Cold | Cache::Over => &|path: &Path| CachedFile::open(path)?.drop_pages(goes_on),
        Cache::Warm => &warm,
    };
    let mut found = files
        .clone()
        .map(brought)
        .collect::<seekless_engine::Result<Vec<_>>>()?;
    if state == Cache::Over {
        // The memory allowed is full now, so make room for what the trial reads first.
        return Ok(CacheState::UNKNOWN);
    }
    if state == Cache::Cold && drop == DropScope::System {
        cache::drop_system()?;
        // Opening a file again would bring its metadata back.
        if judged == JudgedFiles::Each && found.iter().any(|resident| resident.part() != Some(0.0)) {
            found = files.map(cache::resident).collect::<seekless_engine::Result<_>>()?;
        }
    }
    Ok(judge(&found, state, judged))
}

/// Brings a part of a file into a state, and nothing else of the file into memory; reads the state back. Warming ends early if
/// it is stopped.
///
/// # Errors
/// The engine's, where the file cannot be opened, dropped or read.
pub fn bring_part(
    part: &TestFile,
    state: Cache,
    drop: DropScope,
    is_stopped: &dyn Fn() -> bool,
) -> seekless_engine::Result<CacheState> {
    let mut brought = bring(
        std::iter::once(&*part.path),
        Cache::Cold,
        drop,
        JudgedFiles::Each,
        is_stopped,
    )?;
    if state != Cache::Warm {
        return Ok(brought);
    }
    part.read(is_stopped).map_err(|source| seekless_engine::Error::System {
        path: part.path.clone(),
        action: "read it into the page cache".into(),
        method: None,
        source,
    })?;
    brought.resident = resident_part(part)?;
    let is_wrong = brought.resident.is_some_and(|resident| resident < 1.0);
    brought.wrong = is_wrong.then(|| "not all of the part was in memory".to_owned());
    Ok(brought)
}

/// How much of a part of a file is resident, if nothing else of the file is.
///
/// # Errors
/// The engine's, where the file cannot be opened.
pub fn resident_part(part: &TestFile) -> seekless_engine::Result<Option<f64>> {
    Ok(match cache::resident(&part.path)? {
        Resident::Known { resident_bytes, .. } => Some((resident_bytes as f64 / part.bytes as f64).min(1.0)),
        Resident::Unknown(_) => None,
    })
}

/// Reads the state of files without changing it.
///
/// # Errors
/// The engine's, where a file cannot be opened.
pub fn resident<'a>(files: impl Iterator<Item = &'a Path>) -> seekless_engine::Result<Option<f64>> {
    let found = files
        .map(cache::resident)
        .collect::<seekless_engine::Result<Vec<_>>>()?;
    let known: Option<Vec<f64>> = found.iter().map(Resident::part).collect();
    Ok(known.and_then(|parts| parts.into_iter().reduce(f64::min)))
}

/// Whether all data blocks of each file are in memory.
///
/// # Errors
/// The engine's, where a file cannot be opened.
pub fn holds_all_data<'a>(mut files: impl Iterator<Item = &'a Path>) -> seekless_engine::Result<bool> {
    files.try_fold(true, |all, path| {
        let file = CachedFile::open(path)?;
        let held = match file.resident()? {
            Resident::Known { resident_bytes, .. } => resident_bytes,
            Resident::Unknown(_) => 0,
        };
        Ok(all && held >= allocated_bytes(file.metadata()).min(file.metadata().len()))
    })
}

/// The residency of files after a rehearsal with limited memory, and why it is not the intended state.
///
/// # Errors
/// The engine's, where a file cannot be opened.
pub fn rehearsed<'a>(files: impl Iterator<Item = &'a Path>, memory_bytes: u64) -> seekless_engine::Result<CacheState> {
    let found = files
        .map(cache::resident)
        .collect::<seekless_engine::Result<Vec<_>>>()?;
    let Some((held, part)) = together(&found) else {
        return Ok(CacheState::UNKNOWN);
    };
    let held_all = (part > MOST_HELD).then(|| "the memory allowed held the whole file".to_owned());
    let wrong = held_all.or_else(|| {
        (held > memory_bytes).then(|| {
            format!(
                "{held} bytes of it were in memory, but only {memory_bytes} were allowed: other processes read it, or the limit has no effect"
            )
        })
    });
    Ok(CacheState {
        resident: Some(part),
        wrong,
    })
}

/// A file exceeds memory if at most this part of it stays there.
const MOST_HELD: f64 = 0.9;

/// The resident bytes of files, and their part of all bytes.
fn together(found: &[Resident]) -> Option<(u64, f64)> {
    let (mut all, mut held) = (0, 0);
    for resident in found {
        let &Resident::Known {
            resident_bytes,
            total_bytes,
        } = resident
        else {
            return None;
        };
        (all, held) = (all + total_bytes, held + resident_bytes);
    }
    Some((held, held as f64 / all.max(1) as f64))
}

fn judge(found: &[Resident], state: Cache, judged: JudgedFiles) -> CacheState {
    let (parts, most_astray, of): (Option<Vec<f64>>, _, _) = match judged {
        JudgedFiles::Each => (found.iter().map(Resident::part).collect(), f64::EPSILON, "file"),
        JudgedFiles::Together => (together(found).map(|(_, part)| vec![part]), ASTRAY_PART, "files"),
    };
    let Some(parts) = parts else {
        return CacheState::UNKNOWN;
    };
    let (resident, wanted) = match state {
        Cache::Warm => (parts.into_iter().fold(1.0, f64::min), 1.0),
        _ => (parts.into_iter().fold(0.0, f64::max), 0.0),
    };
    let is_wrong = (resident - wanted).abs() > most_astray;
    CacheState {
        resident: Some(resident),
        wrong: is_wrong.then(|| format!("{:.1} % of the {of} was resident before the trial", resident * 100.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_program_does_not_make_a_large_directory_warm() {
        let found = |mapped_bytes| {
            let resident = |resident_bytes, total_bytes| Resident::Known {
                resident_bytes,
                total_bytes,
            };
            [resident(mapped_bytes, mapped_bytes), resident(0, 1000 - mapped_bytes)]
        };
        let wrong = |bytes, judged| judge(&found(bytes), Cache::Cold, judged).wrong;
        assert_eq!(wrong(20, JudgedFiles::Together), None);
        let words = "2.1 % of the files was resident before the trial";
        assert_eq!(wrong(21, JudgedFiles::Together).as_deref(), Some(words));
        assert!(wrong(20, JudgedFiles::Each).is_some());
        assert!(judge(&found(20), Cache::Warm, JudgedFiles::Together).wrong.is_some());
        assert_eq!(
            judge(&found(980), Cache::Warm, JudgedFiles::Together).resident,
            Some(0.98)
        );
    }
}
