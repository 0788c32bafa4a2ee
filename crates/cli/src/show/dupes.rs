//! Groups of equal files.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use anstyle::Style;
use clap::ValueEnum;
use seekless_results::{bytes, visible};
use seekless_tools::dupes::act::copies::SearchOrigin;
use seekless_tools::dupes::{ContainedDirectory, DuplicatesSum, EqualFiles, FoundDuplicates, Proof, TreeOverlap};
use seekless_tools::json::written;
use serde_json::{Value, json};

use super::escape::visible_path;
use super::objects::{JsonForm, Objects};
use super::page::Page;
use super::progress::{buffered_stdout, has_styles, plain_stdout, stderr};
use super::units::{counted, files, percent};
use super::wrap::Width;
use super::{BOLD, DIM, PLAIN};

/// How groups are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DuplicatesForm {
    /// Sizes, paths, and a summary
    Text,
    /// Paths, one per line, and an empty line between groups
    #[value(name = "fdupes")]
    Names,
    /// A document with `groups` and `summary`
    Json,
    /// One object per line, the summary last
    Jsonl,
    /// One line per file: group, bytes, proof, device, inode, path
    Csv,
    /// Paths, each followed by a zero byte, and another zero byte after each group
    #[value(name = "paths0")]
    Null,
}

impl DuplicatesForm {
    /// The form of JSON, if it is one.
    pub fn json(self) -> Option<JsonForm> {
        match self {
            Self::Json => Some(JsonForm::Document),
            Self::Jsonl => Some(JsonForm::Lines),
            _ => None,
        }
    }
}

/// Writes groups, those that save most first, or the files without a duplicate, to standard output; what could not be read, and
/// what changed, to standard error. Files of paths numbered `references` or higher are marked. Returns whether anything was
/// written. The JSON summary says where the search was made.
pub fn show_duplicates(
    found: &FoundDuplicates,
    form: DuplicatesForm,
    is_unique: bool,
    roots: &[PathBuf],
    references: u32,
    origin: Option<&SearchOrigin>,
) -> io::Result<bool> {
    show_failures(found);
    // The adapter that strips styles would also strip zero bytes, and is slow because it checks every byte.
    let has_styles = form == DuplicatesForm::Text && has_styles();
    let mut out: Box<dyn Write> = if has_styles {
        Box::new(buffered_stdout())
    } else {
        Box::new(plain_stdout())
    };
    if form == DuplicatesForm::Csv {
        return csv(out, found, is_unique);
    }
    let styles = if has_styles { [BOLD, DIM] } else { [PLAIN; 2] };
    let mut objects = Objects::new(form.json(), "groups");
    let mut is_any = false;
    ahead(&|| groups(found, is_unique), |group| {
        is_any = true;
        match form {
            DuplicatesForm::Json | DuplicatesForm::Jsonl => objects.write(&mut out, &written(&group.reported())),
            DuplicatesForm::Text => text(&mut out, &group, [is_unique, false], references, styles),
            form => {
                let end: &[u8] = if form == DuplicatesForm::Null { b"\0" } else { b"\n" };
                for (_, name) in group.names() {
                    out.write_all(name.path.as_os_str().as_bytes())?;
                    out.write_all(end)?;
                }
                if is_unique { Ok(()) } else { out.write_all(end) }
            }
        }
    })?;
    for directory in &found.contained {
        is_any = true;
        objects.write(&mut out, &written(directory))?;
        if form == DuplicatesForm::Text {
            contained(&mut out, directory, references, styles)?;
        }
    }
    let sum = found.sum();
    if objects.are_wanted() {
        let mut summary = summary_json(found, &sum);
        if let Some(origin) = origin {
            summary = origin.write(summary);
        }
        objects.finish(&mut out, &summary)?;
    } else if form == DuplicatesForm::Text {
        out.flush()?;
        drop(out);
        return summary(&mut buffered_stdout(), found, &sum, roots).map(|()| is_any);
    }
    out.flush()?;
    Ok(is_any)
}

/// Writes a group to standard error, with a number for each file.
pub fn show_numbered(group: &EqualFiles, references: u32) -> io::Result<()> {
    text(&mut stderr(), group, [false, true], references, [BOLD, DIM])
}

/// Writes to standard error what could not be read, and what changed.
pub fn show_failures(found: &FoundDuplicates) {
    show_unread(found.failures.iter().chain(&found.changed));
    if let Some(reason) = &found.cache_failure {
        say(&visible(reason));
    }
}

