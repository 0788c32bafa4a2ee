//! What is to be done, as lines of JSON that people may edit: a header, and a line for each step, which is a file or a directory.
//!
//! Lines may be removed. A changed line is checked: its file and the one that is kept must be what the
//! line says, and no file is acted on twice or kept by one step and acted on by another.
//!
//! Not here: deciding what is done (`choose`), and doing it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::copies::Places;
use super::origin::{Origin, Prover, absolute_in};
use super::report::Refused;
use super::{Action, Contents, Seen, Step};
use crate::json::with_path;

/// The longest first line that is read.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// A plan that was read back.
#[derive(Debug)]
pub struct Plan {
    /// What is done.
    pub action: Action,
    /// The steps, and the space that each file shares with no other.
    pub steps: Vec<(Step, u64)>,
    /// Lines that were refused.
    pub refused: Vec<Refused>,
}

/// Whether a file begins as a plan does.
#[must_use]
pub fn is_plan(file: &Path) -> bool {
    let mut first = Vec::new();
    let read = File::open(file).and_then(|file| {
        let mut file = BufReader::new(file).take(HEADER_BYTES_MAX);
        file.read_until(b'\n', &mut first)
    });
    read.is_ok() && serde_json::from_slice::<Value>(&first).is_ok_and(|header| header["kind"] == "plan")
}

/// The header of a plan.
#[must_use]
pub fn header(action: &Action, origin: &Origin) -> Value {
    let mut header = json!({"kind": "plan", "action": word(action)});
    match action {
        Action::Move { to } => header = with_path(header, "to", Some(to)),
        Action::Symlink { is_absolute } => header["is_absolute"] = (*is_absolute).into(),
        _ => {}
    }
    origin.write(header)
}

/// The line of a step.
#[must_use]
pub fn line(action: &Action, step: &Step, own_bytes: u64) -> Value {
    let paths = step.paths.iter().map(|path| with_path(json!({}), "path", Some(path)));
    let mut file = seen_json(&step.seen);
    file["paths"] = paths.collect();
    json!({
        "kind": "step",
        "action": word(action),
        "file": file,
        "keep": with_path(seen_json(&step.keep_seen), "path", Some(&step.keep)),
        "why": step.why,
        "own_bytes": own_bytes,
    })
}

/// The word for an action.
#[must_use]
pub fn word(action: &Action) -> &'static str {
    match action {
        Action::Remove => "remove",
        Action::Hardlink => "hardlink",
        Action::Symlink { .. } => "symlink",
        Action::Reflink => "reflink",
        Action::Move { .. } => "move",
    }
}

fn seen_json(seen: &Seen) -> Value {
    let mut object = json!({
        "device": seen.device,
        "inode": seen.inode,
        "bytes": seen.bytes,
        "modified_ns": seen.modified_ns,
        "changed_ns": seen.changed_ns,
    });
    if let Some(contents) = seen.contents {
        object["contents"] = json!(contents);
    }
    object
}

/// What is in a directory; `None` if that is missing or invalid.
pub(super) fn contents_in(object: &Value) -> Option<Contents> {
    serde_json::from_value(object.get("contents")?.clone()).ok()
}

