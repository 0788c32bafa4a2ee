//! Groups of equal files.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use anstyle::Style;
use seekless_results::{bytes, visible};
use seekless_tools::dupes::act::origin::SearchOrigin;
use seekless_tools::dupes::{DuplicatesSum, Equal, EqualDirectories, EqualFiles, FoundDuplicates, Proof};
use seekless_tools::json::written;
use serde_json::{Value, json};

use super::objects::{JsonForm, Objects};
use super::page::{Page, Width};
use super::progress::{buffered_stdout, has_styles, plain_stdout};
use super::units::{files, plural};
use super::visible::visible_path;
use super::{BOLD, DIM, PLAIN};

/// How groups are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicatesForm {
    /// For people.
    Text,
    /// Names only, unescaped, with an empty line between groups.
    Names,
    /// Names only, each ended by a zero byte; each group ends with another one.
    Null,
    /// A line for each name.
    Csv,
    /// Objects for programs.
    Json(JsonForm),
}

impl DuplicatesForm {
    /// What ends a name in the forms with names only.
    fn end(self) -> &'static [u8] {
        if self == Self::Null { b"\0" } else { b"\n" }
    }
}

/// Writes groups, those that save most first, or the files without a duplicate, to standard output; what could not be read, and
/// what changed, to standard error. Files of paths numbered `references` or higher are marked. Returns whether anything was
/// written. The JSON summary says where the search was made, so that its files can be acted on.
pub fn show_duplicates(
    found: &FoundDuplicates,
    form: DuplicatesForm,
    is_unique: bool,
    references: u32,
    mut origin: Option<SearchOrigin>,
) -> io::Result<bool> {
    show_failures(found);
    // The adapter that strips styles would also strip zero bytes, and is slow because it checks every byte.
    let has_styles = form == DuplicatesForm::Text && has_styles();
    let mut out: Box<dyn Write> = if has_styles {
        Box::new(buffered_stdout())
    } else {
        Box::new(plain_stdout())
    };
    let style = |style| if has_styles { style } else { PLAIN };
    let styles = [style(BOLD), style(DIM)];
    let mut is_any = false;
    if form == DuplicatesForm::Csv {
        return csv(out, found, is_unique);
    }
    let mut objects = match form {
        DuplicatesForm::Json(form) => Some(Objects::new(form, "groups")),
        _ => None,
    };
    for directories in &found.directories {
        is_any = true;
        if let Some(origin) = &mut origin {
            (directories.seen.iter().zip(&directories.paths))
                .for_each(|((seen, _), path)| origin.meet(seen.device, path));
        }
        match (form, &mut objects) {
            (_, Some(objects)) => objects.write(&mut out, &directories_json(directories))?,
            (DuplicatesForm::Text, _) => directories_text(&mut out, directories, references, styles)?,
            (form, _) => {
                let end = form.end();
                for path in &directories.paths {
                    out.write_all(path.as_os_str().as_bytes())?;
                    out.write_all(end)?;
                }
                out.write_all(end)?;
            }
        }
    }
    ahead(&|| groups(found, is_unique), |group| {
        is_any = true;
        if let Some(origin) = &mut origin {
            (group.files.iter()).for_each(|file| origin.meet(file.state.device, &file.names[0].path));
        }
        match (form, &mut objects) {
            (_, Some(objects)) => objects.write(&mut out, &group_json(&group))?,
            (DuplicatesForm::Text, _) => text(&mut out, &group, is_unique, references, styles)?,
            (form, _) => {
                let end = form.end();
                for (_, path) in names(&group) {
                    out.write_all(path.as_os_str().as_bytes())?;
                    out.write_all(end)?;
                }
                if !is_unique {
                    out.write_all(end)?;
                }
            }
        }
        Ok(())
    })?;
    let sum = found.sum();
    if let Some(objects) = &objects {
        let summary = summary_json(found, &sum);
        let summary = match &origin {
            Some(origin) => origin.write(summary),
            None => summary,
        };
        objects.finish(&mut out, &summary)?;
    } else if form == DuplicatesForm::Text {
        out.flush()?;
        drop(out);
        return summary(&mut buffered_stdout(), found, &sum).map(|()| is_any);
    }
    out.flush()?;
    Ok(is_any)
}

/// Writes to standard error what could not be read, and what changed.
pub fn show_failures(found: &FoundDuplicates) {
    // Standard error may be gone.
    let say = |text: &str| drop(writeln!(super::progress::stderr(), "seekless dupes: {text}"));
    for (path, reason) in found.failures.iter().chain(&found.changed) {
        say(&format!("{}: {}", visible_path(path), visible(reason)));
    }
    if let Some(reason) = &found.cache_failure {
        say(&visible(reason));
    }
}

