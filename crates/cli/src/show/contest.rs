//! One contest on a terminal: its ranking, what is not in it and why, and what follows.

use std::io::Write;

use anstyle::Style;
use seekless_record::{Conclusion, Contest, Entry, Interval, Status, Summary, Verdict};
use seekless_results::{is_told_in_times, label_of};

use super::table::{Row, print_ranking};
use super::units::{rate, seconds};
use super::width::{Width, wrapped};
use super::{DIM, GOOD, WARNING};

/// So many rows are shown even where most were dropped.
const FEWEST_ROWS: usize = 6;

/// What has figures: the best, then by the ratio to it, the dropped last.
pub fn ranked(contest: &Contest) -> Vec<(&Entry, &Summary)> {
    let with_figures = contest
        .entries
        .iter()
        .filter_map(|entry| Some((entry, entry.summary.as_ref()?)));
    let mut rows: Vec<_> = with_figures.collect();
    let is_best = |entry: &Entry| {
        entry
            .standing
            .as_ref()
            .is_some_and(|standing| standing.verdict == Verdict::Best)
    };
    let ratio = |(entry, summary): &(&Entry, &Summary)| {
        let standing = entry.standing.as_ref();
        standing.map_or(summary.seconds.median, |standing| standing.ratio.median)
    };
    rows.sort_by(|one, other| {
        let dropped = is_dropped(one.0).cmp(&is_dropped(other.0));
        let best = is_best(other.0).cmp(&is_best(one.0));
        dropped.then(best).then(ratio(one).total_cmp(&ratio(other)))
    });
    rows
}

fn is_dropped(entry: &Entry) -> bool {
    !matches!(entry.status, Status::Measured)
}

/// How many rows are shown.
pub fn cut(rows: &[(&Entry, &Summary)], all: bool) -> usize {
    let standing = rows.iter().filter(|(entry, _)| !is_dropped(entry)).count();
    if all {
        rows.len()
    } else {
        standing.max(FEWEST_ROWS).min(rows.len())
    }
}

/// Shows a contest below its title.
pub fn show_contest(
    out: &mut dyn Write,
    title: &str,
    contest: &Contest,
    all: bool,
    width: Width,
) -> std::io::Result<()> {
    let ranked = ranked(contest);
    let shown = cut(&ranked, all);
    let best = ranked[..shown]
        .iter()
        .map(|(_, summary)| summary.bytes_per_second)
        .fold(f64::MIN_POSITIVE, f64::max);
    let syncs = ranked.iter().any(|(_, summary)| summary.fsync_seconds > 0.0);
    let first_dropped = ranked.iter().position(|(entry, _)| is_dropped(entry));
    let rows: Vec<Row> = ranked[..shown]
        .iter()
        .enumerate()
        .map(|(index, (entry, summary))| Row {
            name: table_name(&entry.method, contest),
            part: summary.bytes_per_second / best,
            figures: figures(contest, summary, syncs),
            verdict: verdict(entry),
            style: style_of(entry),
            before: (first_dropped == Some(index)).then_some("no longer measured:"),
        })
        .collect();
    let heads: &[&str] = match (contest.operation.as_str(), syncs) {
        ("compare", _) => &["", "95 %", "user", "system", "requests", "rounds"],
        ("update", _) => &["", "95 %", "predicted", "calls", "written", "rounds"],
        (_, true) => &["", "95 %", "cpu", "fsync", "rounds"],
        (_, false) => &["", "95 %", "cpu", "rounds"],
    };
    print_ranking(out, title, heads, &rows, width)?;
    show_names(out, contest, &ranked[..shown], width)?;
    show_rest(out, contest, ranked.len() - shown, all, width)?;
    show_conclusion(out, contest, all, width)
}

fn figures(contest: &Contest, summary: &Summary, syncs: bool) -> Vec<String> {
    let part = |seconds: f64| format!("{:.0} %", 100.0 * seconds / summary.seconds.median);
    let mut figures = vec![speed(contest, summary), spread(&summary.seconds)];
    if contest.operation == "compare" {
        let time = |time: Option<f64>| time.filter(|time| *time > 0.0).map_or_else(|| "0".to_owned(), seconds);
        figures.extend([
            time(summary.user_seconds),
            time(summary.system_seconds),
            requests(summary),
        ]);
    } else if contest.updates.is_some() {
        figures.extend([
            summary.predicted_seconds.map_or_else(String::new, seconds),
            summary.calls.map_or_else(String::new, |calls| format!("{calls:.0}")),
            summary
                .amplification
                .map_or_else(String::new, |times| format!("{times:.1}x")),
        ]);
    } else {
        figures.push(part(summary.cpu_seconds));
        if syncs {
            figures.push(part(summary.fsync_seconds));
        }
    }
    figures.push(summary.rounds.to_string());
    figures
}

