//! Rules for which files of a group stay, as they are written.
//!
//! Not here: what follows from them (`choose`).

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::visible::visible_path;
use crate::walk::{expanded, plain_path};

/// A rule for what stays. Several are an order of preference.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Prefers the file that comes first in this order. The file that all rules together prefer stays.
    Order(KeepOrder),
    /// Prefers files with a name that matches; all of them stay.
    Name(Glob),
    /// Prefers files with a path that matches; all of them stay.
    Path(Glob),
    /// Prefers files that are below this directory; all of them stay.
    Under(PathBuf),
    /// Prefers files that are not below this directory; all of them stay.
    NotUnder(PathBuf),
    /// Prefers files with these paths, which were chosen by hand; all of them stay.
    Chosen(HashSet<PathBuf>),
    /// At least this many files of each group stay.
    AtLeast(usize),
}

/// An order of equal files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepOrder {
    /// By mtime.
    Newest,
    /// By mtime.
    Oldest,
    /// By the length of the absolute path, in bytes.
    Shortest,
    /// By the length of the absolute path, in bytes.
    Longest,
    /// By the paths that were given, in their order, then by path.
    First,
}

/// A pattern of paths or names, as it was written.
#[derive(Clone, Debug)]
pub struct Glob {
    text: OsString,
    /// What it matches, as it was written or from the working directory.
    globs: Vec<GlobMatcher>,
    /// Whether that stands for all that is below, too.
    is_directory: bool,
    /// The path as it was written, and absolute: it and all below it match, because names may have the characters of wildcards.
    below: Vec<PathBuf>,
}

/// A name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyName {
    /// Absolute, without links and `..`.
    pub path: PathBuf,
    /// As the search named it.
    pub given: PathBuf,
    /// The number of the path that led to it, among those that were given.
    pub root: u32,
    /// Whether nobody should rely on it: it is in a trash directory or a read-only snapshot, or on a file system without a given
    /// path.
    pub is_poor: bool,
    /// Whether it is another path of the directory entry of a name before, as a bind mount shows it. Rules count it; a file has it
    /// no more once the other path is gone.
    pub is_again: bool,
}

/// The words of the orders.
const ORDERS: [(&str, KeepOrder); 5] = [
    ("newest", KeepOrder::Newest),
    ("oldest", KeepOrder::Oldest),
    ("shortest", KeepOrder::Shortest),
    ("longest", KeepOrder::Longest),
    ("first", KeepOrder::First),
];

/// All rules, for messages.
pub const RULES: &str =
    "newest, oldest, shortest, longest, first, name:GLOB, path:GLOB, under:DIR, not-under:DIR, at-least:N";

impl KeepOrder {
    /// The word for it.
    fn name(self) -> &'static str {
        let found = ORDERS.iter().find(|(_, order)| *order == self);
        found.map_or("", |(word, _)| word)
    }
}

impl Glob {
    /// A pattern of names.
    fn of_name(text: &OsStr) -> Result<Self, String> {
        Ok(Self {
            text: text.to_owned(),
            globs: vec![matcher(text.to_str().ok_or("the pattern is not UTF-8")?)?],
            is_directory: false,
            below: Vec::new(),
        })
    }

    /// A pattern of paths. A directory means all below it: a pattern without wildcards, with a last slash, or with no wildcard in
    /// its last name.
    fn of_path(text: &OsStr) -> Result<Self, String> {
        let written = plain_path(&expanded(Path::new(text)));
        if written.as_os_str().is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        let has_wildcards = |text: &OsStr| text.as_bytes().iter().any(|byte| b"*?[]{}\\".contains(byte));
        let here = std::env::current_dir().unwrap_or_default();
        let absolute = here.join(&written);
        let mut pattern = Self {
            text: text.to_owned(),
            globs: Vec::new(),
            is_directory: text.as_bytes().ends_with(b"/") || !written.file_name().is_some_and(has_wildcards),
            below: vec![written.clone(), std::fs::canonicalize(&absolute).unwrap_or(absolute)],
        };
        if !has_wildcards(written.as_os_str()) {
            return Ok(pattern);
        }
        let written = written.to_str().ok_or("the pattern is not UTF-8")?;
        pattern.globs.push(matcher(written)?);
        if let Some(here) = here.to_str().filter(|_| !written.starts_with('/')) {
            let (mut here, mut rest) = (Path::new(here), written);
            while let Some(less) = rest.strip_prefix("../") {
                (here, rest) = (here.parent().unwrap_or(here), less);
            }
            let here = globset::escape(&here.display().to_string());
            pattern.globs.push(matcher(&format!("{here}/{rest}"))?);
        }
        Ok(pattern)
    }

