//! Comparing larger regular files by a method of the engine: the requested one, or that of the plan.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use seekless_engine::cache::memory;
use seekless_engine::files::allocated_bytes;
use seekless_engine::plan::{Plan, PlanClock};
use seekless_engine::{Comparer, Comparison, Method, Planner, Progress, Side, Verdict, full_text};

use super::error::{CmpProblem, Error};
use super::lines::LineCount;
use super::side::CmpInput;
use super::{ByteDifference, CmpOutcome, CmpRequest, CmpVerdict, End, MethodUsed, TOLD_BYTES};
use crate::handle::path_of;
use crate::open_pair::{OpenRange, compare_pair, plan_pair};
use crate::watch::{JobProgress, JobWatch};

/// For smaller files, querying the memory takes as long as reading some hundred KiB again.
const REREAD_BYTES: u64 = 16 << 20;

/// What is left of an input: a range of an open file, and its bytes within the file.
struct Opened<'a> {
    side: &'a CmpInput,
    rest: OpenRange<'a>,
    bytes: u64,
}

impl<'a> Opened<'a> {
    fn new(side: &'a CmpInput, equal_bytes: u64, limit_bytes: Option<u64>) -> Result<Self, Error> {
        let regular = side.regular().ok_or_else(|| CmpProblem::NotRegular.of(&side.name));
        let (file, position, bytes) = regular?;
        let start = position + equal_bytes;
        Ok(Self {
            side,
            rest: OpenRange {
                file,
                path: path_of(file).unwrap_or_else(|| PathBuf::from(&side.name)),
                range: start..start.saturating_add(limit_bytes.unwrap_or(u64::MAX)),
            },
            bytes: bytes.saturating_sub(equal_bytes),
        })
    }

    fn start(&self) -> u64 {
        self.rest.range.start
    }

    fn byte_at(&self, offset: u64) -> Result<u8, Error> {
        let mut byte = [0];
        let at = self.start() + offset;
        let read = self.rest.file.read_exact_at(&mut byte, at);
        read.map_err(|source| self.failed(at, source))?;
        Ok(byte[0])
    }

    fn failed(&self, offset: u64, error: std::io::Error) -> Error {
        CmpProblem::Read(offset, error).of(&self.side.name)
    }
}

/// The rest of two files, after the bytes that are known to be equal.
pub(super) struct RestOfPair<'a> {
    sides: [Opened<'a>; 2],
    limit_bytes: Option<u64>,
    equal_bytes: u64,
    lines: Option<LineCount>,
    watch: &'a dyn JobWatch,
}

impl<'a> RestOfPair<'a> {
    /// For regular files. `lines` are those of the equal bytes, if requested.
    pub fn new(
        request: &CmpRequest,
        sides: &'a [CmpInput; 2],
        equal_bytes: u64,
        lines: Option<LineCount>,
        watch: &'a dyn JobWatch,
    ) -> Result<Self, Error> {
        let limit_bytes = request.limit_bytes.map(|limit| limit - equal_bytes);
        let opened = |side| Opened::new(side, equal_bytes, limit_bytes);
        Ok(Self {
            sides: [opened(&sides[0])?, opened(&sides[1])?],
            limit_bytes,
            equal_bytes,
            lines,
            watch,
        })
    }

    /// Compares by the plan's method.
    pub fn compare(&self, is_predicted: bool) -> Result<CmpOutcome, Error> {
        self.compare_by_plan(self.plan(is_predicted, || {
            memory().map_or(u64::MAX, |memory| memory.available_bytes)
        })?)
    }

    /// Compares by this method.
    pub fn compare_by(&self, method: &Method, why: &str) -> Result<CmpOutcome, Error> {
        self.outcome(self.run(method), MethodUsed::new(&method.to_string(), why))
    }

    fn plan(&self, is_predicted: bool, memory_bytes: impl FnOnce() -> u64) -> Result<Plan, Error> {
        let (one, bytes) = (&self.sides[0], self.bytes());
        let plan = plan_pair(self.rests(), is_predicted).map_err(|error| self.named(&error))?;
        if self.lines.is_none() || bytes < REREAD_BYTES {
            return Ok(plan);
        }
        let metadata = one.rest.file.metadata().map_err(|error| one.failed(0, error))?;
        Ok(plan.counting_lines(bytes.min(allocated_bytes(&metadata)), memory_bytes()))
    }

    fn rests(&self) -> [&OpenRange<'a>; 2] {
        self.sides.each_ref().map(|side| &side.rest)
    }

    fn bytes(&self) -> u64 {
        let [one, other] = &self.sides;
        one.bytes.min(other.bytes).min(self.limit_bytes.unwrap_or(u64::MAX))
    }

