//! Which combinations of options a mechanism is tried with.
//!
//! A mechanism has up to 252 of them. Few defects need three options at once (Kuhn et al., "Software fault
//! interactions", 2004). So the tests run a covering array: few methods in which each pair of values of two options occurs.
//! With `SEEKLESS_TEST_LONG` they try all combinations.

use std::collections::BTreeSet;

use seekless_engine::Method;
use seekless_engine::method::{Mechanism, variants};

/// Whether to try everything, however long it takes.
pub fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}

/// The methods that a mechanism is tried with, of those that are available: the first is the one without options.
pub fn chosen(mechanism: &'static Mechanism, mut is_available: impl FnMut(&Method) -> bool) -> Vec<Method> {
    let all: Vec<Method> = variants(mechanism).collect();
    if is_long() {
        all.into_iter().filter(is_available).collect()
    } else {
        covering(&all, &mut is_available)
    }
}

/// A greedy choice: repeatedly takes the method that covers the most new pairs (the first of equals), until none is new.
/// Skips unavailable methods, so that others cover their pairs.
fn covering(all: &[Method], is_available: &mut dyn FnMut(&Method) -> bool) -> Vec<Method> {
    let mut candidates: Vec<_> = all.iter().map(|method| (*method, pairs(method))).collect();
    let mut covered = BTreeSet::new();
    let mut chosen = Vec::new();
    loop {
        let gain = |candidate: &BTreeSet<Pair>| candidate.difference(&covered).count();
        let gains = candidates.iter().map(|(_, pairs)| gain(pairs));
        // Of equals, `max_by_key` returns the last.
        let best = gains.enumerate().rev().max_by_key(|&(_, gain)| gain);
        let Some((best, 1..)) = best else {
            return chosen;
        };
        let (method, pairs) = candidates.remove(best);
        if is_available(&method) {
            covered.extend(pairs);
            chosen.push(method);
        }
    }
}

/// Two options and their values.
type Pair = ((usize, String), (usize, String));

fn pairs(method: &Method) -> BTreeSet<Pair> {
    let options = method.options();
    let values = [
        options.cache().name().to_owned(),
        options.access().name().to_owned(),
        options.hint().name().to_owned(),
        options.preallocate().name().to_owned(),
        options.durability().name().to_owned(),
        format!("{:?}", options.order()),
        options.differ().name().to_owned(),
        format!("{:?}", options.update_order()),
        format!("{:?}", options.threads()),
        options.holes_skipped().to_string(),
    ];
    let values: Vec<_> = values.into_iter().enumerate().collect();
    let ends = |at: usize| values[at + 1..].iter().map(move |end| (at, end.clone()));
    let pairs = (0..values.len()).flat_map(ends);
    pairs.map(|(start, end)| (values[start].clone(), end)).collect()
}

#[test]
fn options_are_tried_in_each_available_pair_of_values() {
    let is_linux = |method: &Method| !method.to_string().contains("hint=rd");
    let (mut chosen_in_all, mut all_in_all) = (0, 0);
    for mechanism in seekless_engine::method::MECHANISMS {
        let all: Vec<Method> = variants(mechanism).filter(is_linux).collect();
        let chosen = covering(&variants(mechanism).collect::<Vec<_>>(), &mut |method| is_linux(method));
        let all_pairs: BTreeSet<Pair> = all.iter().flat_map(pairs).collect();
        let chosen_pairs: BTreeSet<Pair> = chosen.iter().flat_map(pairs).collect();
        assert_eq!(all_pairs, chosen_pairs, "{mechanism:?}");
        assert_eq!(chosen[0], all[0], "the one without options comes first");
        println!("{mechanism:?}: {} of {} combinations", chosen.len(), all.len());
        chosen_in_all += chosen.len();
        all_in_all += all.len();
    }
    println!("all mechanisms: {chosen_in_all} of {all_in_all} combinations");
    assert!(chosen_in_all * 2 < all_in_all, "{chosen_in_all} of {all_in_all}");
}
