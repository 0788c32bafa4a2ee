//! The differences of two trees: a line or an object for each, and a summary.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::FileType;
use seekless_results::{bytes, rate, visible};
use seekless_tools::JobProgress;
use seekless_tools::tree::{
    self, Attribute, ContentsDiffer, EntryDifference, SameSize, Side, TreeEvent, TreeFinding, TreeSummary,
};
use serde_json::{Value, json};

use super::escape::{json_line, object, visible_path, with_path};
use super::objects::{JsonForm, Objects};
use super::progress::{Amount, PROGRESS, stderr};
use super::units::{counted, files, plural, seconds, thousands};
use super::wrap::{Width, wrapped};
use crate::call;

/// How differences are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line for each, as that of `diff -rq`, with the place or values that diff omits.
    Lines,
    /// Without them.
    Brief,
    /// Names alone, unescaped, each followed by a zero byte.
    Null,
    /// JSON objects.
    Json(JsonForm),
    /// Nothing.
    Silent,
}

/// Writes what is found in two trees as it is found.
pub struct Differences<'a> {
    out: Box<dyn Write + Send + 'a>,
    roots: [&'a Path; 2],
    form: Form,
    objects: Objects,
    /// The last name written, so that a pair with several differences is named once.
    last: Option<PathBuf>,
    /// Whether the output is a terminal.
    is_watched: bool,
    begun: Instant,
    /// Differences that were found.
    found: u64,
    broken: Option<io::Error>,
}

impl<'a> Differences<'a> {
    /// Receives what was found.
    pub fn event(&mut self, event: TreeEvent<'_>) -> ControlFlow<()> {
        let TreeEvent { path, found } = event;
        self.found += u64::from(matches!(found, TreeFinding::Difference(_)));
        let mut written = self.write(path, found);
        if self.is_watched {
            written = written.and_then(|()| self.out.flush());
        }
        if let Err(error) = written {
            self.broken = Some(error);
            return ControlFlow::Break(());
        }
        // A later failure would change the exit code, but the first difference ends the job nevertheless.
        if self.form == Form::Silent {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Shows how far the comparison is.
    pub fn progress(&mut self, progress: &JobProgress) {
        let (seconds, large) = (self.begun.elapsed().as_secs_f64(), progress.large.as_ref());
        let part = large.map(|pair| pair.done_bytes as f64 / pair.of_bytes.max(1) as f64);
        let (files, size) = (files(progress.done_entries), bytes(progress.done_bytes));
        let (rate, differences) = (rate(progress.done_bytes as f64 / seconds), thousands(self.found));
        let words = format!("{files}, {size}, {rate}, {differences} differ");
        let name = visible_path(large.map_or(self.roots[0], |pair| &pair.path));
        PROGRESS.set("comparing", name, Amount::Words(words, part));
        // Flush, so that a reader sees the differences found so far.
        if let Err(error) = self.out.flush() {
            self.broken.get_or_insert(error);
        }
    }

    /// For two trees with these names.
    pub fn new(out: impl Write + Send + 'a, roots: [&'a Path; 2], form: Form) -> Self {
        let json = match form {
            Form::Json(form) => Some(form),
            _ => None,
        };
        Self {
            out: Box::new(out),
            roots,
            form,
            objects: Objects::new(json, "results"),
            last: None,
            is_watched: call::output().is_terminal(),
            begun: Instant::now(),
            found: 0,
            broken: None,
        }
    }

    /// Writes a finding; a failure also to standard error.
    fn write(&mut self, path: &Path, what: &TreeFinding) -> io::Result<()> {
        let paths = [0, 1].map(|side: usize| below(self.roots[side], path));
        match (what, self.form) {
            (_, Form::Silent) => Ok(()),
            (TreeFinding::Failed { side, action, reason }, _) => {
                let path = &paths[*side as usize];
                let sentence = format!("{}: cannot {action}: {}", visible_path(path), visible(reason));
                // Standard error may be closed.
                let _ = writeln!(stderr(), "seekless: {sentence}");
                let failed = object("failed", json!({"action": action, "reason": reason}), Some(path));
                self.objects.write(&mut self.out, &failed)
            }
            (TreeFinding::Difference(difference), Form::Lines | Form::Brief) => {
                let (line, more) = line(difference, &paths, self.roots);
                let more = more.filter(|_| self.form == Form::Lines);
                let more = more.map_or_else(String::new, |more| format!(": {more}"));
                writeln!(self.out, "{line}{more}")
            }
            (TreeFinding::Difference(difference), Form::Json(_)) => {
                self.objects.write(&mut self.out, &difference_json(difference, &paths))
            }
            (TreeFinding::Difference(difference), Form::Null) => self.write_name(difference, paths),
        }
    }

    fn write_name(&mut self, difference: &EntryDifference, paths: [PathBuf; 2]) -> io::Result<()> {
        let [one, other] = paths;
        let path = match difference {
            EntryDifference::OnlyIn(Side::Right, _) => other,
            _ => one,
        };
        if self.last.as_ref() == Some(&path) {
            return Ok(());
        }
        self.out.write_all(path.as_os_str().as_bytes())?;
        self.out.write_all(&[0])?;
        self.last = Some(path);
        Ok(())
    }

    /// Ends the output; with `has_stats`, writes a summary to standard error.
    pub fn finish(mut self, summary: &TreeSummary, has_stats: bool) -> io::Result<()> {
        PROGRESS.end();
        if let Some(error) = self.broken {
            return Err(error);
        }
        let elapsed_seconds = self.begun.elapsed().as_secs_f64();
        let mut object = json!(summary);
        object["kind"] = "summary".into();
        object["seconds"] = elapsed_seconds.into();
        self.objects.finish(&mut self.out, &object)?;
        self.out.flush()?;
        if has_stats {
            let sentence = summary_sentence(summary, elapsed_seconds);
            // Standard error may be closed.
            let _ = writeln!(stderr(), "{}", wrapped(0, &sentence, Width::of_stdout()));
        }
        Ok(())
    }
}

/// A path below a root, which may be the root itself. As in diff, slashes at the end of the root count as one.
fn below(root: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        root.to_owned()
    } else {
        let bytes = root.as_os_str().as_bytes();
        let slashes = bytes.iter().rev().take_while(|byte| **byte == b'/').count();
        Path::new(OsStr::from_bytes(&bytes[..bytes.len() - slashes.saturating_sub(1)])).join(path)
    }
}

