//! What is to be done, as a text that people may edit: a header, and a line for each name of a file.
//!
//! A line has a word, a mark and a path. The word is `keep` or that of the action, and may be changed: what is done with a file is what
//! its line says. The mark names the group of the file, and tells whether the file is the one that was found: nothing is done with a
//! file that the search did not find, that has changed since, or that stays whatever the rules are. Each file that is acted on relies on
//! one of its group that a line keeps. Lines may be removed and put in another order; comments and blank lines are ignored.
//!
//! Not here: deciding what is done (`choose`), and doing it.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::files::{FileId, FileState, hexadecimal};
use seekless_method::visible;
use serde_json::Value;

use super::agreed::Agreed;
use super::choose::{Chosen, GroupChoice, KeepReason, KeptCopy};
use super::copies::CopyPlaces;
use super::directory::unshared_bytes;
use super::origin::SearchOrigin;
use super::path_text::{path_of, written};
use super::report::RefusedPart;
use super::{ActedOn, Action, KeptFile, RefusalReason, Step, StepOutcome};
use crate::json;

/// What the header begins with, before its JSON.
const HEADER: &[u8] = b"plan ";
/// The word for a file that is left alone, and on which others may rely.
const KEEP: &str = "keep";
/// How much of a file is read to see whether it is a plan.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// A plan that was read back.
#[derive(Debug)]
pub struct ReadPlan {
    /// What is done.
    pub action: Action,
    /// What is done with each group, and lines that were refused.
    pub chosen: Chosen,
    /// Where the search was made.
    pub origin: SearchOrigin,
}

/// Whether a file begins as a plan does.
#[must_use]
pub fn is_plan(file: &Path) -> bool {
    let Ok(file) = File::open(file) else { return false };
    let lines = BufReader::new(file).take(HEADER_BYTES_MAX).split(b'\n');
    let mut lines = lines.map_while(Result::ok).filter(|line| is_said(line));
    lines.next().is_some_and(|line| header_of(&line).is_ok())
}

/// Whether a line is more than a comment.
fn is_said(line: &[u8]) -> bool {
    !matches!(line.trim_ascii().first(), None | Some(b'#'))
}

fn header_of(line: &[u8]) -> Result<Value, String> {
    let text = line.strip_prefix(HEADER);
    let text = text.ok_or("its first line is not the header of a plan, which begins with `plan`")?;
    serde_json::from_slice(text).map_err(|error| format!("its header is not JSON: {error}"))
}

/// What identifies files in a plan.
struct Marks {
    /// The digest of its header: a mark of another plan is none of this one.
    digest: String,
}

/// What a mark says of a file, apart from its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MarkedFile {
    /// What it was at the search.
    state: FileState,
    is_directory: bool,
    /// Whether it stays whatever the rules are.
    is_fixed: bool,
}

impl Marks {
    fn of(&self, group: u64, file: &MarkedFile) -> String {
        let MarkedFile {
            state,
            is_directory,
            is_fixed,
        } = file;
        let mut text = format!(
            "{} {group} {is_directory} {is_fixed} {} {}",
            self.digest, state.device, state.inode
        );
        // The times of a directory change while the files in it are acted on.
        if !is_directory {
            let _ = write!(text, " {} {} {}", state.bytes, state.modified_ns, state.changed_ns);
        }
        let digest = blake3::derive_key("seekless dupes: mark of a file in a plan", text.as_bytes());
        format!("{group}-{}", hexadecimal(&digest[..8]))
    }
}