/// Reads a plan.
///
/// # Errors
/// What is wrong with it as a whole.
pub fn read(text: &[u8]) -> Result<Plan, String> {
    let mut lines = text.split(|byte| *byte == b'\n').enumerate();
    let first = lines.next().map_or(text, |(_, line)| line);
    let header: Value =
        serde_json::from_slice(first).map_err(|error| format!("the first line is not JSON: {error}"))?;
    if header.get("kind").is_none_or(|kind| kind != "plan") {
        return Err("the first line is not the header of a plan".to_owned());
    }
    let origin = Origin::read(&header)?;
    let action = action_of(&header)?;
    let (mut prover, mut places, mut agreed) = (Prover::new(&origin), Places::new(&origin), Agreed::default());
    let (mut steps, mut refused) = (Vec::new(), Vec::new());
    for (at, line) in lines {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let step = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"));
        let step = step.and_then(|line| step_of(&line, &action));
        let step = step.map_err(|why| (None, why)).and_then(|(step, own_bytes)| {
            let step = proven(step, &action, &mut prover, &mut places)?;
            agreed.add(&step).map_err(|why| (Some(step.paths[0].clone()), why))?;
            Ok((step, own_bytes))
        });
        match step {
            Ok(step) => steps.push(step),
            Err((path, why)) => refused.push(Refused {
                place: format!("line {}", at + 1),
                path,
                why,
            }),
        }
    }
    Ok(Plan { action, steps, refused })
}

fn action_of(header: &Value) -> Result<Action, String> {
    Ok(match header.get("action").and_then(Value::as_str) {
        Some("remove") => Action::Remove,
        Some("hardlink") => Action::Hardlink,
        Some("symlink") => {
            let is_absolute = header.get("is_absolute").and_then(Value::as_bool);
            let is_absolute = is_absolute.ok_or("its header has no valid `is_absolute`")?;
            Action::Symlink { is_absolute }
        }
        Some("reflink") => Action::Reflink,
        Some("move") => {
            let to = absolute_in(header, "to").ok_or("its header has no valid `to`")?;
            Action::Move { to }
        }
        _ => return Err("its header has no valid `action`".to_owned()),
    })
}

fn step_of(line: &Value, action: &Action) -> Result<(Step, u64), String> {
    let missing = |name: &str| format!("`{name}` is missing or damaged");
    if line.get("kind").is_none_or(|kind| kind != "step") {
        return Err("it is not a step".to_owned());
    }
    let named = line
        .get("action")
        .and_then(Value::as_str)
        .ok_or_else(|| missing("action"))?;
    if named != word(action) {
        return Err(format!(
            "its action differs from that of the header, `{}`",
            word(action)
        ));
    }
    let (file, keep) = (&line["file"], &line["keep"]);
    let paths = file
        .get("paths")
        .and_then(Value::as_array)
        .filter(|paths| !paths.is_empty());
    let paths = paths.and_then(|paths| paths.iter().map(|path| absolute_in(path, "path")).collect());
    let step = Step {
        paths: paths.ok_or_else(|| missing("paths"))?,
        seen: seen_in(file).ok_or_else(|| missing("file"))?,
        keep: absolute_in(keep, "path").ok_or_else(|| missing("keep"))?,
        keep_seen: seen_in(keep).ok_or_else(|| missing("keep"))?,
        why: line
            .get("why")
            .and_then(Value::as_str)
            .ok_or_else(|| missing("why"))?
            .to_owned(),
    };
    let own_bytes = line.get("own_bytes").and_then(Value::as_u64);
    Ok((step, own_bytes.ok_or_else(|| missing("own_bytes"))?))
}

fn seen_in(object: &Value) -> Option<Seen> {
    Some(Seen {
        device: object.get("device")?.as_u64()?,
        inode: object.get("inode")?.as_u64()?,
        bytes: object.get("bytes")?.as_u64()?,
        modified_ns: object.get("modified_ns")?.as_i64()?,
        changed_ns: object.get("changed_ns")?.as_i64()?,
        contents: match object.get("contents") {
            None => None,
            Some(_) => Some(contents_in(object)?),
        },
    })
}

