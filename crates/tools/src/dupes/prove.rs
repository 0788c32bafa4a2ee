//! Comparing the files of a group, side by side.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seekless_engine::files::first_data;
use seekless_engine::plan::{FIRST_LOOK_BYTES, LARGE_BYTES, WHOLE_BYTES};

use super::alike::apart_by_name;
use super::digest::digest;
use super::disk_order::fetch_groups;
use super::opened::{Layout, Open, cause, check, forget, forget_open, layout, member, open};
use super::split::Split;
use super::{Class, Failed, Proof, Search};
use crate::tree::TreeFinding;
use crate::watch::JobProgress;

/// Threads split a large file into pieces of this size, and take this many before checking whether files are still equal.
const PIECE_BYTES: u64 = 8 << 20;
const PIECES_AHEAD: usize = 8;

/// Splits groups of files of one size into classes of equal ones; files that stand alone are left out.
pub(super) fn prove_all(search: &Search<'_>, groups: &[Vec<u32>]) -> (Vec<Class>, Vec<Failed>) {
    let of_bytes = groups
        .iter()
        .map(|group| bytes_of(search, group))
        .fold(0, u64::saturating_add);
    search.done.store(0, Ordering::Relaxed);
    let prove = |group: &Vec<u32>| {
        let proven = prove_with_twins(search, group);
        let bytes = bytes_of(search, group);
        let done = search.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        search.watch.progress(&JobProgress::of_bytes(done, Some(of_bytes)));
        proven
    };
    let is_large = |group: &&Vec<u32>| search.files.get(group[0]).bytes >= LARGE_BYTES;
    let (large, small): (Vec<&Vec<u32>>, Vec<&Vec<u32>>) = groups.iter().partition(is_large);
    let mut proven = map_fetched(search, &small, u64::MAX, prove);
    // Large files are compared one group at a time, by all threads. Otherwise, a thread that waits for the others
    // could start another group meanwhile, and wait for itself.
    for (alike, failures) in map_fetched(search, &large, FIRST_LOOK_BYTES, |group| first_look(search, group)) {
        proven.push((Vec::new(), failures));
        for group in &alike {
            fetch_groups(search, &[group], u64::MAX);
            proven.push(prove(group));
        }
    }
    let (mut classes, mut failed) = (Vec::new(), Vec::new());
    for (proven, failures) in proven {
        for Class { proof, files } in proven {
            let apart = apart_by_name(search, files, |member| member.number);
            let classes_of = apart.into_iter().map(|files| Class { proof, files });
            // They have all their twins by now.
            classes
                .extend(classes_of.filter(|class| search.are_wanted(class.files.iter().map(|member| member.number))));
        }
        failed.extend(failures);
    }
    if search.stop.is_stopped() {
        forget(search, &search.cold(), &[]);
    }
    (classes, failed)
}

/// The results of `one` for all groups, after at most `bytes_max` of each file were fetched, if files are read in the order of the
/// device: of as many groups at a time as may be in memory.
fn map_fetched<T: Send>(
    search: &Search<'_>,
    groups: &[&Vec<u32>],
    bytes_max: u64,
    one: impl Fn(&Vec<u32>) -> T + Sync,
) -> Vec<T> {
    let mut proven = Vec::with_capacity(groups.len());
    let mut rest = groups;
    while !rest.is_empty() {
        let (window, others) = rest.split_at(fetch_groups(search, rest, bytes_max));
        proven.extend(search.map(window, |group| one(group)));
        rest = others;
    }
    proven
}

/// The size of all files of a group.
pub(super) fn bytes_of(search: &Search<'_>, group: &[u32]) -> u64 {
    search.files.get(group[0]).bytes.saturating_mul(group.len() as u64)
}

