//! Words by which other programs find and remove duplicates, and what they are here.
//!
//! Not here: the command's own words.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{Error, ErrorKind};

use crate::color;

/// What users of other programs write, as a first word or as an option.
struct Habit {
    words: &'static [&'static str],
    /// What they want.
    wish: &'static str,
    /// The action that does it here, if it is one.
    action: Option<&'static str>,
}

const HABITS: [Habit; 6] = [
    Habit {
        words: &["group", "find", "search", "scan", "list"],
        wish: "list groups of equal files",
        action: None,
    },
    Habit {
        words: &[
            "remove",
            "delete",
            "-d",
            "-rd",
            "-dN",
            "-rdN",
            "--delete",
            "-deleteduplicates",
        ],
        wish: "remove duplicates",
        action: Some("remove"),
    },
    Habit {
        words: &["link", "hardlink", "--linkhard", "-makehardlinks"],
        wish: "replace duplicates with hard links",
        action: Some("hardlink"),
    },
    Habit {
        words: &["symlink", "--linksoft", "-makesymlinks"],
        wish: "replace duplicates with symbolic links",
        action: Some("symlink"),
    },
    Habit {
        words: &["dedupe", "reflink", "--dedupe"],
        wish: "let duplicates share blocks",
        action: Some("reflink"),
    },
    Habit {
        words: &["move"],
        wish: "move duplicates",
        action: Some("move --to DIR"),
    },
];

/// The error for a command line of `seekless dupes` with a word of another program. A first word that is the name of a file is a path.
pub fn refused(mut words: impl Iterator<Item = OsString>) -> Option<Error> {
    words.next();
    if color::pass(&mut words)? != "dupes" {
        return None;
    }
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let words = words.take_while(|word| word != "--").enumerate();
    let (word, habit) = words.into_iter().find_map(|(at, word)| {
        let is_meant = is_option(&word) || at == 0 && Path::new(&word).symlink_metadata().is_err();
        let habit = HABITS
            .iter()
            .find(|habit| habit.words.iter().any(|known| word == *known));
        habit.filter(|_| is_meant).map(|habit| (word, habit))
    })?;
    let here = match habit.action {
        None => "seekless dupes PATH".to_owned(),
        Some(action) => format!("seekless dupes --action {action} --keep RULE PATH"),
    };
    let kind = if is_option(&word) {
        "option"
    } else {
        "command (and there is no file)"
    };
    let (word, wish) = (word.to_string_lossy(), habit.wish);
    let why = format!("seekless dupes has no {kind} `{word}`\nhint: to {wish}: {here}\n");
    Some(Error::raw(ErrorKind::InvalidSubcommand, why))
}
