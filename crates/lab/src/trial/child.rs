//! The child's side of a trial: prepares, waits, runs between two readings of the clock, and reports.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use seekless_engine::cache::CachedFile;
use seekless_engine::facts::ProcessFacts;
use seekless_engine::method::{Choice, Durability, PlannedChoice};
use seekless_engine::plan::Scan;
use seekless_engine::{
    Comparer, Consumer, Copier, Destination, FileRange, Method, Operation, ParseError, Reader, ScanFile, Scanner,
    Transfer, Verdict, Visits, Writer,
};
use seekless_record::{Cache, Command, Contest, Latency, Subject, Target, Trial};
use seekless_results::{has_settled, has_target};
use seekless_sys as sys;

use super::command::{run_judging, succeed, sync_file, write_updates};
use super::counters::{Counters, combined};
use super::error::{TrialError, status_of};
use super::launch::{GO, READY};
use super::update::{Updating, updates_seed};
use super::{Compared, ComparedVerdict, TrialPaths, TrialReply, TrialReport, TrialRequest, visits};
use crate::generator::Generator;
use crate::kernel::{Busy, Kernel, KernelAnswer, Tally};

/// Reads a [`TrialRequest`] from `input`, runs it, and writes the [`TrialReply`] to `output`.
///
/// # Errors
/// If the other end of a pipe is closed, or the input is not a spec.
pub fn serve(input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let spec: TrialRequest = serde_json::from_str(&line)?;
    let report = run(&spec, || {
        writeln!(output, "{READY}")?;
        output.flush()?;
        line.clear();
        input.read_line(&mut line)?;
        // The parent has ended, or wants no trial any more.
        if line.trim_end() == GO {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    });
    let outcome: TrialReply = match report {
        // Nobody waits for an outcome any more.
        Err(TrialError::System(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
        Err(TrialError::System(error)) => return Err(error),
        other => other.map_err(|error| status_of(&error)),
    };
    writeln!(output, "{}", serde_json::to_string(&outcome)?)?;
    output.flush()
}

fn run(spec: &TrialRequest, wait_for_go: impl FnOnce() -> io::Result<()>) -> Result<TrialReport, TrialError> {
    // If the parent is killed, the trial must not continue to write.
    sys::die_with_parent()?;
    if let Some(group) = &spec.cgroup {
        fs::write(Path::new(group).join("cgroup.procs"), process::id().to_string())?;
    }
    let contest = spec.contest.as_ref();
    let visits = contest.map_or_else(Vec::new, |contest| visits(contest, spec.draw_seed));
    let start = Instant::now();
    let mut prepared = prepare(spec)?;
    let setup = start.elapsed();
    if contest.is_some_and(|contest| contest.cache == Cache::Over) {
        prepared.estimate(spec)?;
        prepared.run_all(spec, &visits)?;
        remove_fresh_targets(spec)?;
    }
    wait_for_go()?;
    let setup = setup + prepared.estimate(spec)?;
    measure(spec, &mut prepared, &visits, setup)
}

/// A method with its buffers, rings and threads made.
enum Prepared<'a> {
    Update(Box<Updating>),
    Other(Work<'a>),
    /// Planned, and then prepared, when the files are in their cache state: the method, and the predicted seconds.
    Planned(&'a Contest, PlannedChoice, Option<(Work<'a>, Method, f64)>),
}

/// The work on a job, or on all of a scan; for random access and appends, with the blocks to visit.
type Work<'a> = Box<dyn FnMut(&[TrialPaths], Option<&Visits>, &mut TrialCounters) -> Result<Transfer, TrialError> + 'a>;

fn prepare(spec: &TrialRequest) -> Result<Prepared<'_>, TrialError> {
    let Some((contest, entry)) = spec.measured() else {
        return Ok(Prepared::Other(Box::new(|_, _, _| Ok(Transfer::default()))));
    };
    let choice = match &entry.subject {
        Subject::Command(command) => return Ok(Prepared::Other(prepare_command(command, contest, spec)?)),
        Subject::Plan(plan) => Choice::Plan(*plan),
        Subject::Method(text) => {
            let parsed = text.parse().map_err(|error: ParseError| error.to_string());
            Choice::Method(parsed.map_err(TrialError::Contest)?)
        }
    };
    let operation = contest.operation;
    if choice.operation() != operation {
        let why = format!("`{choice}` does not {operation}, but its contest requires that");
        return Err(TrialError::Contest(why));
    }
    Ok(match choice {
        _ if operation == Operation::Update => {
            let missing = || TrialError::Contest("its contest has no updates".to_owned());
            let pattern = contest.updates.ok_or_else(missing)?;
            Prepared::Update(Box::new(Updating::prepare(&choice, &pattern, spec)?))
        }
        Choice::Method(method) => Prepared::Other(prepare_method(spec, contest, &method)?),
        Choice::Plan(plan) => Prepared::Planned(contest, plan, None),
    })
}

fn prepare_method<'a>(spec: &'a TrialRequest, contest: &'a Contest, method: &Method) -> Result<Work<'a>, TrialError> {
    let longest = spec.jobs.iter().map(|job| job.bytes).max().unwrap_or(0);
    let destination = match contest.target {
        Target::Fresh | Target::Append => Destination::New,
        Target::Overwrite => Destination::Overwrite,
    };
    match contest.operation {
        Operation::Read => prepare_reading(contest, method, longest),
        Operation::Write => prepare_writing(spec, contest, method, longest, destination),
        Operation::Copy => {
            let mut copier = Copier::prepare_for(method, longest)?;
            Ok(Box::new(move |jobs, _, _| {
                let [source, target] = [&jobs[0].source, &jobs[0].target].map(Path::new);
                Ok(copier.copy(source, target, destination)?)
            }))
        }
        Operation::Scan => prepare_scanning(contest, method),
        Operation::Compare | Operation::Update => prepare_comparing(method, longest),
    }
}

fn prepare_reading<'a>(contest: &'a Contest, method: &Method, longest: u64) -> Result<Work<'a>, TrialError> {
    let mut reader = Reader::prepare_for(method, longest)?;
    let kernel = Kernel::named(&contest.kernel).unwrap_or_default();
    let ns_per_kib = contest.work_ns_per_kib;
    Ok(Box::new(move |jobs, visits, done| {
        let job = &jobs[0];
        let tally = Tally::new(kernel);
        let inner: &dyn Consumer = &tally;
        let busy = Busy { inner, ns_per_kib };
        let consumer = if ns_per_kib == 0 { inner } else { &busy };
        let source = Path::new(&job.source);
        let transfer = match visits {
            None => match job.part_start {
                None => reader.read(source, consumer)?,
                Some(start) => reader.read(FileRange::whole(source).range(start..start + job.bytes), consumer)?,
            },
            Some(visits) => reader.visit(source, visits, consumer)?,
        };
        done.answers.push(tally.answer());
        Ok(transfer)
    }))
}