/// A difference in the words of `diff -rq`, and the place or values that diff omits.
fn line(difference: &EntryDifference, paths: &[PathBuf; 2], roots: [&Path; 2]) -> (String, Option<String>) {
    let [one, other] = paths.each_ref().map(|path| visible_path(path));
    let differ = |what: &str| format!("{what} {one} and {other} differ");
    let (line, more) = match difference {
        EntryDifference::OnlyIn(side, _) => {
            let path = &paths[*side as usize];
            let parent = path.parent().unwrap_or(Path::new(""));
            // A root is named as it was given, such as `a/`.
            let root = roots[*side as usize];
            let directory = if root == parent { root } else { parent };
            let name = visible_path(Path::new(path.file_name().unwrap_or(OsStr::new(""))));
            return (format!("Only in {}: {name}", visible_path(directory)), None);
        }
        EntryDifference::Kinds(kinds) => {
            // diff names empty files so.
            let is_empty = |side: usize| std::fs::symlink_metadata(&paths[side]).is_ok_and(|found| found.len() == 0);
            let [left, right] = [0, 1].map(|side: usize| match kinds[side] {
                FileType::RegularFile if is_empty(side) => "a regular empty file",
                kind => kind_words(kind).0,
            });
            return (format!("File {one} is {left} while file {other} is {right}"), None);
        }
        EntryDifference::Contents(contents) => {
            let place = match contents {
                ContentsDiffer::At(offset) => format!("byte {}", offset + 1),
                ContentsDiffer::Ends(side, after) => {
                    let shorter = if *side == Side::Left { &one } else { &other };
                    format!("{shorter} ends after byte {after}")
                }
                ContentsDiffer::Sizes(sizes) => format!("{} and {} bytes", sizes[0], sizes[1]),
            };
            (differ("Files"), place)
        }
        EntryDifference::Targets(targets) => {
            let [left, right] = targets.each_ref().map(|target| visible_path(target));
            (differ("Symbolic links"), format!("{left} and {right}"))
        }
        EntryDifference::Devices(kind, numbers) => {
            let is_block = *kind == FileType::BlockDevice;
            let what = if is_block { "Block" } else { "Character" };
            let [left, right] = numbers.map(|(major, minor)| format!("{major}:{minor}"));
            (differ(&format!("{what} special files")), format!("{left} and {right}"))
        }
        EntryDifference::Metadata(attributes) => {
            let attributes: Vec<String> = attributes.iter().map(attribute_words).collect();
            (differ("Metadata of"), attributes.join(", "))
        }
    };
    (line, Some(more))
}

