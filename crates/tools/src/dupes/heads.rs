//! Grouping files of one size by their beginnings.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use seekless::batch::{self, Each, Heads};
use seekless::files::read_full;
use seekless::plan::{FIRST_BYTES, WHOLE_BYTES};
use seekless_sys::drop_from_cache;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::failures::unread;
use super::resident::LeftResident;
use super::twins::Twins;
use super::{Failed, Member, Search, SearchProgress};
use crate::place::resident_bytes;
use crate::threads::in_threads;

/// Files that a thread takes at a time. A few in tests, so that equal files fall into several chunks.
const CHUNK: usize = if cfg!(test) { 4 } else { 256 };

/// The same where files are fetched in the order of the device: in one sweep of the head.
const FETCHED_FILES: usize = 4096;

/// Requesting the beginning of a file that is not in memory may read ahead this much.
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// How often to try to drop what is still being read ahead.
const DROPPED_TIMES: u32 = 20;
/// The same where files are fetched: many other requests of a disk with a head may come before the last one of a file.
const FETCHED_DROPPED_TIMES: u32 = 500;

/// Digest of the size and the beginning of a file, and its number.
pub(super) type Digest = (u64, u32);

/// Files that are read between two pauses of [`Search::all_heads`].
const TOGETHER: usize = 1 << 16;

/// What a thread finds.
pub(super) struct HeadsPart<'a> {
    pub search: &'a Search<'a>,
    pub digests: Vec<Digest>,
    /// Small files that are still open, and their digests.
    open: Vec<(Digest, Arc<File>)>,
    /// Files with the same bytes; `digests` has the first of each class.
    twins: Twins,
    /// What the cache did not know.
    new: Vec<Digest>,
    /// Files whose digests may not be used later.
    unkept: Vec<u32>,
    /// Files whose beginning is all of them, with its digest.
    small: Vec<(u32, blake3::Hash)>,
    failed: Vec<Failed>,
    /// Files that were not in memory, not even in part.
    cold: Vec<u32>,
    /// Whether the files that are opened were requested before, and were not in memory.
    are_missed: bool,
}

impl Each<1> for HeadsPart<'_> {
    type Item = u32;
    type Opened = (u32, bool, [Arc<File>; 1]);

    fn open(&mut self, number: u32) -> Option<Self::Opened> {
        // The system may have begun to read files that were missed.
        if self.search.stop.is_stopped() && !self.are_missed {
            return None;
        }
        match self.search.open_file(number) {
            Ok((file, _)) => {
                if self.are_missed || self.search.files.is_read_without_device(number) {
                    self.look_if_cold(number, &file, self.are_missed);
                }
                if self.search.stop.is_stopped() {
                    return None;
                }
                Some((number, self.search.may_keep(number, &file), [Arc::new(file)]))
            }
            Err(error) => {
                self.failed.push((number, error));
                None
            }
        }
    }

    fn files((.., files): &Self::Opened) -> &[Arc<File>; 1] {
        files
    }

    fn cold(&mut self, (number, _, [file]): &Self::Opened, was_asked: bool) {
        if !self.are_missed {
            self.look_if_cold(*number, file, was_asked);
        }
    }

    fn take(&mut self, (number, may_keep, [file]): Self::Opened, heads: Result<[&[u8]; 1], batch::Failed>) {
        let bytes = self.search.files.get(number).bytes;
        let mut again = Vec::new();
        let expected = bytes.min(FIRST_BYTES as u64) as usize;
        let head = match heads {
            Ok([head]) if head.len() >= expected => &head[..expected],
            Ok(_) => {
                again.resize(expected, 0);
                match read_full(&file, &mut again, 0) {
                    Ok(length) => &again[..length],
                    Err(error) => return self.fail(number, &file, &error),
                }
            }
            Err((_, error)) => return self.fail(number, &file, &error),
        };
        self.search.read_bytes.fetch_add(head.len() as u64, Ordering::Relaxed);
        let digest = self.digest(number, head);
        if may_keep {
            self.new.push(digest);
        } else if self.search.cache.is_some() {
            self.unkept.push(number);
        }
        if self.search.digests_small && bytes <= FIRST_BYTES as u64 {
            let digest = blake3::hash(head);
            self.small.push((number, digest));
            if let Some(cache) = self.search.cache.as_ref().filter(|_| may_keep) {
                cache.add_content(number, digest);
            }
        }
        if !self.search.finds_twins || bytes > WHOLE_BYTES {
            self.digests.push(digest);
            return;
        }
        self.open.push((digest, file));
        if self.open.len() >= self.search.plan.batch.batch {
            self.compare_open();
        }
    }
}