/// Splits a group of large files by reading more of their beginnings.
fn first_look(search: &Search<'_>, group: &[u32]) -> (Vec<Vec<u32>>, Vec<Failed>) {
    // Without threads, comparing looks at the beginnings first anyway.
    let is_worth = search.plan.has_threads || search.plan.is_by_place();
    if !is_worth || group.len() > search.plan.most_open || search.cache.is_some() {
        return (vec![group.to_vec()], Vec::new());
    }
    let (mut files, mut failed) = (Vec::with_capacity(group.len()), Vec::new());
    for number in group {
        match open(search, *number) {
            Ok(open) => files.push(open),
            Err(error) => failed.push((*number, error)),
        }
    }
    let numbers = |class: &[usize]| class.iter().map(|file| files[*file].number).collect::<Vec<u32>>();
    let is_wanted = |class: &[usize]| search.is_group(numbers(class));
    let mut split = Split::new(&files, search.plan.blocks_bytes, search.stop, &is_wanted);
    split.read(&files, 0..FIRST_LOOK_BYTES);
    let alike: Vec<Vec<u32>> = split.classes().iter().map(|class| numbers(class)).collect();
    search.read_bytes.fetch_add(split.read_bytes, Ordering::Relaxed);
    failed.extend(causes(search, &files, &mut split));
    for open in files
        .iter()
        .filter(|open| !alike.iter().flatten().any(|number| *number == open.number))
    {
        forget_open(search, open.number, &open.file);
    }
    (alike, failed)
}

/// A file and those with the same bytes that it stands for.
pub(super) fn with_twins(search: &Search<'_>, number: u32) -> impl Iterator<Item = u32> {
    std::iter::once(number).chain(search.twins.get(number).iter().skip(1).map(|twin| twin.number))
}

/// Proves a group whose files may stand for others.
fn prove_with_twins(search: &Search<'_>, group: &[u32]) -> (Vec<Class>, Vec<Failed>) {
    if group.iter().all(|number| search.twins.get(*number).is_empty()) {
        return prove(search, group);
    }
    let mut alone = group.to_vec();
    let (mut classes, failed) = match group {
        [_] => Default::default(),
        _ => prove(search, group),
    };
    if !failed.is_empty() {
        // If a file changed, nothing is known about those that it stands for.
        let all: Vec<u32> = group.iter().flat_map(|number| with_twins(search, *number)).collect();
        return prove(search, &all);
    }
    for class in &mut classes {
        let firsts: Vec<u32> = class.files.iter().map(|member| member.number).collect();
        alone.retain(|number| !firsts.contains(number));
        let twins = firsts.iter().flat_map(|first| search.twins.get(*first).iter().skip(1));
        class.files.extend(twins);
    }
    let alone = alone.iter().map(|number| search.twins.get(*number));
    classes.extend(alone.filter(|twins| !twins.is_empty()).map(|twins| Class {
        proof: Proof::Bytes,
        files: twins.to_vec(),
    }));
    (classes, failed)
}

pub(super) fn prove(search: &Search<'_>, group: &[u32]) -> (Vec<Class>, Vec<Failed>) {
    let mut failed = Vec::new();
    let fits = group.len() <= search.plan.most_open;
    let is_small = search.cache.is_none() && search.files.get(group[0]).bytes <= WHOLE_BYTES;
    let is_group = |numbers: &[u32]| search.is_group(numbers.iter().copied());
    let are_compared = search.options.is_paranoid || is_small;
    let classes = if search.stop.is_stopped() {
        Vec::new()
    } else if fits && (are_compared || search.cache.is_none()) {
        compare(search, group, &is_group, &mut failed)
    } else if are_compared {
        compare_many(search, group, &mut failed)
    } else {
        digest(search, group, &mut failed)
    };
    (classes, failed)
}

