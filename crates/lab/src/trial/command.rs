//! External commands: their arguments, running them, and their verdict.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use seekless_record::{self as record, ExitCode, UpdatePattern};
use seekless_sys as sys;

use super::error::TrialError;
use super::{Compared, ComparedVerdict, TrialPaths};
use crate::updates::drawn;

/// Syncs what a command wrote, as the methods of its contest do; returns the time it took.
pub(super) fn sync_file(path: &Path) -> Result<Duration, TrialError> {
    let start = Instant::now();
    let synced = File::open(path).and_then(|file| sys::sync(&file));
    synced.map_err(|error| TrialError::Command(path.display().to_string(), error))?;
    Ok(start.elapsed())
}

/// Runs an external command that must succeed, and discards its output. Its messages go to `messages`.
pub(super) fn succeed(argv: &[String], job: &TrialPaths, messages: &File) -> Result<(), TrialError> {
    let status = status_of(argv, job, messages, None)?;
    let name = argv.first().cloned().unwrap_or_default();
    let failed = || TrialError::Status(name, status, last_of(messages));
    status.success().then_some(()).ok_or_else(failed)
}

/// The last messages of a failed command, each line after a semicolon.
fn last_of(messages: &File) -> String {
    let bytes = messages.metadata().map_or(0, |metadata| metadata.len());
    let start = bytes.saturating_sub(LAST_BYTES);
    let mut last = vec![0; (bytes - start) as usize];
    if messages.read_exact_at(&mut last, start).is_err() {
        return String::new();
    }
    let last = String::from_utf8_lossy(&last);
    let lines = last.lines().filter(|line| !line.is_empty());
    lines.flat_map(|line| ["; ", line.trim()]).collect()
}

/// How many bytes of a failed command's messages are reported.
const LAST_BYTES: u64 = 300;