/// A step whose files are unchanged, with the current device numbers.
fn proven(
    mut step: Step,
    action: &Action,
    prover: &mut Prover<'_>,
    places: &mut Places<'_>,
) -> Result<Step, (Option<PathBuf>, String)> {
    let mut prove = |path: &PathBuf, seen: &Seen| {
        let now = match places.absolute(path) {
            Ok(absolute) if absolute.as_os_str() == path.as_os_str() => prover.prove(path, seen),
            Ok(_) => Err("its directory is a symbolic link, or has `.`, `..` or empty names in it".to_owned()),
            Err(why) => Err(why),
        };
        now.map_err(|why| (Some(path.clone()), why))
    };
    let seen = step.seen;
    for path in &step.paths {
        step.seen = prove(path, &seen)?;
    }
    step.keep_seen = prove(&step.keep, &step.keep_seen)?;
    let refuse = |why: &str| Err((Some(step.paths[0].clone()), why.to_owned()));
    let is_directory = step.seen.contents.is_some();
    if is_directory != step.keep_seen.contents.is_some() {
        return refuse("either it or what is kept is a directory, but not both");
    }
    if is_directory && (!matches!(action, Action::Move { .. }) || step.paths.len() > 1) {
        return refuse("a directory can only be moved, and has one path");
    }
    if is_directory && places.holds_reference(&step.paths[0]) {
        return refuse("holds a reference, where everything stays");
    }
    if step.seen.bytes != step.keep_seen.bytes {
        return refuse("the file that is kept has another size");
    }
    if step.paths.iter().any(|path| places.is_reference(path)) {
        return refuse("is in a reference, where everything stays");
    }
    if !step.paths.iter().all(|path| places.is_below_a_root(path)) {
        return refuse("is not below a path that was searched");
    }
    let device = step.seen.device;
    let is_linked = matches!(action, Action::Hardlink | Action::Reflink);
    if is_linked && device != step.keep_seen.device {
        return refuse("is on another file system than the file that is kept");
    }
    let is_keep_poor =
        places.is_poor(&step.keep, step.keep_seen.device) || is_directory && places.is_poor_in(&step.keep);
    if is_keep_poor && !step.paths.iter().all(|path| places.is_poor(path, device)) {
        return refuse(
            "the file that is kept is in the trash, in a snapshot, or not on a file system that was searched",
        );
    }
    Ok(step)
}

/// Steps that do not contradict each other.
#[derive(Debug, Default)]
pub struct Agreed {
    acted_on: HashSet<(u64, u64)>,
    kept: HashSet<(u64, u64)>,
    /// Paths that are acted on, or kept.
    paths: HashMap<PathBuf, (u64, u64)>,
    /// Directories that are acted on as a whole, and those that are kept as a whole.
    whole: [HashSet<PathBuf>; 2],
    /// Directories that hold something that is acted on, and those that hold something that is kept.
    above: [HashSet<PathBuf>; 2],
}

/// Indices in [`Agreed::whole`] and [`Agreed::above`].
const ACTED_ON: usize = 0;
const KEPT: usize = 1;

impl Agreed {
    /// Adds a step.
    ///
    /// # Errors
    /// How it contradicts an earlier one. It is not added.
    pub fn add(&mut self, step: &Step) -> Result<(), String> {
        let id = |seen: &Seen| (seen.device, seen.inode);
        let (file, keep) = (id(&step.seen), id(&step.keep_seen));
        let named = step.paths.iter().map(|path| (path, file)).chain([(&step.keep, keep)]);
        let is_other = |(path, id): (&PathBuf, (u64, u64))| self.paths.get(path).is_some_and(|known| *known != id);
        match () {
            () if file == keep => Err("it is the file that is kept".to_owned()),
            () if self.acted_on.contains(&file) => Err("it is already acted on".to_owned()),
            () if self.kept.contains(&file) => Err("it is already kept for another file".to_owned()),
            () if self.acted_on.contains(&keep) => Err("the file that is kept is already acted on".to_owned()),
            () if named.clone().any(is_other) => Err("one of its paths already belongs to another file".to_owned()),
            () => {
                self.require_apart(step)?;
                for path in &step.paths {
                    self.note(ACTED_ON, path, &step.seen);
                }
                self.note(KEPT, &step.keep, &step.keep_seen);
                self.acted_on.insert(file);
                self.kept.insert(keep);
                self.paths.extend(named.map(|(path, id)| (path.clone(), id)));
                Ok(())
            }
        }
    }