/// The rate, or the time where a rate tells nothing.
pub fn speed(contest: &Contest, summary: &Summary) -> String {
    if is_told_in_times(contest) {
        seconds(summary.seconds.median)
    } else {
        rate(summary.bytes_per_second)
    }
}

/// The requests that the device completed, with their mean size.
fn requests(summary: &Summary) -> String {
    let Some(reads) = summary.device_reads else {
        return String::new();
    };
    let size = summary
        .device_request_bytes
        .map_or_else(String::new, |bytes| format!(" x {:.0}K", bytes / 1024.0));
    format!("{reads:.0}{size}")
}

/// The name under which a method was published, or what tells it from the others of its contest.
pub fn table_name(method: &str, contest: &Contest) -> String {
    label_of(contest, method).map_or_else(|| short_name(method, contest), str::to_owned)
}

/// What published names stand for, and what is to be known of commands.
fn show_names(
    out: &mut dyn Write,
    contest: &Contest,
    shown: &[(&Entry, &Summary)],
    width: Width,
) -> std::io::Result<()> {
    for (entry, _) in shown {
        let note = entry.command.as_ref().and_then(|command| command.note.as_ref());
        if let Some(note) = note {
            aside(
                out,
                DIM,
                &format!("{}: {note}", short_name(&entry.method, contest)),
                width,
            )?;
        }
        if let Some(planned) = entry.summary.as_ref().and_then(|summary| summary.planned.as_ref()) {
            aside(out, DIM, &format!("planned: {planned}"), width)?;
        }
        if let Some(label) = &entry.label {
            aside(out, DIM, &format!("{label}: {}", entry.method), width)?;
        }
    }
    Ok(())
}

/// The method without what the heading says: its operation and its durability.
pub fn short_name(method: &str, contest: &Contest) -> String {
    let name = method.split_once('/').map_or(method, |(_, name)| name);
    let mut parts = name.split(',');
    let mechanism = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.filter(|option| *option != contest.durability).collect();
    if options.is_empty() {
        mechanism.to_owned()
    } else {
        format!("{mechanism} {}", options.join(","))
    }
}

/// Half the interval's width, in per cent of its median; the range where there is no interval yet.
fn spread(interval: &Interval) -> String {
    let half = 50.0 * (interval.high - interval.low) / interval.median;
    if interval.coverage.is_some() {
        format!("±{half:.0} %")
    } else {
        format!("~{half:.0} %")
    }
}

/// Where an entry stands, in a word.
pub fn verdict(entry: &Entry) -> String {
    let Some(standing) = &entry.standing else {
        return String::new();
    };
    match (standing.verdict, &entry.status) {
        (_, Status::Failed(_)) => "failed".to_owned(),
        (Verdict::Best, _) => "best".to_owned(),
        (Verdict::Tie, Status::Measured) => "tie".to_owned(),
        _ => format!("{:.2}x", standing.ratio.median),
    }
}

fn style_of(entry: &Entry) -> Style {
    match entry.standing.as_ref().map(|standing| standing.verdict) {
        _ if matches!(entry.status, Status::Failed(_)) => WARNING,
        Some(Verdict::Best) => GOOD.bold(),
        Some(Verdict::Tie) if entry.status == Status::Measured => GOOD,
        _ if is_dropped(entry) => DIM,
        _ => Style::new(),
    }
}

/// Writes a line that is less than the others.
fn aside(out: &mut dyn Write, style: Style, text: &str, width: Width) -> std::io::Result<()> {
    writeln!(out, "{style}  {}{style:#}", wrapped(4, text, width))
}