/// The groups, or the files without a duplicate, each as a group.
fn groups(found: &FoundDuplicates, is_unique: bool) -> impl Iterator<Item = EqualFiles> {
    let singles = is_unique.then(|| found.unique()).into_iter().flatten();
    singles.chain((!is_unique).then(|| found.groups()).into_iter().flatten())
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
    let mut number = 0_u64;
    for directories in &found.directories {
        number += 1;
        let figures = [number, directories.bytes].map(|figure| figure.to_string());
        let [number, bytes] = figures.each_ref().map(String::as_bytes);
        for path in &directories.paths {
            row([number, bytes, b"directories", b"", b"", path.as_os_str().as_bytes()])?;
        }
    }
    for group in groups(found, is_unique) {
        number += 1;
        let proof = group.proof.name().as_bytes();
        for (file, path) in names(&group) {
            let figures = [number, group.bytes, file.state.device, file.state.inode].map(|figure| figure.to_string());
            let [number, bytes, device, inode] = figures.each_ref().map(String::as_bytes);
            row([number, bytes, proof, device, inode, path.as_os_str().as_bytes()])?;
        }
    }
    rows.flush()?;
    Ok(number > 0)
}

fn names(group: &EqualFiles) -> impl Iterator<Item = (&Equal, &Path)> {
    let files = group.files.iter();
    files.flat_map(|file| file.names.iter().map(move |name| (file, name.path.as_path())))
}

fn directories_text(
    out: &mut impl Write,
    equal: &EqualDirectories,
    references: u32,
    [bold, dim]: [Style; 2],
) -> io::Result<()> {
    let (number, gain) = (equal.paths.len(), bytes(equal.gain_bytes));
    let each = format!("{}, {}", files(equal.files), bytes(equal.bytes));
    writeln!(
        out,
        "{bold}{number} directories of {each}{bold:#}{dim}: {gain} to gain{dim:#}"
    )?;
    for (path, root) in equal.paths.iter().zip(&equal.roots) {
        let mark = mark(*root >= references, false, dim);
        writeln!(out, "  {}/{mark}", visible_path(path))?;
    }
    writeln!(out)
}

/// Marks a path in a reference, and a further path of the same file.
fn mark(is_reference: bool, is_link: bool, dim: Style) -> String {
    match (is_reference, is_link) {
        (false, false) => String::new(),
        (true, false) => format!("{dim}  (reference){dim:#}"),
        (false, true) => format!("{dim}  (same file){dim:#}"),
        (true, true) => format!("{dim}  (reference, same file){dim:#}"),
    }
}

fn text(
    out: &mut impl Write,
    group: &EqualFiles,
    is_unique: bool,
    references: u32,
    [bold, dim]: [Style; 2],
) -> io::Result<()> {
    let indent = if is_unique { "" } else { "  " };
    if !is_unique {
        let proof = match group.proof {
            Proof::Bytes => "",
            Proof::Blake3 => ", by BLAKE3",
            Proof::Cached => ", by BLAKE3 digests of an earlier search",
        };
        let (each, gain) = (bytes(group.bytes), bytes(group.gain_bytes));
        let number = group.files.len();
        writeln!(
            out,
            "{bold}{number} files of {each}{bold:#}{dim}: {gain} to gain{proof}{dim:#}"
        )?;
    }
    for file in &group.files {
        for (index, name) in file.names.iter().enumerate() {
            let mark = mark(name.root >= references, index > 0, dim);
            writeln!(out, "{indent}{}{mark}", visible_path(&name.path))?;
        }
    }
    if !is_unique {
        writeln!(out)?;
    }
    Ok(())
}

fn summary(out: &mut impl Write, found: &FoundDuplicates, sum: &DuplicatesSum) -> io::Result<()> {
    let mut page = Page::new(out, Width::of_stdout());
    let groups = plural(sum.groups, "group", "groups");
    let duplicates = plural(sum.duplicates, "duplicate", "duplicates");
    page.say(
        PLAIN,
        &format!(
            "{}, {groups} of equal files, {duplicates}, {} to gain.",
            files(found.files()),
            bytes(sum.gain_bytes)
        ),
    )?;
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

fn directories_json(equal: &EqualDirectories) -> Value {
    json!({
        "kind": "directories",
        "files": equal.files,
        "bytes": equal.bytes,
        "gain_bytes": equal.gain_bytes,
        "paths": paths_json(&equal.group()),
    })
}

fn group_json(group: &EqualFiles) -> Value {
    json!({
        "kind": "group",
        "bytes": group.bytes,
        "proof": group.proof.name(),
        "gain_bytes": group.gain_bytes,
        "paths": paths_json(group),
    })
}

fn paths_json(group: &EqualFiles) -> Vec<Value> {
    group.reported().map(|path| written(&path)).collect()
}

fn summary_json(found: &FoundDuplicates, sum: &DuplicatesSum) -> Value {
    let mut summary = json!(sum);
    summary["kind"] = "summary".into();
    summary["files"] = found.files().into();
    summary["failed"] = found.failures.len().into();
    summary["changed"] = found.changed.len().into();
    summary["equal_directories"] = found.directories.len().into();
    summary["left_out"] = json!(found.left);
    summary["left_out"]["directories"] = found.left_out.len().into();
    summary["stopped"] = found.is_stopped.into();
    summary
}
