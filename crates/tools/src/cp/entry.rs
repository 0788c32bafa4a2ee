//! Copying what is not a regular file, and finding out what an entry is.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, readlinkat, statat, symlinkat};
use seekless::files::{FileRef, Own};
use seekless::walk::{StatFacts, is_sure};
use seekless_sys as sys;

use super::copying::{Copying, Worker};
use super::file::{Failed, Found, NewFile};
use super::given::SourceFacts;
use super::links::LinkTurn;
use super::pair::At;
use super::{Existing, FollowedLinks};

/// What became of an entry.
#[derive(PartialEq, Eq)]
enum EntryCopy {
    New,
    /// It is another name of a copy; if that is not over, another thread gives it.
    Linked {
        is_over: bool,
    },
    /// The target has the same.
    Same,
    /// What the target has stays.
    Kept,
}

impl Copying<'_> {
    /// Copies an entry that is not a directory; its kind is not known if it was named. Returns false if another thread finishes it.
    pub fn copy_entry(&self, at: &At<'_>, kind: Option<FileType>, worker: &mut Worker) -> bool {
        if self.journal.as_ref().is_some_and(|journal| journal.is_called(at.from)) {
            return true;
        }
        let is_followed = match self.options.followed {
            FollowedLinks::None => false,
            FollowedLinks::Named => kind.is_none(),
            FollowedLinks::All => true,
        };
        let kind = match kind {
            Some(kind) if kind != FileType::Symlink || !is_followed => kind,
            _ => match stat(at, is_followed) {
                Ok(found) => StatFacts::of_stat(&found).kind,
                Err((action, error)) => {
                    self.fail(worker, at.source_path(), action, &error);
                    return true;
                }
            },
        };
        if self.options.dry_run && kind != FileType::Directory {
            self.count_only(at, kind, is_followed, worker);
            return true;
        }
        let copied = match kind {
            FileType::RegularFile => return self.copy_file(at, is_followed, worker),
            FileType::Directory => {
                self.enter_at(at, is_followed);
                return false;
            }
            FileType::Symlink => self.copy_link(at, worker),
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
                self.copy_special(at, is_followed, worker)
            }
            FileType::Unknown => Err(("copy", io::Error::other("unknown file type"))),
        };
        match copied {
            Ok(EntryCopy::New) => self.tell_copied(at, 0),
            Ok(EntryCopy::Linked { is_over }) => return is_over,
            Ok(EntryCopy::Same) => worker.done.resumed += 1,
            Ok(EntryCopy::Kept) => worker.done.kept += 1,
            Err((action, error)) => self.fail(worker, at.source_path(), action, &error),
        }
        true
    }

    /// Counts what would be copied.
    fn count_only(&self, at: &At<'_>, kind: FileType, is_followed: bool, worker: &mut Worker) {
        match stat(at, is_followed).map(|found| StatFacts::of_stat(&found)) {
            Ok(facts) if self.is_met_again(&facts, at) => worker.done.hard_links += 1,
            Ok(facts) if facts.is_file() => {
                worker.done.files += 1;
                worker.done.bytes += facts.bytes;
                worker.done.hole_bytes += facts.bytes.saturating_sub(facts.allocated_bytes);
            }
            Ok(_) if kind == FileType::Symlink => worker.done.symbolic_links += 1,
            Ok(_) => worker.done.special += 1,
            Err((action, error)) => self.fail(worker, at.source_path(), action, &error),
        }
        self.tell_copied(at, 0);
    }

    /// Whether a file whose copy is counted would get another name.
    fn is_met_again(&self, facts: &StatFacts, at: &At<'_>) -> bool {
        if facts.names < 2 || !self.options.preserved.links {
            return false;
        }
        let turn = self.links.turn(facts.id(), facts.names, at);
        if matches!(turn, LinkTurn::Copy) {
            self.links.copied(facts.id(), Some(facts.id()), false, at);
        }
        !matches!(turn, LinkTurn::Copy)
    }

    fn copy_link(&self, at: &At<'_>, worker: &mut Worker) -> Result<EntryCopy, Failed> {
        let target =
            readlinkat(at.handles[0], at.from, Vec::new()).map_err(|error| ("read the symbolic link", error.into()))?;
        let make = |name: &CStr| Ok(symlinkat(&target, at.handles[1], name)?);
        let entry = self.make(at, false, &make, worker)?;
        worker.done.symbolic_links += u64::from(entry == EntryCopy::New);
        Ok(entry)
    }

    fn copy_special(&self, at: &At<'_>, is_followed: bool, worker: &mut Worker) -> Result<EntryCopy, Failed> {
        let facts = StatFacts::of_stat(&stat(at, is_followed)?);
        let make = |name: &CStr| sys::make_node(at.handles[1], name, facts.kind, facts.number)?.required();
        let entry = self.make(at, is_followed, &make, worker)?;
        worker.done.special += u64::from(entry == EntryCopy::New);
        Ok(entry)
    }

    /// Makes a copy by `make`, with what its source has.
    fn make(
        &self,
        at: &At<'_>,
        is_followed: bool,
        make: &dyn Fn(&CStr) -> io::Result<()>,
        worker: &mut Worker,
    ) -> Result<EntryCopy, Failed> {
        let facts = StatFacts::of_stat(&stat(at, is_followed)?);
        let existing = match self.existing(at, facts.id(), facts.modified)? {
            Found::Stays(found) => {
                let is_older = self.options.existing == Existing::ReplacedIfOlder;
                if is_older || facts.names > 1 && self.is_equal_entry(at, &found, &facts, worker) {
                    self.keep_name(at, facts.id(), facts.names, (&found, true), worker);
                }
                return Ok(EntryCopy::Kept);
            }
            Found::Replaced(found) => {
                let is_link = facts.kind == FileType::Symlink;
                if is_link && StatFacts::behind(at.handles[0], at.from).is_ok_and(|end| end.id() == found.id()) {
                    let reason = "the link leads to it, and would be all that is left";
                    return Err(("replace it by the link", io::Error::other(reason)));
                }
                Some(found)
            }
            Found::Nothing => None,
        };
        let is_linked = self.options.preserved.links && facts.names > 1;
        // Elsewhere two files may have one number.
        let has_links = is_linked && is_sure(at.handles[0]);
        if is_linked && !has_links {
            *worker.done.not_preserved.entry("hard links").or_default() += 1;
        }
        if has_links && let Some(is_over) = self.link_or_wait(at, facts.id(), facts.names, existing.as_ref(), worker) {
            return Ok(EntryCopy::Linked { is_over });
        }
        let same = existing.filter(|found| {
            self.options.same.is_some()
                && self.is_equal_entry(at, found, &facts, worker)
                && self.links.claim(found, facts.id())
        });
        if let Some(found) = same {
            let given = self.give_equal(at, &facts, &found, worker);
            if has_links {
                self.link_waiting(at, facts.id(), Some(found.id()), facts.kind, worker);
            }
            return given.map(|()| EntryCopy::Same);
        }
        let new = NewFile::make_entry(at, facts.kind, make, self).map_err(|error| ("create the copy", error));
        let given = new.and_then(|mut new| {
            let origin = SourceFacts::of_entry(at.handles[0], at.from, &facts, self.options);
            let copy = FileRef::Handle(new.file.as_fd(), facts.kind);
            let own = copy.facts().map(|own| Own::of(&own));
            let given = own.and_then(|own| self.give(&origin, copy, (&own, true), || at.copy_path(), worker));
            let given = given.map_err(|error| ("stat the copy", error))?;
            new.publish(at, existing.is_some(), self.journal.as_ref())?;
            Ok(given)
        });
        if has_links {
            let copy = given.as_ref().ok().map(|copy| copy.id());
            self.link_waiting(at, facts.id(), copy, facts.kind, worker);
        }
        given.map(|_| EntryCopy::New)
    }

    /// Gives an entry of the target that is what its source is the attributes of that.
    fn give_equal(&self, at: &At<'_>, facts: &StatFacts, found: &StatFacts, worker: &mut Worker) -> Result<(), Failed> {
        let failed = |error| ("open the copy", error);
        let file = sys::open_entry(at.handles[1], at.to).map_err(failed)?;
        let now = StatFacts::of(&file).map_err(|error| failed(error.into()))?;
        if now.id() != found.id() {
            return Err(failed(io::Error::other("another process replaced it")));
        }
        let origin = SourceFacts::of_entry(at.handles[0], at.from, facts, self.options);
        let copy = FileRef::Handle(file.as_fd(), facts.kind);
        let given = self.give(&origin, copy, (&Own::of(&now), true), || at.copy_path(), worker);
        given.map(drop).map_err(|error| ("stat the copy", error))
    }

    /// Whether an entry of the target is what its source is, but for attributes.
    fn is_equal_entry(&self, at: &At<'_>, found: &StatFacts, source: &StatFacts, worker: &mut Worker) -> bool {
        let names = [(at.handles[0], at.from), (at.handles[1], at.to)];
        (found.kind, found.number) == (source.kind, source.number)
            && self.have_equal_content(names, source.kind, worker)
    }
}

fn stat(at: &At<'_>, is_followed: bool) -> Result<rustix::fs::Stat, Failed> {
    let flags = if is_followed {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    };
    statat(at.handles[0], at.from, flags).map_err(|error| ("stat", error.into()))
}