/// What is not in the table, and why.
fn show_rest(out: &mut dyn Write, contest: &Contest, hidden: usize, all: bool, width: Width) -> std::io::Result<()> {
    if hidden > 0 {
        aside(
            out,
            DIM,
            &format!("... {hidden} more, clearly beaten (--all shows them)"),
            width,
        )?;
    }
    for entry in &contest.entries {
        if let Status::Failed(why) = &entry.status {
            let name = short_name(&entry.method, contest);
            aside(out, WARNING, &format!("{name} failed: {why}"), width)?;
        }
    }
    let missing: Vec<(&Entry, &String)> = contest
        .entries
        .iter()
        .filter_map(|entry| match &entry.status {
            Status::Unavailable(why) | Status::Unmeasured(why) => Some((entry, why)),
            _ => None,
        })
        .collect();
    if all || missing.len() == contest.entries.len() {
        for (entry, why) in missing {
            aside(
                out,
                DIM,
                &format!("{}: {why}", short_name(&entry.method, contest)),
                width,
            )?;
        }
    } else if !missing.is_empty() {
        aside(
            out,
            DIM,
            &format!("{} not measured here (--all says why)", missing.len()),
            width,
        )?;
    }
    Ok(())
}

fn show_conclusion(out: &mut dyn Write, contest: &Contest, all: bool, width: Width) -> std::io::Result<()> {
    let Some(conclusion) = &contest.conclusion else {
        return Ok(());
    };
    writeln!(out, "{}", wrapped(0, &conclusion.sentence, width))?;
    for line in findings(conclusion, contest, all) {
        aside(out, DIM, &line, width)?;
    }
    Ok(())
}

/// What else was found, a line each.
fn findings(conclusion: &Conclusion, contest: &Contest, all: bool) -> Vec<String> {
    let short = |method: &str| table_name(method, contest);
    let Conclusion {
        best_synchronous,
        best_overlapping,
        ..
    } = conclusion;
    let both = best_synchronous.as_ref().zip(best_overlapping.as_ref());
    let both = both.map(|(synchronous, overlapping)| {
        format!(
            "best synchronous {}; best overlapping {}",
            short(synchronous),
            short(overlapping)
        )
    });
    let confirmed = conclusion.confirmed_bytes_per_second.as_ref().map(|confirmed| {
        let bytes = contest.size_bytes as f64 * f64::from(contest.files);
        let (low, median, high) = (confirmed.low, confirmed.median, confirmed.high);
        // The fastest is the shortest time.
        let [low, median, high] = if is_told_in_times(contest) {
            [high, median, low].map(|speed| seconds(bytes / speed))
        } else {
            [low, median, high].map(rate)
        };
        format!("measured again: {median} ({low} to {high})")
    });
    let effects = conclusion.effects.iter().filter_map(|effect| {
        let words = effect_words(&effect.ratio, all)?;
        Some(format!("{} beside {}: {words}", effect.option, short(&effect.without)))
    });
    both.into_iter().chain(confirmed).chain(effects).collect()
}

/// What an option did on its own; `None` where nothing is known to be worth a line.
fn effect_words(ratio: &Interval, all: bool) -> Option<String> {
    let range = format!("({:.2} to {:.2} x the time)", ratio.low, ratio.high);
    if ratio.coverage.is_none() {
        return all.then(|| format!("too few rounds to tell {range}"));
    }
    if ratio.high < 1.0 {
        return Some(format!("gains {:.0} % {range}", 100.0 * (1.0 - ratio.median)));
    }
    if ratio.low > 1.0 {
        return Some(format!("costs {:.0} % {range}", 100.0 * (ratio.median - 1.0)));
    }
    all.then(|| format!("no difference to be seen {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, median: f64, high: f64) -> Interval {
        Interval {
            low,
            median,
            high,
            coverage: Some(0.97),
        }
    }

    #[test]
    fn an_interval_is_told_from_a_range() {
        let interval = interval(0.9, 1.0, 1.1);
        assert_eq!(spread(&interval), "±10 %");
        let range = Interval {
            coverage: None,
            ..interval
        };
        assert_eq!(spread(&range), "~10 %");
    }

    #[test]
    fn an_option_is_said_to_gain_only_where_its_interval_does() {
        let words = |low, median, high| effect_words(&interval(low, median, high), false);
        assert!(words(0.8, 0.9, 0.95).unwrap().starts_with("gains 10 %"));
        assert!(words(1.05, 1.2, 1.3).unwrap().starts_with("costs 20 %"));
        assert_eq!(words(0.9, 1.0, 1.1), None);
        let few = Interval {
            coverage: None,
            ..interval(0.5, 0.5, 0.5)
        };
        assert_eq!(effect_words(&few, false), None);
        assert!(effect_words(&few, true).unwrap().starts_with("too few rounds"));
    }
}
