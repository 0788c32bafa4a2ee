//! What the bytes of a file come from: a content of the beginning, with or without the updates, or one that others wrote, with
//! marks of others in it.
//!
//! Not here: which contents must be found.

use std::borrow::Cow;

use super::disturb::{Act, Interference, MARK_BYTES};
use super::draw::{Patch, patched};

/// Which of the updates a file has that an update was to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatesPresent {
    All,
    AllOrNone,
    /// Each byte is the one before or the updated one.
    EachByte,
}

/// All contents that files may have.
pub struct Origins<'a> {
    candidates: Vec<Candidate<'a>>,
    /// Acts that wrote marks, and their numbers.
    marks: Vec<(usize, &'a Act)>,
    patches: &'a [Patch],
    /// By how much a file that was updated in part may be longer.
    slack: usize,
}

/// Bytes that a file may have: each is that of one of two.
struct Candidate<'a> {
    /// What it is without updates.
    content: &'a [u8],
    either: [Cow<'a, [u8]>; 2],
}

/// What the bytes of a file come from.
pub struct Derived<'a> {
    /// Several where a mark was written over the bytes that tell them apart.
    pub contents: Vec<&'a [u8]>,
    /// The acts whose marks are in it.
    pub marks: Vec<usize>,
}

impl<'a> Origins<'a> {
    /// Of files with these contents, which are updated if there are patches, and of those that others wrote.
    pub fn of(
        contents: impl IntoIterator<Item = &'a [u8]>,
        patches: &'a [Patch],
        acts: &'a [Act],
        updated: UpdatesPresent,
        slack: usize,
    ) -> Self {
        let mut origins = Self {
            candidates: Vec::new(),
            marks: Vec::new(),
            patches,
            slack,
        };
        // Of a file that took the name of another, or lost it, it is not known whether it was updated.
        let either = match updated {
            UpdatesPresent::All => UpdatesPresent::AllOrNone,
            updated => updated,
        };
        let is_renamed = acts.iter().any(Act::gives_name);
        for content in contents {
            origins.push(content, if is_renamed { either } else { updated });
        }
        for (number, act) in acts.iter().enumerate() {
            if act.kind == Interference::Save && act.answer.is_ok() {
                origins.push(&act.wrote, either);
            } else if !act.wrote.is_empty() {
                origins.marks.push((number, act));
            }
        }
        origins
    }

    fn push(&mut self, content: &'a [u8], updated: UpdatesPresent) {
        let before = || Cow::Borrowed(content);
        let after = || Cow::Owned(patched(content, self.patches));
        let ways = match updated {
            _ if self.patches.is_empty() => vec![[before(), before()]],
            UpdatesPresent::All => vec![[after(), after()]],
            UpdatesPresent::EachByte => vec![[before(), after()]],
            UpdatesPresent::AllOrNone => vec![[after(), after()], [before(), before()]],
        };
        let candidates = ways.into_iter().map(|either| Candidate { content, either });
        self.candidates.extend(candidates);
    }

    /// If a byte comes from nowhere, its offset in the content that explains most, and that content.
    pub fn derive(&self, bytes: &[u8]) -> Result<Derived<'a>, (usize, &'a [u8])> {
        let (marks, is_marked) = self.marked(bytes);
        let (mut contents, mut best) = (Vec::new(), (0, &[][..]));
        for candidate in &self.candidates {
            match self.first_wrong(candidate, bytes, &is_marked) {
                None => contents.push(candidate.content),
                Some(at) if at >= best.0 => best = (at, candidate.content),
                Some(_) => {}
            }
        }
        if contents.is_empty() {
            Err(best)
        } else {
            Ok(Derived { contents, marks })
        }
    }

    /// The acts whose marks are in a file, and which of its bytes are theirs. Where an update names the same bytes, either may be
    /// the last.
    fn marked(&self, bytes: &[u8]) -> (Vec<usize>, Vec<bool>) {
        let is_named = |at: usize| {
            let mut patches = self.patches.iter();
            patches.any(|patch| (patch.offset..patch.end()).contains(&at))
        };
        let (mut marks, mut is_marked) = (Vec::new(), vec![false; bytes.len()]);
        for (number, act) in &self.marks {
            let end = act.offset + act.wrote.len();
            let Some(found) = bytes.get(act.offset..end) else {
                continue;
            };
            let pairs = || found.iter().zip(&act.wrote).zip(act.offset..);
            if pairs().all(|((found, wrote), at)| found == wrote || is_named(at)) {
                marks.push(*number);
                for ((found, wrote), at) in pairs() {
                    is_marked[at] |= found == wrote;
                }
            }
        }
        (marks, is_marked)
    }

    /// The first byte that is neither that of a candidate nor in a mark.
    fn first_wrong(&self, candidate: &Candidate<'_>, bytes: &[u8], is_marked: &[bool]) -> Option<usize> {
        let [one, other] = &candidate.either;
        if bytes == &one[..] {
            return None;
        }
        let (least, mut most) = (one.len().min(other.len()), one.len().max(other.len()));
        if !self.patches.is_empty() {
            // Only an update leaves zeros behind the end, where it was extended.
            let last_mark = is_marked.iter().rposition(|&is_marked| is_marked);
            most = last_mark.map_or(0, |last| last + 1).max(most + self.slack);
        }
        let is_right = |at: usize| at < most && [one, other].iter().any(|one| at_or_zero(one, at) == bytes[at]);
        (0..least.max(bytes.len())).find(|&at| at >= bytes.len() || !is_marked[at] && !is_right(at))
    }
}

fn at_or_zero(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Whether a byte is in what an act wrote.
pub fn is_in_mark(act: &Act, at: usize) -> bool {
    act.kind != Interference::Save && (act.offset..act.offset + MARK_BYTES).contains(&at) && !act.wrote.is_empty()
}
