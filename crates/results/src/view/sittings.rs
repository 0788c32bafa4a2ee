//! The sittings that a run's conclusions rest on.

use seekless_record::{Conclusion, Run, Sittings};

/// The largest number of sittings that a contest of a run rests on, and the largest that one needs; `None` if each was
/// concluded from its run alone.
#[must_use]
pub fn sittings(run: &Run) -> Option<Sittings> {
    let conclusions = run.contests.iter().filter_map(|contest| contest.conclusion.as_ref());
    let all = conclusions.filter_map(|conclusion| conclusion.sittings);
    all.reduce(|one, other| Sittings {
        count: one.count.max(other.count),
        agreeing: one.agreeing.min(other.agreeing),
        needed: one.needed.max(other.needed),
        deviation: one.deviation.max(other.deviation),
    })
}

pub(super) fn in_words(run: &Run) -> Option<String> {
    let Sittings { count, needed, .. } = sittings(run)?;
    let s = |number: u32| if number == 1 { "" } else { "s" };
    let more = needed.map_or(0, |needed| needed.saturating_sub(count));
    if count == 1 {
        let more = more.max(1);
        let s = s(more);
        return Some(format!(
            "These verdicts hold for the hour of the run. {more} more sitting{s}, hours apart, should show what holds at other times."
        ));
    }
    let conclusions = run.contests.iter().filter_map(|contest| contest.conclusion.as_ref());
    let of_several = conclusions.filter_map(|conclusion| Some((conclusion, conclusion.sittings?)));
    let of_several: Vec<_> = of_several.filter(|(_, sittings)| sittings.count > 1).collect();
    let all = of_several.len();
    let is_decided = |conclusion: &Conclusion| conclusion.recommended.is_some();
    let decided = of_several
        .iter()
        .filter(|(conclusion, _)| is_decided(conclusion))
        .count();
    let is_same = |sittings: &Sittings| sittings.agreeing == sittings.count;
    let same = of_several.iter().filter(|(_, sittings)| is_same(sittings)).count();
    let rest = if decided < all && more > 0 {
        format!(" {more} more sitting{} should decide the rest.", s(more))
    } else {
        String::new()
    };
    Some(format!(
        "Verdicts rest on {count} sittings on this storage; {decided} of {all} contests are decided. In {same} of {all}, the \
         method to use was among the best in every sitting.{rest}"
    ))
}
