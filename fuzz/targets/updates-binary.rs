//! Updates in the binary form, held against a reader that takes it apart by hand.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekless_engine::update::Batch;
use seekless_tools::update::{MAGIC, VERSION, read_updates};

fuzz_target!(|records: &[u8]| {
    let document = [&MAGIC[..], &VERSION.to_le_bytes(), records].concat();
    let read = read_updates(&mut &document[..], Batch::new());
    match naive(records) {
        // An update may also be refused because it ends past the largest offset.
        None => assert!(read.is_err()),
        Some(updates) => {
            let is_possible = updates.iter().all(|(offset, bytes)| {
                let end = offset.checked_add(bytes.len() as u64);
                end.is_some_and(|end| i64::try_from(end).is_ok())
            });
            assert_eq!(read.is_ok(), is_possible, "{updates:?}");
            if let Ok(batch) = read {
                assert_same(batch, &updates);
            }
        }
    }
});

/// The records as they stand; none where the last one is cut.
fn naive(mut rest: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut updates = Vec::new();
    while !rest.is_empty() {
        let (offset, behind) = rest.split_first_chunk::<8>()?;
        let (length, behind) = behind.split_first_chunk::<4>()?;
        let (bytes, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        updates.push((u64::from_le_bytes(*offset), bytes));
        rest = behind;
    }
    Some(updates)
}

/// Whether each byte is the one that was given last for its place.
fn assert_same(batch: Batch, updates: &[(u64, &[u8])]) {
    let mut found = Vec::new();
    let resolved = batch.resolve();
    for (offset, bytes) in resolved.iter() {
        found.extend((offset..).zip(bytes.iter().copied()));
    }
    let mut expected = std::collections::BTreeMap::new();
    for (offset, bytes) in updates {
        expected.extend((*offset..).zip(bytes.iter().copied()));
    }
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
}
