//! One trial: the files made, the command run and disturbed, and what is left judged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, getxattr, listxattr, setxattr};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::others::{act, open_first};
use super::plan::{self, Injection, Interruption, Other, TrialPlan, What};
use super::verdict::{
    Acknowledged, Ending, Fault, LOST_APPEND, LOST_WRITE, Model, Promise, Properties, Update, check_left,
    check_properties,
};
use crate::process::in_words;

/// A command that takes longer hangs. It is long, because one fsync can wait for all that others write to the disk.
const PATIENCE: Duration = Duration::from_mins(2);
/// The call that others wait for comes sooner, or not at all.
const CALL_PATIENCE: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_micros(200);

/// What trials need, for one worker.
pub struct Site<'a> {
    pub seekless: &'a Path,
    /// On the file system, and this worker's alone.
    pub directory: PathBuf,
    /// For what seekless is told and says.
    pub aside: &'a Path,
}

/// What became of a trial.
pub struct TrialReport {
    /// It ended with exit status 0.
    pub is_done: bool,
    pub is_killed: bool,
    pub is_stopped: bool,
    pub others: usize,
    pub injected: usize,
    pub is_full: bool,
    /// The one case that the guide leaves open happened.
    pub known_limit: bool,
    pub faults: Vec<Fault>,
    /// How to understand the faults.
    pub story: String,
}

/// How seekless ended.
struct Ended {
    status: ExitStatus,
    stderr: String,
    trace: String,
    /// Where its threads waited in the kernel when patience ended.
    hung_in: Option<String>,
}

impl Ended {
    fn ending(&self) -> Ending {
        match self.status.code() {
            Some(0) => Ending::Success,
            Some(_) => Ending::Failure,
            None => Ending::Killed,
        }
    }
}

struct Running<'a> {
    site: &'a Site<'a>,
    file: PathBuf,
}

/// The file as it was made.
struct Before {
    properties: Properties,
    modified: SystemTime,
}

/// Runs a trial. An error is one of the harness, not of seekless.
pub fn run(plan: &TrialPlan, site: &Site<'_>) -> Result<TrialReport> {
    match fs::remove_dir_all(&site.directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).context("cannot empty the directory"),
        _ => fs::create_dir(&site.directory).context("cannot make the directory")?,
    }
    let running = Running {
        site,
        file: site.directory.join("file"),
    };
    make_file(&plan.file, &running.file).context("cannot make the file")?;
    if let Some(second) = &plan.command.second {
        fs::write(site.directory.join("second"), &second.0)?;
    }
    let before = Before {
        properties: properties(&running.file)?,
        modified: fs::metadata(&running.file)?.modified()?,
    };
    let ballast = site.directory.join("ballast");
    plan.free_bytes
        .map_or(Ok(()), |free_bytes| fill_up(&ballast, free_bytes))?;
    let (ended, others) = running.disturbed(plan, running.command(plan)?)?;
    if plan.free_bytes.is_some() {
        fs::remove_file(ballast)?;
    }
    let mut report = TrialReport {
        is_done: ended.ending() == Ending::Success,
        is_killed: ended.status.signal() == Some(Signal::KILL.as_raw()),
        is_stopped: matches!(plan.timed, Some((_, Interruption::Stop(_)))) || ended.trace.contains("(DELAYED)"),
        others: others.count(),
        injected: ended.trace.matches("(INJECTED)").count(),
        is_full: plan.free_bytes.is_some(),
        story: format!("{}: {}", ended.status, ended.stderr.trim_end()),
        faults: check_ending(plan, &ended),
        known_limit: false,
    };
    if ended.ending() == Ending::Success || (ended.ending() == Ending::Failure && !tells_of_left(plan, &ended.stderr)) {
        report.faults.extend(running.left()?);
    }
    running.check_file(plan, &before, &ended, &others, &mut report)?;
    report.faults.dedup();
    if !report.faults.is_empty() {
        let _ = write!(report.story, "\n{}", ended.trace);
    }
    Ok(report)
}

/// The kernel's stacks of the threads of a process group, each after the thread's name and state.
fn kernel_stacks(group: Pid) -> String {
    let mut stacks = String::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let threads = fs::read_dir(process.path().join("task"));
        for thread in threads.into_iter().flatten().flatten() {
            let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            // The name of the program is in parentheses, and may itself hold one; the group is the third word after it.
            let status = read("stat");
            let of_group = |(_, rest): (&str, &str)| {
                rest.split_whitespace().nth(2) == Some(group.as_raw_nonzero().to_string().as_str())
            };
            if status.rsplit_once(')').is_some_and(of_group) {
                let _ = writeln!(stacks, "{}{}", status, read("stack"));
            }
        }
    }
    stacks
}