impl<'a> HeadsPart<'a> {
    fn new(search: &'a Search<'a>) -> Self {
        Self {
            search,
            digests: Vec::new(),
            open: Vec::new(),
            twins: Twins::default(),
            new: Vec::new(),
            unkept: Vec::new(),
            small: Vec::new(),
            failed: Vec::new(),
            cold: Vec::new(),
            are_missed: false,
        }
    }

    /// Notes a file of which nothing was in memory. If its beginning has been requested already (`was_asked`), as much as the system
    /// reads ahead may be there.
    fn look_if_cold(&mut self, number: u32, file: &File, was_asked: bool) {
        let resident_max = if was_asked { READ_AHEAD_BYTES } else { 0 };
        if resident_bytes(file).is_some_and(|resident| resident <= resident_max) {
            self.cold.push(number);
        }
    }

    pub fn digest(&self, number: u32, head: &[u8]) -> Digest {
        (xxh3_64_with_seed(head, self.search.files.get(number).bytes), number)
    }

    /// Compares the open files that begin alike, and closes all. Of those with equal bytes, one stands for all.
    fn compare_open(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        let bytes = |number: u32| self.search.files.get(number).bytes;
        let key = |((digest, number), _): &(Digest, _)| (*digest, bytes(*number));
        open.sort_unstable_by_key(key);
        for alike in open.chunk_by(|one, other| key(one) == key(other)) {
            match alike {
                [(digest, _)] => self.digests.push(*digest),
                _ => self.compare_alike(alike.iter().map(|(digest, file)| (*digest, &**file, None))),
            }
        }
        open.clear();
        self.open = open;
    }

    /// Compares open files of one size and one digest, whose content may be known.
    pub fn compare_alike<'o>(&mut self, alike: impl Iterator<Item = (Digest, &'o File, Option<&'o [u8]>)>) {
        let mut classes: Vec<(Digest, Cow<'_, [u8]>, Vec<Member>)> = Vec::new();
        for (digest, file, content) in alike {
            let (content, member) = match self.search.read_whole(digest.1, file, content) {
                Ok(read) => read,
                Err(error) => {
                    self.failed.push((digest.1, error));
                    continue;
                }
            };
            match classes.iter_mut().find(|(_, bytes, _)| *bytes == content) {
                Some((.., class)) => class.push(member),
                None => classes.push((digest, content, vec![member])),
            }
        }
        for (digest, _, class) in classes {
            self.digests.push(digest);
            if class.len() > 1 {
                self.twins.add(&class);
            }
        }
    }

    fn fail(&mut self, number: u32, file: &File, error: &io::Error) {
        let cause = self.search.cause(number, file, unread(0, error));
        self.failed.push((number, cause));
    }
}

/// What reading the beginnings of files found.
#[derive(Default)]
pub(super) struct AllHeads {
    pub digests: Vec<Digest>,
    pub failed: Vec<Failed>,
    /// Files whose digests may not be used later.
    pub unkept: Vec<u32>,
    /// Files whose beginning is all of them, with its digest.
    pub small: Vec<(u32, blake3::Hash)>,
}

/// Files by their beginnings.
#[derive(Default)]
pub(super) struct Beginnings {
    /// Files of one size with equal beginnings; also single ones, if they have twins.
    pub groups: Vec<Vec<u32>>,
    pub failed: Vec<Failed>,
    /// Files that were not in memory, not even in part.
    pub cold: HashSet<u32>,
}