fn prepare_writing<'a>(
    spec: &'a TrialRequest,
    contest: &'a Contest,
    method: &Method,
    longest: u64,
    destination: Destination,
) -> Result<Work<'a>, TrialError> {
    let mut busy = Busy {
        inner: Generator::new(spec.seed),
        ns_per_kib: contest.work_ns_per_kib,
    };
    let mut writer = Writer::prepare_for(method, longest)?;
    Ok(Box::new(move |jobs, visits, done| {
        let job = &jobs[0];
        let target = Path::new(&job.target);
        if !done.segment_seconds.is_empty() {
            // Each file of a sustained write has its own bytes, because some devices de-duplicate blocks.
            let segment = done.segment_seconds.len() as u64;
            busy.inner = Generator::new(spec.seed.wrapping_add(segment));
        }
        Ok(match visits {
            None => writer.write(target, destination, job.bytes, &busy)?,
            Some(visits) => writer.visit(target, visits, &busy)?,
        })
    }))
}

fn prepare_scanning<'a>(contest: &'a Contest, method: &Method) -> Result<Work<'a>, TrialError> {
    let mut scanner = Scanner::prepare(method)?;
    let kernel = Kernel::named(&contest.kernel).unwrap_or_default();
    Ok(Box::new(move |jobs, _, done| {
        let tallies: Vec<Tally> = jobs.iter().map(|_| Tally::new(kernel)).collect();
        let files = jobs.iter().zip(&tallies).map(|(job, consumer)| ScanFile {
            path: Path::new(&job.source),
            bytes: job.bytes,
            consumer,
        });
        let transfer = scanner.scan(&files.collect::<Vec<_>>())?;
        done.answers.extend(tallies.iter().map(Tally::answer));
        Ok(transfer)
    }))
}

fn prepare_comparing<'a>(method: &Method, longest: u64) -> Result<Work<'a>, TrialError> {
    let mut comparer = Comparer::prepare_for(method, longest)?;
    Ok(Box::new(move |jobs, _, done| {
        let job = &jobs[0];
        let comparison = comparer.compare(Path::new(&job.source), Path::new(&job.other))?;
        done.compared.push(Compared {
            verdict: match comparison.verdict {
                Verdict::Equal => ComparedVerdict::Equal,
                Verdict::Differ { offset } => ComparedVerdict::Differ(Some(offset)),
                Verdict::Ended { offset, .. } => ComparedVerdict::Ended(offset),
            },
            newlines: comparison.newlines,
            unread_bytes: comparison.unread_bytes,
        });
        let mut transfer = Transfer::default();
        (transfer.bytes, transfer.calls) = (job.bytes, comparison.calls);
        Ok(transfer)
    }))
}

