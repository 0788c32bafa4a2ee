//! `seekless dupes --action` and `seekless dupes act`: what is done with duplicates, by rules for what stays or by a plan.
//!
//! Not here: its options (`act_options`); the rules, and acting (`tools`); what it looks like (`show`).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{ArgGroup, Args};
use seekless_engine::files::{open_own_input, read_within};
use seekless_results::bytes;
use seekless_sys::Support;
use seekless_tools::Stop;
use seekless_tools::dupes::EqualFiles;
use seekless_tools::dupes::act::choose::{ActPlan, GroupChoice};
use seekless_tools::dupes::act::copies::SearchOrigin;
use seekless_tools::dupes::act::plan;
use seekless_tools::dupes::act::{self, ActingOptions, Action, RunEvent, Step, StepOutcome};

use super::act_options::{ActOptions, ChooseOptions};
use super::by_hand::choose_by_hand;
use crate::command::confirm::is_agreed;
use crate::command::values::JsonOptions;
use crate::command::{Failure, expect_wishes, raise_open_files, standard_input, unless_stopped};
use crate::hint::WITHOUT_LEASES;
use crate::output::{Output, require_own};
use crate::show::{ActReport, Amount, PROGRESS, say, showing};
use crate::signals::{CaughtSignal, stopping};

/// Carry out a plan, which may be edited.
///
/// A plan is what `seekless dupes --action ACTION --plan-file FILE` writes; lines that fail a check are refused. seekless
/// prints what will be done, and asks. Right before it acts on a file, it checks that the file has not changed since and is
/// not open for writing, and compares its bytes with those of the file that stays. `seekless dupes undo` restores the files.
///
/// The exit code is 0 if everything was done, 1 if a file was left alone, and 2 if something failed or a line of the plan was
/// refused.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("what").multiple(false).required(true)),
    mut_arg("plan", |plan| plan.group("what")),
    after_help = "\
Examples:
  seekless dupes --action remove --keep newest --plan-file plan photos
  seekless dupes act --plan plan                          # after editing it
  seekless dupes act --plan plan --prune --dry-run")]
pub struct ActArguments {
    /// The plan; `-` is standard input
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    #[command(flatten)]
    json: JsonOptions,
    /// Hide progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    how: ActOptions,
}

/// What is to be done, before it is shown.
struct ActRequest {
    action: Action,
    /// Where the search was made.
    origin: SearchOrigin,
    chosen: ActPlan,
    /// Whether standard input was read to its end.
    is_stdin_used: bool,
    /// Whether the search had errors.
    has_failures: bool,
    /// Whether it was made just now.
    is_fresh: bool,
}

/// What a search found, to act on.
pub struct Searched {
    pub origin: SearchOrigin,
    pub groups: Vec<EqualFiles>,
    pub has_failures: bool,
    pub is_stdin_used: bool,
}

pub fn run(arguments: &ActArguments) -> Result<u8, Failure> {
    raise_open_files();
    let (how, file) = (&arguments.how, &arguments.plan);
    let (text, is_stdin_used) = text_of(file)?;
    let read = plan::read(&text).map_err(|why| anyhow!("{}: cannot use the plan: {why}", super::read_from(file)))?;
    how.require_answer(arguments.json.form())?;
    let work = ActRequest {
        chosen: read.chosen,
        action: how.action(read.action)?,
        origin: read.origin,
        is_stdin_used,
        has_failures: false,
        is_fresh: false,
    };
    work.finish(how, None, &arguments.json, arguments.quiet)
}

