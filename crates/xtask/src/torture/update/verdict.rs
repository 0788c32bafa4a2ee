//! What must hold after a trial, whatever disturbed it. No I/O.

use std::fmt;

use crate::torture::trial::{Ending, Fault, Properties};

/// Bytes for a place of a file.
#[derive(Clone)]
pub struct Update {
    pub offset: usize,
    pub bytes: Vec<u8>,
}

impl Update {
    pub fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}+{}", self.offset, self.bytes.len())
    }
}

/// What a command says of the file when it ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It never changes a byte.
    Unchanged,
    /// All updates or none.
    AllOrNothing,
    /// Each byte is the one before or the updated one.
    EachByte,
}

/// What others did to the file, as the system acknowledged it to them.
#[derive(Default)]
pub struct Acknowledged {
    pub writes: Vec<OthersWrite>,
    /// A new file that took the name, and its mode.
    pub saved: Option<(Vec<u8>, u32)>,
    pub mode: Option<u32>,
    pub owner: Option<u32>,
    pub attribute: Option<(String, Vec<u8>)>,
}

pub struct OthersWrite {
    pub update: Update,
    /// It was acknowledged. Otherwise it may be in the file or not.
    pub is_certain: bool,
    pub is_append: bool,
}

/// The kinds of lost writes, one of which the guide allows where seekless outlasts its lease.
pub const LOST_WRITE: &str = "lost write";
/// What others appended is missing.
pub const LOST_APPEND: &str = "lost append";

/// What the content of the file is judged by.
pub struct Model<'a> {
    pub before: &'a [u8],
    pub updates: &'a [Update],
    pub others: &'a Acknowledged,
    pub promise: Promise,
    pub ending: Ending,
    /// A journal was refused because others wrote, so that neither all nor nothing is promised.
    pub is_unrecovered: bool,
    /// How far behind the end a direct write that was cut off may have padded the file.
    pub padding: usize,
    /// By how much the command says that the file stays longer, since another process has it open.
    pub said_longer: usize,
}

/// Which of the updates are in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    All,
    None,
    Some,
}

impl Model<'_> {
    /// What is wrong with the content, if anything.
    pub fn check(&self, found: &[u8]) -> Option<Fault> {
        let saved = self.others.saved.as_ref().map(|(content, _)| content.as_slice());
        let base = saved.unwrap_or(self.before);
        let mut wanted = self.wanted();
        // An update of the file that had the name before.
        if saved.is_some() && !wanted.contains(&Wanted::None) {
            wanted.push(Wanted::None);
        }
        let mut nearest: Option<(usize, Fault)> = None;
        for wanted in wanted {
            let (wrong, fault) = self.compare(base, wanted, found)?;
            if nearest.as_ref().is_none_or(|(least, _)| wrong < *least) {
                nearest = Some((wrong, fault));
            }
        }
        let (_, fault) = nearest?;
        Some(match saved {
            Some(_) => Fault::new("lost save", fault.details),
            None => fault,
        })
    }

    fn wanted(&self) -> Vec<Wanted> {
        match (self.promise, self.ending) {
            (Promise::Unchanged, _) => vec![Wanted::None],
            (_, Ending::Success) => vec![Wanted::All],
            (Promise::AllOrNothing, _) if !self.is_unrecovered => vec![Wanted::All, Wanted::None],
            _ => vec![Wanted::Some],
        }
    }

    /// How many bytes are not as they must be, and the first of them; nothing if all are.
    fn compare(&self, base: &[u8], wanted: Wanted, found: &[u8]) -> Option<(usize, Fault)> {
        let mut after = base.to_vec();
        self.updates
            .iter()
            .for_each(|update| overlay(&mut after, update.offset, &update.bytes));
        let writes = if self.others.saved.is_some() {
            &[]
        } else {
            self.others.writes.as_slice()
        };
        let ends = |is_wanted: fn(&OthersWrite) -> bool| {
            writes
                .iter()
                .filter(|write| is_wanted(write))
                .map(|write| write.update.end())
                .max()
        };
        let (least, most) = match wanted {
            Wanted::All => (after.len(), after.len()),
            Wanted::None => (base.len(), base.len()),
            Wanted::Some => (base.len(), after.len() + self.padding),
        };
        let kept = ends(|write| write.is_certain).unwrap_or(0);
        let most = most.max(ends(|_| true).unwrap_or(0)) + self.said_longer;
        let length = found.len();
        let is_not = |wanted: usize, kind| {
            let details = format!("{length} bytes, not {wanted}");
            Some((wanted.abs_diff(length), Fault::new(kind, details)))
        };
        match length {
            _ if length < least => return is_not(least, "cut"),
            // Only appends reach behind the end.
            _ if length < kept => return is_not(kept, LOST_APPEND),
            _ if length > most => return is_not(most, "too long"),
            _ => {}
        }
        let mut by_others = vec![0; found.len()];
        for write in writes {
            overlay(&mut by_others, write.update.offset, &vec![1; write.update.bytes.len()]);
        }
        let mut wrong: Option<(usize, Fault)> = None;
        for (at, &byte) in found.iter().enumerate() {
            let [before, after] = [base, &after].map(|content| content.get(at).copied().unwrap_or(0));
            let by_us = match wanted {
                Wanted::All => byte == after,
                Wanted::None => byte == before,
                Wanted::Some => byte == before || byte == after,
            };
            if by_us && by_others[at] == 0 {
                continue;
            }
            let theirs = writes
                .iter()
                .rev()
                .filter(|write| (write.update.offset..write.update.end()).contains(&at));
            // The last one acknowledged, or one of those behind it.
            let mut is_theirs = false;
            let mut certain = None;
            for write in theirs {
                is_theirs |= write.update.bytes[at - write.update.offset] == byte;
                if write.is_certain {
                    certain = Some(write);
                    break;
                }
            }
            let is_named = || {
                self.updates
                    .iter()
                    .any(|update| (update.offset..update.end()).contains(&at))
            };
            // Where both write, either may be the last.
            if is_theirs
                || (by_us && (certain.is_none() || is_named()))
                || (certain.is_some() && is_named() && (byte == before || byte == after))
            {
                continue;
            }
            let kind = match (certain, wanted) {
                (Some(write), _) if write.is_append => LOST_APPEND,
                (Some(_), _) => LOST_WRITE,
                (None, Wanted::All) if is_named() => "missing update",
                (None, Wanted::None) if is_named() => "neither all nor nothing",
                _ => "changed byte",
            };
            let first = wrong.get_or_insert_with(|| {
                (
                    0,
                    Fault::new(
                        kind,
                        format!(
                            "byte {at} of {} is {byte:#04x}; before {before:#04x}, updated {after:#04x}",
                            found.len()
                        ),
                    ),
                )
            });
            first.0 += 1;
        }
        wrong
    }
}

