//! What is to be done, as a text that people may edit: a header, and a line for each name of a file.
//!
//! A line has a word and a path. The word is `keep` or that of the action, and may be changed: what a line keeps stays, and the others
//! are acted on. A blank line ends a group, of which at least one file stays. Each file is compared with one that stays at the moment of
//! acting: whatever a plan says, no content is lost.
//!
//! Not here: deciding what is done (`choose`), and doing it.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless_engine::files::{FileId, FileState, allocated_bytes, own_bytes};
use seekless_method::visible;
use seekless_sys::{Access, Directory};
use serde_json::Value;

use super::choose::{ActPlan, GroupChoice, RefusedPart};
use super::copies::SearchOrigin;
use super::rules::Rule;
use super::{Action, RefusalReason, StepOutcome, cannot};
use crate::dupes::{Equal, EqualFiles, FoundName, Proof};
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
    pub chosen: ActPlan,
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

/// Whether a line is neither blank nor a comment.
fn is_said(line: &[u8]) -> bool {
    !matches!(line.trim_ascii().first(), None | Some(b'#'))
}

fn header_of(line: &[u8]) -> Result<Value, String> {
    let text = line.strip_prefix(HEADER);
    let text = text.ok_or("its first line is not the header of a plan, which begins with `plan`")?;
    serde_json::from_slice(text).map_err(|error| format!("its header is not JSON: {error}"))
}

/// The text of a plan. Steps with an outcome are left out; `title` is the first comment, and `heading` one for each group.
#[must_use]
pub fn text(
    action: &Action,
    origin: &SearchOrigin,
    chosen: &ActPlan,
    left: &[Option<StepOutcome>],
    title: &str,
    heading: &dyn Fn(&GroupChoice) -> String,
) -> Vec<u8> {
    let header = origin.write(json::written(action));
    let word = action.word();
    let width = word.len().max(KEEP.len());
    let mut text = [HEADER, json::json_line(&header).as_bytes()].concat();
    let about = format!(
        "
# {title}
# Each line has a word and a path. You may change `{word}` to `{KEEP}` to leave a file alone,
# `{KEEP}` to `{word}` if another file of the group is kept, and delete lines.
# A blank line ends a group. Leave the line above as it is.
# In paths, `\\\\` is a backslash, and `\\x0a` the byte with these hexadecimal digits.
"
    );
    text.extend_from_slice(about.as_bytes());
    let mut rest = left;
    for choice in &chosen.choices {
        let (outcomes, more) = rest.split_at(choice.steps.len());
        rest = more;
        let steps = choice.steps.iter().zip(outcomes);
        let mut steps = steps.filter(|(_, left)| left.is_none()).peekable();
        if steps.peek().is_none() {
            continue;
        }
        text.extend_from_slice(format!("\n# {}\n", heading(choice)).as_bytes());
        let kept = choice.kept.iter().flat_map(|kept| &kept.paths).map(|path| (KEEP, path));
        let acted_on = steps.flat_map(|(step, _)| &step.file.paths).map(|path| (word, path));
        for (word, path) in kept.chain(acted_on) {
            text.extend_from_slice(format!("{word:width$} ").as_bytes());
            text.extend_from_slice(&written(path));
            text.push(b'\n');
        }
    }
    text
}

/// Reads a plan. Its groups are decided anew by the rule that what its lines keep stays.
///
/// # Errors
/// What is wrong with it as a whole.
pub fn read(text: &[u8]) -> Result<ReadPlan, String> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let mut lines = lines.filter(|(_, line)| !line.starts_with(b"#"));
    let header = lines.find(|(_, line)| !line.is_empty());
    let header = header_of(header.map_or(&[][..], |(_, line)| line))?;
    let mut origin = SearchOrigin::read(&header)?;
    // The paths of lines are absolute.
    for root in &mut origin.roots {
        root.given.clone_from(&root.path);
    }
    let action: Action = json::read(header)?;
    if matches!(&action, Action::Move { to } | Action::Trash { home: to } if !to.is_absolute()) {
        return Err("its `to` or `home` is not an absolute path".to_owned());
    }
    let mut said = PlanLines::default();
    for (at, line) in lines {
        if line.is_empty() {
            said.groups.paragraph += 1;
        } else {
            said.add(at + 1, line, action.word(), &origin);
        }
    }
    let mut groups = said.groups.all;
    for file in groups.iter_mut().flat_map(|group| &mut group.files) {
        if !file.names.iter().any(|name| said.kept.contains(&name.path)) {
            file.own_bytes = freed_bytes(&file.names);
        }
    }
    let mut chosen = ActPlan::of_groups(&action, &[Rule::Chosen(said.kept)], &origin, &groups);
    let done: HashSet<FileId> = chosen.steps().map(|step| step.file.state.id()).collect();
    let is_told = |path: &PathBuf| chosen.refused.iter().any(|told| told.path.as_ref() == Some(path));
    let left = said.acted_on.into_iter();
    let left = left.filter(|(_, path, id)| !done.contains(id) && !is_told(path));
    let stay = left.map(|(line, path, _)| refused(line, Some(path), RefusalReason::Stays));
    said.refused.extend(stay);
    chosen.refused.extend(said.refused);
    Ok(ReadPlan { action, chosen, origin })
}

fn refused(line: usize, path: Option<PathBuf>, why: RefusalReason) -> RefusedPart {
    let place = format!("line {line}");
    RefusedPart { place, path, why }
}

/// What the lines of a plan say.
#[derive(Default)]
struct PlanLines {
    groups: Groups,
    kept: HashSet<PathBuf>,
    /// What is acted on, and the number of the line.
    acted_on: Vec<(usize, PathBuf, FileId)>,
    refused: Vec<RefusedPart>,
}

