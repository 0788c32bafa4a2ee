//! Owner, mode, extended attributes and times of a file or directory, which a copy gets.
//!
//! Not here: flags (chattr(1)), some of which only an empty file takes.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Gid, Mode, RawMode, Timespec, Timestamps, UTIME_OMIT, Uid, fchmod, fchown, futimens};
use rustix::io::{Errno, retry_on_intr};
use seekless_sys::{self as sys, ExtendedAttributes, Support};
use serde::{Deserialize, Serialize};

use super::read::IoFailure;
use super::{StatFacts, Time, XattrRole};

/// Owner, mode and extended attributes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// `st_uid`.
    pub owner: u32,
    /// `st_gid`.
    pub group: u32,
    /// The permissions of `st_mode`.
    pub mode: u32,
    /// Access control lists are among these; `None` on systems without them.
    pub extended: Option<ExtendedAttributes>,
}

/// What a file has that is to get attributes.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// `st_uid`.
    pub owner: u32,
    /// `st_gid`.
    pub group: u32,
    /// The permissions of `st_mode`.
    pub mode: u32,
    /// Whether it may have extended attributes.
    pub may_have_extended: bool,
}

impl Own {
    /// Of a file with any history.
    #[must_use]
    pub fn of(found: &StatFacts) -> Self {
        Self {
            owner: found.owner,
            group: found.group,
            mode: found.mode,
            may_have_extended: true,
        }
    }
}

/// A file that gets attributes.
#[derive(Clone, Copy, Debug)]
pub enum FileRef<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// A handle that stands for an entry of this kind ([`sys::open_entry`]), which cannot be opened or must not be: a
    /// symbolic link, a device. An open directory is one, too.
    Handle(BorrowedFd<'a>, FileType),
}

impl FileRef<'_> {
    /// Its extended attributes; empty on systems without them.
    ///
    /// # Errors
    /// The system's.
    pub fn extended(self) -> io::Result<Support<ExtendedAttributes>> {
        match self {
            Self::Open(file) => sys::extended_attributes(file),
            Self::Handle(entry, _) => sys::extended_attributes_of(entry),
        }
    }

    /// Sets the time of access, which `None` leaves as it is, and that of modification.
    ///
    /// # Errors
    /// The system's.
    pub fn set_times(self, accessed: Option<Time>, modified: Time) -> io::Result<()> {
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let times = Timestamps {
            last_access: accessed.map_or(time(0, UTIME_OMIT), |(seconds, more)| time(seconds, more.into())),
            last_modification: time(modified.0, modified.1.into()),
        };
        Ok(retry_on_intr(|| match self {
            Self::Open(file) => futimens(file, &times),
            Self::Handle(entry, _) => sys::set_times_of(entry, &times),
        })?)
    }

    /// The facts of stat(2).
    ///
    /// # Errors
    /// The system's.
    pub fn facts(self) -> io::Result<StatFacts> {
        let (Self::Open(file) | Self::Handle(file, _)) = self;
        Ok(StatFacts::of(file)?)
    }

    fn change_owner(self, owner: Option<u32>, group: u32) -> rustix::io::Result<()> {
        let (owner, group) = (owner.map(Uid::from_raw), Some(Gid::from_raw(group)));
        retry_on_intr(|| match self {
            Self::Open(file) => fchown(file, owner, group),
            Self::Handle(entry, _) => sys::set_owner_of(entry, owner, group),
        })
    }

    fn change_mode(self, mode: u32) -> io::Result<()> {
        match self {
            Self::Open(file) => Ok(retry_on_intr(|| fchmod(file, Mode::from_raw_mode(mode as RawMode)))?),
            Self::Handle(_, FileType::Symlink) => Ok(()),
            Self::Handle(entry, _) => sys::set_mode_of(entry, mode).map(drop),
        }
    }

    /// Sets or removes an extended attribute.
    fn change_extended(self, name: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        let attribute = CString::new(name)?;
        match (self, value) {
            (Self::Open(file), Some(value)) => sys::set_extended_attribute(file, &attribute, value),
            (Self::Open(file), None) => sys::remove_extended_attribute(file, &attribute),
            (Self::Handle(entry, _), value) => sys::set_extended_attribute_of(entry, &attribute, value),
        }
        .map(drop)
    }
}

/// The permissions that set-user-ID and set-group-ID add to.
const SET_IDS: u32 = 0o6000;

