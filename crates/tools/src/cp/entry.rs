//! Copying what is not a regular file, and finding out what an entry is.

use std::ffi::CStr;
use std::io;

use rustix::fs::{AtFlags, FileType, Timespec, Timestamps, chownat, readlinkat, statat, symlinkat, utimensat};
use rustix::fs::{Gid, Uid};
use seekless::files::without_group_rights;
use seekless::walk::{StatFacts, is_sure};
use seekless_sys::{self as sys, Support};

use super::copying::{Copying, Worker};
use super::file::{Failed, Found};
use super::links::LinkTurn;
use super::pair::At;
use super::{Existing, FollowedLinks, OWNER_OF_OTHERS};

/// What became of an entry.
#[derive(PartialEq, Eq)]
enum EntryCopy {
    New,
    /// It is another name of a copy; if that is not over, another thread gives it.
    Linked {
        is_over: bool,
    },
    /// What the target has stays.
    Kept,
}

impl Copying<'_> {
    /// Copies an entry that is not a directory; its kind is not known if it was named. Returns false if another thread finishes it.
    pub fn copy_entry(&self, at: &At<'_>, kind: Option<FileType>, worker: &mut Worker) -> bool {
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
                self.enter_linked(at);
                return false;
            }
            FileType::Symlink => self.copy_link(at, worker),
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
                self.copy_special(at, is_followed, worker)
            }
            FileType::Unknown => Err(("copy", io::Error::other("unknown file type"))),
        };
        match copied {
            Ok(EntryCopy::New) => self.tell_copied(at),
            Ok(EntryCopy::Linked { is_over }) => return is_over,
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
        self.tell_copied(at);
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
        let source = stat(at, is_followed)?;
        let facts = StatFacts::of_stat(&source);
        let existing = match self.existing(at, facts.id(), facts.modified_ns)? {
            Found::Stays(found) => {
                let is_own = self.journal.as_ref().is_some_and(|journal| journal.is_trusted(&found));
                if is_own || self.options.existing == Existing::ReplacedIfOlder {
                    self.keep_name(at, facts.id(), facts.names, &found, worker);
                }
                return Ok(EntryCopy::Kept);
            }
            Found::Replaced(found) => Some(found),
            Found::Nothing => None,
        };
        let has_links = self.options.preserved.links && facts.names > 1 && is_sure(at.handles[0]);
        if has_links && let Some(is_over) = self.link_or_wait(at, facts.id(), facts.names, existing.as_ref(), worker) {
            return Ok(EntryCopy::Linked { is_over });
        }
        let placed = at.place(make).map_err(|error| ("create the copy", error));
        if placed.is_ok() {
            self.give_at(at, &facts, &source, worker);
        }
        if has_links {
            let copy = placed
                .as_ref()
                .ok()
                .and_then(|()| StatFacts::at(at.handles[1], at.to).ok());
            self.link_waiting(at, facts.id(), copy.map(|copy| copy.id()), facts.kind, worker);
        }
        placed.map(|()| EntryCopy::New)
    }

    /// Gives a copy that must not be opened owner, mode, attributes and times.
    fn give_at(&self, at: &At<'_>, source: &StatFacts, stat: &rustix::fs::Stat, worker: &mut Worker) {
        let (copy, preserved) = (at.handles[1], self.options.preserved);
        let (mut not_given, mut mode) = (Vec::new(), source.mode);
        if preserved.ownership {
            let (owner, group) = (Uid::from_raw(source.owner), Gid::from_raw(source.group));
            if let Err(error) = chownat(copy, at.to, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW) {
                not_given.push((OWNER_OF_OTHERS, error.into()));
                // Another group does not get the rights of this one.
                mode = without_group_rights(mode);
            }
        }
        if preserved.xattr
            && let Ok(Support::Available(attributes)) = sys::extended_attributes_at(at.handles[0], at.from)
            && let Err(error) = sys::replace_extended_attributes_at(copy, at.to, &attributes)
        {
            not_given.push(("extended attributes", error));
        }
        if preserved.mode
            && source.kind != FileType::Symlink
            && let Err(error) = sys::set_mode_at(copy, at.to, mode)
        {
            not_given.push(("mode", error));
        }
        if preserved.timestamps {
            let times = times_of(stat);
            if let Err(error) = utimensat(copy, at.to, &times, AtFlags::SYMLINK_NOFOLLOW) {
                not_given.push(("times", error.into()));
            }
        }
        self.count_not_given(not_given, || at.copy_path(), worker);
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

// The fields' types differ between systems.
#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_lossless,
    clippy::unnecessary_cast,
    trivial_numeric_casts
)]
pub(super) fn times_of(stat: &rustix::fs::Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: i64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds as _,
    };
    Timestamps {
        last_access: time(stat.st_atime as i64, stat.st_atime_nsec as i64),
        last_modification: time(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
    }
}
