//! Which methods there are: the operations' tables, and the variants of a mechanism.

use super::{CachePolicy, Durability, Hint, Mechanism, Method, Options};

/// The sixteen buffer sizes of the 2014 document, in bytes.
pub const BLOCKS_2014: [u64; 16] = [
    4 << 10,
    8 << 10,
    12 << 10,
    16 << 10,
    24 << 10,
    32 << 10,
    40 << 10,
    48 << 10,
    56 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
];

/// All mechanisms of all operations and platforms, in the order of the tables.
pub fn mechanisms() -> impl Iterator<Item = &'static Mechanism> {
    [crate::read::TABLE, crate::write::TABLE, crate::copy::TABLE]
        .into_iter()
        .flatten()
        .copied()
}

/// All methods of a mechanism with the default block, depth and number of threads: each combination of the other
/// options that it accepts.
pub fn variants(mechanism: &'static Mechanism) -> impl Iterator<Item = Method> {
    let accepts = mechanism.accepts;
    let policies = std::iter::once(CachePolicy::Cached).chain(accepts.cache.iter().copied());
    policies.flat_map(move |cache| {
        let hints = std::iter::once(Hint::None).chain(accepts.hints.iter().copied());
        hints.flat_map(move |hint| {
            accepts.preallocate.iter().flat_map(move |&preallocate| {
                let durabilities = std::iter::once(Durability::None).chain(accepts.durability.iter().copied());
                durabilities.filter_map(move |durability| {
                    let options = Options {
                        cache,
                        hint,
                        preallocate,
                        durability,
                        ..Options::default()
                    };
                    Method::new(mechanism, options).ok()
                })
            })
        })
    })
}
