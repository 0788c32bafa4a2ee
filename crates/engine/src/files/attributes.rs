//! Owner, mode, extended attributes and times of a file or directory, which a copy gets.
//!
//! Not here: flags (chattr(1)), some of which only an empty file takes.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Gid, Mode, RawMode, Uid, fchmod, fchown};
use seekless_sys::{self as sys, ExtendedAttributes, Support};
use serde::{Deserialize, Serialize};

use super::StatFacts;

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

/// The attribute that a file cannot get, and the system's reason.
pub type NotGiven = (&'static str, io::Error);

/// The permissions that set-user-ID and set-group-ID add to.
const SET_IDS: u32 = 0o6000;

/// A mode that grants the group no more than others: for a file whose group is another, or that lost its access control list.
#[must_use]
pub fn without_group_rights(mode: u32) -> u32 {
    mode & (!0o070 | ((mode & 0o007) << 3))
}

impl Attributes {
    /// Those of an open file or directory.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let found = StatFacts::of(&file)?;
        Ok(Self {
            owner: found.owner,
            group: found.group,
            mode: found.mode,
            extended: sys::extended_attributes(file.as_fd())?.available(),
        })
    }

    /// Adds those of an open file or directory that these lack, but for access control lists: so it keeps them when it gets these.
    pub fn keep_own(&mut self, file: impl AsFd) {
        if let (Some(extended), Ok(Support::Available(own))) =
            (&mut self.extended, sys::extended_attributes(file.as_fd()))
        {
            for (name, value) in own {
                if !name.starts_with(b"system.") && !extended.iter().any(|(other, _)| *other == name) {
                    extended.push((name, value));
                }
            }
        }
    }

    /// Gives them to an open file, which loses other extended attributes.
    ///
    /// # Errors
    /// What could not be set: then some may be set, and others not.
    pub fn give(&self, file: impl AsFd) -> Result<(), NotGiven> {
        let file = file.as_fd();
        let own = StatFacts::of(file).map_err(|error| ("owner", error.into()))?;
        match self.give_possible(file, &Own::of(&own)).into_iter().next() {
            None => Ok(()),
            Some(not_given) => Err(not_given),
        }
    }

    /// Gives an open file or directory those that it can get and does not have, and returns the others. It loses other extended
    /// attributes. Whatever cannot be set, it never grants a right that these do not grant.
    pub fn give_possible(&self, file: impl AsFd, own: &Own) -> Vec<NotGiven> {
        let file = file.as_fd();
        let mut not_given = Vec::new();
        let (mut mode, mut is_owner_set) = (self.mode, false);
        if (self.owner, self.group) != (own.owner, own.group) {
            is_owner_set = true;
            if let Err(error) = fchown(file, Some(Uid::from_raw(self.owner)), Some(Gid::from_raw(self.group))) {
                not_given.push(("owner", error.into()));
                // Users may set groups that they are in. Nobody else gets the rights of the group, or those of running as owner or
                // group.
                mode &= !SET_IDS;
                if self.group != own.group && fchown(file, None, Some(Gid::from_raw(self.group))).is_err() {
                    mode = without_group_rights(mode);
                }
            }
        }
        // Before the mode is set, because attributes inherited from the directory, such as a default access control
        // list, may grant access to others.
        let is_extended = own.may_have_extended || self.extended.as_ref().is_some_and(|extended| !extended.is_empty());
        if is_extended && own.mode & 0o200 == 0 {
            // Only a user who may write to the file can set its `user.` attributes.
            let _ = fchmod(file, Mode::from_raw_mode((own.mode | 0o200) as RawMode));
        }
        if let Some(extended) = self.extended.as_ref().filter(|_| is_extended)
            && let Err(error) = Self::give_extended(extended, file)
        {
            not_given.push(("extended attributes", error));
            // Without its access control list, the group's rights are the most that the list grants to anybody in it.
            if extended.iter().any(|(name, _)| name == b"system.posix_acl_access") {
                mode = without_group_rights(mode);
            }
        }
        // The mode comes last, because changing the owner clears set-user-ID, and an access control list sets the group's rights.
        if mode == own.mode && !is_owner_set && !is_extended {
            return not_given;
        }
        if let Err(error) = fchmod(file, Mode::from_raw_mode(mode as RawMode)) {
            not_given.push(("mode", error.into()));
        } else if mode & SET_IDS != 0 && StatFacts::of(file).is_ok_and(|own| own.mode != mode) {
            // The kernel silently drops set-group-ID if this user is not in the group.
            not_given.push(("mode", io::ErrorKind::PermissionDenied.into()));
        }
        not_given
    }

    fn give_extended(extended: &ExtendedAttributes, file: impl AsFd) -> io::Result<()> {
        let file = file.as_fd();
        if let Support::Available(found) = sys::extended_attributes(file)? {
            for (name, _) in found {
                let Ok(name) = CString::new(name) else { continue };
                if !extended.iter().any(|(kept, _)| *kept == name.as_bytes()) {
                    sys::remove_extended_attribute(file, &name)?;
                }
            }
        }
        let mut failed = Ok(());
        for (name, value) in extended {
            let Ok(name) = CString::new(name.as_slice()) else {
                continue;
            };
            if let Err(error) = sys::set_extended_attribute(file, &name, value) {
                failed = Err(error);
            }
        }
        failed
    }
}
