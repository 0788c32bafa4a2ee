//! The sittings that a run's conclusions rest on.

use seekless_record::{Conclusion, Run, Sittings};

/// The most sittings that a contest of a run rests on, and the most that any needs; `None` where each was concluded alone.
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
    let more = needed
        .map(|needed| needed.saturating_sub(count))
        .filter(|more| *more > 0);
    let command = |more: u32| format!("`seekless bench --sittings {more} --every 4h` measures in the background");
    let s = |number: u32| if number == 1 { "" } else { "s" };
    if count == 1 {
        let more = more.unwrap_or(1);
        return Some(format!(
            "These verdicts hold for this hour. {more} more sitting{}, hours apart, should show what holds at other \
             times: {}.",
            s(more),
            command(more)
        ));
    }
    let is_decided = |conclusion: &&Conclusion| conclusion.recommended.is_some();
    let of_several = || {
        let conclusions = run.contests.iter().filter_map(|contest| contest.conclusion.as_ref());
        conclusions.filter(|conclusion| conclusion.sittings.is_some_and(|sittings| sittings.count > 1))
    };
    let (decided, all) = (of_several().filter(is_decided).count(), of_several().count());
    let same = of_several().filter(|conclusion| conclusion.sittings.is_some_and(|own| own.agreeing == own.count));
    let same = same.count();
    let is_undecided = decided < all;
    let rest = more.filter(|_| is_undecided).map_or_else(String::new, |more| {
        format!(
            " {more} more sitting{} should decide the rest: {}.",
            s(more),
            command(more)
        )
    });
    Some(format!(
        "Verdicts rest on {count} sittings on this storage. Decided: {decided} of {all} contests. The method to use was \
         among the best in every sitting: {same} of {all}.{rest}"
    ))
}
