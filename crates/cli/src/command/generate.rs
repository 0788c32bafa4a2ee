//! `seekless generate`: man pages, shell completions and the page on methods, from the program's own tables.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;
use rustix::fs::{Mode, mkdirat};
use seekless_sys::PathWalk;

use super::{Cli, manual};
use crate::call;
use crate::output::Output;
use crate::show::{methods_page, visible_path};

/// Write man pages, shell completions or the documentation page on methods.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless generate man --folder ~/.local/share/man/man1
  seekless generate completions zsh > ~/.zfunc/_seekless
  seekless generate methods > docs/methods.md")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write the manual: one page to standard output, or a page for each command into a directory.
    #[command(after_help = "\
Examples:
  seekless generate man | man -l -
  seekless generate man --folder ~/.local/share/man/man1")]
    Man {
        /// Directory for the pages of all commands; it is made if only the last name of the path is missing.
        #[arg(long = "folder", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Write a completion script for a shell to standard output.
    ///
    /// It completes commands, options and values. In bash, zsh and fish, it also completes experiments, saved runs and
    /// methods, by calling seekless.
    #[command(after_help = "\
Examples:
  echo 'source <(seekless generate completions bash)' >> ~/.bashrc
  seekless generate completions zsh > ~/.zfunc/_seekless
  seekless generate completions fish > ~/.config/fish/completions/seekless.fish")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the documentation page on methods, in Markdown.
    #[command(after_help = "\
Examples:
  seekless generate methods > docs/methods.md")]
    Methods,
}

/// The scripts that call this program to complete. For other shells, clap generates scripts that contain all commands
/// and options.
const SCRIPTS: [(Shell, &str); 3] = [
    (Shell::Bash, include_str!("../completions/seekless.bash")),
    (Shell::Zsh, include_str!("../completions/_seekless")),
    (Shell::Fish, include_str!("../completions/seekless.fish")),
];

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut command = Cli::command();
    let mut out = Vec::new();
    match &arguments.what {
        What::Man { directory } => {
            let pages = manual::pages(command)?;
            let Some(directory) = directory else {
                let (_, first) = &pages[0];
                return Ok(call::output().write_all(first)?);
            };
            // Directories above it are not made: a path that has none is rather a typo.
            let made = PathWalk::protected(directory).and_then(|walk| match &walk.name {
                Some(name) => Ok(mkdirat(&walk.directory, name, Mode::from_raw_mode(0o777))?),
                None => Ok(()),
            });
            match made {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    let more = match error.kind() {
                        ErrorKind::NotFound => "; make the one above it first",
                        _ => "",
                    };
                    bail!("{}: cannot make the directory: {error}{more}", visible_path(directory));
                }
                _ => {}
            }
            for (name, page) in pages {
                Output::prepare(&directory.join(format!("{name}.1")), [])?.write(&page)?;
            }
        }
        What::Completions { shell } => match SCRIPTS.iter().find(|(known, _)| known == shell) {
            Some((_, script)) => out.extend(script.bytes()),
            None => clap_complete::generate(*shell, &mut command, "seekless", &mut out),
        },
        What::Methods => out = methods_page().into_bytes(),
    }
    call::output().write_all(&out)?;
    Ok(())
}
