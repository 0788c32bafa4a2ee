//! Owner, mode and extended attributes of a file, which a copy gets.
//!
//! Not here: times, and flags (chattr(1)), some of which only an empty file takes.

use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use seekless_sys::{self as sys, ExtendedAttributes, Support};
use serde::{Deserialize, Serialize};

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

/// The attribute that a file cannot get, and the system's reason.
pub type NotGiven = (&'static str, io::Error);

/// The permissions of a mode.
const PERMISSIONS: u32 = 0o7777;

impl Attributes {
    /// Those of an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            owner: found.uid(),
            group: found.gid(),
            mode: found.mode() & PERMISSIONS,
            extended: sys::extended_attributes(file.as_fd())?.available(),
        })
    }

    /// Gives them to an open file, which loses other extended attributes.
    ///
    /// # Errors
    /// What could not be set: then some may be set, and others not.
    pub fn give(&self, file: &File) -> Result<(), NotGiven> {
        let failed = |attribute| move |error| (attribute, error);
        let own = file.metadata().map_err(failed("owner"))?;
        if (self.owner, self.group) != (own.uid(), own.gid()) {
            fchown(file, Some(self.owner), Some(self.group)).map_err(failed("owner"))?;
        }
        // Before the mode is set, because attributes inherited from the directory, such as a default access control
        // list, may grant access to others.
        if let Some(extended) = &self.extended {
            Self::give_extended(extended, file).map_err(failed("extended attributes"))?;
        }
        // The mode comes last, because changing the owner clears set-user-ID.
        file.set_permissions(Permissions::from_mode(self.mode))
            .map_err(failed("mode"))?;
        // The kernel silently drops set-group-ID if this user is not in the group.
        let own = file.metadata().map_err(failed("mode"))?;
        let is_given = (own.mode() & PERMISSIONS, own.uid(), own.gid()) == (self.mode, self.owner, self.group);
        is_given
            .then_some(())
            .ok_or_else(|| failed("mode")(io::ErrorKind::PermissionDenied.into()))
    }

    fn give_extended(extended: &ExtendedAttributes, file: &File) -> io::Result<()> {
        if let Support::Available(found) = sys::extended_attributes(file.as_fd())? {
            for (name, _) in found {
                let Ok(name) = CString::new(name) else { continue };
                if !extended.iter().any(|(kept, _)| *kept == name.as_bytes()) {
                    sys::remove_extended_attribute(file.as_fd(), &name)?;
                }
            }
        }
        for (name, value) in extended {
            let Ok(name) = CString::new(name.as_slice()) else {
                continue;
            };
            sys::set_extended_attribute(file.as_fd(), &name, value)?;
        }
        Ok(())
    }
}