/// A kind in the words of diff, and its name in JSON.
fn kind_words(kind: FileType) -> (&'static str, &'static str) {
    match kind {
        FileType::RegularFile => ("a regular file", "file"),
        FileType::Directory => ("a directory", "folder"),
        FileType::Symlink => ("a symbolic link", "link"),
        FileType::Fifo => ("a fifo", "fifo"),
        FileType::Socket => ("a socket", "socket"),
        FileType::CharacterDevice => ("a character special file", "character_device"),
        FileType::BlockDevice => ("a block special file", "block_device"),
        FileType::Unknown => ("a weird file", "unknown"),
    }
}

fn attribute_words(attribute: &Attribute) -> String {
    let time = |(seconds, nanoseconds): (i64, u32)| match jiff::Timestamp::new(seconds, 0) {
        // Nanoseconds count forwards even before 1970.
        Ok(time) => format!("{}.{nanoseconds:09}Z", time.strftime("%Y-%m-%dT%H:%M:%S")),
        Err(_) => format!("{seconds}.{nanoseconds:09}"),
    };
    match attribute {
        Attribute::Mode([one, other]) => format!("mode {one:04o} and {other:04o}"),
        Attribute::Owner([one, other]) => format!("owner {one} and {other}"),
        Attribute::Group([one, other]) => format!("group {one} and {other}"),
        Attribute::Modified([one, other]) => format!("modified {} and {}", time(*one), time(*other)),
        Attribute::Extended(name) => {
            format!("attribute {}", visible_path(Path::new(OsStr::from_bytes(name))))
        }
    }
}

fn summary_sentence(summary: &TreeSummary, elapsed_seconds: f64) -> String {
    let (files, size) = (files(summary.files), bytes(summary.bytes));
    let directories = plural(summary.directories, "directory", "directories");
    let others = plural(summary.others, "link or device", "links and devices");
    let differences = counted(summary.differences, "difference");
    let rate = rate(summary.bytes as f64 / elapsed_seconds.max(1e-9));
    let words = [
        Some(format!("{files}, {size} on each side, in {directories}")),
        (summary.others > 0).then(|| format!(", {others}")),
        Some(format!(": {differences} in {} ({rate})", seconds(elapsed_seconds))),
        (summary.failures > 0).then(|| format!("; {} could not be compared", thousands(summary.failures))),
        summary.is_stopped.then(|| "; stopped".to_owned()),
    ];
    words.into_iter().flatten().chain([".".to_owned()]).collect()
}

fn difference_json(difference: &EntryDifference, [one, other]: &[PathBuf; 2]) -> Value {
    let json = match difference {
        EntryDifference::OnlyIn(side, kind) => {
            let path = [one, other][*side as usize];
            let figures = json!({"what": "only_in", "side": side, "type": kind_words(*kind).1});
            return object("difference", figures, Some(path));
        }
        EntryDifference::Kinds(kinds) => json!({"what": "type", "types": kinds.map(|kind| kind_words(kind).1)}),
        EntryDifference::Contents(ContentsDiffer::At(offset)) => json!({"what": "contents", "offset": offset}),
        EntryDifference::Contents(ContentsDiffer::Ends(side, after)) => {
            json!({"what": "contents", "offset": after, "shorter": side})
        }
        EntryDifference::Contents(ContentsDiffer::Sizes(sizes)) => json!({"what": "contents", "bytes": sizes}),
        EntryDifference::Targets(targets) => {
            let paths = ["target_one", "target_other"].into_iter().zip(targets);
            paths.fold(json!({"what": "target"}), |json, (name, path)| {
                with_path(json, name, Some(path))
            })
        }
        EntryDifference::Devices(_, numbers) => json!({"what": "device", "numbers": numbers}),
        EntryDifference::Metadata(attributes) => json!({
            "what": "metadata",
            "attributes": attributes.iter().map(attribute_json).collect::<Value>(),
        }),
    };
    let mut json = with_path(json, "path_one", Some(one));
    json["kind"] = "difference".into();
    with_path(json, "path_other", Some(other))
}