/// An access control list (acl(5)). While a file has one, the group's bits of its mode are the most
/// that the list grants.
pub(super) const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// A mode that grants the group no more than others: for a file whose group is another, or that lost its access control list.
#[must_use]
pub fn without_group_rights(mode: u32) -> u32 {
    mode & (!0o070 | ((mode & 0o007) << 3))
}

/// The access control list among extended attributes.
fn list_in(extended: Option<&ExtendedAttributes>) -> Option<&Vec<u8>> {
    let found = extended?.iter().find(|(name, _)| name == ACCESS_LIST.to_bytes());
    found.map(|(_, list)| list)
}

impl Attributes {
    /// Those of an open file or directory.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let found = StatFacts::of(&file)?;
        Ok(Self::new(&found, sys::extended_attributes(file.as_fd())?.available()))
    }

    /// Those of a file with these facts and extended attributes, of which it keeps those that can
    /// be copied.
    #[must_use]
    pub fn new(found: &StatFacts, extended: Option<ExtendedAttributes>) -> Self {
        let mut new = Self {
            owner: found.owner,
            group: found.group,
            mode: found.mode,
            extended,
        };
        new.retain(|role| role != XattrRole::Skipped);
        new
    }

    /// Drops extended attributes. If the access control list is among them, the mode grants the
    /// group no more than others.
    pub fn retain(&mut self, is_kept: impl Fn(XattrRole) -> bool) {
        let was_listed = list_in(self.extended.as_ref()).is_some();
        let Some(extended) = &mut self.extended else { return };
        extended.retain(|(name, _)| is_kept(XattrRole::of(name)));
        if was_listed && list_in(self.extended.as_ref()).is_none() {
            self.mode = without_group_rights(self.mode);
        }
    }

    /// Takes away what only a file of the same owner and group may have: for one of these.
    pub fn limit_to(&mut self, owner: u32, group: u32) {
        if (owner, group) != (self.owner, self.group) {
            self.mode &= !SET_IDS;
            self.retain(|role| role != XattrRole::Privileges);
        }
        if group != self.group {
            self.mode = without_group_rights(self.mode);
        }
        (self.owner, self.group) = (owner, group);
    }

    /// Adds those extended attributes of an open file or directory that these lack, if they have
    /// such a role: so it keeps them when it gets these.
    pub fn keep_own(&mut self, file: FileRef<'_>, is_kept: impl Fn(XattrRole) -> bool) {
        if let (Some(extended), Ok(Support::Available(own))) = (&mut self.extended, file.extended()) {
            for (name, value) in own {
                if is_kept(XattrRole::of(&name)) && !extended.iter().any(|(other, _)| *other == name) {
                    extended.push((name, value));
                }
            }
        }
    }

    /// Takes the rights from a file or directory that users do not have with these attributes, which it gets later. If the group or
    /// the list is another then, so may be what applies to a user; and an owner could take back what is taken.
    ///
    /// # Errors
    /// The system's.
    pub fn restrict(&self, file: FileRef<'_>, own: &Own) -> io::Result<()> {
        let (found, list) = (file.extended()?.available(), list_in(self.extended.as_ref()));
        let granted = if self.group == own.group && list == list_in(found.as_ref()) {
            self.mode
        } else if list.is_some() {
            0
        } else {
            0o011 * (self.mode >> 3 & self.mode & 0o007)
        };
        if self.owner != own.owner && own.owner != 0 && sys::effective_user() == 0 {
            file.change_owner(Some(0), own.group)?;
        }
        let mode = own.mode & (0o7700 | granted);
        if mode == own.mode {
            Ok(())
        } else {
            file.change_mode(mode)
        }
    }

    /// Gives them to an open file, which loses other extended attributes.
    ///
    /// # Errors
    /// What could not be set: then some may be set, and others not.
    pub fn give(&self, file: impl AsFd) -> Result<(), IoFailure> {
        let file = FileRef::Open(file.as_fd());
        let own = file.facts().map_err(|error| ("owner", error))?;
        match self.give_possible(file, &Own::of(&own)).into_iter().next() {
            None => Ok(()),
            Some(not_given) => Err(not_given),
        }
    }

    /// Gives a file those that it can get and does not have, and returns the others. It loses other
    /// extended attributes. Whatever cannot be set, it never grants a right that these do not
    /// grant.
    ///
    /// What it loses goes first, to make room; then come data, while the file belongs to this user,
    /// who may write to it; the owner; what changing the owner removes; access control lists; and
    /// the mode, of which a list sets the group's bits.
    #[must_use]
    pub fn give_possible(&self, file: FileRef<'_>, own: &Own) -> Vec<IoFailure> {
        let (mut not_given, mut wanted) = (Vec::new(), Cow::Borrowed(self));
        let is_none = |extended: Option<&ExtendedAttributes>| extended.is_none_or(Vec::is_empty);
        let has_none = || file.extended().is_ok_and(|found| is_none(found.available().as_ref()));
        let is_extended = !is_none(self.extended.as_ref()) || own.may_have_extended && !has_none();
        if is_extended && own.mode & 0o200 == 0 {
            let _ = file.change_mode(own.mode | 0o200);
        }
        let give = |wanted: &Self, is_after| {
            if is_extended {
                wanted.give_extended(file, own.mode, is_after)
            } else {
                Vec::new()
            }
        };
        let mut failed = give(&wanted, false);
        let is_owner_set = (self.owner, self.group) != (own.owner, own.group);
        if is_owner_set && let Err(error) = file.change_owner(Some(self.owner), self.group) {
            not_given.push(("owner", error.into()));
            // Users may set groups that they are in.
            let has_group = self.group == own.group || file.change_owner(None, self.group).is_ok();
            let group = if has_group { self.group } else { own.group };
            wanted.to_mut().limit_to(own.owner, group);
        }
        // Before the mode is set, because attributes inherited from the directory, such as a default access control
        // list, may grant access to others.
        failed.extend(give(&wanted, true));
        let mut mode = wanted.mode;
        // Without its access control list, the group's rights are the most that the list grants to
        // anybody in it.
        if failed.iter().any(|(name, _)| name == ACCESS_LIST.to_bytes()) {
            mode = without_group_rights(mode);
        }
        let first = failed.into_iter().next();
        not_given.extend(first.map(|(_, error)| ("extended attributes", error)));
        // A default access control list that names nobody sets the mode of new files, too.
        if mode == own.mode && !is_owner_set && !is_extended && !own.may_have_extended {
            return not_given;
        }
        if let Err(error) = file.change_mode(mode) {
            not_given.push(("mode", error));
        } else if mode & SET_IDS != 0 && file.facts().is_ok_and(|own| own.mode != mode) {
            // The kernel silently drops set-group-ID if this user is not in the group.
            not_given.push(("mode", io::ErrorKind::PermissionDenied.into()));
        }
        not_given
    }

    /// Takes the extended attributes that a file with this mode is not to have, and gives it those that need its owner, or the
    /// others. Returns the names that failed.
    fn give_extended(&self, file: FileRef<'_>, mode: u32, is_after_owner: bool) -> Vec<(Vec<u8>, io::Error)> {
        let Some(wanted) = &self.extended else {
            return Vec::new();
        };
        let found = match file.extended() {
            Ok(found) => found.available().unwrap_or_default(),
            Err(error) => return vec![(ACCESS_LIST.to_bytes().to_vec(), error)],
        };
        let is_list = |name: &[u8]| name == ACCESS_LIST.to_bytes();
        let is_gone = |(name, value): &&(Vec<u8>, Vec<u8>)| match wanted.iter().find(|(kept, _)| kept == name) {
            // Its replacement has to wait for the owner. Until then, the list would take the room of data.
            Some((_, kept)) => is_list(name) && !is_after_owner && kept != value,
            None => true,
        };
        let lost = found.iter().filter(is_gone).map(|(name, _)| (name, None));
        let new = wanted.iter().filter(|attribute| !found.contains(attribute));
        let new = new.map(|(name, value)| (name, Some(value.as_slice())));
        let mut failed = Vec::new();
        for (name, value) in lost.chain(new) {
            let role = XattrRole::of(name);
            if role == XattrRole::Skipped || value.is_some() && role.is_after_owner() != is_after_owner {
                continue;
            }
            if value.is_none() && is_list(name) {
                // Without the list, the group would have the most that it grants to anybody in it.
                let _ = file.change_mode((mode | 0o200) & !0o070);
            }
            match file.change_extended(name, value) {
                Err(error) if role != XattrRole::Flag || error.raw_os_error() != Some(UNKNOWN) => {
                    failed.push((name.clone(), error));
                }
                _ => {}
            }
        }
        failed
    }
}

/// What file systems answer that do not know a kind of attribute.
const UNKNOWN: i32 = Errno::OPNOTSUPP.raw_os_error();