fn prepare_command<'a>(command: &'a Command, contest: &Contest, spec: &TrialRequest) -> Result<Work<'a>, TrialError> {
    if let Some(pattern) = &contest.updates {
        for (index, job) in (0..).zip(&spec.jobs) {
            write_updates(pattern, updates_seed(spec.seed, index), job)?;
        }
    }
    // Messages are reported if the command fails. On a terminal they would be mixed with the progress.
    let messages = tempfile::tempfile()?;
    for job in spec.jobs.iter().filter(|_| !command.before.is_empty()) {
        succeed(&command.before, job, &messages)?;
        // Sync what `before` made, so that it is not written to the device while the clock runs.
        let target = Path::new(&job.target);
        if target.exists() {
            sync_file(target)?;
        }
    }
    // As the methods of its contest do.
    let syncs = contest.operation == Operation::Copy && contest.durability == Durability::Fsync;
    Ok(Box::new(move |jobs, _, done| {
        let job = &jobs[0];
        let verdict = run_judging(command, job, &messages, &mut done.printed)?;
        done.compared.extend(verdict);
        let fsync = if syncs {
            sync_file(Path::new(&job.target))?
        } else {
            Duration::ZERO
        };
        let mut transfer = Transfer::default();
        (transfer.bytes, transfer.fsync) = (job.bytes, fsync);
        Ok(transfer)
    }))
}

/// The sum over all jobs of a trial.
#[derive(Default)]
struct TrialCounters {
    transfer: Transfer,
    answers: Vec<KernelAnswer>,
    compared: Vec<Compared>,
    /// The hash of a command's output.
    printed: DefaultHasher,
    /// For a sustained write, the time of each job.
    segment_seconds: Vec<f64>,
}

impl<'a> Prepared<'a> {
    /// Measures and plans just before the clock starts; returns the time that took, which is part of the set-up.
    fn estimate(&mut self, spec: &'a TrialRequest) -> Result<Duration, TrialError> {
        let start = Instant::now();
        match self {
            Self::Update(updating) => {
                updating.estimate(&spec.jobs);
                if !updating.plans() {
                    return Ok(Duration::ZERO);
                }
            }
            Self::Planned(contest, plan, planned) => {
                let (method, predicted_seconds) = planned_for(spec, *plan)?;
                *planned = Some((prepare_method(spec, contest, &method)?, method, predicted_seconds));
            }
            Self::Other(_) => return Ok(Duration::ZERO),
        }
        Ok(start.elapsed())
    }

    /// The planned method, and the predicted seconds.
    fn planned(&self) -> (Option<String>, Option<f64>) {
        match self {
            Self::Update(updating) => updating.planned(),
            Self::Planned(.., Some((_, method, predicted))) => (Some(method.to_string()), Some(*predicted)),
            Self::Planned(.., None) | Self::Other(_) => (None, None),
        }
    }