/// The text of a plan. Steps with an outcome are left out; `title` is the first comment, and `heading` one for each group.
#[must_use]
pub fn text(
    action: &Action,
    origin: &SearchOrigin,
    chosen: &Chosen,
    left: &[Option<StepOutcome>],
    title: &str,
    heading: &dyn Fn(&GroupChoice) -> String,
) -> Vec<u8> {
    let header = origin.write(json::written(action));
    let marks = Marks {
        digest: header["digest"].as_str().unwrap_or_default().to_owned(),
    };
    let word = action.word();
    let width = word.len().max(KEEP.len());
    let mut text = [HEADER, json::json_line(&header).as_bytes()].concat();
    let about = format!(
        "
# {title}
# Each line has a word, a mark and a path. You may change `{word}` to `{KEEP}` to leave a file
# alone, `{KEEP}` to `{word}` if another file of the group is kept, and delete lines.
# A group is what has the same number before the dash. The first file of a group that is kept is
# the one that the others are compared with. Leave the marks and the line above as they are.
# In paths, `\\\\` is a backslash, and `\\x0a` the byte with these hexadecimal digits.
"
    );
    text.extend_from_slice(about.as_bytes());
    let (mut rest, mut group) = (left, 0);
    for choice in &chosen.choices {
        let (outcomes, more) = rest.split_at(choice.steps.len());
        rest = more;
        let steps = choice.steps.iter().zip(outcomes);
        let steps: Vec<&Step> = steps.filter(|(_, left)| left.is_none()).map(|(step, _)| step).collect();
        for (kept, steps) in groups(choice, &steps) {
            group += 1;
            text.extend_from_slice(format!("\n# {}\n", heading(choice)).as_bytes());
            let mut line = |word: &str, paths: &[PathBuf], file: &MarkedFile| {
                for path in paths {
                    text.extend_from_slice(format!("{word:width$} {} ", marks.of(group, file)).as_bytes());
                    text.extend_from_slice(&written(path, file.is_directory));
                    text.push(b'\n');
                }
            };
            let is_directory = steps.first().is_some_and(|step| step.file.is_directory);
            for kept in &kept {
                let (state, is_fixed) = (kept.state, kept.is_fixed);
                line(
                    KEEP,
                    &kept.paths,
                    &MarkedFile {
                        state,
                        is_directory,
                        is_fixed,
                    },
                );
            }
            for step in steps {
                let (state, is_fixed) = (step.file.state, false);
                line(
                    word,
                    &step.file.paths,
                    &MarkedFile {
                        state,
                        is_directory,
                        is_fixed,
                    },
                );
            }
        }
    }
    text
}

/// The files that are kept and the steps that rely on them: all of a group of files, or those for each file in a directory.
fn groups<'a>(choice: &GroupChoice, steps: &[&'a Step]) -> Vec<(Vec<KeptCopy>, Vec<&'a Step>)> {
    if choice.files.is_none() {
        let is_any = !steps.is_empty();
        return is_any
            .then(|| (choice.kept.clone(), steps.to_vec()))
            .into_iter()
            .collect();
    }
    let mut groups: Vec<(Vec<KeptCopy>, Vec<&Step>)> = Vec::new();
    let mut numbers = HashMap::new();
    for step in steps {
        let keep = &step.keep;
        let number = *numbers.entry(&keep.path).or_insert_with(|| {
            let of = choice.kept.iter().find(|kept| keep.path.starts_with(&kept.paths[0]));
            let kept = KeptCopy {
                paths: vec![keep.path.clone()],
                state: keep.state,
                why: step.why.clone(),
                is_fixed: of.is_some_and(|kept| kept.is_fixed),
            };
            groups.push((vec![kept], Vec::new()));
            groups.len() - 1
        });
        groups[number].1.push(step);
    }
    groups
}

/// A line, as it says.
struct PlanLine {
    is_kept: bool,
    group: u64,
    mark: String,
    path: PathBuf,
    is_directory: bool,
}

impl PlanLine {
    fn of(line: &[u8], action: &Action) -> Result<Self, RefusalReason> {
        let part = |text: &mut &[u8]| {
            let trimmed = text.trim_ascii();
            let end = trimmed
                .iter()
                .position(u8::is_ascii_whitespace)
                .unwrap_or(trimmed.len());
            let (part, rest) = trimmed.split_at(end);
            *text = rest;
            String::from_utf8_lossy(part).into_owned()
        };
        let mut rest = line;
        let (word, mark) = (part(&mut rest), part(&mut rest));
        let is_kept = word == KEEP;
        if !is_kept && word != action.word() {
            return Err(RefusalReason::WrongWord(visible(&word).into_owned(), action.word()));
        }
        let group = mark.split_once('-').and_then(|(group, _)| group.parse().ok());
        let text = rest.trim_ascii();
        Ok(Self {
            is_kept,
            group: group.ok_or(RefusalReason::NoMark)?,
            mark,
            path: path_of(text.strip_suffix(b"/").unwrap_or(text))?,
            is_directory: text.ends_with(b"/"),
        })
    }
}