/// Compares more files than may be open at once: only those with the same digest, since comparing all pairs takes too long.
fn compare_many(search: &Search<'_>, group: &[u32], failed: &mut Vec<Failed>) -> Vec<Class> {
    let alike = digest(search, group, failed);
    let numbers = |class: &Class| class.files.iter().map(|member| member.number).collect::<Vec<u32>>();
    let mut alike: Vec<Vec<u32>> = alike.iter().map(numbers).collect();
    alike.retain(|class| search.is_group(class.iter().copied()));
    let cold = group.iter().copied().filter(|number| search.cold().contains(number));
    forget(search, &cold.collect(), &alike);
    let classes = alike.iter().flat_map(|class| compare_in_parts(search, class, failed));
    classes.collect()
}

/// Compares the first file with all others, whose digests are equal.
fn compare_in_parts(search: &Search<'_>, group: &[u32], failed: &mut Vec<Failed>) -> Vec<Class> {
    let [first, others @ ..] = group else { return Vec::new() };
    let compare = |part: &[u32]| {
        let mut failed = Vec::new();
        // All classes are wanted here: files in other parts may complete a group.
        let classes = compare(search, &[&[*first], part].concat(), &|_| true, &mut failed);
        (classes, failed)
    };
    let parts: Vec<&[u32]> = others.chunks(search.plan.most_open - 1).collect();
    let (mut classes, mut files) = (Vec::new(), Vec::new());
    for (part, failures) in search.map(&parts, |part| compare(part)) {
        failed.extend(failures);
        for class in part {
            if class.files[0].number == *first {
                // It is in each part.
                files.extend(class.files.into_iter().skip(usize::from(!files.is_empty())));
            } else {
                classes.push(class);
            }
        }
    }
    if search.stop.is_stopped() {
        return Vec::new();
    }
    failed.sort_by_key(|(number, _)| *number);
    failed.dedup_by_key(|(number, _)| *number);
    let is_read = |number: &u32| failed.binary_search_by_key(number, |(number, _)| *number).is_err();
    if !is_read(first) {
        // Others may have been compared with its old content.
        let rest: Vec<u32> = others.iter().copied().filter(is_read).collect();
        return compare_in_parts(search, &rest, failed);
    }
    if files.len() > 1 {
        let proof = Proof::Bytes;
        classes.push(Class { proof, files });
    }
    classes
}

/// Opens the files of a group. If some share all their blocks, one is read for all.
fn open_group(search: &Search<'_>, group: &[u32]) -> (Vec<Open>, Vec<Failed>) {
    let (mut files, mut failures) = (Vec::with_capacity(group.len()), Vec::new());
    let mut layouts: HashMap<Layout, usize> = HashMap::new();
    for number in group {
        match open(search, *number) {
            Ok(mut open) => {
                let layout = layout(search, *number, &open.file);
                let first = layout.map(|layout| *layouts.entry(layout).or_insert(files.len()));
                open.read_by = first.filter(|first| *first < files.len());
                files.push(open);
            }
            Err(error) => failures.push((*number, error)),
        }
    }
    (files, failures)
}

