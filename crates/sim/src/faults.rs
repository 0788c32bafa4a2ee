//! A plan of what goes wrong with a device: which requests fail, stall or lie, and when the power goes. Seeded, so that the same
//! requests in the same order meet the same faults.
//!
//! ```toml
//! [[fault]]
//! what = "eio"
//! on = ["write"]
//! range = ["0", "64M"]
//! nth = 100
//!
//! [[fault]]
//! what = "slow"
//! factor = 10.0
//! probability = 0.01
//! ```
//!
//! Not here: doing it, which is for the device, and what a power cut loses ([`power`](crate::power)).

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use serde::Deserialize;
use toml::Spanned;

use crate::power::PowerLoss;
use crate::request::{BlockRequest, RequestKind};

/// What can go wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It fails with EIO. A write that fails writes nothing, a flush that fails flushes nothing.
    Eio,
    /// It fails with ENOSPC, as on a device that is backed by less than it claims.
    Enospc,
    /// It is answered with half of its bytes; a write writes only these.
    Short,
    /// The device answers nothing for a time.
    Stall,
    /// It takes longer.
    Slow,
    /// A bit of it is flipped, and nobody is told.
    BitFlip,
    /// The flush is answered, and flushes nothing.
    LyingFlush,
    /// The power goes before it is served.
    PowerCut,
}

impl FaultKind {
    /// The requests that it can happen to.
    #[must_use]
    pub fn requests(self) -> &'static [RequestKind] {
        use RequestKind::{Discard, Flush, Read, Write};
        match self {
            Self::Eio | Self::Stall | Self::Slow | Self::PowerCut => &[Read, Write, Flush, Discard],
            Self::Enospc => &[Write, Discard],
            Self::Short | Self::BitFlip => &[Read, Write],
            Self::LyingFlush => &[Flush],
        }
    }
}

/// What happens to a request, all faults that it meets together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InjectedFaults {
    /// It fails, and does nothing.
    pub error: Option<RequestError>,
    /// It is answered with this many bytes, and moves no more.
    pub answered_bytes: u64,
    /// This bit of its bytes is flipped.
    pub flipped_bit: Option<u64>,
    /// It takes so many times what the model says.
    pub slower: f64,
    /// And so much longer, in ns.
    pub later_ns: u64,
    /// The device answers nothing for this time, in ns.
    pub stall_ns: u64,
    /// A flush that flushes nothing.
    pub is_lie: bool,
    /// The power goes before the request is served; what is lost is drawn where it is not given.
    pub power_cut: Option<Option<PowerLoss>>,
}

/// Why a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
}

impl InjectedFaults {
    /// Nothing goes wrong with a request.
    #[must_use]
    pub fn none(request: &BlockRequest) -> Self {
        Self {
            error: None,
            answered_bytes: request.length_bytes,
            flipped_bit: None,
            slower: 1.0,
            later_ns: 0,
            stall_ns: 0,
            is_lie: false,
            power_cut: None,
        }
    }
}

/// A plan of faults, and how far it is.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<FaultRule>,
    injected: u64,
}

/// One fault of a plan.
#[derive(Clone, Debug)]
struct FaultRule {
    what: FaultKind,
    on: Vec<RequestKind>,
    range: Range<u64>,
    nth: u64,
    probability: Option<f64>,
    times: u64,
    delay_ns: u64,
    factor: f64,
    loss: Option<PowerLoss>,
    matched: u64,
    rng: Rng,
}

/// What is wrong with a plan.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {message}")]
pub struct FaultPlanError {
    /// The file, or another origin of the text.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The field, what is wrong with it, and what is allowed.
    pub message: String,
}

impl Faults {
    /// The plan of a TOML text; errors name `origin` as its file. What is random follows from `seed`.
    ///
    /// # Errors
    /// [`FaultPlanError`] where it is no TOML, has an unknown key, or a fault that can never happen.
    pub fn from_toml(text: &str, origin: &str, seed: u64) -> Result<Self, FaultPlanError> {
        let parsed = toml::from_str::<PlanText>(text).map_err(|error| PlanProblem {
            span: error.span().unwrap_or_default(),
            message: error.message().replace('\n', "; "),
        });
        let checked = parsed.and_then(|plan| {
            let mut seeds = Rng::with_seed(seed);
            let rules = plan.fault.iter().enumerate();
            let rules = rules.map(|(number, fault)| {
                let rule = fault.get_ref().rule(&fault.span(), seeds.fork());
                rule.map_err(|PlanProblem { span, message }| PlanProblem {
                    span,
                    message: format!("fault {}: {message}", number + 1),
                })
            });
            Ok(Self {
                rules: rules.collect::<Result<_, _>>()?,
                injected: 0,
            })
        });
        checked.map_err(|PlanProblem { span, message }| {
            let before = text.get(..span.start).unwrap_or(text);
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            FaultPlanError {
                origin: origin.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message,
            }
        })
    }

