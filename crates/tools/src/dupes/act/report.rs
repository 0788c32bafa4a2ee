//! Reading back what a search wrote as JSON, to act on it later.
//!
//! A file that fails a check is refused with its place in the report; the others are used.
//!
//! Not here: writing reports (the command), and deciding what stays (`choose`).

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::copies::CopyPlaces;
use super::origin::{GivenRoot, SearchOrigin};
use super::{Action, RefusalReason};
use crate::dupes::{Equal, EqualFiles, FoundName, Proof, ReportedGroup};
use crate::json;

/// The part of a report that is still true.
#[derive(Debug)]
pub struct ReadReport {
    /// Where it was made.
    pub origin: SearchOrigin,
    /// Groups of files that still are what they were.
    pub groups: Vec<EqualFiles>,
    /// What was refused.
    pub refused: Vec<RefusedPart>,
}

/// A part of a report or plan that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPart {
    /// Where it is, as in `line 3`.
    pub place: String,
    /// The file, if the part names one.
    pub path: Option<PathBuf>,
    /// Why.
    pub why: RefusalReason,
}

/// Where an object of a report is; and the object, or why there is none.
type Part = (String, Result<Value, RefusalReason>);

/// Reads the report of `seekless dupes --json` or `--jsonl`. Groups of equal directories are refused if they are not wanted.
///
/// # Errors
/// What is wrong with it as a whole.
pub fn read(text: &[u8], with_directories: bool) -> Result<ReadReport, String> {
    let (parts, summary) = split(text)?;
    let origin =
        SearchOrigin::read(&summary.ok_or("it has no summary: it is incomplete, or not a report of seekless dupes")?)?;
    let (mut groups, mut refused) = (Vec::new(), Vec::new());
    let mut places = CopyPlaces::new(&origin, &Action::Remove);
    let is_contained = |part: &Value| part.get("kind").is_some_and(|kind| kind == "contained");
    // A directory that is contained in another does not equal it.
    for (place, part) in parts
        .into_iter()
        .filter(|(_, part)| !part.as_ref().is_ok_and(is_contained))
    {
        let refuse = |path, why| RefusedPart {
            place: place.clone(),
            path,
            why,
        };
        let group = part.and_then(|part| group(&part, &origin, with_directories));
        match group.map(|group| proven(group, &origin, &mut places)) {
            Ok((group, lost)) => {
                refused.extend(lost.into_iter().map(|(path, why)| refuse(Some(path), why)));
                groups.extend(group);
            }
            Err(why) => refused.push(refuse(None, why)),
        }
    }
    Ok(ReadReport {
        origin,
        groups,
        refused,
    })
}

/// The groups of a document, or of lines, and the summary.
fn split(text: &[u8]) -> Result<(Vec<Part>, Option<Value>), String> {
    let whole = serde_json::from_slice::<Value>(text);
    if let Ok(mut whole) = whole {
        if let Some(groups) = whole.get_mut("groups").map(Value::take) {
            let Value::Array(groups) = groups else {
                return Err("`groups` is not a list".to_owned());
            };
            let parts = groups.into_iter().enumerate();
            let parts = parts.map(|(at, group)| (format!("group {}", at + 1), Ok(group)));
            return Ok((parts.collect(), whole.get_mut("summary").map(Value::take)));
        }
    } else if text.trim_ascii_start().starts_with(b"{\"groups\"") {
        return Err(format!("it is not JSON: {}", whole.unwrap_err()));
    }
    let (mut parts, mut summary) = (Vec::new(), None);
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let part = serde_json::from_slice::<Value>(line)
            .map_err(|error| RefusalReason::NotAnEntry(format!("not JSON: {error}")));
        match part {
            Ok(part) if part.get("kind").is_some_and(|kind| kind == "summary") => {
                if summary.replace(part).is_some() {
                    return Err("it has several summaries: name one report".to_owned());
                }
            }
            part => parts.push((format!("line {}", at + 1), part)),
        }
    }
    Ok((parts, summary))
}

/// A group with the names of each file together.
fn group(part: &Value, origin: &SearchOrigin, with_directories: bool) -> Result<EqualFiles, RefusalReason> {
    let is_directory = match part.get("kind").and_then(Value::as_str) {
        Some("group") => false,
        Some("directories") if with_directories => true,
        Some("directories") => return Err(RefusalReason::WholeDirectory),
        _ => return Err(RefusalReason::NotAnEntry("it is not a group of files".to_owned())),
    };
    let reported: ReportedGroup = json::read(part.clone()).map_err(RefusalReason::NotAnEntry)?;
    let mut files: Vec<Equal> = Vec::new();
    let mut names = HashSet::new();
    let mut numbers = HashMap::new();
    for (at, entry) in reported.paths.into_iter().enumerate() {
        let wrong = |what| RefusalReason::WrongPath(at + 1, what);
        let own = origin.roots.get(entry.root as usize);
        let own = own.ok_or_else(|| wrong("has a root that is not in the list of roots"))?;
        let (path, root) = (entry.path.clone(), entry.root);
        // All names of a file in a reference have the number of the reference, wherever they are.
        if !is_below(own, &path) && !origin.roots.iter().any(|root| is_below(root, &path)) {
            return Err(wrong("is not below any of the roots"));
        }
        if !names.insert(path.clone()) {
            return Err(wrong("is listed twice"));
        }
        let file = entry.file(reported.bytes, is_directory);
        let file = file.ok_or_else(|| wrong("has no `own_bytes`, or a directory no `contents`"))?;
        let number = *numbers.entry(file.state.id()).or_insert_with(|| {
            files.push(file.clone());
            files.len() - 1
        });
        if files[number].state != file.state {
            return Err(wrong("has the inode of another path, but different times"));
        }
        files[number].names.push(FoundName { path, root });
    }
    Ok(EqualFiles {
        bytes: reported.bytes,
        files_in_each: None,
        proof: Proof::Bytes,
        gain_bytes: 0,
        files,
    })
}

/// Whether a search of this root may have reported this path.
fn is_below(root: &GivenRoot, path: &Path) -> bool {
    let rest = path.strip_prefix(&root.given);
    rest.is_ok_and(|rest| rest.components().all(|part| matches!(part, Component::Normal(_))))
}

/// The unchanged files of a group; and the others, with the reasons.
fn proven(
    mut group: EqualFiles,
    origin: &SearchOrigin,
    places: &mut CopyPlaces<'_>,
) -> (Option<EqualFiles>, Vec<(PathBuf, RefusalReason)>) {
    let mut refused = Vec::new();
    let mut is_reference_lost = false;
    group.files.retain_mut(|file| {
        let names = file.names.iter().map(|name| {
            let now = places.absolute(&name.path).and_then(|path| match &file.contents {
                None => origin.prove(&path, &file.state),
                Some(contents) => origin.prove_directory(&path, &file.state, contents),
            });
            now.map_err(|why| (name.path.clone(), why))
        });
        // All names of a file are acted on, or none.
        match names.collect::<Result<Vec<_>, _>>() {
            Ok(now) => {
                file.state = now.first().copied().unwrap_or(file.state);
                true
            }
            Err(reason) => {
                is_reference_lost |= file.names.iter().any(|name| places.is_root_reference(name.root));
                refused.push(reason);
                false
            }
        }
    });
    let has_reference =
        (group.files.iter()).any(|file| file.names.iter().any(|name| places.is_root_reference(name.root)));
    // Without its reference, the group would be treated as one that never had any.
    if is_reference_lost && !has_reference {
        return (None, refused);
    }
    (Some(group), refused)
}
