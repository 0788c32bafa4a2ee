//! Files whose bytes were found equal when their beginnings were read: one stands for all of them until classes are complete.

use super::Member;

/// Classes of files by the one that stands for them, in few allocations however many there are.
#[derive(Default)]
pub(super) struct Twins {
    members: Vec<Member>,
    /// Where each class ends in `members`.
    ends: Vec<u32>,
    /// The class of each file that stands for one, counted from 1; empty without classes.
    classes: Vec<u32>,
}

impl Twins {
    /// Joins the twins that threads found, among `files` files.
    pub fn of(found: Vec<Self>, files: u32) -> Self {
        let mut all = Self::default();
        all.members
            .reserve_exact(found.iter().map(|part| part.members.len()).sum());
        all.ends.reserve_exact(found.iter().map(|part| part.ends.len()).sum());
        for Self { members, ends, .. } in found {
            let before = all.members.len() as u32;
            all.members.extend(members);
            all.ends.extend(ends.into_iter().map(|end| before + end));
        }
        if !all.ends.is_empty() {
            all.classes = vec![0; files as usize];
        }
        let mut start = 0;
        for (class, end) in (1..).zip(&all.ends) {
            all.classes[all.members[start].number as usize] = class;
            start = *end as usize;
        }
        all
    }

    /// Adds a class; its first member stands for it.
    pub fn add(&mut self, class: &[Member]) {
        self.members.extend_from_slice(class);
        self.ends.push(self.members.len() as u32);
    }

    /// The class that a file stands for, itself included; empty if it stands for none.
    pub fn get(&self, number: u32) -> &[Member] {
        let Some(class) = self.classes.get(number as usize).filter(|class| **class > 0) else {
            return &[];
        };
        let [start, end] = [class.checked_sub(2), Some(class - 1)].map(|at| at.map_or(0, |at| self.ends[at as usize]));
        &self.members[start as usize..end as usize]
    }
}