    fn compare_by_plan(&self, plan: Plan) -> Result<CmpOutcome, Error> {
        let (started, clock) = (Instant::now(), PlanClock::start());
        match self.run(&plan.method) {
            Err(seekless_engine::Error::Unavailable { method, reason, .. }) => {
                let why = format!("{}, but `{method}` is not available here: {reason}", plan.reason);
                self.compare_by(&plan.otherwise, &why)
            }
            comparison => {
                if let Ok(Comparison {
                    verdict: Verdict::Equal,
                    bytes,
                    ..
                }) = comparison
                {
                    clock.note(&self.sides[0].rest.path, &plan, bytes, Planner::default());
                }
                let way = MethodUsed::new(&plan.method.to_string(), &plan.reason.to_string());
                let planned = Some((plan, started.elapsed()));
                self.outcome(comparison, MethodUsed { planned, ..way })
            }
        }
    }

    fn run(&self, method: &Method) -> seekless_engine::Result<Comparison> {
        let [one, other] = &self.sides;
        let longest = (one.start() + one.bytes).max(other.start() + other.bytes);
        let mut comparer = Comparer::prepare_for(method, longest)?;
        let told = |done, of| {
            let progress = JobProgress::of_bytes(self.equal_bytes + done, Some(self.equal_bytes + of));
            self.watch.progress(&progress);
            self.watch.stop().go_on()
        };
        let is_told = self.bytes() >= TOLD_BYTES && self.watch.wants_progress();
        let progress = is_told.then_some(&told as &dyn Progress);
        compare_pair(self.rests(), method, &mut comparer, progress)
    }

    fn outcome(&self, comparison: seekless_engine::Result<Comparison>, way: MethodUsed) -> Result<CmpOutcome, Error> {
        let comparison = comparison.map_err(|error| self.named(&error))?;
        Ok(CmpOutcome {
            verdict: self.verdict(&comparison)?,
            compared_bytes: self.equal_bytes + comparison.bytes,
            unread_bytes: comparison.unread_bytes,
            way,
            rows: Vec::new(),
        })
    }

    fn verdict(&self, comparison: &Comparison) -> Result<CmpVerdict, Error> {
        let [one, other] = &self.sides;
        Ok(match comparison.verdict {
            Verdict::Equal => CmpVerdict::Equal,
            Verdict::Differ { offset } => CmpVerdict::Differ(ByteDifference {
                offset: self.equal_bytes + offset,
                line: self.all_lines(comparison)?.map(|lines| lines.newlines + 1),
                bytes: [one.byte_at(offset)?, other.byte_at(offset)?],
            }),
            Verdict::Ended { side, offset } => CmpVerdict::Ended(End::new(
                usize::from(side == Side::Right),
                self.equal_bytes + offset,
                self.all_lines(comparison)?,
            )),
        })
    }

    /// The lines of the equal part, counted in the file unless the method has counted them.
    fn all_lines(&self, comparison: &Comparison) -> Result<Option<LineCount>, Error> {
        let one = &self.sides[0];
        let Some(mut lines) = self.lines else { return Ok(None) };
        match (comparison.newlines, comparison.bytes.checked_sub(1)) {
            (_, None) => {}
            (Some(newlines), Some(last)) => {
                lines.newlines += newlines;
                lines.last_byte = Some(one.byte_at(last)?);
            }
            (None, Some(_)) => {
                let passed = lines.pass_file(one.rest.file, one.start(), comparison.bytes);
                passed.map_err(|error| one.failed(one.start(), error))?;
            }
        }
        Ok(Some(lines))
    }

    /// The engine's error, with the file's name as the user gave it.
    fn named(&self, error: &seekless_engine::Error) -> Error {
        let (path, problem) = match error {
            seekless_engine::Error::Resized {
                path,
                expected_bytes,
                found_bytes,
                ..
            } => {
                let (expected_bytes, found_bytes) = (*expected_bytes, *found_bytes);
                let problem = CmpProblem::Changed {
                    expected_bytes,
                    found_bytes,
                };
                (path, problem)
            }
            seekless_engine::Error::System {
                path, action, source, ..
            } => {
                let reason = format!("cannot {action}: {}", super::reason(source));
                (path, CmpProblem::Method(reason))
            }
            seekless_engine::Error::Unavailable {
                path, method, reason, ..
            } => {
                let reason = format!("`{method}` is not available here: {reason}");
                (path, CmpProblem::Method(reason))
            }
            seekless_engine::Error::Stopped { .. } => return Error::Stopped,
            other => (&self.sides[0].rest.path, CmpProblem::Method(full_text(other))),
        };
        let side = self.sides.iter().find(|side| side.rest.path == *path);
        problem.of(side.map_or(path.as_os_str(), |side| &side.side.name))
    }
}

#[cfg(test)]
mod tests;
