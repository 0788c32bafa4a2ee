//! The sittings that a run's conclusions rest on.

use seekless_record::{Run, Sittings};

use crate::units::{counted, duration};

/// The largest number of sittings that a contest of a run rests on, and the largest that one needs; `None` if each was
/// concluded from its run alone.
#[must_use]
pub fn sittings(run: &Run) -> Option<Sittings> {
    let conclusions = run.contests.iter().filter_map(|contest| contest.conclusion.as_ref());
    let all = conclusions.filter_map(|conclusion| conclusion.sittings);
    all.reduce(|one, other| Sittings {
        count: one.count.max(other.count),
        runs: one.runs.max(other.runs),
        agreeing: one.agreeing.min(other.agreeing),
        needed: one.needed.max(other.needed),
        deviation: one.deviation.max(other.deviation),
    })
}

pub(super) fn in_words(run: &Run) -> Option<String> {
    let Sittings {
        count, runs, needed, ..
    } = sittings(run)?;
    let more = needed.map_or(0, |needed| needed.saturating_sub(count));
    let more_sittings = |more: u32| counted(more.into(), "more sitting");
    if count == 1 {
        let time = if runs > 1 {
            "hour in which the runs were made".to_owned()
        } else {
            format!("{} of the run", duration(run.elapsed_seconds))
        };
        return Some(format!(
            "These verdicts hold only for the {time}. {}, hours apart, should show what holds at other times.",
            more_sittings(more.max(1))
        ));
    }
    let conclusions = run.contests.iter().filter_map(|contest| contest.conclusion.as_ref());
    let of_several = conclusions.filter_map(|conclusion| Some((&conclusion.recommended, conclusion.sittings?)));
    let of_several: Vec<_> = of_several.filter(|(_, sittings)| sittings.count > 1).collect();
    let all = of_several.len();
    let decided = of_several.iter().filter(|(used, _)| used.is_some()).count();
    let is_same = |(_, sittings): &&(_, Sittings)| sittings.agreeing == sittings.count;
    let same = of_several.iter().filter(is_same).count();
    let rest = if decided < all && more > 0 {
        format!(" {} should decide the rest.", more_sittings(more))
    } else {
        String::new()
    };
    let contests = counted(all as u64, "contest");
    let are = if all == 1 { "is" } else { "are" };
    Some(format!(
        "Verdicts rest on {count} sittings on this storage; {decided} of {contests} {are} decided. In {same} of {all}, the \
         method to use was among the best in every sitting.{rest}"
    ))
}