    fn run_all(&mut self, spec: &TrialRequest, visits: &[Visits]) -> Result<TrialCounters, TrialError> {
        let mut done = TrialCounters {
            answers: Vec::with_capacity(spec.jobs.len()),
            compared: Vec::with_capacity(spec.jobs.len()),
            ..TrialCounters::default()
        };
        let begin = Instant::now();
        for (index, jobs) in spec.jobs.chunks(spec.jobs_together()).enumerate() {
            let job = &jobs[0];
            if spec.is_sustained() && is_over(spec, &done.segment_seconds, begin.elapsed().as_secs_f64(), job)? {
                break;
            }
            let start = Instant::now();
            let transfer = match self {
                Self::Update(updating) => updating.run(job)?,
                Self::Other(run) | Self::Planned(.., Some((run, ..))) => run(jobs, visits.get(index), &mut done)?,
                Self::Planned(.., None) => return Err(io::Error::other("there is no plan").into()),
            };
            done.transfer.bytes += transfer.bytes;
            done.transfer.hole_bytes += transfer.hole_bytes;
            done.transfer.calls += transfer.calls;
            done.transfer.fsync += transfer.fsync;
            if spec.is_sustained() {
                done.segment_seconds.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(done)
    }
}

/// The plan for the files of a trial: the plan of the first file, with its time multiplied by their number.
fn planned_for(spec: &TrialRequest, plan: PlannedChoice) -> Result<(Method, f64), TrialError> {
    let nothing = io::Error::other("there are no files to plan for");
    let job = spec.jobs.first().ok_or(nothing)?;
    let [source, other, target] = [&job.source, &job.other, &job.target].map(Path::new);
    seekless_engine::facts::prepares_for(spec.jobs.len() as u64);
    let found = match plan.operation {
        Operation::Read => Reader::plan(source, true)?,
        Operation::Write => Writer::plan(target, job.bytes, plan.durability, true)?,
        Operation::Copy => Copier::plan(source, target, plan.durability, true)?,
        Operation::Scan => {
            let resident = CachedFile::open(source).and_then(|file| file.resident())?;
            let many = Scan {
                files: spec.jobs.len() as u64,
                bytes: spec.jobs.iter().map(|job| job.bytes).sum(),
                resident: resident.part(),
            };
            Scanner::plan(source, &many, &ProcessFacts::here())?
        }
        Operation::Compare | Operation::Update => Comparer::plan(source, other, true)?,
    };
    let times = if plan.operation == Operation::Scan {
        1
    } else {
        spec.jobs.len()
    };
    let predicted_seconds = found.predicted.value.as_secs_f64() * times as f64;
    Ok((found.method, predicted_seconds))
}

/// Whether a sustained write ends before this job, given the seconds of each file so far, and the elapsed time.
fn is_over(spec: &TrialRequest, so_far: &[f64], elapsed: f64, next: &TrialPaths) -> io::Result<bool> {
    let Some(last) = so_far.last() else { return Ok(false) };
    let directory = Path::new(&next.target).parent().unwrap_or(Path::new("."));
    let left_bytes = sys::file_system(directory)?.free_bytes.saturating_sub(next.bytes);
    let is_late = spec.seconds_left.is_some_and(|seconds| elapsed + last > seconds);
    // A requested size is written completely.
    let settles = spec.contest.as_ref().is_some_and(|contest| contest.size_chosen);
    Ok(is_late || left_bytes < spec.spare_bytes || (settles && has_settled(so_far)))
}

/// Removes the targets of a rehearsal that the trial creates again.
fn remove_fresh_targets(spec: &TrialRequest) -> io::Result<()> {
    let writes = |contest: &Contest| has_target(contest) && contest.target != Target::Overwrite;
    if spec.is_of_command() || !spec.contest.as_ref().is_some_and(writes) {
        return Ok(());
    }
    spec.jobs.iter().try_for_each(|job| fs::remove_file(&job.target))
}

fn measure(
    spec: &TrialRequest,
    prepared: &mut Prepared<'_>,
    visits: &[Visits],
    setup: Duration,
) -> Result<TrialReport, TrialError> {
    let before = Counters::now(spec);
    let start = Instant::now();
    let done = prepared.run_all(spec, visits)?;
    let elapsed = start.elapsed();
    let after = Counters::now(spec);
    let (planned, predicted_seconds) = prepared.planned();
    let command = spec.measured().and_then(|(_, entry)| entry.command());
    let is_command = command.is_some();
    let (used, used_before) = (after.usage, before.usage);
    let io = after.io.zip(before.io);
    let devices = after.device.zip(before.device);
    let trial = Trial {
        seconds: elapsed.as_secs_f64(),
        fsync_seconds: done.transfer.fsync.as_secs_f64(),
        setup_seconds: setup.as_secs_f64(),
        user_seconds: used.user.saturating_sub(used_before.user).as_secs_f64(),
        system_seconds: used.system.saturating_sub(used_before.system).as_secs_f64(),
        voluntary_switches: used.voluntary_switches - used_before.voluntary_switches,
        involuntary_switches: used.involuntary_switches - used_before.involuntary_switches,
        minor_faults: used.minor_faults - used_before.minor_faults,
        major_faults: used.major_faults - used_before.major_faults,
        peak_memory_bytes: used.peak_memory_bytes,
        calls: (!is_command).then_some(done.transfer.calls),
        bytes: done.transfer.bytes,
        hole_bytes: (!is_command).then_some(done.transfer.hole_bytes),
        source_bytes: io.map(|(after, before)| after.read_bytes - before.read_bytes),
        sink_bytes: io.map(|(after, before)| after.write_bytes - before.write_bytes),
        device: devices.map(|(after, before)| combined(after, before, u64::saturating_sub)),
        system: after.system.since(before.system, elapsed.as_secs_f64()),
        updated: match prepared {
            Prepared::Update(updating) => Some(updating.account()),
            Prepared::Other(_) | Prepared::Planned(..) => None,
        },
        planned,
        predicted_seconds,
        latency: Latency::of(visits.iter().flat_map(Visits::latencies_ns).collect()),
        read_latency: Latency::of(visits.iter().flat_map(Visits::read_latencies_ns).collect()),
        segment_seconds: spec.is_sustained().then_some(done.segment_seconds),
        ..Trial::default()
    };
    Ok(TrialReport {
        trial,
        answers: done.answers,
        compared: done.compared,
        printed: command
            .filter(|command| command.same_output)
            .map(|_| done.printed.finish()),
    })
}
