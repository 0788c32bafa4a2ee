//! Which methods there are: the operations' tables, and the variants of a mechanism.

use super::{CachePolicy, Comparing, Durability, Hint, Mechanism, Method, Options, Order, UpdateOrder};

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
    let tables = [
        crate::read::TABLE,
        crate::write::TABLE,
        crate::copy::TABLE,
        crate::compare::TABLE,
        crate::update::TABLE,
    ];
    tables.into_iter().flatten().copied()
}

/// All methods of a mechanism with the default block, depth and number of threads: each combination of the other
/// options that it accepts, skipping holes for itself, and where two files are compared or one updated each order and
/// each kernel for itself.
pub fn variants(mechanism: &'static Mechanism) -> impl Iterator<Item = Method> {
    let accepts = mechanism.accepts;
    let policies = std::iter::once(CachePolicy::Cached).chain(accepts.cache.iter().copied());
    let combined = policies.flat_map(move |cache| {
        let hints = std::iter::once(Hint::None).chain(accepts.hints.iter().copied());
        hints.flat_map(move |hint| {
            accepts.preallocate.iter().flat_map(move |&preallocate| {
                let durabilities = std::iter::once(Durability::None).chain(accepts.durability.iter().copied());
                durabilities.map(move |durability| Options {
                    cache,
                    hint,
                    preallocate,
                    durability,
                    ..Options::default()
                })
            })
        })
    });
    let of_order = |&order: &Order| Options {
        order,
        ..Options::default()
    };
    let of_update = |&order: &UpdateOrder| Options {
        update_order: Some(order),
        ..Options::default()
    };
    let of_kernel = |&comparing: &Comparing| Options {
        comparing: Some(comparing),
        ..Options::default()
    };
    let threaded = accepts
        .threads
        .filter(|_| !accepts.comparing.is_empty())
        .map(|_| Options {
            threads: Some(2),
            ..Options::default()
        });
    combined
        .chain(accepts.orders.iter().map(of_order))
        .chain(accepts.update_orders.iter().skip(1).map(of_update))
        .chain(accepts.comparing.iter().skip(1).map(of_kernel))
        .chain(threaded)
        .chain(accepts.skips_holes.then(|| Options {
            holes_skipped: true,
            ..Options::default()
        }))
        .filter_map(move |options| Method::new(mechanism, options).ok())
}
