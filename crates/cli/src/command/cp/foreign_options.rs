//! The options of cp(1) that stand for something else here: the order of those about links counts, some change nothing, and others are
//! refused.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use seekless_tools::cp::FollowedLinks;

/// What the options of cp(1) ask for.
#[derive(Clone, Copy, Debug)]
pub struct ForeignOptions {
    /// Which links are followed: the last option about them counts, and `-a` is one of them.
    pub followed: FollowedLinks,
    /// Whether named FIFOs and devices are copied, not read.
    pub keeps_special: bool,
    /// The first option that is not supported, and the command that does what it asks for.
    pub refused: Option<(&'static str, &'static str)>,
}

/// Options about links: name, letter, links, and help; options without help are hidden. A name of one letter is no long option.
const LINK_OPTIONS: [(&str, char, FollowedLinks, Option<&str>); 5] = [
    (
        "no-dereference",
        'P',
        FollowedLinks::None,
        Some("Never follow symbolic links in SOURCE; copy them as links (the default)"),
    ),
    (
        "dereference",
        'L',
        FollowedLinks::All,
        Some("Always follow symbolic links in SOURCE"),
    ),
    (
        "H",
        'H',
        FollowedLinks::Named,
        Some("Follow symbolic links that are named on the command line"),
    ),
    ("archive", 'a', FollowedLinks::None, None),
    ("d", 'd', FollowedLinks::None, None),
];

/// Hidden options: name, letter, and the command to use instead; those without one are done anyway.
const OTHER_OPTIONS: [(&str, Option<char>, Option<&str>); 10] = [
    ("recursive", Some('r'), None),
    ("p", Some('p'), None),
    ("force", Some('f'), None),
    ("remove-destination", None, None),
    ("interactive", Some('i'), Some("cp -ai")),
    ("link", Some('l'), Some("cp -al")),
    ("symbolic-link", Some('s'), Some("cp -as")),
    ("backup", Some('b'), Some("cp -a --backup")),
    ("parents", None, Some("cp -a --parents")),
    ("delete", None, Some("rsync -aHAX --delete")),
];

impl FromArgMatches for ForeignOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let links = LINK_OPTIONS.iter().filter(|(name, ..)| is_given(name));
        let last = links.max_by_key(|(name, ..)| matches.index_of(name));
        let mut others = OTHER_OPTIONS.iter().filter(|(name, ..)| is_given(name));
        Ok(Self {
            followed: last.map_or(FollowedLinks::None, |(_, _, followed, _)| *followed),
            keeps_special: is_given("archive") || is_given("recursive"),
            refused: others.find_map(|(name, _, instead)| Some((*name, (*instead)?))),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ForeignOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        let flag = |name: &'static str, letter: Option<char>, help: Option<&'static str>| {
            let arg = Arg::new(name).long((name.len() > 1).then_some(name)).short(letter);
            arg.action(ArgAction::SetTrue).help(help).hide(help.is_none())
        };
        let links = LINK_OPTIONS.map(|(name, letter, _, help)| flag(name, Some(letter), help));
        let others = OTHER_OPTIONS.map(|(name, letter, _)| flag(name, letter, None));
        let command = command.args(links).args(others);
        let command = command.mut_arg("recursive", |arg| arg.visible_short_alias('R'));
        command.mut_arg("backup", |arg| {
            let arg = arg.action(ArgAction::Set).value_name("BACKUP");
            arg.num_args(0..=1).require_equals(true)
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}
