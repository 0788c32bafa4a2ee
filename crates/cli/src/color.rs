//! Whether the output is coloured. This is decided before anything is parsed, because clap's texts are coloured as well.

use std::ffi::OsString;

use clap::{Args, ColorChoice, ValueEnum};

/// What it takes.
pub const CHOICES: [&str; 3] = ["auto", "always", "never"];

/// The option, for every command.
#[derive(Debug, Args)]
pub struct Color {
    /// Colors: auto, always or never
    #[arg(long, global = true, display_order = 998, hide_possible_values = true, value_name = "WHEN", default_value = "auto",
        value_parser = CHOICES)]
    color: String,
}

/// Chooses by the words of the command line, then by the environment, then by the configuration, then by the terminal.
pub fn choose(words: &[OsString], configured: Option<ColorChoice>) {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let by_environment = VARIABLES.into_iter().any(is_set).then_some(ColorChoice::Auto);
    match asked(words.iter().cloned())
        .or(by_environment)
        .or(configured)
        .unwrap_or_default()
    {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Variables that the automatic choice heeds.
const VARIABLES: [&str; 3] = ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"];

/// The last choice on the command line, if there is one. clap reports an invalid one.
fn asked(words: impl Iterator<Item = OsString>) -> Option<ColorChoice> {
    let mut words = words.take_while(|word| word != "--");
    let mut last = None;
    while let Some(word) = words.next() {
        let value = match word.to_str() {
            Some(NAME) => words.next().and_then(|value| value.into_string().ok()),
            word => word.and_then(after_equals).map(str::to_owned),
        };
        last = value.and_then(|value| parse(&value)).or(last);
    }
    last
}

const NAME: &str = "--color";

fn after_equals(word: &str) -> Option<&str> {
    word.strip_prefix(NAME)?.strip_prefix('=')
}

/// A choice by its name.
pub fn parse(value: &str) -> Option<ColorChoice> {
    ColorChoice::from_str(value, false).ok()
}

/// The next word of the command line that is not this option.
pub fn pass(words: &mut impl Iterator<Item = OsString>) -> Option<OsString> {
    loop {
        let word = words.next()?;
        if word == NAME {
            words.next();
        } else if word.to_str().and_then(after_equals).is_none() {
            return Some(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split_whitespace().map(OsString::from)
    }

    #[test]
    fn the_last_choice_before_the_operands_counts() {
        for (line, expected) in [
            ("seekless runs", None),
            ("seekless runs --color never", Some(ColorChoice::Never)),
            ("seekless --color=always runs --color=auto", Some(ColorChoice::Auto)),
            ("seekless bench -- echo --color never", None),
            ("seekless --color sometimes", None),
            ("seekless --color", None),
            ("seekless --colorful=never", None),
        ] {
            assert_eq!(asked(words(line)), expected, "{line}");
        }
    }

    #[test]
    fn the_command_is_found_behind_the_option() {
        for line in ["cmp a", "--color never cmp a", "--color=never --color always cmp a"] {
            let mut words = words(line);
            assert_eq!(pass(&mut words).unwrap(), "cmp", "{line}");
            assert_eq!(words.next().unwrap(), "a", "{line}");
        }
    }
}