/// Writes paths to standard error, each with the reason why it was not read.
pub fn show_unread<'p>(unread: impl IntoIterator<Item = &'p (PathBuf, String)>) {
    for (path, reason) in unread {
        say(&format!("{}: {}", visible_path(path), visible(reason)));
    }
}

/// Writes a line to standard error, which may be gone.
pub fn say(text: &str) {
    let _ = writeln!(stderr(), "seekless dupes: {text}");
}

/// Equal directories, then groups of equal files; or the files without a duplicate, each as a group.
fn groups(found: &FoundDuplicates, is_unique: bool) -> impl Iterator<Item = EqualFiles> {
    let singles = is_unique.then(|| found.unique()).into_iter().flatten();
    let groups = (!is_unique).then(|| found.directories.iter().cloned().chain(found.groups()));
    singles.chain(groups.into_iter().flatten())
}

/// How many groups a thread makes at a time, and how many of these batches it may be ahead of the writer.
const TOGETHER: usize = 256;
const TIMES_AHEAD: usize = 4;

/// Writes groups while another thread makes the next ones: making their paths takes as long as writing them.
fn ahead<I: Iterator<Item = EqualFiles>>(
    make: &(impl Fn() -> I + Sync),
    mut write: impl FnMut(EqualFiles) -> io::Result<()>,
) -> io::Result<()> {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(TIMES_AHEAD);
        let send = move || {
            let mut groups = make();
            loop {
                let some: Vec<EqualFiles> = groups.by_ref().take(TOGETHER).collect();
                if some.is_empty() || sender.send(some).is_err() {
                    break;
                }
            }
        };
        match thread::Builder::new().spawn_scoped(scope, send) {
            Ok(_) => receiver.into_iter().flatten().try_for_each(write),
            Err(_) => make().try_for_each(&mut write),
        }
    })
}

/// Writes a line for each name, and returns whether there was any.
fn csv(out: impl Write, found: &FoundDuplicates, is_unique: bool) -> io::Result<bool> {
    let mut rows = csv::Writer::from_writer(out);
    // The kind of the system's error must survive: a closed pipe is not a failure.
    let unwritten = |error: csv::Error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    };
    let mut row = |fields: [&[u8]; 6]| rows.write_record(fields).map_err(unwritten);
    row([b"group", b"bytes", b"proof", b"device", b"inode", b"path"])?;
    let mut count = 0_u64;
    for group in groups(found, is_unique) {
        count += 1;
        for (file, name) in group.names() {
            let figures = [count, group.bytes, file.state.device, file.state.inode].map(|figure| figure.to_string());
            let [count, bytes, device, inode] = figures.each_ref().map(String::as_bytes);
            let path = name.path.as_os_str().as_bytes();
            match group.files_in_each {
                Some(_) => row([count, bytes, b"directories", b"", b"", path])?,
                None => row([count, bytes, group.proof.name().as_bytes(), device, inode, path])?,
            }
        }
    }
    rows.flush()?;
    Ok(count > 0)
}