impl PlanLines {
    fn add(&mut self, number: usize, line: &[u8], word: &'static str, origin: &SearchOrigin) {
        let (is_kept, path) = match line_of(line, word) {
            Ok(said) => said,
            Err(why) => return self.refused.push(refused(number, None, why)),
        };
        let (root, state) = match found(&path, origin) {
            Ok(found) => found,
            Err(why) => return self.refused.push(refused(number, Some(path), why)),
        };
        let name = FoundName {
            path: path.clone(),
            root,
        };
        self.groups.add(name, state);
        if is_kept {
            self.kept.insert(path);
        } else {
            self.acted_on.push((number, path, state.id()));
        }
    }
}

/// The groups of a plan: files of one size between two blank lines.
#[derive(Default)]
struct Groups {
    all: Vec<EqualFiles>,
    /// The number of blank lines before.
    paragraph: usize,
    /// The numbers of groups, by paragraph and size.
    numbers: HashMap<(usize, u64), usize>,
    /// The numbers of files in their groups.
    files: HashMap<(usize, FileId), usize>,
}

impl Groups {
    fn add(&mut self, name: FoundName, state: FileState) {
        let number = *self
            .numbers
            .entry((self.paragraph, state.bytes))
            .or_insert(self.all.len());
        if number == self.all.len() {
            self.all.push(EqualFiles {
                bytes: state.bytes,
                files_in_each: None,
                proof: Proof::Bytes,
                gain_bytes: 0,
                files: Vec::new(),
            });
        }
        let files = &mut self.all[number].files;
        let file = *self.files.entry((number, state.id())).or_insert(files.len());
        if file == files.len() {
            files.push(Equal {
                names: Vec::new(),
                state,
                own_bytes: 0,
                contents: None,
            });
        }
        files[file].names.push(name);
    }
}

/// Whether a line keeps a file, and the path of that.
fn line_of(line: &[u8], word: &'static str) -> Result<(bool, PathBuf), RefusalReason> {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (own, path) = line.split_at(end);
    let is_kept = own == KEEP.as_bytes();
    if !is_kept && own != word.as_bytes() {
        let own = visible(&String::from_utf8_lossy(own)).into_owned();
        return Err(RefusalReason::WrongWord(own, word));
    }
    Ok((is_kept, path_of(path.trim_ascii())?))
}

/// The file that a path leads to, and the number of the searched path that it is below.
fn found(path: &Path, origin: &SearchOrigin) -> Result<(u32, FileState), RefusalReason> {
    let root = origin.roots.iter().position(|root| path.starts_with(&root.path));
    let root = root.ok_or(RefusalReason::Stays)? as u32;
    let found = fs::symlink_metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RefusalReason::Gone,
        _ => cannot("stat")(error),
    })?;
    let is_file = found.is_file();
    is_file
        .then(|| (root, FileState::of(&found)))
        .ok_or(RefusalReason::NotRegular)
}

/// The space that is free if all names are removed, as far as the file system tells; 0 if that cannot be known.
fn freed_bytes(names: &[FoundName]) -> u64 {
    let open = || {
        let path = &names.first()?.path;
        let found = fs::symlink_metadata(path).ok()?;
        let directory = (found.nlink() <= names.len() as u64).then(|| Directory::open(path.parent()?).ok())??;
        directory.open_plain(path.file_name()?, Access::Read).ok()
    };
    let Some(file) = open() else { return 0 };
    let own = own_bytes(&file).ok().flatten();
    own.unwrap_or_else(|| file.metadata().map_or(0, |found| allocated_bytes(&found)))
}

/// A path as it is written: what is not printable UTF-8, a backslash, and a space at an end are escaped.
fn written(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    let escape = |text: &mut Vec<u8>, bytes: &[u8]| {
        text.extend(bytes.iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()));
    };
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        let mut bytes = [0; 4];
        for character in chunk.valid().chars() {
            let shown = &*character.encode_utf8(&mut bytes);
            match character {
                '\\' => text.extend_from_slice(b"\\\\"),
                _ if visible(shown) != shown => escape(&mut text, shown.as_bytes()),
                _ => text.extend_from_slice(shown.as_bytes()),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    // An editor may cut it off.
    if text.last() == Some(&b' ') {
        text.pop();
        escape(&mut text, b" ");
    }
    text
}

/// The reverse.
fn path_of(text: &[u8]) -> Result<PathBuf, RefusalReason> {
    let mut path = Vec::new();
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'\\' {
            path.push(*first);
            continue;
        }
        let digits = more.strip_prefix(b"x").and_then(|more| more.get(..2));
        let byte = digits.and_then(|digits| json::bytes_of(std::str::from_utf8(digits).ok()?));
        match (more.first(), byte.as_deref()) {
            (Some(b'\\'), _) => (path.push(b'\\'), rest = &more[1..]),
            (_, Some(&[byte])) if byte != 0 => (path.push(byte), rest = &more[3..]),
            _ => return Err(RefusalReason::WrongEscape),
        };
    }
    if path.is_empty() || path.contains(&0) {
        return Err(RefusalReason::NotPlain);
    }
    Ok(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_is_read_back_as_it_was_written_on_one_printable_line(
            bytes in prop::collection::vec(prop_oneof![1_u8.., Just(b'\\'), Just(b' '), Just(b'x')], 1..12),
        ) {
            let path = Path::new(OsStr::from_bytes(&bytes));
            let text = written(path);
            prop_assert_eq!(path_of(&text).unwrap(), path);
            let text = std::str::from_utf8(&text).unwrap();
            prop_assert!(visible(text) == text && !text.ends_with(' '), "{}", text);
        }
    }
}
