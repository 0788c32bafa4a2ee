//! The questions of the 2014 document, answered for this machine: the best method by task, kind and size; where the
//! winner changes; the effect of each option.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use seekless_method::Operation;
use seekless_record::OptionEffect;
use seekless_results::statistics::median;
use seekless_results::{ContestView, View, rate_of, short_name, sound};

use super::tables::{effect_word, figure, known, plain, ratio, table};
use super::words::{breaking, heading, speed, times};

/// The section.
pub(super) fn answers(view: &View<'_>) -> Markup {
    let ranked = view.run.contests.iter().filter(|contest| !contest.sustained);
    let sizes: BTreeSet<u64> = ranked.map(|contest| contest.size_bytes).collect();
    html! {
        section id="answers" {
            h2 { "Answers by task, kind and size" }
            (best(view))
            h3 { "Where the winner changes with the size" }
            @if sizes.len() < 2 {
                p { "Only one size was measured; give several with --size to see this." }
            } @else if view.crossovers.is_empty() {
                p { "At none of the measured sizes: the method recommended for one size is not shown to be slower at \
                     the next." }
            } @else {
                ul { @for change in &view.crossovers { li { (change) } } }
            }
            (options(view))
        }
    }
}

fn best(view: &View<'_>) -> Markup {
    let rows = html! {
        @for contest in &view.contests {
            @if let Some(conclusion) = &contest.contest.conclusion {
                @let synchronous = conclusion.best_synchronous.as_deref();
                @let overlapping = conclusion.best_overlapping.as_deref();
                @if synchronous.or(overlapping).is_some() {
                    tr {
                        td { (contest.title) }
                        (figure(&seekless_method::format_size(contest.contest.size_bytes), contest.contest.size_bytes as f64))
                        (method(contest, synchronous))
                        (method(contest, overlapping))
                        @let gain = overlapping.zip(synchronous).and_then(|(one, other)| contest.compare(one, other));
                        (ratio(gain.as_ref().map(|gain| &gain.ratio)))
                    }
                }
            }
        }
    };
    let heads = [
        "Task",
        "#File",
        "Best synchronous",
        "#Rate",
        "Best overlapping",
        "#Rate",
        "#Overlapping takes",
    ];
    table("The best method by task, kind and size", &heads, None, &rows)
}

/// Two cells: a method and its rate.
fn method(contest: &ContestView<'_>, method: Option<&str>) -> Markup {
    let rate_here = method.and_then(|method| rate_of(contest.entry(method)?));
    html! {
        td.m { @match method { Some(method) => { (breaking(&short_name(method, contest.contest))) }, None => { "–" } } }
        (known(rate_here, |rate| speed(contest, rate)))
    }
}

/// The effect of each option, over all pairs of methods that differ in it alone.
fn options(view: &View<'_>) -> Markup {
    let mut options: BTreeMap<(Operation, &str), Vec<&OptionEffect>> = BTreeMap::new();
    for contest in &view.run.contests {
        for effect in contest.conclusion.iter().flat_map(|conclusion| &conclusion.effects) {
            let effects = options.entry((contest.operation, &effect.option)).or_default();
            effects.push(effect);
        }
    }
    let rows = html! {
        @for ((operation, option), effects) in &options {
            @let [gains, costs] = ["gains", "costs"].map(|word| effects.iter().filter(|effect| effect_word(effect) == word).count());
            @let ratios: Vec<f64> = effects.iter().filter_map(|effect| sound(effect.ratio.median)).collect();
            @let median = median(&ratios).unwrap_or(f64::NAN);
            @let (low, high) = ratios.iter().fold((f64::NAN, f64::NAN), |(low, high), &ratio| (ratio.min(low), ratio.max(high)));
            tr {
                td { (heading(operation.name())) }
                td.m { (option) }
                @for count in [gains, costs, effects.len() - gains - costs] { (figure(&count.to_string(), count as f64)) }
                (figure(&times(median), median))
                (plain(low))
                (plain(high))
            }
        }
    };
    let heads = [
        "Task",
        "Option",
        "#Gains",
        "#Costs",
        "#Inconclusive",
        "#Median ratio",
        "#From",
        "#To",
    ];
    html! {
        @if !options.is_empty() {
            h3 { "What each option gained or cost alone" }
            p.aside {
                "Pairs of methods that differ in this option alone, over all contests: how often the option gains time or costs \
                 time by the 95 % interval, or is inconclusive, and the ratio of the time with it to the time without. Each \
                 contest has its own list."
            }
            (table("What each option gained or cost alone", &heads, None, &rows))
        }
    }
}