/// What is wrong with how it ended, whatever is in the file.
fn check_ending(plan: &TrialPlan, ended: &Ended) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(stacks) = &ended.hung_in {
        faults.push(Fault::new("hangs", format!("after {PATIENCE:?}\n{stacks}")));
    }
    if ended.stderr.contains("panicked at") {
        faults.push(Fault::new("panic", ""));
    }
    let sent = [Signal::KILL.as_raw(), Signal::TERM.as_raw()];
    if let Some(signal) = ended.status.signal().filter(|signal| !sent.contains(signal)) {
        faults.push(Fault::new("died", format!("by signal {signal}")));
    }
    if let Some(second) = &plan.command.second {
        let is_equal = second.0 == plan.file.content.0;
        let is_right = match ended.status.code() {
            Some(0) => is_equal,
            Some(1) => !is_equal,
            _ => !plan.is_undisturbed(),
        };
        if !is_right {
            faults.push(Fault::new("wrong verdict", format!("equal: {is_equal}")));
        }
    } else if plan.is_undisturbed() && plan.command.must_succeed && !ended.status.success() && !may_refuse(plan, ended)
    {
        faults.push(Fault::new("needless refusal", ""));
    }
    faults
}

/// What is refused rightly though nothing disturbs: several names for `replace`.
fn may_refuse(plan: &TrialPlan, ended: &Ended) -> bool {
    // The descriptors of this process are for a moment those of what another worker starts.
    let is_open = ["in use", "have it open", "has it open", "opened it"]
        .iter()
        .any(|words| ended.stderr.contains(words));
    plan.file.has_hard_link || is_open
}

/// How many bytes a failed command says it left behind the end, because what others wrote there is not told from its own.
fn said_longer(stderr: &str) -> usize {
    let after = stderr.split_once("but the file stays ");
    after
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .unwrap_or(0)
}

/// Whether what is left after a failure is said, or removing it was made to fail.
fn tells_of_left(plan: &TrialPlan, stderr: &str) -> bool {
    let removes = |one: &Injection| one.call.starts_with("unlink");
    stderr.contains("recover") || stderr.contains("journal") || plan.injections.iter().any(removes)
}