/// A line whose file is what was found.
struct ProvenLine {
    number: usize,
    is_kept: bool,
    path: PathBuf,
    /// With the number that its device has now.
    state: FileState,
    is_directory: bool,
    is_fixed: bool,
}

/// What the lines of a group say.
#[derive(Default)]
struct PlanGroup {
    kept: Vec<ProvenLine>,
    /// Files that are acted on, each with its names.
    files: Vec<Vec<ProvenLine>>,
    /// Their numbers.
    numbers: HashMap<FileId, usize>,
}

/// Reads a plan.
///
/// # Errors
/// What is wrong with it as a whole.
pub fn read(text: &[u8]) -> Result<ReadPlan, String> {
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let mut lines = lines.map(|(at, line)| (at + 1, line)).filter(|(_, line)| is_said(line));
    let header = header_of(lines.next().map_or(&[][..], |(_, line)| line))?;
    let origin = SearchOrigin::read(&header)?;
    let marks = Marks {
        digest: header["digest"].as_str().unwrap_or_default().to_owned(),
    };
    let action: Action = json::read(header)?;
    if matches!(&action, Action::Move { to } | Action::Trash { home: to } if !to.is_absolute()) {
        return Err("its `to` or `home` is not an absolute path".to_owned());
    }
    let mut reading = Reading {
        action: &action,
        origin: &origin,
        places: CopyPlaces::new(&origin, &action),
        marks,
        kept: HashMap::new(),
        agreed: Agreed::of(&action),
        chosen: Chosen::default(),
    };
    let (mut groups, mut numbers): (Vec<PlanGroup>, HashMap<u64, usize>) = Default::default();
    let mut paths = HashMap::new();
    for (number, line) in lines {
        let proven = PlanLine::of(line, &action).map_err(|why| (None, why)).and_then(|line| {
            let (group, path) = (line.group, line.path.clone());
            let proven = reading.prove(number, line).map_err(|why| (Some(path.clone()), why))?;
            let before = *paths.entry((path.clone(), proven.is_kept)).or_insert(number);
            if before != number {
                return Err((Some(path), RefusalReason::OnLine(before)));
            }
            Ok((group, proven))
        });
        match proven {
            Ok((group, line)) => {
                let at = *numbers.entry(group).or_insert_with(|| {
                    groups.push(PlanGroup::default());
                    groups.len() - 1
                });
                groups[at].add(line, &mut reading.kept);
            }
            Err((path, why)) => reading.refuse(number, path, why),
        }
    }
    for group in groups {
        reading.choose(group);
    }
    let chosen = reading.chosen;
    Ok(ReadPlan { action, chosen, origin })
}

impl PlanGroup {
    fn add(&mut self, line: ProvenLine, kept: &mut HashMap<FileId, usize>) {
        if line.is_kept {
            kept.entry(line.state.id()).or_insert(line.number);
            self.kept.push(line);
            return;
        }
        let number = *self.numbers.entry(line.state.id()).or_insert(self.files.len());
        if number == self.files.len() {
            self.files.push(Vec::new());
        }
        self.files[number].push(line);
    }
}

/// A plan that is being read.
struct Reading<'a> {
    action: &'a Action,
    origin: &'a SearchOrigin,
    places: CopyPlaces<'a>,
    marks: Marks,
    /// The files that are kept, and the first line that says so.
    kept: HashMap<FileId, usize>,
    agreed: Agreed,
    chosen: Chosen,
}

