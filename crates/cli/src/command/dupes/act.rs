//! `seekless dupes act` and `seekless dupes --action`: what is done with duplicates, by rules for what stays.
//!
//! Not here: its options (`how`); the rules, and acting (`tools`); what it looks like (`show`).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, anyhow};
use clap::{ArgGroup, Args};
use seekless::files::{open_own_input, read_within};
use seekless_results::bytes;
use seekless_sys::Support;
use seekless_tools::Stop;
use seekless_tools::dupes::EqualFiles;
use seekless_tools::dupes::act::choose::{Chosen, GroupChoice};
use seekless_tools::dupes::act::origin::SearchOrigin;
use seekless_tools::dupes::act::plan;
use seekless_tools::dupes::act::report;
use seekless_tools::dupes::act::rules::{RULES, Rule};
use seekless_tools::dupes::act::{self, ActingOptions, Action, RunEvent, Step, StepOutcome};

use super::by_hand::choose_by_hand;
use super::how::{ACTIONS, ActOptions};
use crate::call;
use crate::command::confirm::is_agreed;
use crate::command::values::{JsonOptions, one_of};
use crate::command::{Failure, expect_wishes, raise_open_files, standard_input, unless_stopped};
use crate::hint::WITHOUT_LEASES;
use crate::output::{Output, require_own};
use crate::show::{Activity, Acts, Amount, LINE};
use crate::signals::{Caught, stopping};

/// Remove, link or move duplicates that a search found.
///
/// Reads what `seekless dupes --json` or --jsonl printed, decides by the rules of --keep which files stay, prints what
/// will be done, and asks. The rules are an order of preference, and at least one file of each group stays. Right before it acts,
/// seekless checks that a file has not changed since the search and is not open for writing, and compares its bytes
/// with those of the file that stays. `seekless dupes undo` restores the files.
///
/// If the report was made with --dirs, `move` and `reflink` act on all files in equal directories; `move` then removes the
/// directories that are empty.
///
/// The exit code is 0 if everything was done, 1 if a file was left alone, and 2 if something failed or a part of the
/// report was refused.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("what").multiple(false).required(true)),
    mut_arg("action", |action| action.group("what")),
    mut_arg("plan", |plan| plan.group("what")),
    after_help = "\
Rules of --keep, an order of preference from left to right:
  newest, oldest         prefers the file with the latest or earliest mtime
  shortest, longest      prefers the file with the shortest or longest path
  first                  prefers the first file, in the order of the PATHs of the search
  name:GLOB, path:GLOB   prefers files whose name or path matches; all of them stay
  under:DIR              prefers files that are below DIR; all of them stay
  not-under:DIR          prefers files that are not below DIR; all of them stay
  at-least:N             N files of each group stay, in the order of preference
If a rule treats files alike, the next rule decides, and the path after the last one. The file
of each group that comes first in this order stays. Every file that name, path, under or
not-under matches stays, too, wherever the rule stands:
  --keep path:originals --keep oldest   files in originals; the oldest file if there are none
  --keep oldest --keep path:originals   the oldest file, and all files in originals
The mtime of a directory is the latest of the files in it.

Examples:
  seekless dupes --json photos > report                   # search now,
  seekless dupes act remove --keep oldest --from report   # act later
  seekless dupes act hardlink --keep first --from report --dry-run
  seekless dupes act move --to old --keep 'path:photos/**' --from report
  seekless dupes act remove --prune --keep newest --from report
  seekless dupes act trash --keep newest --from report
  seekless dupes act remove --without-leases --from report  # as on NFS or exFAT
  seekless dupes act remove --keep newest --from report --plan-file plan
  seekless dupes act --plan plan                          # after editing it")]
pub struct ActArguments {
    /// What to do with the duplicates
    #[arg(value_name = "ACTION", value_parser = one_of(ACTIONS))]
    action: Option<Action>,
    /// Read the report from FILE; `-` is standard input
    #[arg(long, value_name = "FILE", default_value = "-", conflicts_with = "plan")]
    from: PathBuf,
    /// Carry out a plan (see --plan-file), as it is or after editing it; lines that fail a check are refused
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOptions,
    /// Hide progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    how: ActOptions,
}