impl Running<'_> {
    fn seekless(&self) -> Command {
        let mut command = Command::new(self.site.seekless);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn update(&self, updates: &[Update], named: &str) -> Result<Command> {
        let path = self.site.aside.join(named);
        let mut text = String::new();
        for update in updates {
            let _ = write!(text, r#"{{"offset": {}, "hex": ""#, update.offset);
            update.bytes.iter().for_each(|byte| {
                let _ = write!(text, "{byte:02x}");
            });
            text.push_str("\"}\n");
        }
        fs::write(&path, text).context("cannot write the updates")?;
        let mut command = self.seekless();
        command.arg("update").arg(&self.file).arg("--from").arg(path);
        Ok(command)
    }

    fn command(&self, plan: &TrialPlan) -> Result<Command> {
        let ours = if plan.command.updates.is_empty() {
            let mut command = self.seekless();
            command.args(&plan.command.arguments).arg(&self.file);
            if plan.command.second.is_some() {
                command.arg(self.site.directory.join("second"));
            }
            command
        } else {
            let mut command = self.update(&plan.command.updates, "updates")?;
            command.args(&plan.command.arguments[1..]);
            command
        };
        Ok(self.traced(&plan.injections, ours))
    }

    /// The same command under strace, if anything is injected.
    fn traced(&self, injections: &[Injection], command: Command) -> Command {
        if injections.is_empty() {
            return command;
        }
        let calls: Vec<_> = injections.iter().map(|one| one.call).collect();
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-q", "-o"])
            .arg(self.trace())
            .args(["-e", &format!("trace={}", calls.join(","))]);
        for injection in injections {
            traced.args(["-e", &format!("inject={}", injection.option())]);
        }
        // It stops at these calls alone; but signals are not delivered then.
        if injections.iter().all(|one| one.what != What::Kill) {
            traced.arg("--seccomp-bpf");
        }
        traced.arg(command.get_program()).args(command.get_args());
        traced.stdin(Stdio::null()).stdout(Stdio::null());
        traced
    }

    fn trace(&self) -> PathBuf {
        self.site.aside.join("trace")
    }

    /// Runs the command, with all that disturbs it.
    fn disturbed(&self, plan: &TrialPlan, command: Command) -> Result<(Ended, Acknowledged)> {
        let opened = plan
            .other
            .as_ref()
            .map(|other| open_first(other, &self.file))
            .transpose()?
            .flatten();
        let second = |updates: &[Update], safety: &str| {
            let mut command = self.update(updates, "second")?;
            command.args(["--safety", safety]);
            Ok(command)
        };
        // That of the trial before.
        let _ = fs::remove_file(self.trace());
        let started = Instant::now();
        thread::scope(|scope| {
            let others = plan.other.as_ref().map(|other| {
                let second = &second;
                scope.spawn(move || {
                    self.wait_for(plan, other, started);
                    act(other, opened, &self.file, second)
                })
            });
            let ended = self.run(command, plan.timed);
            let others = others.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            anyhow::Ok((ended?, others.transpose()?.unwrap_or_default()))
        })
    }

    /// Waits for the moment at which others begin.
    fn wait_for(&self, plan: &TrialPlan, other: &Other, started: Instant) {
        let Some((call, when)) = plan.delayed_call().filter(|_| other.at_delay) else {
            return thread::sleep(other.after.saturating_sub(started.elapsed()));
        };
        // strace shows the call before it delays it.
        let shown =
            || fs::read_to_string(self.trace()).is_ok_and(|trace| trace.matches(&format!(" {call}(")).count() >= when);
        while started.elapsed() < CALL_PATIENCE && !shown() {
            thread::sleep(POLL);
        }
    }

    fn run(&self, mut command: Command, timed: Option<(Duration, Interruption)>) -> Result<Ended> {
        let stderr = self.site.aside.join("stderr");
        let _ = fs::remove_file(self.trace());
        command.stderr(File::create(&stderr)?).process_group(0);
        let started = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", in_words(&command)))?;
        let pid = Pid::from_child(&child);
        if let Some((after, what)) = timed {
            thread::sleep(after.saturating_sub(started.elapsed()));
            // It is not waited for yet, so the number is still its own.
            let (signal, stopped) = match what {
                Interruption::Kill => (Signal::KILL, None),
                Interruption::Terminate => (Signal::TERM, None),
                Interruption::Stop(stopped) => (Signal::STOP, Some(stopped)),
            };
            kill_process(pid, signal)?;
            if let Some(stopped) = stopped {
                if child.try_wait()?.is_none() {
                    thread::sleep(stopped);
                }
                let _ = kill_process(pid, Signal::CONT);
            }
        }
        let mut hung_in = None;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() > PATIENCE {
                hung_in.get_or_insert_with(|| kernel_stacks(pid));
                let _ = kill_process_group(pid, Signal::KILL);
            }
            thread::sleep(POLL);
        };
        Ok(Ended {
            status,
            stderr: String::from_utf8_lossy(&fs::read(stderr)?).into_owned(),
            trace: String::from_utf8_lossy(&fs::read(self.trace()).unwrap_or_default()).into_owned(),
            hung_in,
        })
    }

    /// Recovers the file if need be, and judges what it holds.
    fn check_file(
        &self,
        plan: &TrialPlan,
        before: &Before,
        ended: &Ended,
        others: &Acknowledged,
        report: &mut TrialReport,
    ) -> Result<()> {
        let ending = ended.ending();
        let ends_early = plan.command.promise != Promise::Unchanged && ending != Ending::Success;
        let is_unrecovered = ends_early && self.file.exists() && self.recover(plan, before, others, report)?;
        let found = match fs::read(&self.file) {
            Ok(found) => found,
            Err(error) => {
                report.faults.push(Fault::new("lost name", error.to_string()));
                return Ok(());
            }
        };
        let model = Model {
            before: &plan.file.content.0,
            updates: &plan.command.updates,
            others,
            promise: plan.command.promise,
            ending,
            is_unrecovered,
            padding: if plan.injections.is_empty() && ending == Ending::Failure {
                0
            } else {
                4095
            },
            said_longer: if others.count() > 0 {
                said_longer(&ended.stderr)
            } else {
                0
            },
        };
        let is_in_place = plan.command.label != "update replace";
        match model.check(&found) {
            Some(fault) if [LOST_WRITE, LOST_APPEND].contains(&fault.kind) && plan.outlasts_lease() && is_in_place => {
                report.known_limit = true;
                let _ = write!(report.story, "; known limit: {}", fault.details);
            }
            fault => report.faults.extend(fault),
        }
        let now = properties(&self.file)?;
        report.faults.extend(check_properties(&before.properties, others, &now));
        let keeps_time = plan.command.label.starts_with("holes") && report.is_done && plan.other.is_none();
        if keeps_time && fs::metadata(&self.file)?.modified()? != before.modified {
            report.faults.push(Fault::new("changed time", ""));
        }
        if ends_early && !found.is_empty() {
            report.faults.extend(self.update_again(&found)?);
        }
        Ok(())
    }

    /// Recovers the file. Whether that was refused because others wrote to it.
    fn recover(
        &self,
        plan: &TrialPlan,
        before: &Before,
        others: &Acknowledged,
        report: &mut TrialReport,
    ) -> Result<bool> {
        let recovering = || {
            let mut command = self.seekless();
            command.arg("update").arg(&self.file).arg("--recover");
            command
        };
        if let Some(when) = plan.recovery_killed_at {
            let kill = Injection {
                call: "pwrite64",
                when,
                what: What::Kill,
            };
            self.run(self.traced(&[kill], recovering()), None)?;
        }
        let ended = self.run(recovering(), None)?;
        if ended.ending() != Ending::Success {
            let _ = write!(
                report.story,
                "\nrecovering it: {}: {}",
                ended.status,
                ended.stderr.trim_end()
            );
            // As the messages say: what others changed is the good one.
            if ended.stderr.contains("compare the two") && others.count() > 0 {
                let only_properties = others.saved.is_none() && others.writes.is_empty();
                let is_good = check_properties(&before.properties, others, &properties(&self.file)?).is_empty();
                for entry in fs::read_dir(&self.site.directory)? {
                    let entry = entry?;
                    if !entry.file_name().to_string_lossy().starts_with(".seekless-new-") {
                        continue;
                    }
                    if only_properties && is_good {
                        fs::remove_file(entry.path())?;
                    } else {
                        fs::rename(entry.path(), &self.file)?;
                    }
                }
                report.faults.extend(self.left()?);
                return Ok(false);
            }
            if !others.may_outdate_journal() {
                report.faults.push(Fault::new("cannot recover", ""));
            }
            let _ = fs::remove_file(self.site.directory.join(".file.seekless-journal"));
        }
        report.faults.extend(self.left()?);
        Ok(ended.ending() != Ending::Success)
    }

    /// Gives the file the first byte that it has.
    fn update_again(&self, found: &[u8]) -> Result<Option<Fault>> {
        let update = Update {
            offset: 0,
            bytes: found[..1].to_vec(),
        };
        let ended = self.run(self.update(&[update], "again")?, None)?;
        let mut faults = self.left()?;
        if ended.ending() != Ending::Success || fs::read(&self.file)? != found {
            faults.push(Fault::new("cannot update again", ended.stderr));
        }
        Ok(faults.pop())
    }

    fn left(&self) -> Result<Vec<Fault>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.site.directory)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(check_left(names.iter().map(String::as_str)))
    }
}