    /// Fails if a step acts on something in a directory that another step acts on or keeps as a whole, or the reverse.
    fn require_apart(&self, step: &Step) -> Result<(), String> {
        let is_in = |path: &Path, which: usize| {
            let mut above = path.ancestors().skip(1);
            !self.whole[which].is_empty() && above.any(|directory| self.whole[which].contains(directory))
        };
        let holds =
            |path: &Path, seen: &Seen, which: usize| seen.contents.is_some() && self.above[which].contains(path);
        for path in &step.paths {
            match () {
                () if is_in(path, ACTED_ON) => return Err("it is in a directory that is already acted on".to_owned()),
                () if is_in(path, KEPT) => return Err("it is in a directory that is already kept".to_owned()),
                () if holds(path, &step.seen, ACTED_ON) => {
                    return Err("something in it is already acted on".to_owned());
                }
                () if holds(path, &step.seen, KEPT) => return Err("something in it is already kept".to_owned()),
                () if step.seen.contents.is_some() && (path.starts_with(&step.keep) || step.keep.starts_with(path)) => {
                    return Err("it holds the directory that is kept, or is in it".to_owned());
                }
                () => {}
            }
        }
        match () {
            () if is_in(&step.keep, ACTED_ON) => {
                Err("what is kept is in a directory that is already acted on".to_owned())
            }
            () if holds(&step.keep, &step.keep_seen, ACTED_ON) => {
                Err("something in the directory that is kept is already acted on".to_owned())
            }
            () => Ok(()),
        }
    }

    fn note(&mut self, which: usize, path: &Path, seen: &Seen) {
        if seen.contents.is_some() {
            self.whole[which].insert(path.to_owned());
        }
        for directory in path.ancestors().skip(1) {
            // The directories above it are there, too.
            if !self.above[which].insert(directory.to_owned()) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(file: u64, keep: u64) -> Step {
        let seen = |inode| Seen {
            device: 1,
            inode,
            bytes: 1,
            modified_ns: 0,
            changed_ns: 0,
            contents: None,
        };
        Step {
            paths: vec![format!("/{file}").into()],
            seen: seen(file),
            keep: format!("/{keep}").into(),
            keep_seen: seen(keep),
            why: String::new(),
        }
    }

    #[test]
    fn no_file_is_acted_on_twice_or_kept_and_acted_on() {
        let mut agreed = Agreed::default();
        assert_eq!(agreed.add(&step(1, 2)), Ok(()));
        assert_eq!(agreed.add(&step(3, 2)), Ok(()));
        for (file, keep, why) in [
            (4, 4, "the file that is kept"),
            (1, 5, "already acted on"),
            (2, 5, "kept for another"),
            (2, 1, "kept for another"),
            (4, 3, "the file that is kept is already acted on"),
        ] {
            let refused = agreed.add(&step(file, keep)).unwrap_err();
            assert!(refused.contains(why), "{file} {keep}: {refused}");
        }
        let mut other = step(6, 2);
        other.paths = vec!["/1".into()];
        assert!(agreed.add(&other).is_err());
        assert_eq!(agreed.add(&step(4, 5)), Ok(()));
    }

    #[test]
    fn a_step_is_read_back_as_it_was_written() {
        let action = Action::Hardlink;
        let step = step(1, 2);
        let line = line(&action, &step, 9);
        assert_eq!(step_of(&line, &action), Ok((step, 9)));
        assert!(step_of(&line, &Action::Remove).is_err());
        let all = line.as_object().unwrap();
        for key in all.keys().filter(|key| *key != "kind") {
            let mut less = all.clone();
            less.remove(key);
            assert!(step_of(&Value::Object(less), &action).is_err(), "{key}");
        }
    }
}