/// Acts on what a search found.
pub fn act_on(
    action: &Action,
    choose: &ChooseOptions,
    mut searched: Searched,
    json: &JsonOptions,
    quiet: bool,
) -> Result<u8, Failure> {
    let (action, mut rules) = choose.action(action)?;
    if choose.interactive {
        let (rule, groups) = choose_by_hand(&searched.origin, searched.groups, searched.is_stdin_used)?;
        (rules, searched.groups) = (vec![rule], groups);
    }
    let work = ActRequest {
        chosen: ActPlan::of_groups(&action, &rules, &searched.origin, &searched.groups),
        action,
        origin: searched.origin,
        is_stdin_used: searched.is_stdin_used,
        has_failures: searched.has_failures,
        is_fresh: true,
    };
    work.finish(&choose.how, choose.plan_file.as_deref(), json, quiet)
}

/// Reads a plan: of at most half the size of the memory, as more could not be acted on.
fn text_of(file: &Path) -> anyhow::Result<(Vec<u8>, bool)> {
    let memory = seekless_sys::memory().ok().and_then(Support::available);
    let bytes_max = memory.map_or(4 << 30, |memory| memory.total_bytes / 2);
    let shown = super::read_from(file);
    let is_stdin = file == Path::new("-");
    let read = if is_stdin {
        standard_input().and_then(|input| read_within(input, bytes_max))
    } else {
        open_own_input(file).and_then(|file| read_within(file, bytes_max))
    };
    let text = read.with_context(|| format!("{shown}: cannot read"))?;
    Ok((text, is_stdin))
}

impl ActRequest {
    /// Shows what is to be done, asks, does it, and says what was done; or writes that to a plan file.
    fn finish(
        mut self,
        how: &ActOptions,
        plan_file: Option<&Path>,
        json: &JsonOptions,
        quiet: bool,
    ) -> Result<u8, Failure> {
        let form = json.form();
        let options = how.options(self.is_fresh)?;
        let (stop, caught) = stopping(Stop::stop)?;
        expect_wishes()?;
        let mut steps: Vec<Step> = self.chosen.steps().cloned().collect();
        PROGRESS.begin(!quiet, "checking", String::new(), all(&steps));
        let mut left = self.checked(&steps, &options);
        PROGRESS.end();
        let mut acts = ActReport::new(&self.action, form);
        for refused in &self.chosen.refused {
            acts.refused(refused)?;
        }
        for rule in &self.chosen.unmatched {
            say(&format!("--keep {rule} matches none of the equal files"));
        }
        if let Some(file) = plan_file {
            self.write(file, &left, &mut acts)?;
            return self.ended(&acts);
        }
        if how.prune {
            self.prune(&mut steps, &mut left, &options);
        }
        let shown = acts.plan(&self.chosen, &left, how.dry_run);
        if let Err(error) = shown {
            // Not attached as the source: a closed pipe must not count as success here.
            return Err(anyhow!("nothing was done, because the plan cannot be printed: {error}").into());
        }
        let why = left.iter().flatten().filter_map(StepOutcome::why);
        if why.into_iter().any(|why| why.is_of_file_system()) {
            say(&format!("hint: {WITHOUT_LEASES}"));
        }
        unless_stopped(&caught)?;
        if how.dry_run {
            acts.finish()?;
            return self.ended(&acts);
        }
        let chosen = steps.into_iter().zip(&left).filter(|(_, left)| left.is_none());
        let chosen: Vec<Step> = chosen.map(|(step, _)| step).collect();
        if !chosen.is_empty() && !how.yes && !self.chosen.unmatched.is_empty() {
            return Err(anyhow!("nothing was done: correct the rule, or use --yes").into());
        }
        if !chosen.is_empty() && !how.yes && !self.is_agreed(&acts, &caught)? {
            acts.nothing_done()?;
            return self.ended(&acts);
        }
        let acted = self.act(&chosen, &options, &stop, &mut acts, quiet);
        acts.finish()?;
        acted?;
        unless_stopped(&caught)?;
        self.ended(&acts)
    }

    /// The outcomes of steps that will not be done.
    fn checked(&self, steps: &[Step], options: &ActingOptions) -> Vec<Option<StepOutcome>> {
        let mut left = vec![None; steps.len()];
        for (number, outcome) in act::check(&self.action, steps, options) {
            left[number] = Some(outcome);
        }
        left
    }

