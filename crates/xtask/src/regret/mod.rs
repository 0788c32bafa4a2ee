//! `cargo xtask regret`: what plans by profiles cost, by operation: in saved runs, or on simulated disks in virtual time.

#[cfg(target_os = "linux")]
mod simulated;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use seekless_lab::regret::{Withheld, regrets_of};
use seekless_record::Run;
use seekless_results::Regrets;

use crate::rule::read_runs;

/// Which runs.
#[derive(Args)]
pub struct Arguments {
    /// The directory of saved runs, such as ~/.local/share/seekless/runs
    #[arg(required_unless_present = "simulated")]
    runs: Option<PathBuf>,
    /// Record the experiment `profile` on a disk without delay, which SEEKLESS serves, and replay it on all models (Linux, root)
    #[arg(long, value_name = "SEEKLESS", conflicts_with = "runs")]
    simulated: Option<PathBuf>,
    /// Also use runs of the same sitting; leave out only the contest's size
    #[arg(long)]
    same_sitting: bool,
    /// Also use the contest's size; leave out only the sitting
    #[arg(long, conflicts_with = "same_sitting")]
    same_size: bool,
    /// Print a line for each contest, too
    #[arg(long)]
    all: bool,
}

/// What plans cost, by operation.
#[derive(Default)]
struct Costs {
    /// Contests with enough rounds.
    contests: usize,
    /// Of these, contests that the run itself decides.
    decided: usize,
    /// Of these, contests that the profile covers.
    regrets: Vec<Regrets>,
}

/// Prints a Markdown table.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.runs {
        let all = costs(&read_runs(path)?, arguments);
        if all.is_empty() {
            bail!("{}: no contest of whole files has six rounds", path.display());
        }
        print_head("operation");
        for (operation, costs) in &all {
            println!("{}", line(operation, costs));
        }
        println!("{}", line("all", &sum(all)));
        return Ok(());
    }
    #[cfg(target_os = "linux")]
    {
        let binary = arguments.simulated.as_deref().unwrap_or(Path::new("seekless"));
        let recorded = simulated::record(binary)?;
        print_head("disk");
        for model in seekless_sim::models::MODELS.iter() {
            if arguments.all {
                println!("{}:", model.name);
            }
            println!("{}", line(model.name, &sum(costs(&recorded.on(model), arguments))));
        }
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    bail!("simulated disks need Linux");
}

/// What plans cost in runs, by operation.
fn costs(runs: &[Run], arguments: &Arguments) -> BTreeMap<&'static str, Costs> {
    let withheld = Withheld {
        size: !arguments.same_size,
        sitting: !arguments.same_sitting,
    };
    let mut all: BTreeMap<&str, Costs> = BTreeMap::new();
    for run in runs {
        for found in regrets_of(run, runs, withheld) {
            let contest = &run.contests[found.contest];
            let costs = all.entry(contest.operation.name()).or_default();
            costs.contests += 1;
            costs.decided += usize::from(found.is_decided);
            let Some((method, regrets)) = found.planned else {
                continue;
            };
            if arguments.all {
                let (title, percent) = (seekless_results::title(contest), 100.0 * regrets.planned);
                let state = if found.is_decided { "decided" } else { "open" };
                println!("{title}: {method}: {percent:+.1} %, {state}");
            }
            costs.regrets.extend(found.is_decided.then_some(regrets));
        }
    }
    all
}

fn sum(all: BTreeMap<&str, Costs>) -> Costs {
    let sum = all.into_values().reduce(|one, other| Costs {
        contests: one.contests + other.contests,
        decided: one.decided + other.decided,
        regrets: [one.regrets, other.regrets].concat(),
    });
    sum.unwrap_or_default()
}

fn print_head(first: &str) {
    println!(
        "| {first} | contests | decided | decided and covered | regret ≤ 10 % | regret ≤ 5 % | mean regret | largest regret | mean: nearest size | mean: plain loop | mean: oracle | predicted within 25 % | within its bounds |"
    );
    println!("|---|{}", "---:|".repeat(12));
}

fn line(
    operation: &str,
    Costs {
        contests,
        decided,
        regrets,
    }: &Costs,
) -> String {
    let part = |is: &dyn Fn(&Regrets) -> bool| match regrets.len() {
        0 => "-".to_owned(),
        of => format!(
            "{:.0} %",
            100.0 * regrets.iter().filter(|one| is(one)).count() as f64 / of as f64
        ),
    };
    let mean = |of: &dyn Fn(&Regrets) -> f64| {
        let known: Vec<f64> = regrets.iter().map(of).filter(|one| one.is_finite()).collect();
        match known.len() {
            0 => "-".to_owned(),
            count => format!("{:.1} %", 100.0 * known.iter().sum::<f64>() / count as f64),
        }
    };
    let largest = regrets.iter().map(|one| one.planned).reduce(f64::max);
    let largest = largest.map_or_else(|| "-".to_owned(), |largest| format!("{:.0} %", 100.0 * largest));
    format!(
        "| {operation} | {contests} | {decided} | {} | {} | {} | {} | {largest} | {} | {} | {} | {} | {} |",
        regrets.len(),
        part(&|one| one.planned <= 0.10),
        part(&|one| one.planned <= 0.05),
        mean(&|one| one.planned),
        mean(&|one| one.nearest),
        mean(&|one| one.plain),
        mean(&|one| one.oracle),
        part(&|one| (1.0 / 1.25..=1.25).contains(&one.predicted)),
        part(&|one| one.is_within_bounds),
    )
}