/// What is to be done, before it is shown.
struct Work {
    action: Action,
    /// Where the search was made.
    origin: SearchOrigin,
    chosen: Chosen,
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
    pub is_fresh: bool,
    pub is_stdin_used: bool,
}

pub fn run(arguments: &ActArguments) -> Result<u8, Failure> {
    raise_open_files();
    let how = &arguments.how;
    if let Some(file) = &arguments.plan {
        let has_rules = !how.keep.is_empty() || how.interactive;
        if has_rules || how.to.is_some() || how.absolute || how.names || how.plan_file.is_some() {
            return Err(anyhow!(
                "--plan takes no --keep, --interactive, --to, --absolute, --names or --plan-file: the plan says what is done"
            )
            .into());
        }
        let (text, is_stdin_used) = text_of(file)?;
        let read =
            plan::read(&text).map_err(|why| anyhow!("{}: cannot use the plan: {why}", super::read_from(file)))?;
        if how.prune && !read.action.empties() {
            return Err(anyhow!("only remove, move and trash take --prune").into());
        }
        let work = Work {
            chosen: read.chosen,
            action: read.action,
            origin: read.origin,
            is_stdin_used,
            has_failures: false,
            is_fresh: false,
        };
        return work.finish(how, &arguments.json, arguments.quiet);
    }
    let action = arguments.action.as_ref().context("name an action")?;
    let (action, rules) = how.action(action)?;
    let file = &arguments.from;
    if super::read_from(file) == "standard input" && call::input().is_terminal() {
        return Err(
            anyhow!("no report: name a file with --from, or pipe the output of `seekless dupes --json` in").into(),
        );
    }
    let (text, is_stdin_used) = text_of(file)?;
    let read = report::read(&text, action.takes_directories())
        .map_err(|why| anyhow!("{}: cannot use the report: {why}", super::read_from(file)))?;
    drop(text);
    let searched = Searched {
        origin: read.origin,
        groups: read.groups,
        has_failures: false,
        is_fresh: false,
        is_stdin_used,
    };
    let mut work = Work::of_groups(action, rules, searched, how)?;
    work.chosen.refused.splice(0..0, read.refused);
    work.finish(how, &arguments.json, arguments.quiet)
}

/// Acts on what a search found.
pub fn act_on(
    action: &Action,
    how: &ActOptions,
    searched: Searched,
    json: &JsonOptions,
    quiet: bool,
) -> Result<u8, Failure> {
    let (action, rules) = how.action(action)?;
    Work::of_groups(action, rules, searched, how)?.finish(how, json, quiet)
}

/// Reads a plan or report: of at most half the size of the memory, as more could not be acted on.
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

impl Work {
    fn of_groups(
        action: Action,
        mut rules: Vec<Rule>,
        mut searched: Searched,
        how: &ActOptions,
    ) -> Result<Self, Failure> {
        if how.interactive {
            rules = vec![choose_by_hand(&mut searched)?];
        } else if rules.is_empty() && !searched.origin.roots.iter().any(|root| root.is_reference) {
            return Err(anyhow!("use --keep RULE or --interactive to say which files stay; rules are {RULES}").into());
        }
        Ok(Self {
            chosen: Chosen::of_groups(&action, &rules, &searched.origin, &searched.groups),
            action,
            origin: searched.origin,
            is_stdin_used: searched.is_stdin_used,
            has_failures: searched.has_failures,
            is_fresh: searched.is_fresh,
        })
    }

