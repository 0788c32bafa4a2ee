//! The recommendation in words. It says only what an interval carries; what is undecided it leaves out.

use seekless_record::{Interval, Verdict};

use super::TIE_RATIO;
use super::conclude::Judged;
use super::effects::Effect;
use crate::statistics::FEWEST_SAMPLES;

/// The smallest difference in processor use that is told: five points of one processor.
const CPU_POINTS_TOLD: f64 = 5.0;

/// How many options that slow a method down are named.
const PESSIMISATIONS_TOLD: usize = 2;

pub(super) fn sentence(
    judged: &Judged<'_>,
    recommended: Option<usize>,
    best: Option<usize>,
    effects: &[Effect],
) -> String {
    let Some(recommended) = recommended else {
        return undecided(judged, best);
    };
    let mut parts = vec![format!(
        "Use {}: {}",
        judged.name(recommended),
        reason(judged, recommended)
    )];
    parts.extend(not_confirmed(judged, recommended));
    parts.extend(faster_command(judged, recommended, best));
    parts.extend(overlapping(judged));
    parts.extend(merits(effects, recommended));
    parts.extend(pessimisations(effects));
    parts.join(". ") + "."
}

fn undecided(judged: &Judged<'_>, best: Option<usize>) -> String {
    let Some(leader) = judged.best_method() else {
        let why = match best {
            None => "there is no valid trial; each method says why",
            Some(_) => "only commands were measured; name a method to compare",
        };
        return format!("Undecided: {why}.");
    };
    let rounds = judged.samples[leader].by_round.len();
    if rounds >= FEWEST_SAMPLES {
        let simpler = judged.known_ties().find_map(|(entry, _)| judged.simpler_unknown(entry));
        let simpler = simpler.map_or_else(String::new, |simpler| judged.name(simpler));
        return format!(
            "Undecided between {}, which leads, and {simpler}, which is simpler and varies too much to tell. Either will \
             do until a larger budget or a quieter machine tells.",
            judged.name(leader)
        );
    }
    let (rounds_are, leader) = (if rounds == 1 { "round is" } else { "rounds are" }, judged.name(leader));
    format!(
        "Undecided: {rounds} {rounds_are} too few to tell ({leader} leads); {FEWEST_SAMPLES} are needed, so give it more \
         budget or fewer methods."
    )
}

/// What the fresh rounds say against the winner: chosen among many, it may have been lucky.
fn not_confirmed(judged: &Judged<'_>, recommended: usize) -> Option<String> {
    let best = judged.best_method().filter(|&best| best != recommended)?;
    let ratio = judged
        .compare_again(recommended, best)
        .filter(|ratio| ratio.low > TIE_RATIO)?;
    Some(format!(
        "Measured again, it took {:.2}x the time of {}: that it ties is not confirmed",
        ratio.median,
        judged.name(best)
    ))
}

/// Why this one.
fn reason(judged: &Judged<'_>, recommended: usize) -> String {
    let known = judged.known_ties().count();
    let unsure = judged.ties().count() - known;
    let standing = judged
        .known_ties()
        .find(|(entry, _)| *entry == recommended)
        .map(|(_, standing)| standing);
    match standing {
        Some(standing) if standing.verdict != Verdict::Best => {
            format!(
                "the simplest of the {known} that tie for the best, {}",
                behind(standing.ratio.high)
            )
        }
        _ if known > 1 => format!("the best, and the simplest of the {known} that tie"),
        _ if unsure > 0 => format!("the best; {unsure} more may tie with it, but vary too much to tell"),
        _ => match next(judged) {
            Some((next, ratio)) => format!("the best; the next, {next}, takes {ratio:.2}x its time"),
            None => "the only method measured".to_owned(),
        },
    }
}

/// How far behind the best it can be, from the upper bound of its ratio.
fn behind(high: f64) -> String {
    // The subtraction keeps a bound of exactly 2 %, which f64 holds a little above, from being called 3 %.
    let percent = ((high - 1.0) * 100.0 - 1e-9).ceil();
    if percent > 0.0 {
        format!("at most {percent:.0} % behind")
    } else {
        "not behind".to_owned()
    }
}

