//! Lines of files that memory holds and of files that it does not.

use std::fs;

use super::super::side::open;
use super::super::{CmpRequest, WantedDifferences};
use super::*;
use crate::Stop;

/// Bytes that this thread has read, from any file.
fn read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

fn text(bytes: usize) -> Vec<u8> {
    let line: Vec<u8> = (0..1009_u32)
        .map(|at| if at < 2 { b'\n' } else { (at / 7) as u8 })
        .collect();
    let mut text = line.repeat(bytes / line.len() + 1);
    text.truncate(bytes);
    text
}

#[test]
fn large_cmp_counts_lines_without_a_second_reading() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["one", "other"].map(|name| directory.path().join(name));
    let bytes = REREAD_BYTES as usize + 4_000_000;
    let content = text(bytes);
    let cases = [
        (Some(bytes - 1), bytes),
        (Some(bytes / 2), bytes),
        (None, bytes - 12_345),
    ];
    for (differs_at, end) in cases.into_iter().step_by(crate::testing::long_or(1, 2)) {
        let mut other = content[..end].to_vec();
        if let Some(at) = differs_at {
            other[at] ^= 1;
        }
        let equal = &content[..differs_at.unwrap_or(end)];
        let newlines = memchr::memchr_iter(b'\n', equal).count() as u64;
        fs::write(&names[0], &content).unwrap();
        fs::write(&names[1], &other).unwrap();
        let request = CmpRequest::new([(&names[0]).into(), (&names[1]).into()], WantedDifferences::Difference);
        let sides = open(&request, true).unwrap().unwrap();
        let stop = Stop::default();
        for (memory_bytes, is_on_the_way) in [(1, true), (u64::MAX, false)] {
            let rest = RestOfPair::new(&request, &sides, 0, Some(LineCount::default()), &stop).unwrap();
            let plan = rest.plan(false, || memory_bytes).unwrap();
            let before = read_bytes();
            let reason = plan.reason.to_string();
            assert_eq!(reason.contains("counted meanwhile"), is_on_the_way, "{reason}");
            let outcome = rest.compare_by_plan(plan).unwrap();
            let (offset, counted) = match outcome.verdict {
                CmpVerdict::Differ(difference) => (difference.offset, difference.line.map(|line| line - 1)),
                CmpVerdict::Ended(end) => {
                    assert_eq!(end.is_within_line, equal.last() != Some(&b'\n'));
                    (end.offset, end.newlines)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!((offset, counted), (equal.len() as u64, Some(newlines)));
            if is_on_the_way && let (Some(before), Some(after)) = (before, read_bytes()) {
                // Both once, to the end of a block; a third reading would be as much again as half of that.
                let read = after - before;
                assert!(read < 2 * (equal.len() as u64 + (4 << 20)), "{read} bytes read");
            }
        }
    }
}

#[test]
fn large_cmp_of_short_files_asks_for_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("one");
    fs::write(&name, text(200_000)).unwrap();
    fs::write(directory.path().join("other"), text(200_001)).unwrap();
    let request = CmpRequest::new(
        [name.into(), directory.path().join("other").into()],
        WantedDifferences::Difference,
    );
    let sides = open(&request, true).unwrap().unwrap();
    let stop = Stop::default();
    let rest = RestOfPair::new(&request, &sides, 0, Some(LineCount::default()), &stop).unwrap();
    rest.plan(false, || panic!("it was asked for")).unwrap();
}