/// Puts bytes over others, and zeros between the end and them.
pub fn overlay(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    content.resize(content.len().max(offset + bytes.len()), 0);
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// Whether owner, mode and extended attributes are what they were, or what others set.
pub fn check_properties(before: &Properties, others: &Acknowledged, found: &Properties) -> Vec<Fault> {
    let mut wanted = before.clone();
    if let Some((_, mode)) = others.saved {
        wanted = Properties {
            mode,
            ..Properties::default()
        };
    }
    wanted.owner = others.owner.unwrap_or(wanted.owner);
    wanted.mode = others.mode.unwrap_or(wanted.mode);
    // chown(2) takes it away.
    let may_lose = if others.owner.is_some() { 0o6000 } else { 0 };
    wanted.attributes.extend(others.attribute.clone());
    let mut faults = Vec::new();
    if found.mode & !wanted.mode != 0 {
        faults.push(Fault::new(
            "wider mode",
            format!("{:o}, not {:o}", found.mode, wanted.mode),
        ));
    } else if found.mode & !may_lose != wanted.mode & !may_lose {
        faults.push(Fault::new(
            "lost mode",
            format!("{:o}, not {:o}", found.mode, wanted.mode),
        ));
    }
    if found.owner != wanted.owner {
        faults.push(Fault::new(
            "lost owner",
            format!("{}, not {}", found.owner, wanted.owner),
        ));
    }
    if found.attributes != wanted.attributes {
        let names = |of: &Properties| of.attributes.keys().cloned().collect::<Vec<_>>().join(", ");
        faults.push(Fault::new(
            "lost attribute",
            format!("[{}], not [{}]", names(found), names(&wanted)),
        ));
    }
    faults
}

/// Names in the directory that seekless made, where it may leave none.
pub fn check_left<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Fault> {
    let ours = names.into_iter().filter(|name| name.contains("seekless"));
    ours.map(|name| Fault::new("left behind", name)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const BEFORE: &[u8] = b"0123456789";

    fn update(offset: usize, bytes: &[u8]) -> Update {
        Update {
            offset,
            bytes: bytes.to_vec(),
        }
    }

    fn by(offset: usize, bytes: &[u8], is_append: bool) -> Acknowledged {
        let write = OthersWrite {
            update: update(offset, bytes),
            is_certain: true,
            is_append,
        };
        Acknowledged {
            writes: vec![write],
            ..Acknowledged::default()
        }
    }

    /// The kind of fault of a file that got `AB` at 2 and `C` at 7, if there is one.
    fn fault(promise: Promise, ending: Ending, others: &Acknowledged, found: &[u8]) -> Option<&'static str> {
        let updates = [update(2, b"AB"), update(7, b"C")];
        let model = Model {
            before: BEFORE,
            updates: &updates,
            others,
            promise,
            ending,
            is_unrecovered: false,
            padding: 0,
            said_longer: 0,
        };
        model.check(found).map(|fault| fault.kind)
    }

    #[test]
    fn success_means_all_updates_and_nothing_else() {
        let fault = |found: &[u8]| fault(Promise::EachByte, Ending::Success, &Acknowledged::default(), found);
        assert_eq!(fault(b"01AB456C89"), None);
        assert_eq!(fault(b"01AB456789"), Some("missing update"));
        assert_eq!(fault(b"01AB456C8x"), Some("changed byte"));
        assert_eq!(fault(b"01AB456C8"), Some("cut"));
        assert_eq!(fault(b"01AB456C89\0"), Some("too long"));
    }

    #[test]
    fn an_early_end_is_held_to_the_promise() {
        let nobody = Acknowledged::default();
        for ending in [Ending::Failure, Ending::Killed] {
            assert_eq!(fault(Promise::EachByte, ending, &nobody, b"01A3456C89"), None);
            assert_eq!(
                fault(Promise::EachByte, ending, &nobody, b"01x3456C89"),
                Some("changed byte")
            );
            assert_eq!(fault(Promise::AllOrNothing, ending, &nobody, b"01AB456C89"), None);
            assert_eq!(fault(Promise::AllOrNothing, ending, &nobody, BEFORE), None);
            let torn = fault(Promise::AllOrNothing, ending, &nobody, b"0123456C89");
            assert_eq!(torn, Some("neither all nor nothing"));
        }
        let dug = fault(Promise::Unchanged, Ending::Success, &nobody, b"01AB456C89");
        assert_eq!(dug, Some("neither all nor nothing"));
    }

    #[test]
    fn what_others_wrote_must_stay() {
        let appended = by(10, b"line\n", true);
        for (ending, content) in [(Ending::Success, b"01AB456C89"), (Ending::Failure, b"0123456789")] {
            let fault = |tail: &[u8]| fault(Promise::AllOrNothing, ending, &appended, &[content, tail].concat());
            assert_eq!(fault(b"line\n"), None);
            assert_eq!(fault(b"\0\0\0\0\0"), Some(LOST_APPEND));
            assert_eq!(fault(b"lin"), Some(LOST_APPEND));
            assert_eq!(fault(b""), Some(LOST_APPEND));
        }
        let between = by(5, b"x", false);
        let fault = |found: &[u8]| fault(Promise::EachByte, Ending::Success, &between, found);
        assert_eq!(fault(b"01AB4x6C89"), None);
        assert_eq!(fault(b"01AB456C89"), Some(LOST_WRITE));
    }

    #[test]
    fn where_both_write_either_is_right() {
        let same = by(3, b"x", false);
        let fault = |found: &[u8]| fault(Promise::EachByte, Ending::Success, &same, found);
        assert_eq!(fault(b"01AB456C89"), None);
        assert_eq!(fault(b"01Ax456C89"), None);
        assert_eq!(fault(b"01Ay456C89"), Some(LOST_WRITE));
    }

    #[test]
    fn a_saved_file_must_stay_with_or_without_updates() {
        let saved = Acknowledged {
            saved: Some((b"abcdefghij".to_vec(), 0o600)),
            ..Acknowledged::default()
        };
        let fault = |found: &[u8]| fault(Promise::AllOrNothing, Ending::Success, &saved, found);
        assert_eq!(fault(b"abcdefghij"), None);
        assert_eq!(fault(b"abABefgCij"), None);
        assert_eq!(fault(b"01AB456C89"), Some("lost save"));
        assert_eq!(fault(BEFORE), Some("lost save"));
    }

    #[test]
    fn properties_are_those_before_or_of_others() {
        let attributes = BTreeMap::from([("user.ours".to_owned(), b"kept".to_vec())]);
        let before = Properties {
            owner: 0,
            mode: 0o4755,
            attributes,
        };
        let kinds = |others: &Acknowledged, found: &Properties| -> Vec<_> {
            let faults = check_properties(&before, others, found);
            faults.into_iter().map(|fault| fault.kind).collect()
        };
        let with_mode = |mode| Properties { mode, ..before.clone() };
        let nobody = Acknowledged::default();
        assert!(kinds(&nobody, &before).is_empty());
        assert_eq!(kinds(&nobody, &with_mode(0o4757)), ["wider mode"]);
        assert_eq!(kinds(&nobody, &with_mode(0o755)), ["lost mode"]);
        let narrowed = Acknowledged {
            mode: Some(0o600),
            ..Acknowledged::default()
        };
        assert!(kinds(&narrowed, &with_mode(0o600)).is_empty());
        assert_eq!(kinds(&narrowed, &before), ["wider mode"]);
        let given = Acknowledged {
            owner: Some(1),
            attribute: Some(("user.others".to_owned(), Vec::new())),
            ..Acknowledged::default()
        };
        assert_eq!(kinds(&given, &before), ["lost owner", "lost attribute"]);
    }

    #[test]
    fn names_that_seekless_made_are_left_behind() {
        let names = ["file", "file.new", ".file.seekless-journal", ".seekless-new-1-2"];
        let left = check_left(names);
        assert_eq!(
            left.iter().map(|fault| fault.kind).collect::<Vec<_>>(),
            ["left behind"; 2]
        );
    }
}
