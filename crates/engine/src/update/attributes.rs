//! What a file keeps when another takes its name: owner, mode, extended attributes.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use seekless_sys::{self as sys, ExtendedAttributes, Support};

use crate::error::{Error, Result, UpdateErrorKind};

/// Gives `to`, which is empty yet, the flags of `from`: some can be set on an empty file only.
///
/// # Errors
/// The system's, where one cannot be kept.
pub(super) fn keep_flags(from: &File, to: &File, path: &Path) -> Result<()> {
    let kept = sys::copy_inode_flags(from, to);
    kept.map_err(not_kept(path, "flags (lsattr)"))
}

fn not_kept(path: &Path, attribute: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| UpdateErrorKind::NotKept { attribute, source }.at(path)
}

/// Gives `to` the owner, mode and extended attributes of `from`. Access control lists are extended attributes too.
///
/// # Errors
/// The system's, where one cannot be kept: the file would be another than before.
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
        // Before the mode: what the new file inherited from its directory, as a default access control list, may let
        // others in.
        remove_others(&attributes, to)
            .map_err(|error| Error::system(path, "remove inherited extended attributes", error))?;
        for (name, value) in attributes {
            let Ok(name) = CString::new(name) else { continue };
            sys::set_extended_attribute(to.as_fd(), &name, &value).map_err(not_kept(path, "extended attributes"))?;
        }
    }
    // Last: changing the owner takes away set-user-ID.
    to.set_permissions(wanted.permissions())
        .map_err(not_kept(path, "mode"))?;
    // The kernel drops set-group-ID without a word where this user is not in the group.
    let own = to.metadata().map_err(failed("stat"))?;
    let kept = (own.mode(), own.uid(), own.gid()) == (wanted.mode(), wanted.uid(), wanted.gid());
    kept.then_some(())
        .ok_or_else(|| not_kept(path, "mode")(std::io::ErrorKind::PermissionDenied.into()))
}

/// Takes away the extended attributes that are not among these.
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