    /// What happens to the next request.
    pub fn decide(&mut self, request: &BlockRequest) -> InjectedFaults {
        let mut injected = InjectedFaults::none(request);
        for rule in &mut self.rules {
            if rule.meets(request) {
                self.injected += 1;
                rule.inject(request, &mut injected);
            }
        }
        injected
    }

    /// How many faults were injected.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.injected
    }
}

impl FaultRule {
    /// Counts a request; whether the fault happens to it.
    fn meets(&mut self, request: &BlockRequest) -> bool {
        let is_in_range = request.kind == RequestKind::Flush
            || request.offset_bytes < self.range.end && request.end_bytes() > self.range.start;
        if self.times == 0 || !self.on.contains(&request.kind) || !is_in_range {
            return false;
        }
        self.matched += 1;
        let is_met = self.matched >= self.nth && self.probability.is_none_or(|chance| self.rng.f64() < chance);
        self.times -= u64::from(is_met);
        is_met
    }

    fn inject(&mut self, request: &BlockRequest, injected: &mut InjectedFaults) {
        match self.what {
            FaultKind::Eio => injected.error = Some(RequestError::Io),
            FaultKind::Enospc => injected.error = Some(RequestError::NoSpace),
            // Whole sectors, as a drive would; none of a request of one.
            FaultKind::Short => injected.answered_bytes = request.length_bytes / 1024 * 512,
            FaultKind::Stall => injected.stall_ns += self.delay_ns,
            FaultKind::Slow => {
                injected.slower *= self.factor;
                injected.later_ns += self.delay_ns;
            }
            FaultKind::BitFlip => injected.flipped_bit = Some(self.rng.u64(..(8 * request.length_bytes).max(1))),
            FaultKind::LyingFlush => injected.is_lie = true,
            FaultKind::PowerCut => injected.power_cut = Some(self.loss),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    fault: Vec<Spanned<FaultText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultText {
    what: FaultKind,
    on: Option<Spanned<Vec<RequestKind>>>,
    range: Option<Spanned<[String; 2]>>,
    nth: Option<Spanned<u64>>,
    probability: Option<Spanned<f64>>,
    times: Option<Spanned<u64>>,
    ms: Option<Spanned<f64>>,
    factor: Option<Spanned<f64>>,
    lose: Option<Spanned<PowerLoss>>,
}

/// What is wrong with a text, and where.
struct PlanProblem {
    span: Range<usize>,
    message: String,
}

impl FaultText {
    /// The fault that is written at `span`.
    fn rule(&self, span: &Range<usize>, rng: Rng) -> Result<FaultRule, PlanProblem> {
        let Self { what, range, .. } = self;
        let asked = self.on.as_ref().map_or(&[][..], |on| on.get_ref());
        let takes_delay = matches!(what, FaultKind::Stall | FaultKind::Slow);
        let happens_to = format!("`on` may only name {}", names(what.requests()));
        check(
            self.on.as_ref(),
            |on| !on.is_empty(),
            "`on` must name at least one kind of request",
        )?;
        check(
            self.on.as_ref(),
            |on| on.iter().all(|kind| what.requests().contains(kind)),
            &happens_to,
        )?;
        let has_address = *what != FaultKind::LyingFlush && !asked.contains(&RequestKind::Flush);
        check(
            range.as_ref(),
            |_| has_address,
            "`range` cannot be used with flushes, which have no address",
        )?;
        check(self.nth.as_ref(), |nth| *nth > 0, "`nth` must be at least 1")?;
        check(self.times.as_ref(), |times| *times > 0, "`times` must be at least 1")?;
        let is_chance = |chance: &f64| *chance > 0.0 && *chance <= 1.0;
        check(
            self.probability.as_ref(),
            is_chance,
            "`probability` must be above 0 and at most 1",
        )?;
        let is_time = |ms: &f64| takes_delay && *ms > 0.0 && *ms <= 3.6e6;
        let is_factor = |factor: &f64| *what == FaultKind::Slow && *factor > 1.0 && *factor <= 1e6;
        check(
            self.ms.as_ref(),
            is_time,
            "`ms` is only for stall and slow, and must be above 0 and at most 3600000",
        )?;
        check(
            self.factor.as_ref(),
            is_factor,
            "`factor` is only for slow, and must be above 1 and at most 1000000",
        )?;
        check(
            self.lose.as_ref(),
            |_| *what == FaultKind::PowerCut,
            "`lose` is only for power-cut",
        )?;
        if takes_delay && self.ms.is_none() && self.factor.is_none() {
            return Err(PlanProblem {
                span: span.clone(),
                message: "`ms` is missing: the delay in milliseconds, for example `ms = 100`".to_owned(),
            });
        }
        let bytes = range.as_ref().map_or(Some(0..u64::MAX), |range| {
            let [from, to] = range.get_ref();
            Some(parse_bytes(from)?..parse_bytes(to)?)
        });
        let bytes = bytes.filter(|bytes| !bytes.is_empty());
        let two_sizes = "`range` must be two sizes, the first below the second, for example `[\"0\", \"64M\"]`";
        check(range.as_ref(), |_| bytes.is_some(), two_sizes)?;
        let kinds = if asked.is_empty() { what.requests() } else { asked };
        // Where a range is given, a flush is not meant.
        let is_meant = |kind: &RequestKind| range.is_none() || *kind != RequestKind::Flush;
        let times = if self.nth.is_some() { 1 } else { u64::MAX };
        Ok(FaultRule {
            what: *what,
            on: kinds.iter().copied().filter(is_meant).collect(),
            range: bytes.unwrap_or_default(),
            nth: value(self.nth.as_ref()).unwrap_or(1),
            probability: value(self.probability.as_ref()),
            times: value(self.times.as_ref()).unwrap_or(times),
            delay_ns: value(self.ms.as_ref()).map_or(0, |ms| Duration::from_secs_f64(ms / 1e3).as_nanos() as u64),
            factor: value(self.factor.as_ref()).unwrap_or(1.0),
            loss: value(self.lose.as_ref()),
            matched: 0,
            rng,
        })
    }
}

fn value<T: Copy>(field: Option<&Spanned<T>>) -> Option<T> {
    field.map(|field| *field.get_ref())
}

/// Refuses the value of a field, if it has one.
fn check<T>(field: Option<&Spanned<T>>, is_right: impl Fn(&T) -> bool, message: &str) -> Result<(), PlanProblem> {
    match field.filter(|field| !is_right(field.get_ref())) {
        None => Ok(()),
        Some(field) => Err(PlanProblem {
            span: field.span(),
            message: message.to_owned(),
        }),
    }
}

fn names(kinds: &[RequestKind]) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    names.join(", ")
}

/// A number of bytes: digits, and K, M, G or T for powers of 1024.
fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Faults {
        Faults::from_toml(text, "plan.toml", 7).unwrap()
    }

    /// The numbers, from 1, of those among 100 writes of 4 KiB one after another that meet a fault.
    fn met(text: &str) -> Vec<u64> {
        let mut faults = faults(text);
        let mut is_met = |number: &u64| {
            let request = BlockRequest::new(RequestKind::Write, (number - 1) * 4096, 4096);
            faults.decide(&request) != InjectedFaults::none(&request)
        };
        (1..=100).filter(|number| is_met(number)).collect()
    }

    #[test]
    fn a_fault_happens_at_the_nth_matching_request() {
        assert_eq!(met("fault = [{what = 'eio', nth = 10}]"), [10]);
        assert_eq!(met("fault = [{what = 'eio', nth = 10, times = 3}]"), [10, 11, 12]);
        assert_eq!(met("fault = [{what = 'eio', times = 2}]"), [1, 2]);
        assert_eq!(met("fault = [{what = 'eio'}]").len(), 100);
        assert_eq!(met("fault = [{what = 'eio', range = ['16K', '24K'], nth = 2}]"), [6]);
        assert_eq!(met("fault = [{what = 'eio', range = ['1', '4097']}]"), [1, 2]);
        assert!(met("fault = [{what = 'eio', on = ['read', 'flush', 'discard']}]").is_empty());
    }

    #[test]
    fn a_probability_follows_from_the_seed_and_not_from_other_faults() {
        let some = met("fault = [{what = 'eio', probability = 0.2}]");
        assert!((5..50).contains(&some.len()), "{some:?}");
        assert_eq!(some, met("fault = [{what = 'eio', probability = 0.2}]"));
        let beside = met("fault = [{what = 'eio', probability = 0.2}, {what = 'slow', ms = 1, nth = 101}]");
        assert_eq!(some, beside);
        let limited = met("fault = [{what = 'eio', probability = 0.2, times = 2, nth = 50}]");
        assert!(limited.len() == 2 && limited[0] >= 50, "{limited:?}");
    }

    #[test]
    fn a_request_meets_all_faults_of_the_plan_together() {
        let mut faults = faults(
            "fault = [{what = 'slow', factor = 2, ms = 1}, {what = 'slow', factor = 3}, {what = 'stall', ms = 0.5},
             {what = 'short'}, {what = 'bit-flip'}, {what = 'lying-flush'}, {what = 'power-cut', nth = 2, lose = 'torn'}]",
        );
        let read = BlockRequest::new(RequestKind::Read, 0, 4096);
        let injected = faults.decide(&read);
        assert!(injected.flipped_bit.is_some_and(|bit| bit < 8 * 4096));
        let expected = InjectedFaults {
            answered_bytes: 2048,
            flipped_bit: injected.flipped_bit,
            slower: 6.0,
            later_ns: 1_000_000,
            stall_ns: 500_000,
            ..InjectedFaults::none(&read)
        };
        assert_eq!(injected, expected);
        let injected = faults.decide(&BlockRequest::new(RequestKind::Flush, 0, 0));
        assert!(injected.is_lie && injected.error.is_none());
        assert_eq!(injected.power_cut, Some(Some(PowerLoss::Torn)));
        assert_eq!(faults.injected(), 10);
    }

