//! One trial: the files made, the command run, what a user does then, and what is left judged.
//!
//! Not here: what must hold (`oracle`).

use std::fmt::Write as _;
use std::fs;
use std::mem::take;
use std::os::unix::process::ExitStatusExt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use rustix::process::Signal;
use seekless_engine::files::hexadecimal;

use super::draw::{TrialPlan, TrialSubject};
use super::harm::Harm;
use super::oracle::{Evidence, KEPT_BOTH, Promise, brief};
use super::others::{Act, act_often};
use super::site::{Ended, Site};
use super::tree::{make_tree, read_tree};

/// What undo says where all journals are undone.
const NOTHING: &str = "there is nothing to undo";

/// What became of a trial.
pub struct TortureReport {
    /// What is counted of it: see `COLUMNS` of the table.
    pub counts: [usize; 5],
    /// What was run, what others did, and the faults.
    pub story: String,
}

struct Trial<'a> {
    site: &'a Site<'a>,
    evidence: Evidence<'a>,
    faults: Vec<String>,
    /// All runs ended with success.
    is_smooth: bool,
}

/// Runs a trial. An error is one of the harness, not of seekless.
pub fn run(plan: &TrialPlan, site: &Site<'_>) -> Result<TortureReport> {
    site.begin()?;
    make_tree(&plan.tree, plan.is_sparse, &site.directory).context("cannot make the tree")?;
    let mut updates = String::new();
    for patch in &plan.patches {
        let hex = hexadecimal(&patch.bytes);
        writeln!(updates, r#"{{"offset": {}, "hex": "{hex}"}}"#, patch.offset)?;
    }
    fs::write(site.aside.join("updates"), updates)?;
    let mut trial = Trial {
        site,
        evidence: Evidence::new(plan, &site.directory, read_tree(&site.directory)?),
        faults: Vec::new(),
        is_smooth: true,
    };
    let is_over = &AtomicBool::new(false);
    let (ended, acts) = thread::scope(|scope| {
        let act = |seed| scope.spawn(move || act_often(plan, &site.directory, seed, is_over));
        let acting = plan.others.map(act);
        let ended = trial.step(&plan.words, &plan.harm);
        let recovered = match &ended {
            Ok(ended) if plan.stays => trial.recover(plan, ended).map(drop),
            _ => Ok(()),
        };
        is_over.store(true, Ordering::SeqCst);
        let acts = acting.map(|acting| acting.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (recovered.and(ended), acts)
    });
    let ended = ended?;
    trial.evidence.others_did(acts.unwrap_or_default());
    trial.finish(plan, &ended)?;
    let (mut faults, mut story) = (trial.faults, take(&mut trial.evidence.told));
    faults.dedup();
    for act in trial.evidence.done().filter(|_| !faults.is_empty()) {
        writeln!(story, "others: {}", brief(act, 300))?;
    }
    story.extend(faults.iter().map(|fault| format!("fault: {fault}\n")));
    let is_killed = ended.status.signal() == Some(Signal::KILL.as_raw());
    let acts = trial.evidence.done().count();
    let [done, killed, failed] = [ended.status.success(), is_killed, !faults.is_empty()].map(usize::from);
    let counts = [1, done, killed, acts, failed];
    Ok(TortureReport { counts, story })
}

impl Trial<'_> {
    /// Runs a command, and checks how it ends.
    fn step(&mut self, words: &str, harm: &Harm) -> Result<Ended> {
        let target = self.evidence.plan.target.as_ref();
        let argument = |word: &str| match word {
            "FILE" => target.map_or(String::new(), |target| target.display().to_string()),
            "UPDATES" => self.site.aside.join("updates").display().to_string(),
            word => word.to_owned(),
        };
        let arguments: Vec<_> = words.split_whitespace().map(argument).collect();
        let ended = self.site.run(&arguments, harm)?;
        let (status, stderr) = (ended.status, &ended.stderr);
        writeln!(self.evidence.told, "{words}: {status}: {}", stderr.trim_end())?;
        self.is_smooth &= status.success();
        let signals = [Signal::KILL, Signal::INT, Signal::TERM].map(Signal::as_raw);
        let is_sent = status.signal().is_none_or(|signal| signals.contains(&signal));
        // An error may be injected before the program is loaded.
        let is_loaded = !stderr.contains("error while loading shared libraries");
        let is_known = |code| [0, 1, 2, 130, 143].contains(&code) || !is_loaded;
        self.expect(!ended.is_hung, "hangs", words);
        self.expect(!stderr.contains("panicked at"), "panic", words);
        self.expect(is_sent && status.code().is_none_or(is_known), "exit status", words);
        Ok(ended)
    }

    fn expect(&mut self, is_right: bool, kind: &'static str, words: &str) {
        if !is_right {
            self.faults.push(format!("{kind}: {words}"));
        }
    }

    /// Runs what follows: first with what it meets, then to its end. Returns how it ended.
    fn recover(&mut self, plan: &TrialPlan, ended: &Ended) -> Result<Option<Ended>> {
        let (words, times) = match (plan.subject, plan.undo_times) {
            (TrialSubject::Update, _) if ended.status.success() && !plan.loses_power() => return Ok(None),
            (TrialSubject::Update, _) => ("update FILE --recover", 1),
            (_, 0) => (&plan.words[..], 1),
            (_, times) => ("dupes undo", times),
        };
        if let Some(harm) = &plan.recovery_harm {
            self.step(words, harm)?;
        }
        let mut last = None;
        for _ in 0..times {
            let recovered = self.step(words, &Harm::default())?;
            let may_fail = plan.others.is_some() || recovered.stderr.contains(NOTHING) || may_refuse(plan, &recovered);
            self.expect(may_fail || recovered.status.success(), "cannot recover", words);
            last = Some(recovered);
        }
        Ok(last)
    }

    /// Runs what follows the command, and judges what is left after each.
    fn finish(&mut self, plan: &TrialPlan, first: &Ended) -> Result<()> {
        let is_done = first.status.success() && (plan.harm.power.is_none() || plan.is_durable());
        let (is_met, is_of_update) = (plan.others.is_some(), plan.subject == TrialSubject::Update);
        let mut last = None;
        if !plan.stays {
            let may_fail = is_met || !plan.harm.only_slows() || may_refuse(plan, first);
            self.expect(may_fail || first.status.success(), "needless failure", &plan.words);
            let promise = match plan.subject {
                _ if is_done => Promise::New,
                TrialSubject::Cp => Promise::OldOrNew,
                _ if plan.has("replace") => Promise::OldOrNew,
                _ => Promise::EachByte,
            };
            let (is_kept, ended) = (plan.harm.power.is_none(), Some(first));
            let is_clean = plan.target.is_some() && is_done && is_kept;
            self.judge(promise, ended.filter(|_| !is_met && is_kept), is_clean)?;
            last = self.recover(plan, first)?;
        }
        if is_of_update {
            let is_refused = last.is_some_and(|last| !last.status.success());
            let mut left = read_tree(&self.site.directory)?;
            left.retain(|path, _| path.to_string_lossy().contains("seekless-journal"));
            for path in left
                .keys()
                .filter(|_| is_refused && !self.evidence.told.contains(KEPT_BOTH))
            {
                // As the message says.
                fs::remove_file(self.site.directory.join(path))?;
            }
            let promise = match is_refused || plan.has("in-place") {
                _ if is_done => Promise::New,
                true => Promise::EachByte,
                false => Promise::OldOrNew,
            };
            self.judge(promise, None, true)?;
            last = Some(self.step(&plan.words, &Harm::default())?);
        }
        let last = last.filter(|_| plan.undo_times == 0);
        let is_done = last.as_ref().is_some_and(|last| last.status.success());
        // A file that took the name may be too short.
        let is_another = plan.action().is_some() || self.evidence.done().any(Act::gives_name);
        let may_fail = is_another || last.as_ref().is_some_and(|last| may_refuse(plan, last));
        self.expect(is_done || may_fail, "cannot be done again", &plan.words);
        let promise = if is_done { Promise::New } else { Promise::EachByte };
        let is_alone = !is_met || plan.subject == TrialSubject::Cp;
        self.judge(promise, last.as_ref().filter(|_| is_alone), true)?;
        if plan.undo_times > 0 && !is_met {
            let now = read_tree(&self.site.directory)?;
            let restored = self.evidence.check_restored(&now, !plan.harm.injects("error"));
            self.faults.extend(restored);
        }
        Ok(())
    }

    /// Judges what is there, and what a command did that ended so, if nobody else changed that; `is_clean` if nothing may be left.
    fn judge(&mut self, promise: Promise, ended: Option<&Ended>, is_clean: bool) -> Result<()> {
        let (evidence, now) = (&self.evidence, read_tree(&self.site.directory)?);
        self.faults.extend(evidence.check(&now, promise));
        if is_clean {
            self.faults.extend(evidence.check_left(&now));
        }
        match (ended.and_then(|ended| ended.status.code()), evidence.plan.action()) {
            (Some(0), None) => self.faults.extend(evidence.check_done(&now, self.is_smooth)),
            (Some(code @ (0 | 1)), Some(_)) => self.faults.extend(evidence.check_acted(&now, code == 0)),
            _ => {}
        }
        Ok(())
    }
}

/// Whether a command may refuse to work though nothing disturbs it.
fn may_refuse(plan: &TrialPlan, ended: &Ended) -> bool {
    // A method may be unavailable, and a file with several names is not replaced. On an overlay, the mappings of all processes
    // must be seen. The descriptors of this process are for a moment those of what another worker starts.
    let reasons = ["does not show mappings", "in use", "it open", "opened it"];
    let is_left_alone = plan.action().is_some() && ended.status.code() == Some(1);
    let is_refused = reasons.iter().any(|reason| ended.stderr.contains(reason));
    is_left_alone || plan.has("--method") || !plan.has_one_name || is_refused
}