fn make_file(plan: &plan::TestFile, path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let content = &plan.content.0;
    file.set_len(content.len() as u64)?;
    for (number, block) in content.chunks(4096).enumerate() {
        if !plan.is_sparse || block.iter().any(|&byte| byte != 0) {
            file.write_all_at(block, number as u64 * 4096)?;
        }
    }
    if plan.has_attribute {
        setxattr(path, "user.ours", b"kept", XattrFlags::empty())?;
    }
    if plan.has_hard_link {
        fs::hard_link(path, path.with_extension("link"))?;
    }
    file.set_permissions(Permissions::from_mode(plan.mode))?;
    Ok(())
}

fn properties(path: &Path) -> Result<Properties> {
    let metadata = fs::metadata(path)?;
    let mut names = vec![0_u8; 4096];
    let length = listxattr(path, &mut names[..])?;
    let mut attributes = BTreeMap::new();
    for name in names[..length].split(|&byte| byte == 0) {
        let name = String::from_utf8_lossy(name).into_owned();
        if name.starts_with("user.") {
            let mut value = vec![0_u8; 256];
            let length = getxattr(path, &name, &mut value[..])?;
            value.truncate(length);
            attributes.insert(name, value);
        }
    }
    Ok(Properties {
        owner: metadata.uid(),
        mode: metadata.mode() & 0o7777,
        attributes,
    })
}

/// Leaves next to no room on a file system.
fn fill_up(ballast: &Path, free_bytes: u64) -> Result<()> {
    let file = File::create_new(ballast)?;
    let (mut end, mut piece) = (0, 1 << 30);
    while piece >= 4096 {
        match fallocate(&file, FallocateFlags::empty(), end, piece) {
            Ok(()) => end += piece,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::NOSPC) => piece /= 4,
            Err(error) => return Err(error).context("cannot fill the file system"),
        }
    }
    file.set_len(end.saturating_sub(free_bytes))?;
    Ok(())
}