    #[test]
    fn a_full_device_fails_writes_and_a_flush_fails_once() {
        let mut faults =
            faults("fault = [{what = 'enospc', range = ['1M', '1T']}, {what = 'eio', on = ['flush'], times = 1}]");
        let mut error = |kind, offset| faults.decide(&BlockRequest::new(kind, offset, 4096)).error;
        assert_eq!(error(RequestKind::Write, 0), None);
        assert_eq!(error(RequestKind::Write, 1 << 20), Some(RequestError::NoSpace));
        assert_eq!(error(RequestKind::Read, 1 << 20), None);
        assert_eq!(error(RequestKind::Flush, 0), Some(RequestError::Io));
        assert_eq!(error(RequestKind::Flush, 0), None);
    }

    #[test]
    fn a_wrong_plan_is_told_by_fault_and_field_with_what_is_allowed() {
        let wrong = |fault: &str| {
            let text = format!("[[fault]]\nwhat = 'eio'\n\n[[fault]]\n{fault}\n");
            Faults::from_toml(&text, "plan.toml", 0).unwrap_err().to_string()
        };
        let no_range = "must be two sizes, the first below the second, for example `[\"0\", \"64M\"]`";
        let no_part = "must be above 0 and at most 1";
        let no_address = "cannot be used with flushes, which have no address";
        let no_delay = "is only for stall and slow, and must be above 0 and at most 3600000";
        let no_factor = "is only for slow, and must be above 1 and at most 1000000";
        let missing = "is missing: the delay in milliseconds, for example `ms = 100`";
        let no_kind = "must name at least one kind of request";
        let (eio, no_flush) = ("what = 'eio'\n", "what = 'lying-flush'\nrange = ['0', '1M']");
        let flushed = "what = 'short'\non = ['flush']";
        for (fault, place, field, problem) in [
            (&*format!("{eio}nth = 0"), "6:7", "nth", "must be at least 1"),
            (&format!("{eio}times = 0"), "6:9", "times", "must be at least 1"),
            (&format!("{eio}probability = 1.5"), "6:15", "probability", no_part),
            (&format!("{eio}on = []"), "6:6", "on", no_kind),
            (flushed, "6:6", "on", "may only name read, write"),
            (&format!("{eio}range = ['2M', '1M']"), "6:9", "range", no_range),
            (no_flush, "6:9", "range", no_address),
            (&format!("{eio}ms = 3"), "6:6", "ms", no_delay),
            ("what = 'slow'\nfactor = 0.5", "6:10", "factor", no_factor),
            (&format!("{eio}lose = 'torn'"), "6:8", "lose", "is only for power-cut"),
            ("what = 'stall'", "4:1", "ms", missing),
        ] {
            let message = format!("plan.toml:{place}: fault 2: `{field}` {problem}");
            assert_eq!(wrong(fault), message);
        }
        let kinds = "`eio`, `enospc`, `short`, `stall`, `slow`, `bit-flip`, `lying-flush`, `power-cut`";
        let fields = "`what`, `on`, `range`, `nth`, `probability`, `times`, `ms`, `factor`, `lose`";
        let unknown = format!("plan.toml:5:8: unknown variant `eios`, expected one of {kinds}");
        assert_eq!(wrong("what = 'eios'"), unknown);
        let unknown = format!("plan.toml:6:1: unknown field `where`, expected one of {fields}");
        assert_eq!(wrong("what = 'eio'\nwhere = 3"), unknown);
        assert_eq!(wrong("nth = 3"), "plan.toml:4:1: missing field `what`");
        let empty = Faults::from_toml("", "plan.toml", 0).unwrap_err();
        assert_eq!(empty.to_string(), "plan.toml:1:1: missing field `fault`");
    }
}
