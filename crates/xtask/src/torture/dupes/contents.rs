//! What the bytes of a file come from: a content of the beginning or one that others wrote, with marks of others in it.
//!
//! Not here: which contents must be found.

use std::collections::HashMap;

use super::others::{Act, Kind, MARK_BYTES};
use super::plan::Tree;

/// All contents that files may have: those before, and those that others wrote as a whole, all of them with marks.
pub struct Contents<'a> {
    all: Vec<&'a [u8]>,
    /// Their numbers: a full disk may have made several empty.
    whole: HashMap<&'a [u8], Vec<usize>>,
    /// Those that were there before.
    base: usize,
    /// The number of the content that an act wrote.
    pub numbers: HashMap<usize, usize>,
    /// The acts that wrote contents, in the order of these.
    writers: Vec<&'a Act>,
    /// Acts by the marks that they wrote.
    marks: HashMap<&'a [u8], usize>,
    /// Those that a full disk cut off.
    cut: Vec<(&'a [u8], usize)>,
}

/// What the bytes of a file come from.
pub struct Derived {
    /// Several where a mark was written over the bytes that tell them apart.
    pub contents: Vec<usize>,
    /// The acts whose marks are in it.
    pub marks: Vec<usize>,
}

impl<'a> Contents<'a> {
    pub fn of(tree: &'a Tree, acts: &'a [Act]) -> Self {
        let base = tree.contents.iter().map(|content| content.0.as_slice());
        let mut contents = Self {
            all: base.collect(),
            whole: HashMap::new(),
            base: tree.contents.len(),
            numbers: HashMap::new(),
            writers: Vec::new(),
            marks: HashMap::new(),
            cut: Vec::new(),
        };
        for (number, act) in acts.iter().enumerate() {
            match act.kind {
                Kind::Save | Kind::SaveOver | Kind::Rewrite if act.answer.is_ok() => {
                    contents.numbers.insert(number, contents.all.len());
                    contents.all.push(&act.wrote);
                    contents.writers.push(act);
                }
                _ if act.wrote.len() == MARK_BYTES => drop(contents.marks.insert(&act.wrote, number)),
                _ if !act.wrote.is_empty() => contents.cut.push((&act.wrote, number)),
                _ => {}
            }
        }
        for (number, content) in contents.all.iter().enumerate() {
            contents.whole.entry(content).or_default().push(number);
        }
        contents
    }

    /// The act that wrote a content as a whole.
    pub fn writer(&self, number: usize) -> Option<&'a Act> {
        let number = number.checked_sub(self.base)?;
        self.writers.get(number).copied()
    }

    /// Nothing if a byte comes from nowhere.
    pub fn derive(&self, bytes: &[u8]) -> Option<Derived> {
        if let Some(numbers) = self.whole.get(bytes) {
            return Some(Derived {
                contents: numbers.clone(),
                marks: Vec::new(),
            });
        }
        let mut derived = Derived {
            contents: Vec::new(),
            marks: Vec::new(),
        };
        for (number, content) in self.all.iter().enumerate() {
            if let Some(marks) = self.marks_over(content, bytes) {
                derived.contents.push(number);
                derived.marks.extend(marks);
            }
        }
        (!derived.contents.is_empty()).then_some(derived)
    }

    /// The marks in bytes that are a content but for these.
    fn marks_over(&self, content: &[u8], bytes: &[u8]) -> Option<Vec<usize>> {
        let mut marks = Vec::new();
        let (start, mut rest) = bytes.split_at_checked(content.len())?;
        if start != content {
            for (one, other) in start.chunks(MARK_BYTES).zip(content.chunks(MARK_BYTES)) {
                if one != other {
                    let (length, mark) = self.mark(one)?;
                    marks.push(mark);
                    if one[length..] != other[length..] {
                        return None;
                    }
                }
            }
        }
        while !rest.is_empty() {
            let (length, mark) = self.mark(rest)?;
            marks.push(mark);
            rest = &rest[length..];
        }
        Some(marks)
    }

    /// The mark that bytes begin with.
    fn mark(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let whole = bytes.get(..MARK_BYTES).and_then(|bytes| self.marks.get(bytes));
        let cut = || self.cut.iter().find(|(cut, _)| bytes.starts_with(cut));
        whole
            .map(|&number| (MARK_BYTES, number))
            .or_else(|| cut().map(|(cut, number)| (cut.len(), *number)))
    }
}
