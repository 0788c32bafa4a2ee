//! The updates of a trial: their places, their order, and the resulting content of a file.

use std::collections::BTreeMap;

use seekless_engine::update::Batch;
use seekless_record::{Draw, UpdatePattern};

/// How many updates a pattern makes in a file of a size.
pub fn count(pattern: &UpdatePattern, file_bytes: u64) -> u64 {
    match file_bytes.checked_sub(pattern.bytes) {
        None => 0,
        Some(last) => last / pattern.every_bytes.max(1) + 1,
    }
}

/// The updates in the order they are given: where each begins, and its bytes. The same for a seed.
///
/// The value is twice the index of the integer that the program of 2008 had reached, also for random places.
pub fn drawn(pattern: &UpdatePattern, file_bytes: u64, seed: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let UpdatePattern { bytes, every_bytes, .. } = *pattern;
    let steps = count(pattern, file_bytes);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut places: Vec<u64> = (0..steps).map(|step| step * every_bytes).collect();
    match pattern.draw {
        Draw::Ascending => {}
        Draw::Shuffled => rng.shuffle(&mut places),
        // It drew a number below the number of integers, but used it as an offset in bytes.
        Draw::Repeating => {
            let below = (file_bytes / bytes.max(1)).max(bytes + 1);
            for place in &mut places {
                *place = rng.u64(bytes..below) / bytes.max(1) * bytes;
            }
        }
    }
    (0..).zip(places).map(move |(step, place)| {
        let index = step * every_bytes / bytes.max(1);
        (place, value(2 * index, bytes))
    })
}

/// A number in this many bytes, the lowest first.
fn value(number: u64, bytes: u64) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(bytes as usize, 0);
    value
}

/// The same as a batch for the engine.
///
/// # Errors
/// A sentence, if the batch cannot hold the updates.
pub fn batch(pattern: &UpdatePattern, file_bytes: u64, seed: u64) -> Result<Batch, String> {
    let mut batch = Batch::new();
    for (offset, bytes) in drawn(pattern, file_bytes, seed) {
        batch.push(offset, &bytes).map_err(|error| error.to_string())?;
    }
    Ok(batch)
}

/// The expected bytes of the updated places, by offset, computed without the engine, so that its mistakes are not
/// repeated. Two places are equal or do not overlap.
pub fn expected(pattern: &UpdatePattern, file_bytes: u64, seed: u64) -> BTreeMap<u64, Vec<u8>> {
    drawn(pattern, file_bytes, seed).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pattern(draw: Draw) -> UpdatePattern {
        UpdatePattern {
            bytes: 4,
            every_bytes: 400,
            draw,
        }
    }

    fn places(draw: Draw, file_bytes: u64, seed: u64) -> Vec<u64> {
        drawn(&pattern(draw), file_bytes, seed)
            .map(|(place, _)| place)
            .collect()
    }

    #[test]
    fn the_values_are_twice_the_index_whatever_the_place() {
        for draw in Draw::ALL {
            let values: Vec<Vec<u8>> = drawn(&pattern(draw), 40_000, 1).map(|(_, value)| value).collect();
            let expected: Vec<Vec<u8>> = (0..100_u32).map(|n| (200 * n).to_le_bytes().to_vec()).collect();
            assert_eq!(values, expected, "{}", draw.name());
        }
    }

    #[test]
    fn a_pattern_that_fits_nowhere_makes_nothing() {
        assert_eq!(count(&pattern(Draw::Ascending), 3), 0);
        assert_eq!(count(&pattern(Draw::Ascending), 4), 1);
        assert_eq!(count(&pattern(Draw::Ascending), 404), 2);
        for draw in Draw::ALL {
            assert!(places(draw, 3, 1).is_empty());
            assert!(places(draw, 4, 1).iter().all(|&place| place + 4 <= 8));
        }
    }

    #[test]
    fn of_places_that_repeat_the_last_value_stays() {
        let pattern = pattern(Draw::Repeating);
        let mut last = BTreeMap::new();
        for (place, value) in drawn(&pattern, 400_000, 7) {
            last.insert(place, value);
        }
        let updates = batch(&pattern, 400_000, 7).unwrap().resolve();
        let found: Vec<_> = updates.iter().map(|(at, bytes)| (at, bytes.to_vec())).collect();
        // Neighbours that were given one after the other are one update by now.
        let bytes = |list: &[(u64, Vec<u8>)]| {
            let each = list.iter().flat_map(|(at, bytes)| (*at..).zip(bytes.clone()));
            each.collect::<Vec<(u64, u8)>>()
        };
        assert_eq!(bytes(&found), bytes(&last.into_iter().collect::<Vec<_>>()));
    }

    proptest! {
        #[test]
        fn shuffled_is_every_place_once_and_in_no_order(steps in 50_u64..2000, seed: u64) {
            let file_bytes = steps * 400;
            let ascending = places(Draw::Ascending, file_bytes, seed);
            let mut shuffled = places(Draw::Shuffled, file_bytes, seed);
            prop_assert_eq!(ascending.len() as u64, steps);
            prop_assert_ne!(&shuffled, &ascending);
            shuffled.sort_unstable();
            prop_assert_eq!(shuffled, ascending);
        }

        #[test]
        fn updates_repeating_stay_in_the_first_quarter(steps in 2000_u64..3000, seed: u64) {
            let file_bytes = steps * 400;
            let places = places(Draw::Repeating, file_bytes, seed);
            prop_assert_eq!(places.len() as u64, steps);
            prop_assert!(places.iter().all(|place| (4..file_bytes / 4).contains(place) && place % 4 == 0));
            // A hundredth of the integers drawn from a quarter of them: that 2,000 are all different has a chance of e^-40.
            prop_assert!((places.iter().collect::<BTreeSet<_>>().len() as u64) < steps);
        }
    }
}
