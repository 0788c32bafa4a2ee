//! What is to be done, as lines of JSON that people may edit: a header, and a line for each step.
//!
//! Lines may be removed. A changed line is checked: its file and the one that is kept must be what the
//! line says, and no file is acted on twice or kept by one step and acted on by another.
//!
//! Not here: deciding what is done (`choose`), and doing it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use seekless::files::{FileId, FileState};
use serde_json::Value;

use super::copies::CopyPlaces;
use super::origin::SearchOrigin;
use super::report::RefusedPart;
use super::{Action, Refused, Step};
use crate::json;

/// The longest first line that is read.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// A plan that was read back.
#[derive(Debug)]
pub struct ReadPlan {
    /// What is done.
    pub action: Action,
    /// The steps.
    pub steps: Vec<Step>,
    /// Lines that were refused.
    pub refused: Vec<RefusedPart>,
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
pub fn header(action: &Action, origin: &SearchOrigin) -> Value {
    let mut header = json::written(action);
    header["kind"] = "plan".into();
    origin.write(header)
}

/// The line of a step.
#[must_use]
pub fn line(action: &Action, step: &Step) -> Value {
    let mut line = json::written(step);
    line["kind"] = "step".into();
    line["action"] = action.word().into();
    line
}

/// Reads a plan.
///
/// # Errors
/// What is wrong with it as a whole.
pub fn read(text: &[u8]) -> Result<ReadPlan, String> {
    let mut lines = text.split(|byte| *byte == b'\n').enumerate();
    let first = lines.next().map_or(text, |(_, line)| line);
    let header: Value =
        serde_json::from_slice(first).map_err(|error| format!("the first line is not JSON: {error}"))?;
    if header.get("kind").is_none_or(|kind| kind != "plan") {
        return Err("the first line is not the header of a plan".to_owned());
    }
    let origin = SearchOrigin::read(&header)?;
    let action: Action = json::read(header)?;
    if matches!(&action, Action::Move { to } if !to.is_absolute()) {
        return Err("its `to` is not an absolute path".to_owned());
    }
    let (mut places, mut agreed) = (CopyPlaces::new(&origin), Agreed::default());
    let (mut steps, mut refused) = (Vec::new(), Vec::new());
    for (at, line) in lines {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let step = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"));
        let step = step.and_then(|line| step_of(line, &action));
        let step = step.map_err(|why| (None, why)).and_then(|step| {
            let step = proven(step, &action, &origin, &mut places)?;
            agreed
                .add(&step)
                .map_err(|why| (Some(step.file.paths[0].clone()), why))?;
            Ok(step)
        });
        match step {
            Ok(step) => steps.push(step),
            Err((path, why)) => refused.push(RefusedPart {
                place: format!("line {}", at + 1),
                path,
                why,
            }),
        }
    }
    Ok(ReadPlan { action, steps, refused })
}

fn step_of(line: Value, action: &Action) -> Result<Step, Refused> {
    if line.get("kind").is_none_or(|kind| kind != "step") {
        return Err("it is not a step".to_owned());
    }
    let word = action.word();
    if line.get("action").is_none_or(|named| named != word) {
        return Err(format!("its action differs from that of the header, `{word}`"));
    }
    let step: Step = json::read(line)?;
    match step.file.paths.len() {
        0 => Err("it has no path".to_owned()),
        1 => Ok(step),
        _ if step.file.is_directory => Err("a directory has one path".to_owned()),
        _ => Ok(step),
    }
}

/// A step whose files are unchanged, with the current device numbers.
fn proven(
    mut step: Step,
    action: &Action,
    origin: &SearchOrigin,
    places: &mut CopyPlaces<'_>,
) -> Result<Step, (Option<PathBuf>, Refused)> {
    let is_directory = step.file.is_directory;
    let mut prove = |path: &PathBuf, was: &FileState| {
        let now = match places.absolute(path) {
            Ok(absolute) if absolute.as_os_str() != path.as_os_str() => Err(
                "is not absolute, or its directory is a symbolic link, or has `.`, `..` or empty names in it"
                    .to_owned(),
            ),
            Ok(_) if is_directory => origin.prove_directory(path, was, None),
            Ok(_) => origin.prove(path, was),
            Err(why) => Err(why),
        };
        now.map_err(|why| (Some(path.clone()), why))
    };
    let was = step.file.state;
    for path in &step.file.paths {
        step.file.state = prove(path, &was)?;
    }
    step.keep.state = prove(&step.keep.path, &step.keep.state)?;
    let (paths, keep) = (&step.file.paths, &step.keep);
    let device = step.file.state.device;
    let is_poor = |places: &mut CopyPlaces<'_>, path, device| !is_directory && places.is_poor(path, device);
    let is_keep_poor = is_poor(places, &keep.path, keep.state.device);
    let why = if is_directory && !action.takes_directories() {
        "a directory can only be moved"
    } else if !is_directory && step.file.state.bytes != keep.state.bytes {
        "the file that is kept has another size"
    } else if paths.iter().any(|path| places.is_reference(path)) {
        "is in a reference, where everything stays"
    } else if !paths.iter().all(|path| places.is_below_a_root(path)) {
        "is not below a path that was searched"
    } else if action.is_on_one_file_system() && device != keep.state.device {
        "is on another file system than the file that is kept"
    } else if is_keep_poor && !paths.iter().all(|path| is_poor(places, path, device)) {
        "the file that is kept is in the trash, in a snapshot, or not on a file system that was searched"
    } else {
        return Ok(step);
    };
    Err((Some(paths[0].clone()), why.to_owned()))
}

/// Steps that do not contradict each other.
#[derive(Debug, Default)]
pub struct Agreed {
    acted_on: HashSet<FileId>,
    kept: HashSet<FileId>,
    /// Paths that are acted on, or kept.
    paths: HashMap<PathBuf, FileId>,
}

impl Agreed {
    /// Adds a step.
    ///
    /// # Errors
    /// How it contradicts an earlier one. It is not added.
    pub fn add(&mut self, step: &Step) -> Result<(), Refused> {
        let (file, keep) = (step.file.state.id(), step.keep.state.id());
        let paths = step.file.paths.iter().map(|path| (path, file));
        let named = paths.chain([(&step.keep.path, keep)]);
        let is_other = |(path, id): (&PathBuf, FileId)| self.paths.get(path).is_some_and(|known| *known != id);
        let why = if file == keep {
            "it is the file that is kept"
        } else if self.acted_on.contains(&file) {
            "it is already acted on"
        } else if self.kept.contains(&file) {
            "it is already kept for another file"
        } else if self.acted_on.contains(&keep) {
            "the file that is kept is already acted on"
        } else if named.clone().any(is_other) {
            "one of its paths already belongs to another file"
        } else {
            self.acted_on.insert(file);
            self.kept.insert(keep);
            self.paths.extend(named.map(|(path, id)| (path.clone(), id)));
            return Ok(());
        };
        Err(why.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ActedOn, KeptFile};
    use super::*;

    fn step(file: u64, keep: u64) -> Step {
        let state = |inode| FileState {
            device: 1,
            inode,
            bytes: 1,
            modified_ns: 0,
            changed_ns: 0,
        };
        Step {
            file: ActedOn {
                paths: vec![format!("/{file}").into()],
                state: state(file),
                is_directory: false,
            },
            keep: KeptFile {
                path: format!("/{keep}").into(),
                state: state(keep),
            },
            why: String::new(),
            own_bytes: 9,
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
        other.file.paths = vec!["/1".into()];
        assert!(agreed.add(&other).is_err());
        assert_eq!(agreed.add(&step(4, 5)), Ok(()));
    }

    #[test]
    fn a_step_is_read_back_as_it_was_written() {
        let action = Action::Hardlink;
        let step = step(1, 2);
        let line = line(&action, &step);
        assert_eq!(step_of(line.clone(), &action), Ok(step));
        assert!(step_of(line.clone(), &Action::Remove).is_err());
        let all = line.as_object().unwrap();
        for key in all.keys().filter(|key| *key != "kind") {
            let mut less = all.clone();
            less.remove(key);
            assert!(step_of(Value::Object(less), &action).is_err(), "{key}");
        }
    }
}
