//! The options of cp(1) that stand for something else here: the order of those about links counts, some change nothing, and others are
//! refused.

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use seekless_tools::cp::FollowedLinks;

/// The options that say which links are followed, the last of which counts; `-a` is one of them.
#[derive(Clone, Copy, Debug)]
pub struct LinkWords {
    pub followed: FollowedLinks,
    pub is_archive: bool,
}

/// Name, letter, links, and help; options without help are hidden.
const LINK_WORDS: [(&str, char, FollowedLinks, Option<&str>); 5] = [
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
        "dereference-named",
        'H',
        FollowedLinks::Named,
        Some("Follow symbolic links that are named on the command line"),
    ),
    ("archive", 'a', FollowedLinks::None, None),
    ("links", 'd', FollowedLinks::None, None),
];

impl FromArgMatches for LinkWords {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = LINK_WORDS.iter().filter(|(name, ..)| matches.get_flag(name));
        let last = given.max_by_key(|(name, ..)| matches.index_of(name));
        Ok(Self {
            followed: last.map_or(FollowedLinks::None, |(_, _, followed, _)| *followed),
            is_archive: matches.get_flag("archive"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LinkWords {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(LINK_WORDS.map(|(name, letter, _, help)| {
            let arg = Arg::new(name).short(letter).action(ArgAction::SetTrue);
            let has_long = !matches!(letter, 'H' | 'd');
            let arg = if has_long { arg.long(name) } else { arg };
            arg.help(help).hide(help.is_none())
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Options of other programs: what is done anyway, and what is not done.
#[derive(Debug, Args)]
pub struct Habits {
    #[arg(short = 'r', visible_short_alias = 'R', long, action = ArgAction::Count, hide = true)]
    pub recursive: u8,
    #[arg(short = 'p', action = ArgAction::Count, hide = true)]
    preserve_some: u8,
    #[arg(short = 'f', long, action = ArgAction::Count, hide = true)]
    force: u8,
    #[arg(long, action = ArgAction::Count, hide = true)]
    remove_destination: u8,
    #[arg(short, long, action = ArgAction::Count, hide = true)]
    interactive: u8,
    #[arg(short, long, action = ArgAction::Count, hide = true)]
    link: u8,
    #[arg(short, long, action = ArgAction::Count, hide = true)]
    symbolic_link: u8,
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    backup: Option<String>,
    #[arg(long, action = ArgAction::Count, hide = true)]
    parents: u8,
    #[arg(long, action = ArgAction::Count, hide = true)]
    delete: u8,
}

impl Habits {
    /// The command that does what is not done here.
    pub fn refused(&self) -> Option<(&'static str, &'static str)> {
        let refused = [
            (self.interactive, "--interactive", "cp -ai"),
            (self.link, "--link", "cp -al"),
            (self.symbolic_link, "--symbolic-link", "cp -as"),
            (self.backup.is_some().into(), "--backup", "cp -a --backup"),
            (self.parents, "--parents", "cp -a --parents"),
            (self.delete, "--delete", "rsync -aHAX --delete"),
        ];
        let refused = refused.into_iter().find(|(count, ..)| *count > 0);
        refused.map(|(_, option, instead)| (option, instead))
    }
}