/// Compares files side by side, as long as those that may be equal are wanted.
pub(super) fn compare(
    search: &Search<'_>,
    group: &[u32],
    are_wanted: &(dyn Fn(&[u32]) -> bool + Sync),
    failed: &mut Vec<Failed>,
) -> Vec<Class> {
    let (files, mut failures) = open_group(search, group);
    let bytes = search.files.get(group[0]).bytes;
    // The files of a class, also those that are not read.
    let all_of = |class: &[usize]| {
        let is_in = |file: &usize| class.contains(&files[*file].read_by.unwrap_or(*file));
        (0..files.len()).filter(is_in).collect::<Vec<_>>()
    };
    let numbers = |class: &[usize]| all_of(class).iter().map(|file| files[*file].number).collect::<Vec<_>>();
    let is_wanted = |class: &[usize]| are_wanted(&numbers(class));
    let mut split = Split::new(&files, search.plan.blocks_bytes, search.stop, &is_wanted);
    let is_large = bytes >= LARGE_BYTES;
    let first = if is_large { FIRST_LOOK_BYTES } else { bytes };
    split.read(&files, 0..first);
    if is_large && !search.stop.is_stopped() {
        compare_rest(search, &files, first..bytes, &mut split);
    }
    search.read_bytes.fetch_add(split.read_bytes, Ordering::Relaxed);
    if search.stop.is_stopped() {
        return Vec::new();
    }
    let mut classes = split.all_classes();
    // Unwanted classes were not read to the end.
    classes.retain(|class| is_wanted(class));
    failures.extend(causes(search, &files, &mut split));
    for open in &files {
        forget_open(search, open.number, &open.file);
    }
    let mut equal = Vec::new();
    for class in classes {
        let mut members = Vec::with_capacity(class.len());
        for index in all_of(&class) {
            let open = &files[index];
            // If the file was written to meanwhile, the bytes read may be neither its old nor its new content.
            match check(search, open.number, &open.file) {
                Ok(_) => members.push(member(search, open.number, open.own_bytes)),
                Err(error) => failures.push((open.number, error)),
            }
        }
        if members.len() > 1 {
            equal.push(Class {
                proof: Proof::Bytes,
                files: members,
            });
        }
    }
    // The bytes read from a changed file say nothing about files that share its old blocks.
    let lost: HashSet<u32> = failures.iter().map(|(number, _)| *number).collect();
    let mut read_for_others = files.iter().filter_map(|open| open.read_by);
    if read_for_others.any(|file| lost.contains(&files[file].number)) {
        let rest: Vec<u32> = group.iter().copied().filter(|number| !lost.contains(number)).collect();
        drop(files);
        equal = if rest.len() > 1 {
            compare(search, &rest, are_wanted, &mut failures)
        } else {
            Vec::new()
        };
    }
    failed.extend(failures);
    equal
}

/// The files that could not be read, and why.
fn causes(search: &Search<'_>, files: &[Open], split: &mut Split<'_>) -> Vec<Failed> {
    let failed = split.failed.drain(..).map(|(index, error)| (&files[index], error));
    failed
        .map(|(open, error)| (open.number, cause(search, open.number, &open.file, error)))
        .collect()
}

/// Compares large files: a pair by the method that is planned for it, more of them side by side, in pieces that threads
/// share.
fn compare_rest(search: &Search<'_>, files: &[Open], range: Range<u64>, split: &mut Split<'_>) {
    if let [class] = &split.classes()[..]
        && let [one, other] = class[..]
    {
        let pair = [one, other].map(|file| Arc::clone(&files[file].file));
        search
            .read_bytes
            .fetch_add(2 * (range.end - range.start), Ordering::Relaxed);
        match search.large.compare(&pair, range.end, &|| !search.stop.is_stopped()) {
            Err(Some(TreeFinding::Failed { side, reason, .. })) => {
                split.fail([one, other][side as usize], io::Error::other(reason));
            }
            Ok(Some(_)) | Err(Some(TreeFinding::Difference(_))) => split.leave(other),
            Ok(None) | Err(None) => {}
        }
        return;
    }
    if search.plan.is_by_place() {
        split.read(files, range);
        return;
    }
    let all: Vec<&File> = files.iter().map(|open| &*open.file).collect();
    let mut at = range.start;
    while at < range.end && !search.stop.is_stopped() && !split.classes().is_empty() {
        // What is a hole in all of them is equal. A file whose holes are not known is read.
        at = first_data(&all, at..range.end).unwrap_or(at);
        let ahead = at..range.end.min(at.saturating_add(PIECES_AHEAD as u64 * PIECE_BYTES));
        at = ahead.end;
        let starts = ahead.clone().step_by(PIECE_BYTES as usize);
        let pieces: Vec<_> = starts.map(|start| start..ahead.end.min(start + PIECE_BYTES)).collect();
        let parts = search.map(&pieces, |piece| {
            let mut part = split.clone();
            part.read(files, piece.clone());
            part
        });
        for part in parts {
            split.refine(part);
        }
    }
}
