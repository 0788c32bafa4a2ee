//! Copying owner, mode, flags and extended attributes to the new file.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use seekless_sys::{self as sys, ExtendedAttributes, Support};

use crate::error::{Error, Result, UpdateErrorKind};

/// Copies the flags of `from` to `to`, which is still empty, because some can only be set on an empty file.
///
/// # Errors
/// The system's, if one cannot be copied.
pub(super) fn keep_flags(from: &File, to: &File, path: &Path) -> Result<()> {
    let kept = sys::copy_inode_flags(from, to);
    kept.map_err(not_kept(path, "flags (lsattr)"))
}

fn not_kept(path: &Path, attribute: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| UpdateErrorKind::NotKept { attribute, source }.at(path)
}

/// Copies owner, mode and extended attributes, including access control lists, from `from` to `to`.
///
/// # Errors
/// The system's, if one cannot be copied.
pub(super) fn keep(from: &File, to: &File, path: &Path) -> Result<()> {
    let failed = |action| move |error| Error::system(path, action, error);
    let (wanted, own) = (
        from.metadata().map_err(failed("stat"))?,
        to.metadata().map_err(failed("stat"))?,
    );
    if (wanted.uid(), wanted.gid()) != (own.uid(), own.gid()) {
        fchown(to, Some(wanted.uid()), Some(wanted.gid())).map_err(not_kept(path, "owner"))?;
    }
    let attributes = sys::extended_attributes(from.as_fd()).map_err(failed("read its extended attributes"))?;
    if let Support::Available(attributes) = attributes {
        // Before the mode is set, because attributes inherited from the directory, such as a default access control
        // list, may grant access to others.
        remove_others(&attributes, to)
            .map_err(|error| Error::system(path, "remove inherited extended attributes", error))?;
        for (name, value) in attributes {
            let Ok(name) = CString::new(name) else { continue };
            sys::set_extended_attribute(to.as_fd(), &name, &value).map_err(not_kept(path, "extended attributes"))?;
        }
    }
    // The mode comes last, because changing the owner clears set-user-ID.
    to.set_permissions(wanted.permissions())
        .map_err(not_kept(path, "mode"))?;
    // The kernel silently drops set-group-ID if this user is not in the group.
    let own = to.metadata().map_err(failed("stat"))?;
    let kept = (own.mode(), own.uid(), own.gid()) == (wanted.mode(), wanted.uid(), wanted.gid());
    kept.then_some(())
        .ok_or_else(|| not_kept(path, "mode")(std::io::ErrorKind::PermissionDenied.into()))
}

/// Removes the extended attributes that are not among these.
fn remove_others(attributes: &ExtendedAttributes, from: &File) -> std::io::Result<()> {
    let Support::Available(found) = sys::extended_attributes(from.as_fd())? else {
        return Ok(());
    };
    for (name, _) in found {
        let Ok(name) = CString::new(name) else { continue };
        if !attributes.iter().any(|(kept, _)| *kept == name.as_bytes()) {
            sys::remove_extended_attribute(from.as_fd(), &name)?;
        }
    }
    Ok(())
}