    fn is_match(&self, path: &Path) -> bool {
        let is_like = |path: &Path| self.globs.iter().any(|glob| glob.is_match(path));
        let mut above = path.ancestors().take(if self.is_directory { usize::MAX } else { 1 });
        self.below.iter().any(|below| path.starts_with(below)) || above.any(is_like)
    }
}

fn matcher(glob: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(glob).literal_separator(true).build();
    Ok(glob.map_err(|error| error.to_string())?.compile_matcher())
}

impl Rule {
    /// Reads a rule. A directory is taken as it is written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        if let Some((_, order)) = ORDERS.iter().find(|(word, _)| text == *word) {
            return Ok(Self::Order(*order));
        }
        let bytes = text.as_bytes();
        let at = bytes.iter().position(|byte| matches!(byte, b':' | b' '));
        let (word, rest) = bytes.split_at(at.unwrap_or(bytes.len()));
        let rest = OsStr::from_bytes(rest.get(1..).unwrap_or_default());
        match word {
            b"name" | b"path" | b"under" | b"not-under" | b"at-least" if rest.is_empty() => Err(format!(
                "`{}` needs a value; rules are {RULES}",
                visible_path(Path::new(text))
            )),
            b"name" if rest.as_bytes().contains(&b'/') => Err("a name has no slash; use path:GLOB".to_owned()),
            b"name" => Glob::of_name(rest).map(Self::Name),
            b"path" => Glob::of_path(rest).map(Self::Path),
            b"under" => Ok(Self::Under(expanded(Path::new(rest)))),
            b"not-under" => Ok(Self::NotUnder(expanded(Path::new(rest)))),
            b"at-least" => {
                let number = rest.to_str().and_then(|rest| rest.trim().parse().ok());
                let number = number.filter(|number| *number > 0);
                number
                    .map(Self::AtLeast)
                    .ok_or_else(|| "at-least takes a number of 1 or more".to_owned())
            }
            _ => Err(format!("no such rule; rules are {RULES}")),
        }
    }

    /// Whether a file with these names stays by this rule alone.
    #[must_use]
    pub fn protects(&self, names: &[CopyName]) -> bool {
        names.iter().any(|name| match self {
            Self::Name(glob) => name.path.file_name().is_some_and(|name| glob.is_match(Path::new(name))),
            Self::Path(glob) => glob.is_match(&plain_path(&name.given)) || glob.is_match(&name.path),
            Self::Under(directory) => name.path.starts_with(directory),
            Self::NotUnder(directory) => !name.path.starts_with(directory),
            Self::Chosen(paths) => paths.contains(&name.given),
            Self::Order(_) | Self::AtLeast(_) => false,
        })
    }

    /// Whether it must match a file to make sense.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Path(_) | Self::Under(_) | Self::NotUnder(_))
    }

    /// How many files of each group it keeps.
    pub(super) fn at_least(&self) -> Option<usize> {
        match self {
            Self::AtLeast(number) => Some(*number),
            _ => None,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(order) => to.write_str(order.name()),
            Self::Name(glob) => write!(to, "name:{}", visible_path(Path::new(&glob.text))),
            Self::Path(glob) => write!(to, "path:{}", visible_path(Path::new(&glob.text))),
            Self::Under(directory) => write!(to, "under:{}", visible_path(directory)),
            Self::NotUnder(directory) => write!(to, "not-under:{}", visible_path(directory)),
            Self::Chosen(_) => to.write_str("chosen"),
            Self::AtLeast(number) => write!(to, "at-least:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_rule_is_refused_with_the_rules() {
        for (text, reason) in [
            ("biggest", "rules are newest"),
            ("", "rules are newest"),
            ("name:", "needs a value"),
            ("name", "needs a value"),
            ("name:a/b", "use path:GLOB"),
            ("path:[", "unclosed"),
            ("path:./", "empty"),
            ("at-least:0", "1 or more"),
            ("at-least:-1", "1 or more"),
            ("at-least:x", "1 or more"),
            ("at-least:99999999999999999999", "1 or more"),
            ("newest:", "no such rule"),
        ] {
            let refused = Rule::parse(text.as_ref()).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
