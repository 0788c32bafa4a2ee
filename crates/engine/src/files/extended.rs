//! What extended attributes mean (xattr(7)): one table for all that copies, compares or restores
//! them.

use std::fs;
use std::sync::LazyLock;

/// What has to be known of an extended attribute when it is copied or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrRole {
    /// Gives nobody rights: data of users and programs, which only a user who may write to the file
    /// can set, and digests.
    Data,
    /// A flag as those of chattr(1), which other file systems do not know.
    Flag,
    /// Set by root only.
    Root,
    /// A label by which the kernel decides who may use the file.
    Label,
    /// Privileges of a program, which depend on its owner as set-user-ID does.
    Privileges,
    /// Says who may use the file, as its mode does.
    Permissions,
    /// Another form of an attribute that is copied, or one that only this file can have: neither
    /// copied, compared nor removed.
    Skipped,
}

/// The first row that fits a name counts.
const ROLES: [(&str, XattrRole); 11] = [
    ("system.*", XattrRole::Permissions),
    // XFS shows access control lists and capabilities of root's a second time.
    ("trusted.SGI_*", XattrRole::Skipped),
    ("trusted.*", XattrRole::Root),
    ("security.capability", XattrRole::Privileges),
    ("security.evm", XattrRole::Skipped),
    ("security.ima", XattrRole::Data),
    ("security.selinux", XattrRole::Label),
    ("security.SMACK64", XattrRole::Label),
    ("security.*", XattrRole::Root),
    ("btrfs.*", XattrRole::Flag),
    ("*", XattrRole::Data),
];

impl XattrRole {
    /// The role of an attribute by its name. The rows of `/etc/xattr.conf` count before the
    /// built-in ones.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        static CONFIGURED: LazyLock<Vec<(String, XattrRole)>> =
            LazyLock::new(|| configured(&fs::read_to_string("/etc/xattr.conf").unwrap_or_default()));
        let configured = CONFIGURED.iter().map(|(pattern, role)| (pattern.as_str(), *role));
        let row = configured
            .chain(ROLES)
            .find(|(pattern, _)| fits(pattern.as_bytes(), name));
        row.map_or(Self::Data, |(_, role)| role)
    }

    /// Whether it can be set only when the file has its owner: changing the owner removes it, or
    /// takes the right to set it.
    pub(super) fn is_after_owner(self) -> bool {
        !matches!(self, Self::Data | Self::Flag)
    }
}

/// The rows of a file in the form of `/etc/xattr.conf`: a pattern and `skip` or `permissions`.
fn configured(text: &str) -> Vec<(String, XattrRole)> {
    let row = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let pattern = words.next()?.to_owned();
        match words.next()? {
            "skip" => Some((pattern, XattrRole::Skipped)),
            "permissions" => Some((pattern, XattrRole::Permissions)),
            _ => None,
        }
    };
    text.lines().filter_map(row).collect()
}

/// Whether a pattern fits a whole name; `*` stands for any characters.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
        Some((first, rest)) => name
            .split_first()
            .is_some_and(|(byte, name)| byte == first && fits(rest, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_that_fits_a_name_says_its_role() {
        for (name, role) in [
            ("system.posix_acl_access", XattrRole::Permissions),
            ("trusted.SGI_ACL_FILE", XattrRole::Skipped),
            ("trusted.overlay.opaque", XattrRole::Root),
            ("security.capability", XattrRole::Privileges),
            ("security.capability.more", XattrRole::Root),
            ("btrfs.compression", XattrRole::Flag),
            ("user.trusted.SGI_ACL_FILE", XattrRole::Data),
            ("com.apple.quarantine", XattrRole::Data),
        ] {
            assert_eq!(XattrRole::of(name.as_bytes()), role, "{name}");
        }
        let text = "# a comment\nuser.a*c\t skip # why\nuser.b permissions\nuser.c keep\n\n";
        let rows = configured(text);
        let expected = [("user.a*c", XattrRole::Skipped), ("user.b", XattrRole::Permissions)];
        assert_eq!(rows, expected.map(|(pattern, role)| (pattern.to_owned(), role)));
        for (pattern, name, does) in [
            ("user.a*c", "user.abc", true),
            ("user.a*c", "user.ac", true),
            ("user.a*c", "user.ab", false),
            ("a*b*", "a.b", true),
            ("a", "ab", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), does, "{pattern} {name}");
        }
    }
}