    /// Shows what is to be done, asks, does it, and says what was done.
    fn finish(mut self, how: &ActOptions, json: &JsonOptions, quiet: bool) -> Result<u8, Failure> {
        let form = json.form();
        how.require_answer(form)?;
        let options = how.options(self.is_fresh)?;
        let (stop, caught) = stopping(Stop::stop)?;
        expect_wishes()?;
        let mut steps: Vec<Step> = self.chosen.steps().cloned().collect();
        LINE.begin(!quiet, progress("checking", steps.len()));
        let mut left: Vec<Option<StepOutcome>> = vec![None; steps.len()];
        for (number, outcome) in act::check(&self.action, &steps, &options) {
            left[number] = Some(outcome);
        }
        LINE.end();
        let mut acts = Acts::new(&self.action, form);
        for refused in &self.chosen.refused {
            acts.refused(refused)?;
        }
        let told = |rule: &Rule| format!("--keep {rule} matches none of the equal files");
        super::tell_all(&self.chosen.unmatched.iter().map(told).collect::<Vec<_>>());
        if let Some(file) = &how.plan_file {
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
            super::tell_all(&[format!("hint: {WITHOUT_LEASES}")]);
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

    /// Adds the steps for directories that acting leaves empty.
    fn prune(&mut self, steps: &mut Vec<Step>, left: &mut Vec<Option<StepOutcome>>, options: &ActingOptions) {
        let done = steps.iter().zip(&*left).filter(|(_, left)| left.is_none());
        let emptied = act::emptied(done.map(|(step, _)| step), &self.origin.paths());
        if emptied.is_empty() {
            return;
        }
        let mut outcomes = vec![None; emptied.len()];
        for (number, outcome) in act::check(&self.action, &emptied, options) {
            outcomes[number] = Some(outcome);
        }
        left.extend(outcomes);
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
        acts: &mut Acts,
        quiet: bool,
    ) -> Result<(), Failure> {
        // Even if there is nothing to do, killed runs are settled.
        LINE.begin(!quiet && !steps.is_empty(), progress("acting", steps.len()));
        let shared = Mutex::new((&mut *acts, 0, Ok(())));
        let tell = |told: RunEvent<'_>| {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let (number, outcome) = match told {
                RunEvent::Step(number, outcome) => (number, outcome),
                RunEvent::Settled(path, settled) => return shared.0.settled(path, settled),
            };
            shared.1 += 1;
            // There may be many; the last line reports that the run was stopped.
            if stop.is_stopped() && matches!(outcome, StepOutcome::Left { .. }) {
                shared.0.skip();
                return;
            }
            LINE.moved("acting", shared.1, Amount::Files(Some(steps.len() as u64)));
            let told = shared.0.outcome(&steps[number], outcome);
            if shared.2.is_ok() {
                shared.2 = told;
            }
        };
        let ran = act::run(&self.action, steps, options, stop, &tell);
        LINE.end();
        let (_, _, told) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ran = ran.map_err(|error| unsourced(&error))?;
        if !steps.is_empty() || acts.has_needless() {
            acts.ran(ran);
        }
        told.context("files were acted on, but the output cannot be written")?;
        Ok(())
    }

    /// Asks on the terminal.
    fn is_agreed(&self, acts: &Acts, caught: &Caught) -> Result<bool, Failure> {
        let unasked = "cannot ask without a terminal; use --yes to act, or --dry-run to see the plan only";
        is_agreed(&acts.question(), unasked, self.is_stdin_used, caught)
    }

    /// Writes the plan to a file.
    fn write(&self, file: &Path, left: &[Option<StepOutcome>], acts: &mut Acts) -> anyhow::Result<()> {
        require_own(file, "a plan", plan::is_plan)?;
        let output = Output::prepare(file, [])?;
        let mut planned = [0; 2];
        for (step, left) in self.chosen.steps().zip(left) {
            match left {
                Some(outcome) => acts.outcome(step, outcome)?,
                None => planned[usize::from(step.file.is_directory)] += 1,
            }
        }
        let title = "A plan of seekless dupes. To act: seekless dupes act --plan FILE";
        let heading = |choice: &GroupChoice| match choice.files {
            Some(_) => "In equal directories".to_owned(),
            None => format!("Equal files of {}", bytes(choice.bytes)),
        };
        let is_stdout = output.is_stdout();
        output.write(&plan::text(
            &self.action,
            &self.origin,
            &self.chosen,
            left,
            title,
            &heading,
        ))?;
        if !is_stdout {
            acts.plan_written(file, planned)?;
            acts.needless()?;
        }
        Ok(())
    }

    /// The exit code.
    fn ended(&self, acts: &Acts) -> Result<u8, Failure> {
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

fn progress(doing: &'static str, of: usize) -> Activity {
    Activity {
        doing,
        name: String::new(),
        amount: Amount::Files(Some(of as u64)),
    }
}