/// Marks a path in a reference, a further path of the same file, and a file with hard links that the search did not find.
fn mark(is_reference: bool, is_link: bool, elsewhere: u64, dim: Style) -> String {
    let words = [
        is_reference.then(|| "reference".to_owned()),
        is_link.then(|| "same file".to_owned()),
        (elsewhere > 0).then(|| linked_elsewhere(elsewhere)),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() {
        return String::new();
    }
    format!("{dim}  ({}){dim:#}", words.join(", "))
}

/// Says that a file has hard links that the search did not find.
pub fn linked_elsewhere(number: u64) -> String {
    format!("{} outside the search", counted(number, "hard link"))
}

fn text(
    out: &mut impl Write,
    group: &EqualFiles,
    [is_unique, is_numbered]: [bool; 2],
    references: u32,
    [bold, dim]: [Style; 2],
) -> io::Result<()> {
    let (each, gain) = (bytes(group.bytes), bytes(group.gain_bytes));
    let (of, slash) = match group.files_in_each {
        Some(number) => (format!("directories of {}, {each}", files(number)), "/"),
        None => (format!("files of {each}"), ""),
    };
    if !is_unique {
        let proof = match group.proof {
            Proof::Bytes => "",
            Proof::Blake3 => ", by BLAKE3",
            Proof::Cached => ", by BLAKE3 digests of an earlier search",
        };
        let number = group.files.len();
        writeln!(out, "{bold}{number} {of}{bold:#}{dim}: {gain} to gain{proof}{dim:#}")?;
    }
    for (number, file) in (1..).zip(&group.files) {
        for (index, name) in file.names.iter().enumerate() {
            let elsewhere = if is_unique || index > 0 {
                0
            } else {
                file.links_elsewhere()
            };
            let mark = mark(name.root >= references, index > 0, elsewhere, dim);
            let indent = match (is_unique, is_numbered, index) {
                (true, ..) => String::new(),
                (_, false, _) => "  ".to_owned(),
                (.., 0) => format!("{number:>4}  "),
                _ => " ".repeat(6),
            };
            writeln!(out, "{indent}{}{slash}{mark}", visible_path(&name.path))?;
        }
    }
    if !is_unique {
        writeln!(out)?;
    }
    Ok(())
}

fn contained(
    out: &mut impl Write,
    found: &ContainedDirectory,
    references: u32,
    [bold, dim]: [Style; 2],
) -> io::Result<()> {
    let (number, size, gain) = (files(found.files), bytes(found.bytes), bytes(found.gain_bytes));
    let of = format!("1 directory of {number}, {size}, in another");
    writeln!(out, "{bold}{of}{bold:#}{dim}: {gain} to gain{dim:#}")?;
    writeln!(out, "  {}/", visible_path(&found.directory.path))?;
    let more = match found.more_files {
        0 => "nothing else is there".to_owned(),
        more => format!("has {}, {}, with other contents", files(more), bytes(found.more_bytes)),
    };
    let is_reference = found.within.root >= references;
    let reference = if is_reference { "reference, " } else { "" };
    let within = visible_path(&found.within.path);
    writeln!(out, "  {within}/{dim}  ({reference}{more}){dim:#}\n")
}

/// A sentence for each of two trees.
fn overlap(page: &mut Page<'_>, overlap: &[TreeOverlap; 2], roots: &[PathBuf]) -> io::Result<()> {
    let [one, other] = [0, 1].map(|root| visible_path(&roots[root]));
    for (tree, name, in_other) in [(&overlap[0], &one, &other), (&overlap[1], &other, &one)] {
        if tree.files > 0 {
            let [bytes, files] = [(tree.shared_bytes, tree.bytes), (tree.shared_files, tree.files)].map(percent);
            let sentence = format!("{name}: {bytes} of its bytes and {files} of its files are also in {in_other}.");
            page.say(PLAIN, &sentence)?;
        }
    }
    Ok(())
}

fn summary(
    out: &mut (impl Write + Send),
    found: &FoundDuplicates,
    sum: &DuplicatesSum,
    roots: &[PathBuf],
) -> io::Result<()> {
    let mut page = Page::new(out, Width::of_stdout());
    if let Some(trees) = found.overlap.as_ref().filter(|_| roots.len() == 2) {
        overlap(&mut page, trees, roots)?;
    }
    let groups = counted(sum.groups, "group");
    let duplicates = counted(sum.duplicates, "duplicate");
    let (files, gain) = (files(found.files()), bytes(sum.gain_bytes));
    let sentence = format!("{files}, {groups} of equal files, {duplicates}, {gain} to gain.");
    page.say(PLAIN, &sentence)?;
    let left = &found.left;
    page.left_out(&[
        (
            found.changed.len() as u64,
            "file that changed meanwhile",
            "files that changed meanwhile",
        ),
        (left.links, "symbolic link", "symbolic links"),
        (left.special, "device, FIFO or socket", "devices, FIFOs and sockets"),
        (
            left.other_file_systems,
            "directory of another file system",
            "directories of other file systems",
        ),
        (
            found.left_out.len() as u64,
            "trash directory or snapshot (--all)",
            "trash directories or snapshots (--all)",
        ),
    ])
}

fn summary_json(found: &FoundDuplicates, sum: &DuplicatesSum) -> Value {
    let mut summary = json!(sum);
    summary["kind"] = "summary".into();
    summary["files"] = found.files().into();
    summary["failed"] = found.failures.len().into();
    summary["changed"] = found.changed.len().into();
    summary["equal_directories"] = found.directories.len().into();
    summary["contained_directories"] = found.contained.len().into();
    if let Some(overlap) = &found.overlap {
        summary["overlap"] = json!(overlap);
    }
    summary["left_out"] = json!(found.left);
    summary["left_out"]["directories"] = found.left_out.len().into();
    summary["stopped"] = found.is_stopped.into();
    summary
}
