//! Updates that do not fit into memory: they are sorted on the disk and written window by window.

use std::path::Path;

use seekless::Method;
use seekless::error::UpdateErrorKind;
use seekless::method::{Durability, Hint, Operation, UpdateOrder};
use seekless::update::{Batch, Look, Safety, StepKind, Updates, commit, commit_watched, cost};

use super::crashing::finished_after_kills;
use super::pairs::is_long;
use super::watches::{LIMITS, assert_alone, at, by, full, how};
use super::{directories, file_of, methods, sample};

const FILE_BYTES: usize = 300_000;

/// Four times as many updates as fit into memory, unordered, some overlapping and some behind the end; and the file
/// that they make of `sample(FILE_BYTES)`.
pub fn spilled() -> (Updates, Vec<u8>) {
    let temporary = std::env::temp_dir();
    let (mut batch, mut after) = (Batch::within(256 << 10, &temporary), sample(FILE_BYTES));
    after.resize(FILE_BYTES + 50_000, 0);
    let mut end = FILE_BYTES;
    for n in 0..30_000_usize {
        let offset = n * 7919 % (FILE_BYTES + 49_000) / 4 * 4;
        let bytes = &sample(n % 9 + 1)[..];
        batch.push(offset as u64, bytes).unwrap();
        after[offset..offset + bytes.len()].copy_from_slice(bytes);
        end = end.max(offset + bytes.len());
    }
    after.truncate(end);
    let updates = batch.resolve().unwrap();
    assert!(updates.spilled_bytes().is_some());
    (updates, after)
}

#[test]
fn every_method_a_journal_and_a_new_file_leave_what_a_naive_file_holds_but_for_the_order_given() {
    let (updates, after) = spilled();
    for directory in directories() {
        let plain = methods(Operation::Update, directory.path())
            .into_iter()
            .filter(|method| {
                let options = method.options();
                // Each of the many writes would wait for the device.
                options.durability() == Durability::None && options.hint() == Hint::None
            });
        for method in plain {
            let path = file_of(&directory, "file", &sample(FILE_BYTES));
            let result = commit(&path, &updates, &how(method, Safety::InPlace));
            if method.options().update_order() == UpdateOrder::AsGiven {
                let error = result.unwrap_err();
                let is_told = matches!(error.update_kind(), Some(UpdateErrorKind::NeedsMemory(_)));
                assert!(is_told, "{method}: {error:?}");
                assert!(std::fs::read(&path).unwrap() == sample(FILE_BYTES));
                continue;
            }
            result.unwrap_or_else(|error| panic!("{method}: {error}"));
            assert!(std::fs::read(&path).unwrap() == after, "{method}");
        }
        for safety in [Safety::Journal, Safety::Replace] {
            let path = file_of(&directory, "file", &sample(FILE_BYTES));
            commit(&path, &updates, &by("update/planned,fsync", safety)).unwrap();
            assert!(std::fs::read(&path).unwrap() == after, "{safety:?}");
            assert_alone(&path);
        }
    }
}

#[test]
fn what_is_planned_is_what_is_written() {
    let (updates, _) = spilled();
    let directory = &directories()[0];
    let path = file_of(directory, "file", &sample(FILE_BYTES));
    let look = Look::assuming(&path, &LIMITS).unwrap();
    let plan = look.plan(&updates, &LIMITS).unwrap();
    let done = commit(&path, &updates, &how(plan.plan.method, Safety::InPlace)).unwrap();
    let expected = (plan.cost.work.writes, plan.cost.work.written_bytes);
    assert_eq!((done.writes, done.written_bytes), expected);
    let exact = Method::known("update/sync,gap=0");
    let exact = cost(&updates, &look.facts, &exact, Safety::InPlace).unwrap();
    assert_eq!(exact.work.written_bytes, updates.requested_bytes());
}

#[test]
fn after_a_kill_before_any_step_of_a_journal_the_file_is_as_before_or_as_wanted() {
    let contents = [&sample(FILE_BYTES)[..], &spilled().1];
    let every = if is_long() { 1 } else { 2 };
    let update = ["spilled", "update/sync,gap=4K"];
    let [finished, _] = finished_after_kills(&directories()[0], update, every, contents);
    assert!(finished > 4 / every as u64, "one write of each window at least");
}

#[test]
fn an_update_in_place_that_fails_says_how_far_all_of_it_went() {
    let (updates, after) = spilled();
    let directory = &directories()[0];
    let failed = |path: &Path| {
        let watch = at(StepKind::Write, 3, full);
        let method = Method::known("update/sync,gap=4K");
        commit_watched(path, &updates, &how(method, Safety::InPlace), &watch)
    };
    let path = file_of(directory, "file", &sample(FILE_BYTES));
    let error = failed(&path).unwrap_err();
    let Some(UpdateErrorKind::PartlyUpdated { far, .. }) = error.update_kind() else {
        panic!("it did not fail")
    };
    assert!(far.done == 2 && far.planned > 3, "{far:?}");
    let (found, next) = (std::fs::read(&path).unwrap(), far.next_offset as usize);
    assert!(next > 0 && found[..next] == after[..next]);
    assert!(found[next..FILE_BYTES] == sample(FILE_BYTES)[next..]);
}
