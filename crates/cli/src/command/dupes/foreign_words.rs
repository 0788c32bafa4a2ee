//! Words by which other programs find and remove duplicates, and what they are here.
//!
//! Not here: the command's own words.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{Error, ErrorKind};

use crate::color;

/// Words of other programs, as a first word or as an option; what their users want; and the action that does it here, if it is one.
const FOREIGN_WORDS: [(&str, &str, Option<&str>); 6] = [
    ("group find search scan list", "list groups of equal files", None),
    (
        "remove delete -d -rd -dN -rdN --delete -deleteduplicates",
        "remove duplicates",
        Some("remove"),
    ),
    (
        "link hardlink --linkhard -makehardlinks",
        "replace duplicates with hard links",
        Some("hardlink"),
    ),
    (
        "symlink --linksoft -makesymlinks",
        "replace duplicates with symbolic links",
        Some("symlink"),
    ),
    (
        "dedupe reflink --dedupe",
        "let duplicates share blocks",
        Some("reflink"),
    ),
    ("move", "move duplicates", Some("move --to DIR")),
];

/// The error for a command line of `seekless dupes` with a word of another program. A first word that is the name of a file is a path.
pub fn refused(mut words: impl Iterator<Item = OsString>) -> Option<Error> {
    words.next();
    if color::pass(&mut words)? != "dupes" {
        return None;
    }
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let mut words = words.take_while(|word| word != "--").enumerate();
    let (word, (_, wish, action)) = words.find_map(|(at, word)| {
        let is_meant = is_option(&word) || at == 0 && Path::new(&word).symlink_metadata().is_err();
        let is_it = |(known, ..): &&(&str, _, _)| known.split(' ').any(|known| word == *known);
        let row = FOREIGN_WORDS.iter().find(is_it).filter(|_| is_meant)?;
        Some((word, row))
    })?;
    let here = match action {
        None => "seekless dupes PATH".to_owned(),
        Some(action) => format!("seekless dupes --action {action} --keep RULE PATH"),
    };
    let kind = if is_option(&word) {
        "option"
    } else {
        "command (and there is no file)"
    };
    let word = word.to_string_lossy();
    let why = format!("seekless dupes has no {kind} `{word}`\nhint: to {wish}: {here}\n");
    Some(Error::raw(ErrorKind::InvalidSubcommand, why))
}
