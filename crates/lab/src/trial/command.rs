//! External commands: their arguments, running them, and the verdict that their end tells.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{self, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use seekless_record::{self as record, ExitCode};
use seekless_sys as sys;

use super::child::TrialError;
use super::{Compared, Found, Job};

/// Has what a command wrote on the device, as the methods beside it have; gives the time it took.
pub(super) fn sync_file(path: &Path) -> Result<Duration, TrialError> {
    let start = Instant::now();
    let synced = fs::File::open(path).and_then(|file| sys::sync(&file));
    synced.map_err(|error| TrialError::Command(path.display().to_string(), error))?;
    Ok(start.elapsed())
}

/// Runs an external command that is to succeed, its output thrown away.
pub(super) fn succeed(argv: &[String], job: &Job) -> Result<(), TrialError> {
    let status = status_of(argv, job, Stdio::null())?;
    if status.success() {
        Ok(())
    } else {
        Err(TrialError::Status(argv.first().cloned().unwrap_or_default(), status))
    }
}

/// Runs a command, and takes its verdict from how it ends, if that tells one.
pub(super) fn run_judging(command: &record::Command, job: &Job) -> Result<Option<Compared>, TrialError> {
    if command.exit_code == ExitCode::Success {
        return succeed(&command.argv, job).map(|()| None);
    }
    // Where it sees that nobody looks at its output, cmp(1) leaves out what else it does.
    let status = status_of(&command.argv, job, Stdio::piped())?;
    let found = match status.code() {
        Some(0) => Found::Equal,
        Some(1) => Found::Differ(None),
        _ => return Err(TrialError::Status(command.name.clone(), status)),
    };
    Ok(Some(Compared {
        found,
        newlines: None,
        unread_bytes: 0,
    }))
}

fn status_of(argv: &[String], job: &Job, output: Stdio) -> Result<ExitStatus, TrialError> {
    let name = argv.first().cloned().unwrap_or_default();
    let mut command = Command::new(&name);
    command.args(argv.iter().skip(1).map(|argument| fill_in(argument, job)));
    command.stdin(Stdio::null()).stdout(output);
    let ended = command.spawn().and_then(process::Child::wait_with_output);
    ended
        .map(|output| output.status)
        .map_err(|error| TrialError::Command(name, error))
}

/// An argument with the paths in place of `{file}`, `{target}`, `{one}` and `{other}`, wherever in it these stand.
fn fill_in(argument: &str, job: &Job) -> OsString {
    let places = [
        ("{file}", &job.source),
        ("{one}", &job.source),
        ("{other}", &job.other),
        ("{target}", &job.target),
    ];
    let mut filled = OsString::new();
    let mut rest = argument;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push(before);
        let place = places
            .iter()
            .find_map(|(name, path)| Some((from.strip_prefix(name)?, path)));
        if let Some((behind, path)) = place {
            filled.push(path);
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
    fn paths_are_filled_in_wherever_they_stand() {
        let job = Job {
            source: Path::new("/a b").into(),
            other: Path::new("/o").into(),
            target: Path::new("/c").into(),
            bytes: 0,
        };
        let filled = |argument| fill_in(argument, &job);
        assert_eq!(filled("if={file}"), "if=/a b");
        assert_eq!(filled("{file}{target}"), "/a b/c");
        assert_eq!(filled("awk {print} {"), "awk {print} {");
        assert_eq!(filled("{one} {other}{"), "/a b /o{");
        assert_eq!(filled(""), "");
    }
}