/// Runs a command, and gets a verdict from its exit code, if that has one. Its output is added to `printed` if it must equal that of others.
pub(super) fn run_judging(
    command: &record::Command,
    job: &TrialPaths,
    messages: &File,
    printed: &mut DefaultHasher,
) -> Result<Option<Compared>, TrialError> {
    let judges = command.exit_code == ExitCode::Verdict;
    let mut look = |bytes: &[u8]| {
        if command.same_output {
            printed.write(bytes);
        }
    };
    // cmp(1) does less work if its output is /dev/null.
    let read = (judges || command.same_output).then_some(&mut look as OnPiece<'_>);
    let status = status_of(&command.argv, job, messages, read)?;
    let verdict = match status.code() {
        Some(0) => ComparedVerdict::Equal,
        Some(1) if judges => ComparedVerdict::Differ(None),
        _ => return Err(TrialError::Status(command.name.clone(), status, last_of(messages))),
    };
    Ok(judges.then_some(Compared {
        verdict,
        newlines: None,
        unread_bytes: 0,
    }))
}

/// Called with each piece of a command's output.
type OnPiece<'a> = &'a mut dyn FnMut(&[u8]);

/// Runs a program to its end. What it prints is read in pieces, or goes nowhere.
fn status_of(
    argv: &[String],
    job: &TrialPaths,
    messages: &File,
    read: Option<OnPiece<'_>>,
) -> Result<ExitStatus, TrialError> {
    let name = argv.first().cloned().unwrap_or_default();
    let run = || {
        let mut words = argv.iter().map(|argument| fill_in(argument, job));
        let mut command = Command::new(words.next().unwrap_or_default());
        let output = if read.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut child = command
            .args(words)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(messages.try_clone()?)
            .spawn()?;
        if let (Some(mut output), Some(read)) = (child.stdout.take(), read) {
            let mut piece = vec![0; PIECE_BYTES];
            while let length @ 1.. = output.read(&mut piece)? {
                read(&piece[..length]);
            }
        }
        child.wait()
    };
    run().map_err(|error| TrialError::Command(name, error))
}

/// The capacity of a pipe.
const PIECE_BYTES: usize = 64 << 10;

/// Writes the updates of a file in the binary form of docs/formats.md.
pub(super) fn write_updates(pattern: &UpdatePattern, seed: u64, job: &TrialPaths) -> Result<(), TrialError> {
    let path = updates_path(job);
    let write = || {
        let mut out = BufWriter::new(File::create(&path)?);
        out.write_all(b"SKLSUPDT\x01\0\0\0")?;
        for (offset, bytes) in drawn(pattern, job.bytes, seed) {
            out.write_all(&offset.to_le_bytes())?;
            out.write_all(&(bytes.len() as u32).to_le_bytes())?;
            out.write_all(&bytes)?;
        }
        out.flush()
    };
    write().map_err(|error| TrialError::Updates(error.to_string()))
}

fn updates_path(job: &TrialPaths) -> OsString {
    let mut path = job.target.clone();
    path.push(".updates");
    path
}

/// The directory of all files of a trial: two levels above each file, or the existing directory.
fn tree_of(source: &OsStr) -> OsString {
    let source = Path::new(source);
    let tree = source.ancestors().nth(if source.is_dir() { 0 } else { 2 });
    tree.map_or_else(OsString::new, |tree| tree.as_os_str().to_owned())
}

/// An argument with its placeholders replaced by paths.
fn fill_in(argument: &str, job: &TrialPaths) -> OsString {
    type Path = fn(&TrialPaths) -> OsString;
    const PLACES: [(&str, Path); 9] = [
        ("{file}", |job| job.source.clone()),
        ("{one}", |job| job.source.clone()),
        ("{other}", |job| job.other.clone()),
        ("{target}", |job| job.target.clone()),
        ("{updates}", updates_path),
        ("{tree}", |job| tree_of(&job.source)),
        ("{one-tree}", |job| tree_of(&job.source)),
        ("{other-tree}", |job| tree_of(&job.other)),
        // The program of the trial is seekless itself.
        ("{seekless}", |_| {
            env::current_exe().map_or_else(|_| "seekless".into(), PathBuf::into_os_string)
        }),
    ];
    let mut filled = OsString::new();
    let mut rest = argument;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push(before);
        let mut places = PLACES.iter();
        if let Some((behind, path)) = places.find_map(|(name, path)| Some((from.strip_prefix(name)?, path))) {
            filled.push(path(job));
            rest = behind;
        } else {
            filled.push("{");
            rest = &from[1..];
        }
    }
    filled.push(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_paths_are_filled_in_wherever_they_stand() {
        let directory = tempfile::tempdir().unwrap();
        let existing = directory.path().to_str().unwrap();
        let (files, trees) = (["/a b", "/o"], ["/t/tree-one/0000/07", "/t/tree-other/0000/07"]);
        for (argument, [source, other], filled) in [
            ("if={file}", files, "if=/a b"),
            ("{file}{target}", files, "/a b/c"),
            ("awk {print} {", files, "awk {print} {"),
            ("{one} {other}{", files, "/a b /o{"),
            ("", files, ""),
            ("--from={updates}", files, "--from=/c.updates"),
            ("{tree}", [existing, ""], existing),
            ("{tree}/", trees, "/t/tree-one/"),
            ("{one-tree} {other-tree}", trees, "/t/tree-one /t/tree-other"),
        ] {
            let job = TrialPaths {
                source: source.into(),
                other: other.into(),
                target: "/c".into(),
                ..TrialPaths::default()
            };
            assert_eq!(fill_in(argument, &job), filled);
        }
    }

    #[test]
    fn a_failed_command_is_told_with_its_last_messages() {
        let messages = tempfile::tempfile().unwrap();
        assert_eq!(last_of(&messages), "");
        let argv = [
            "sh",
            "-c",
            "echo first >&2; printf '%0600d\\n\\nthe last\\n' 0 >&2; exit 3",
        ];
        let error = succeed(&argv.map(str::to_owned), &TrialPaths::default(), &messages).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("`sh` failed: exit status: 3; 00"), "{text}");
        assert!(text.ends_with("00; the last") && text.len() < 350, "{text}");
    }
}