    /// Adds the steps for directories that acting leaves empty.
    fn prune(&mut self, steps: &mut Vec<Step>, left: &mut Vec<Option<StepOutcome>>, options: &ActingOptions) {
        let done = steps.iter().zip(&*left).filter(|(_, left)| left.is_none());
        let emptied = act::emptied(done.map(|(step, _)| step), &self.origin.paths());
        if emptied.is_empty() {
            return;
        }
        left.extend(self.checked(&emptied, options));
        steps.extend(emptied.iter().cloned());
        self.chosen.choices.push(GroupChoice {
            steps: emptied,
            ..GroupChoice::default()
        });
    }

    fn act(
        &self,
        steps: &[Step],
        options: &ActingOptions,
        stop: &Stop,
        acts: &mut ActReport,
        quiet: bool,
    ) -> Result<(), Failure> {
        // Even if there is nothing to do, killed runs are recovered.
        PROGRESS.begin(!quiet && !steps.is_empty(), "acting", String::new(), all(steps));
        let mut told = Ok(());
        let event = |event: RunEvent<'_>| {
            match event {
                RunEvent::Recovered(path, recovered) => acts.recovered(path, recovered),
                // There may be many; the last line reports that the run was stopped.
                RunEvent::Step(_, StepOutcome::Left { .. }) if stop.is_stopped() => acts.skip(),
                RunEvent::Step(number, outcome) => {
                    let now = acts.outcome(&steps[number], outcome);
                    if told.is_ok() {
                        told = now;
                    }
                }
            }
            ControlFlow::Continue(())
        };
        let watch = showing(stop, event);
        let ran = act::run(&self.action, steps, options, &watch);
        PROGRESS.end();
        let ran = ran.map_err(|error| unsourced(&error))?;
        if !steps.is_empty() || acts.has_needless() {
            acts.ran(ran);
        }
        told.context("files were acted on, but the output cannot be written")?;
        Ok(())
    }

    /// Asks on the terminal.
    fn is_agreed(&self, acts: &ActReport, caught: &CaughtSignal) -> Result<bool, Failure> {
        let unasked = "cannot ask without a terminal; use --yes to act, or --dry-run to see the plan only";
        is_agreed(&acts.question(), unasked, self.is_stdin_used, caught)
    }

    /// Writes the plan to a file.
    fn write(&self, file: &Path, left: &[Option<StepOutcome>], acts: &mut ActReport) -> anyhow::Result<()> {
        require_own(file, "a plan", plan::is_plan)?;
        let output = Output::prepare(file, [])?;
        let mut planned = 0;
        for (step, left) in self.chosen.steps().zip(left) {
            match left {
                Some(outcome) => acts.outcome(step, outcome)?,
                None => planned += 1,
            }
        }
        let title = "A plan of seekless dupes. To act: seekless dupes act --plan FILE";
        let heading = |choice: &GroupChoice| format!("Equal files of {}", bytes(choice.bytes));
        let is_stdout = output.is_stdout();
        let (action, origin) = (&self.action, &self.origin);
        output.write(&plan::text(action, origin, &self.chosen, left, title, &heading))?;
        if !is_stdout {
            acts.plan_written(file, planned)?;
            acts.needless()?;
        }
        Ok(())
    }

    /// The exit code.
    fn ended(&self, acts: &ActReport) -> Result<u8, Failure> {
        if self.has_failures || !self.chosen.refused.is_empty() || acts.has_failed() {
            return Err(Failure::Errors(Vec::new()));
        }
        Ok(u8::from(acts.has_left()))
    }
}

/// The error of the core, whose message already includes its source.
pub fn unsourced(error: &act::Error) -> anyhow::Error {
    anyhow!("{error}")
}

/// The amount of work of these steps.
fn all(steps: &[Step]) -> Amount {
    Amount::Files(Some(steps.len() as u64))
}
