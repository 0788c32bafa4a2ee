//! What the bytes of a file come from: a content of the beginning, with or without the updates, or one that others wrote, with
//! marks of others in it.
//!
//! Not here: which contents must be found.

use std::collections::HashMap;

use super::disturber::{Act, Interference, MARK_BYTES};
use super::plan::{Content, FileTree};

/// Which of the updates a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatesPresent {
    No,
    Yes,
    /// All of them or none.
    AllOrNone,
    /// Each byte is the one before or the updated one.
    EachByte,
}

/// All contents that files may have.
pub struct TracedContents<'a> {
    all: Vec<Candidate<'a>>,
    /// The numbers of those that are not updated: a full disk may have made several empty.
    whole: HashMap<&'a [u8], Vec<usize>>,
    /// The number of the content that an act wrote.
    pub numbers: HashMap<usize, usize>,
    /// Acts that wrote marks, and their numbers.
    marks: Vec<(usize, &'a Act)>,
    /// For each byte, whether an update names it.
    named: Vec<bool>,
}

/// A content that a file may have.
struct Candidate<'a> {
    before: &'a [u8],
    after: Vec<u8>,
    updated: UpdatesPresent,
    /// By how much a file that was updated in part may be longer.
    slack: usize,
}

/// What the bytes of a file come from.
pub struct Derived {
    /// Several where a mark was written over the bytes that tell them apart.
    pub contents: Vec<usize>,
    /// The acts whose marks are in it.
    pub marks: Vec<usize>,
}

impl<'a> TracedContents<'a> {
    /// Of the files of a tree, of which the first content is updated, and of those that others wrote.
    pub fn of(tree: &'a FileTree, acts: &'a [Act], updated: UpdatesPresent, slack: usize) -> Self {
        let target = &tree.contents[0];
        let mut contents = Self {
            all: Vec::new(),
            whole: HashMap::new(),
            numbers: HashMap::new(),
            marks: Vec::new(),
            named: target.named(),
        };
        // Of a file that took the name of another, or lost it, it is not known whether it was updated.
        let either = if updated == UpdatesPresent::EachByte {
            updated
        } else {
            UpdatesPresent::AllOrNone
        };
        let is_renamed = acts.iter().any(Act::gives_name);
        for content in &tree.contents {
            let updated = if is_renamed { either } else { updated };
            contents.push(&content.bytes, content, updated, slack);
        }
        for (number, act) in acts.iter().enumerate() {
            if act.kind == Interference::Save && act.answer.is_ok() {
                contents.numbers.insert(number, contents.all.len());
                contents.push(&act.wrote, target, either, slack);
            } else if !act.wrote.is_empty() {
                contents.marks.push((number, act));
            }
        }
        contents
    }

    fn push(&mut self, before: &'a [u8], content: &Content, updated: UpdatesPresent, slack: usize) {
        let is_updated = !content.patches.is_empty();
        if !is_updated {
            self.whole.entry(before).or_default().push(self.all.len());
        }
        self.all.push(Candidate {
            before,
            after: content.patched(before),
            updated: if is_updated { updated } else { UpdatesPresent::No },
            slack: if is_updated { slack } else { 0 },
        });
    }

    /// Nothing if a byte comes from nowhere.
    pub fn derive(&self, bytes: &[u8]) -> Option<Derived> {
        let mut derived = Derived {
            contents: self.whole.get(bytes).cloned().unwrap_or_default(),
            marks: Vec::new(),
        };
        if !derived.contents.is_empty() {
            return Some(derived);
        }
        let marked = self.marked(bytes, None);
        for (number, candidate) in self.all.iter().enumerate() {
            let is_updated = candidate.updated != UpdatesPresent::No;
            let own = is_updated.then(|| self.marked(bytes, Some(candidate)));
            let (marks, is_marked) = own.as_ref().unwrap_or(&marked);
            if candidate.fits(bytes, is_marked).is_ok() {
                derived.contents.push(number);
                derived.marks.extend(marks);
            }
        }
        (!derived.contents.is_empty()).then_some(derived)
    }

    /// The first byte that does not come from this content.
    pub fn first_wrong(&self, number: usize, bytes: &[u8]) -> Option<usize> {
        let candidate = &self.all[number];
        let (_, is_marked) = self.marked(bytes, Some(candidate));
        candidate.fits(bytes, &is_marked).err()
    }

    /// The acts whose marks are in a file, and which of its bytes are theirs. Where an update of this content names the same bytes,
    /// either may be the last.
    fn marked(&self, bytes: &[u8], updated: Option<&Candidate<'_>>) -> (Vec<usize>, Vec<bool>) {
        let may_be_updated = |at: usize, byte: u8| {
            let is_named = self.named.get(at) == Some(&true);
            is_named
                && updated.is_some_and(|one| byte == at_or_zero(one.before, at) || byte == at_or_zero(&one.after, at))
        };
        let (mut marks, mut is_marked) = (Vec::new(), vec![false; bytes.len()]);
        for (number, act) in &self.marks {
            let range = act.offset..act.offset + act.wrote.len();
            let Some(found) = bytes.get(range.clone()) else {
                continue;
            };
            let mut pairs = found.iter().zip(&act.wrote).zip(act.offset..);
            if pairs.all(|((&found, &wrote), at)| found == wrote || may_be_updated(at, found)) {
                marks.push(*number);
                is_marked[range].fill(true);
            }
        }
        (marks, is_marked)
    }
}

impl Candidate<'_> {
    /// Whether bytes are this content but for marks; else the first that is not.
    fn fits(&self, bytes: &[u8], is_marked: &[bool]) -> Result<(), usize> {
        let fits = |updated| self.fits_updated(updated, bytes, is_marked);
        match self.updated {
            UpdatesPresent::AllOrNone => {
                fits(UpdatesPresent::Yes).or_else(|yes| fits(UpdatesPresent::No).map_err(|no| no.max(yes)))
            }
            updated => fits(updated),
        }
    }

    fn fits_updated(&self, updated: UpdatesPresent, bytes: &[u8], is_marked: &[bool]) -> Result<(), usize> {
        let (least, most) = match updated {
            UpdatesPresent::No => (self.before.len(), self.before.len()),
            UpdatesPresent::Yes => (self.after.len(), self.after.len()),
            _ => (self.before.len(), self.after.len()),
        };
        let last_mark = is_marked
            .iter()
            .rposition(|&is_marked| is_marked)
            .map_or(0, |last| last + 1);
        let most = (most + self.slack).max(last_mark);
        for (at, &byte) in bytes.iter().enumerate().filter(|&(at, _)| !is_marked[at]) {
            let (before, after) = (at_or_zero(self.before, at), at_or_zero(&self.after, at));
            let is_it = match updated {
                UpdatesPresent::No => byte == before,
                UpdatesPresent::Yes => byte == after,
                _ => byte == before || byte == after,
            };
            // Only an update leaves zeros behind the end, where it was extended.
            let is_behind = at >= self.before.len() && self.updated == UpdatesPresent::No;
            if !is_it || is_behind || at >= most {
                return Err(at);
            }
        }
        if bytes.len() < least { Err(bytes.len()) } else { Ok(()) }
    }
}

fn at_or_zero(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Whether a byte is in what an act wrote.
pub fn is_in_mark(act: &Act, at: usize) -> bool {
    act.kind != Interference::Save && (act.offset..act.offset + MARK_BYTES).contains(&at) && !act.wrote.is_empty()
}