impl Search<'_> {
    /// Drops a file that was read a moment ago from the page cache.
    pub fn drop_read(&self, file: &File, bytes: u64) {
        let _ = drop_from_cache(file);
        // Some pages cannot be dropped yet, such as those still being read ahead.
        let is_left = || bytes > READ_AHEAD_BYTES && resident_bytes(file).is_some_and(|resident| resident > 0);
        let times = if self.plan.is_by_place() {
            FETCHED_DROPPED_TIMES
        } else {
            DROPPED_TIMES
        };
        for _ in (0..times).take_while(|_| is_left()) {
            std::thread::sleep(Duration::from_millis(2));
            let _ = drop_from_cache(file);
        }
    }

    /// The bytes of a small file, which are read if they are not known.
    fn read_whole<'c>(&self, number: u32, file: &File, known: Option<&'c [u8]>) -> io::Result<(Cow<'c, [u8]>, Member)> {
        let content = known.map_or_else(
            || self.read_small(number, file).map(Cow::from),
            |known| Ok(known.into()),
        )?;
        // A file that was truncated has changed.
        let facts = self.check(number, file)?;
        Ok((content, self.member(number, self.own_bytes(number, file, &facts))))
    }

    fn read_small(&self, number: u32, file: &File) -> io::Result<Vec<u8>> {
        let mut content = vec![0; self.files.get(number).bytes as usize];
        let read = read_full(file, &mut content, 0);
        read.map_err(|error| self.cause(number, file, unread(0, &error)))?;
        self.read_bytes.fetch_add(content.len() as u64, Ordering::Relaxed);
        Ok(content)
    }

    /// Groups files by their beginnings.
    pub fn by_heads(&mut self, numbers: &[u32]) -> Beginnings {
        let mut found = Beginnings::default();
        let mut digests = Vec::new();
        let mut twins = Vec::new();
        let in_turn = (!self.plan.is_by_place()).then(|| self.by_name(numbers));
        for part in self.read_heads(in_turn.as_deref().unwrap_or(numbers), numbers.len()) {
            self.keep_heads(&part.new);
            digests.push(part.digests);
            twins.push(part.twins);
            found.failed.extend(part.failed);
            found.cold.extend(part.cold);
        }
        self.twins = Twins::of(twins, self.files.len());
        found.groups = self.alike(digests);
        self.put_in_order(numbers, &mut found.groups);
        found
    }

    fn keep_heads(&self, new: &[Digest]) {
        if let Some(cache) = &self.cache {
            cache.add_heads(new.iter().map(|(digest, number)| (*number, *digest)));
        }
    }

    /// Reads the beginnings of files, in their order, and does something now and then.
    pub fn all_heads(&mut self, numbers: &[u32], mut now_and_then: impl FnMut(&Self)) -> AllHeads {
        let mut found = AllHeads::default();
        let mut cold = HashSet::new();
        for some in numbers.chunks(TOGETHER) {
            for part in self.read_heads(some, numbers.len()) {
                self.keep_heads(&part.new);
                found.digests.extend(part.digests);
                found.failed.extend(part.failed);
                found.unkept.extend(part.unkept);
                found.small.extend(part.small);
                cold.extend(part.cold);
            }
            now_and_then(self);
        }
        if !self.options.keeps_cached {
            self.forget(&cold, &[]);
            self.cold = RwLock::new(cold);
        }
        found
    }

    /// Puts small files with the same name and size after each other. Copies of directories have many of these; most equal files
    /// are then open at the same time.
    fn by_name(&self, numbers: &[u32]) -> Vec<u32> {
        const NONE: u32 = u32::MAX;
        let mut last = vec![NONE; (2 * numbers.len()).next_power_of_two()];
        // Where the next file of the same name is.
        let mut next = vec![NONE; numbers.len()];
        let mut has_one_before = vec![false; numbers.len()];
        for (at, number) in numbers.iter().enumerate() {
            let (name, bytes) = (self.files.name(*number), self.files.get(*number).bytes);
            if bytes > WHOLE_BYTES {
                continue;
            }
            let slot = xxh3_64_with_seed(name, bytes) as usize & (last.len() - 1);
            let before = std::mem::replace(&mut last[slot], at as u32) as usize;
            let is_same = |other: &u32| self.files.get(*other).bytes == bytes && self.files.name(*other) == name;
            if numbers.get(before).is_some_and(is_same) {
                next[before] = at as u32;
                has_one_before[at] = true;
            }
        }
        let mut ordered = Vec::with_capacity(numbers.len());
        for first in (0..numbers.len()).filter(|at| !has_one_before[*at]) {
            let mut at = first;
            while let Some(number) = numbers.get(at) {
                ordered.push(*number);
                at = next[at] as usize;
            }
        }
        ordered
    }

    /// Reads the beginnings of files, in their order; `of` is how many the search reads in all.
    fn read_heads(&self, numbers: &[u32], of: usize) -> Vec<HeadsPart<'_>> {
        let next = AtomicUsize::new(0);
        let is_cold = AtomicBool::new(false);
        let sizes = numbers.iter().map(|number| self.files.get(*number).bytes);
        let fetched_bytes = self.plan.fetched_bytes(sizes);
        let work = |until_cold: bool| {
            let mut part = HeadsPart::new(self);
            let mut heads = Heads::new(&self.plan.batch);
            // To keep digests in the cache, each file is opened and checked by itself.
            let mut resident = self
                .finds_twins
                .then(|| LeftResident::new(self.plan.batch.batch, &self.process))
                .flatten();
            let mut is_warm = true;
            let taken = if fetched_bytes.is_some() { FETCHED_FILES } else { CHUNK };
            while !(until_cold && is_cold.load(Ordering::Relaxed) || self.stop.is_stopped()) {
                let start = next.fetch_add(taken, Ordering::Relaxed);
                let Some(chunk) = numbers
                    .get(start..numbers.len().min(start + taken))
                    .filter(|chunk| !chunk.is_empty())
                else {
                    break;
                };
                let mut unknown = chunk.to_vec();
                unknown.retain(|number| {
                    let cache = self.cache_of(*number);
                    let known = cache.and_then(|cache| cache.head(*number, self.files.get(*number)));
                    part.digests.extend(known.map(|digest| (digest, *number)));
                    known.is_none()
                });
                if let Some(fetched_bytes) = fetched_bytes {
                    let wanted = unknown.iter().map(|number| (*number, 0..fetched_bytes));
                    part.cold.extend(self.fetch_in_order(wanted, FIRST_BYTES as u64));
                }
                if let Some(resident) = resident.as_mut().filter(|_| is_warm) {
                    let rest = resident.read(&unknown, &mut part);
                    is_warm = !rest.is_cold;
                    part.are_missed = true;
                    heads.read(rest.missed, &mut part);
                    part.are_missed = false;
                    heads.read(rest.untried, &mut part);
                } else {
                    heads.read(unknown, &mut part);
                    is_warm = heads.is_warm();
                }
                is_cold.fetch_or(!is_warm, Ordering::Relaxed);
                part.compare_open();
                let done = self.done.fetch_add(chunk.len() as u64, Ordering::Relaxed) + chunk.len() as u64;
                (self.tell)(SearchProgress::Read(done, of as u64));
            }
            part
        };
        // Reading from memory keeps all processors busy; more threads only help to wait for a device.
        let threads = self.plan.batch.threads;
        let mut parts = in_threads(threads.min(self.process.processors), || work(true));
        if is_cold.load(Ordering::Relaxed) {
            parts.extend(in_threads(threads, || work(false)));
        }
        parts
    }

    /// Groups of files with the same size and digest; a file that equals only its twins is a group of its own.
    pub fn alike(&self, parts: Vec<Vec<Digest>>) -> Vec<Vec<u32>> {
        let mut digests = Vec::new();
        digests.reserve_exact(parts.iter().map(Vec::len).sum());
        for part in parts {
            digests.extend(part);
        }
        digests.sort_unstable();
        let mut groups = Vec::new();
        for alike in digests.chunk_by_mut(|one, other| one.0 == other.0) {
            // One digest of two sizes is very rare.
            alike.sort_by_key(|(_, number)| self.files.get(*number).bytes);
            let sizes = alike.chunk_by(|one, other| self.files.get(one.1).bytes == self.files.get(other.1).bytes);
            for group in sizes.filter(|group| self.is_group(group.iter().map(|(_, number)| *number))) {
                groups.push(group.iter().map(|(_, number)| *number).collect::<Vec<u32>>());
            }
        }
        groups
    }

    /// Drops files that were not in the page cache before, except those that are read again.
    pub fn forget(&self, cold: &HashSet<u32>, groups: &[Vec<u32>]) {
        let read_again = groups.iter().filter(|group| group.len() > 1).flatten();
        let read_again: HashSet<u32> = read_again.copied().collect();
        let mut numbers: Vec<u32> = cold.difference(&read_again).copied().collect();
        numbers.sort_unstable_by_key(|number| self.files.get(*number).id());
        let _: Vec<()> = self.map(&numbers, |number| {
            if let Ok((file, facts)) = self.files.open(*number) {
                self.drop_read(&file, facts.bytes);
            }
        });
    }
}