/// The nearest of the slower methods.
fn next(judged: &Judged<'_>) -> Option<(String, f64)> {
    let standings = judged.among_methods.iter().enumerate();
    let slower = standings.filter_map(|(entry, standing)| {
        let standing = standing
            .as_ref()
            .filter(|standing| standing.verdict == Verdict::Slower)?;
        Some((entry, standing.ratio.median))
    });
    slower
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(entry, ratio)| (judged.name(entry), ratio))
}

/// A command that is the best of all, where it is sure to be faster than what is recommended.
fn faster_command(judged: &Judged<'_>, recommended: usize, best: Option<usize>) -> Option<String> {
    let command = best.filter(|&best| !judged.is_method(best))?;
    let comparison = judged
        .compare(command, recommended)
        .filter(|comparison| comparison.is_faster())?;
    Some(format!(
        "{} is faster: {:.2}x its time",
        judged.name(command),
        comparison.ratio.median
    ))
}

/// Whether overlapping pays, best against best. Each is the best of several and so looks better than it is, but both do.
fn overlapping(judged: &Judged<'_>) -> Option<String> {
    let (overlapping, synchronous) = (judged.best_where(true)?, judged.best_where(false)?);
    let comparison = judged.compare(overlapping, synchronous)?;
    let ratio = comparison.ratio;
    if comparison.is_faster() {
        Some(format!("Overlapping {}", saving(ratio)))
    } else if comparison.is_slower() {
        Some(format!("Overlapping takes {:.2}x the time", ratio.median))
    } else if ratio.coverage.is_some() && ratio.low >= 2.0 - TIE_RATIO {
        Some("Overlapping gains nothing here".to_owned())
    } else {
        None
    }
}

fn saving(ratio: Interval) -> String {
    format!("saves {:.0} % of the time", (1.0 - ratio.median) * 100.0)
}

/// What the options of the recommended method save or cost.
fn merits(effects: &[Effect], recommended: usize) -> Option<String> {
    let own = effects.iter().filter(|effect| effect.with == recommended);
    let told = own.filter_map(|effect| {
        let is_faster = effect.comparison.is_faster();
        let merit = match (
            is_faster.then(|| saving(effect.comparison.ratio)),
            effect.cpu_share.and_then(cpu_points),
        ) {
            (Some(time), Some(("saves", points))) => format!("{time} and {points}"),
            (Some(time), Some((verb, points))) => format!("{time}, but {verb} {points}"),
            (Some(time), None) => time,
            (None, Some((verb, points))) => format!("{verb} {points}"),
            (None, None) => return None,
        };
        Some(format!("{} {merit}", effect.record.option))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("Of its options, {}", told.join("; ")))
}

fn cpu_points(share: Interval) -> Option<(&'static str, String)> {
    let points = share.median * 100.0;
    let is_sure = share.coverage.is_some() && (share.high < 0.0 || share.low > 0.0);
    let verb = if points < 0.0 { "saves" } else { "costs" };
    (is_sure && points.abs() >= CPU_POINTS_TOLD).then(|| (verb, format!("{:.0} points of CPU", points.abs())))
}

/// The options meant to help that do the opposite, the worst first, each once.
fn pessimisations(effects: &[Effect]) -> Option<String> {
    let mut slower: Vec<&Effect> = effects.iter().filter(|effect| effect.comparison.is_slower()).collect();
    slower.sort_by(|a, b| b.record.ratio.median.total_cmp(&a.record.ratio.median));
    let mut told: Vec<&Effect> = Vec::new();
    for effect in slower {
        if told.iter().all(|other| other.record.option != effect.record.option) {
            told.push(effect);
        }
    }
    told.truncate(PESSIMISATIONS_TOLD);
    let in_words = told.iter().map(|effect| {
        let record = &effect.record;
        format!(
            "{} ({:.2}x the time of {})",
            record.option, record.ratio.median, record.without
        )
    });
    let in_words: Vec<String> = in_words.collect();
    (!in_words.is_empty()).then(|| format!("Pessimisations here: {}", in_words.join(", ")))
}
