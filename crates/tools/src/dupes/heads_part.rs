//! Reading the beginnings of files in one thread, and comparing small files that begin alike.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seekless_engine::batch::{self, HeadConsumer};
use seekless_engine::files::read_full;
use seekless_engine::plan::{FIRST_BYTES, WHOLE_BYTES};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::cache::may_keep;
use super::opened::{READ_AHEAD_BYTES, cause, check, member, open_file, own_bytes, unread};
use super::twins::Twins;
use super::{Failed, Member, Search};
use crate::disk_order::resident_bytes;

/// Digest of the size and the beginning of a file, and its number.
pub(super) type Digest = (u64, u32);

/// What a thread finds.
pub(super) struct HeadsPart<'a> {
    pub search: &'a Search<'a>,
    pub digests: Vec<Digest>,
    /// Small files that are still open, and their digests.
    open: Vec<(Digest, Arc<File>)>,
    /// Files with the same bytes; `digests` has the first of each class.
    pub twins: Twins,
    /// What the cache did not know.
    pub new: Vec<Digest>,
    /// Files whose digests may not be used later.
    pub unkept: Vec<u32>,
    /// Files whose beginning is all of them, with its digest.
    pub small: Vec<(u32, blake3::Hash)>,
    pub failed: Vec<Failed>,
    /// Files that were not in memory, not even in part.
    pub cold: Vec<u32>,
    /// Whether the files that are opened were requested before, and were not in memory.
    pub are_missed: bool,
}

impl HeadConsumer<1> for HeadsPart<'_> {
    type Item = u32;
    type Opened = (u32, bool, [Arc<File>; 1]);

    fn open(&mut self, number: u32) -> Option<Self::Opened> {
        // The system may have begun to read files that were missed.
        if self.search.stop.is_stopped() && !self.are_missed {
            return None;
        }
        match open_file(self.search, number) {
            Ok((file, _)) => {
                if self.are_missed || self.search.files.is_read_without_device(number) {
                    self.look_if_cold(number, &file, self.are_missed);
                }
                if self.search.stop.is_stopped() {
                    return None;
                }
                Some((number, may_keep(self.search, number, &file), [Arc::new(file)]))
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

    fn take(&mut self, (number, may_keep, [file]): Self::Opened, heads: Result<[&[u8]; 1], batch::HeadFailure>) {
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
    pub fn new(search: &'a Search<'a>) -> Self {
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
    pub fn compare_open(&mut self) {
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
            let (content, member) = match read_whole(self.search, digest.1, file, content) {
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
        let cause = cause(self.search, number, file, unread(0, error));
        self.failed.push((number, cause));
    }
}

/// The bytes of a small file, which are read if they are not known.
pub(super) fn read_whole<'c>(
    search: &Search<'_>,
    number: u32,
    file: &File,
    known: Option<&'c [u8]>,
) -> io::Result<(Cow<'c, [u8]>, Member)> {
    let content = known.map_or_else(
        || read_small(search, number, file).map(Cow::from),
        |known| Ok(known.into()),
    )?;
    // A file that was truncated has changed.
    let facts = check(search, number, file)?;
    Ok((content, member(search, number, own_bytes(search, number, file, &facts))))
}

/// Reads all of a small file.
fn read_small(search: &Search<'_>, number: u32, file: &File) -> io::Result<Vec<u8>> {
    let mut content = vec![0; search.files.get(number).bytes as usize];
    let read = read_full(file, &mut content, 0);
    read.map_err(|error| cause(search, number, file, unread(0, &error)))?;
    search.read_bytes.fetch_add(content.len() as u64, Ordering::Relaxed);
    Ok(content)
}