fn attribute_json(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Extended(name) => {
            let name = Path::new(OsStr::from_bytes(name));
            with_path(json!({"name": "extended"}), "attribute", Some(name))
        }
        numbers => json!(numbers),
    }
}

/// Shows how often files of the same size are equal, as a sentence or an object.
pub fn show_same_size(out: &mut dyn Write, result: &SameSize, is_json: bool) -> io::Result<()> {
    if is_json {
        let mut object = json!(result);
        object["kind"] = "same_size".into();
        object["smallest_bytes"] = tree::SMALLEST_BYTES.into();
        return writeln!(out, "{}", json_line(&object));
    }
    let part = match result.pairs {
        0 => String::new(),
        pairs => format!(" ({:.0} %)", result.equal_pairs as f64 / pairs as f64 * 100.0),
    };
    let (files, sizes) = (files(result.files), counted(result.sizes, "shared size"));
    let (equal, pairs) = (thousands(result.equal_pairs), counted(result.pairs, "pair"));
    let size = bytes(result.bytes);
    let sentence = format!("{files} of 1 MiB or more, {sizes}; {equal} of {pairs} equal{part}, {size} compared.");
    writeln!(out, "{}", wrapped(0, &sentence, Width::of_stdout()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: Form, all: &[(&[u8], TreeFinding)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut differences = Differences::new(&mut out, [Path::new("a"), Path::new("b")], form);
        for (path, what) in all {
            let path = Path::new(OsStr::from_bytes(path));
            differences.write(path, what).unwrap();
        }
        drop(differences);
        out
    }

    #[test]
    fn lines_are_those_of_diff_with_what_it_leaves_out() {
        let all: Vec<(&[u8], TreeFinding)> = [
            (
                &b"x/new\n\xff"[..],
                EntryDifference::OnlyIn(Side::Right, FileType::RegularFile),
            ),
            (
                b"k",
                EntryDifference::Kinds([FileType::Directory, FileType::RegularFile]),
            ),
            (b"f", EntryDifference::Contents(ContentsDiffer::At(0))),
            (b"g", EntryDifference::Contents(ContentsDiffer::Ends(Side::Right, 7))),
            (b"l", EntryDifference::Targets(["t".into(), "u".into()])),
            (
                b"d",
                EntryDifference::Devices(FileType::CharacterDevice, [(1, 3), (1, 5)]),
            ),
            (b"m", EntryDifference::Metadata(vec![Attribute::Mode([0o644, 0o600])])),
        ]
        .map(|(path, difference)| (path, TreeFinding::Difference(difference)))
        .into();
        let text = String::from_utf8(written(Form::Lines, &all)).unwrap();
        let expected = "\
Only in b/x: new\\n\\xff
File a/k is a directory while file b/k is a regular file
Files a/f and b/f differ: byte 1
Files a/g and b/g differ: b/g ends after byte 7
Symbolic links a/l and b/l differ: t and u
Character special files a/d and b/d differ: 1:3 and 1:5
Metadata of a/m and b/m differ: mode 0644 and 0600
";
        assert_eq!(text, expected);
        let brief = expected.lines().map(|line| match line.split_once(" differ: ") {
            Some((line, _)) => format!("{line} differ\n"),
            None => format!("{line}\n"),
        });
        let text = String::from_utf8(written(Form::Brief, &all)).unwrap();
        assert_eq!(text, brief.collect::<String>());
    }

    #[test]
    fn names_are_raw_between_zero_bytes_and_written_once() {
        let all: Vec<(&[u8], TreeFinding)> = [
            (&b"x\n\xff"[..], EntryDifference::Contents(ContentsDiffer::At(0))),
            (b"x\n\xff", EntryDifference::Metadata(vec![Attribute::Mode([0, 1])])),
            (b"y", EntryDifference::OnlyIn(Side::Right, FileType::RegularFile)),
        ]
        .map(|(path, difference)| (path, TreeFinding::Difference(difference)))
        .into();
        assert_eq!(written(Form::Null, &all), b"a/x\n\xff\0b/y\0");
    }
}