impl Reading<'_> {
    fn refuse(&mut self, line: usize, path: Option<PathBuf>, why: RefusalReason) {
        self.chosen.refused.push(RefusedPart {
            place: format!("line {line}"),
            path,
            why,
        });
    }

    /// Proves that the file of a line is the one that was found.
    fn prove(&mut self, number: usize, line: PlanLine) -> Result<ProvenLine, RefusalReason> {
        if self.places.absolute(&line.path)?.as_os_str() != line.path.as_os_str() {
            return Err(RefusalReason::NotPlain);
        }
        let (group, is_directory, is_fixed) = (line.group, line.is_directory, Cell::new(false));
        let is_it = |state: FileState| {
            [false, true].into_iter().any(|fixed| {
                is_fixed.set(fixed);
                let file = MarkedFile {
                    state,
                    is_directory,
                    is_fixed: fixed,
                };
                self.marks.of(group, &file) == line.mark
            })
        };
        Ok(ProvenLine {
            number,
            state: self.origin.recognise(&line.path, is_directory, is_it)?,
            is_kept: line.is_kept,
            path: line.path,
            is_directory,
            is_fixed: is_fixed.get(),
        })
    }

    /// Decides what is done with the files of a group.
    fn choose(&mut self, group: PlanGroup) {
        let mut choice = GroupChoice::default();
        for file in group.files {
            let (line, path) = (file[0].number, file[0].path.clone());
            let step = self.step(file, &group.kept);
            match step.and_then(|step| self.agreed.add(&step).map(|()| step)) {
                Ok(step) => choice.steps.push(step),
                Err(why) => self.refuse(line, Some(path), why),
            }
        }
        let Some(first) = choice.steps.first() else {
            self.chosen.whole += u64::from(!group.kept.is_empty());
            return;
        };
        choice.bytes = first.file.state.bytes;
        for kept in group.kept.into_iter().filter(|kept| !kept.is_directory) {
            match choice.kept.last_mut().filter(|copy| copy.state.id() == kept.state.id()) {
                Some(copy) => copy.paths.push(kept.path),
                None => choice.kept.push(KeptCopy {
                    paths: vec![kept.path],
                    state: kept.state,
                    why: KeepReason::Planned,
                    is_fixed: kept.is_fixed,
                }),
            }
        }
        self.chosen.choices.push(choice);
    }

    /// The step for a file that is acted on.
    fn step(&mut self, file: Vec<ProvenLine>, kept: &[ProvenLine]) -> Result<Step, RefusalReason> {
        let (state, is_directory) = (file[0].state, file[0].is_directory);
        let is_of_names = *self.action == Action::Names;
        if let Some(line) = self.kept.get(&state.id()).filter(|_| !is_of_names) {
            return Err(RefusalReason::KeptByLine(*line));
        }
        let is_linked = self.action.is_on_one_file_system();
        let file_system = |line: &ProvenLine| self.places.file_system(&line.path, is_directory, line.state.device);
        let is_near = |keep: &&ProvenLine| !is_linked || file_system(keep) == file_system(&file[0]);
        let near: Vec<&ProvenLine> = kept.iter().filter(is_near).collect();
        let places = &mut self.places;
        let mut is_poor = |line: &ProvenLine| !line.is_directory && places.is_poor(&line.path, line.state.device);
        let fits = |keep: &&ProvenLine| {
            let is_equal = keep.state.bytes == state.bytes && (!is_of_names || keep.state.id() == state.id());
            keep.is_directory == is_directory && (is_directory || is_equal)
        };
        let fitting = || near.iter().copied().filter(fits);
        let keep = fitting().find(|keep| !is_poor(keep)).or_else(|| fitting().next());
        let keep = keep.ok_or(RefusalReason::NothingKept)?;
        let is_keep_poor = is_poor(keep);
        let why = if is_keep_poor && !file.iter().all(is_poor) {
            RefusalReason::PoorKept
        } else if is_directory && !self.action.takes_directories() {
            RefusalReason::OnlyMoved
        } else if file.iter().any(|line| line.is_fixed || places.is_reference(&line.path)) {
            RefusalReason::AlwaysStays
        } else if !file.iter().all(|line| places.is_below_a_root(&line.path)) {
            RefusalReason::NotSearched
        } else {
            let mut paths: Vec<PathBuf> = file.into_iter().map(|line| line.path).collect();
            let mut entries = HashSet::new();
            // A bind mount shows one entry under two paths.
            paths.retain(|path| self.places.entry(path).is_none_or(|entry| entries.insert(entry)));
            return Ok(Step {
                own_bytes: if is_directory { 0 } else { own_bytes(&paths) },
                file: ActedOn {
                    paths,
                    state,
                    is_directory,
                },
                keep: KeptFile {
                    path: keep.path.clone(),
                    state: keep.state,
                },
                why: KeepReason::Planned,
            });
        };
        Err(why)
    }
}

/// The space that is free if all names are removed.
fn own_bytes(paths: &[PathBuf]) -> u64 {
    let found = fs::symlink_metadata(&paths[0]);
    let is_all = found.is_ok_and(|found| found.nlink() <= paths.len() as u64);
    if is_all { unshared_bytes(&paths[0]) } else { 0 }
}
