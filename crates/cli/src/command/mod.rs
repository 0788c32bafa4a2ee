//! The commands. The enum below is the only list of them.

#[cfg(not(all(feature = "catalogue", feature = "sim")))]
mod absent;
mod advise;
mod bench;
mod cache;
pub mod cmp;
mod confirm;
mod cp;
mod dupes;
mod generate;
mod holes;
mod manual;
mod methods;
mod profile;
mod report;
mod runs;
#[cfg(feature = "sim")]
mod sim;
mod sittings;
mod storage;
mod suggest;
mod update;
mod values;

use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{BufRead, BufReader, LineWriter};
use std::path::Path;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::process::{Resource, Rlimit};
use seekless_results::visible;
use signal_hook::consts::SIGIO;

use crate::color::{self, Color};
use crate::show::shortened;
use crate::signals::{CaughtSignal, survive};
use crate::{call, config};

/// Finds the fastest way to read, write, copy and compare files on this storage.
#[derive(Debug, Parser)]
#[command(name = "seekless", version, about, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    color: Color,
    #[command(flatten)]
    no_profile: profile::NoProfile,
}

const EXAMPLES: &str = "\
Examples:
  seekless bench                      # measure the storage under this directory
  seekless bench read --file big.iso  # find the fastest way to read a file
  seekless advise read big.iso        # how to read it, by what was measured
  seekless profile                    # the methods to use on this storage
  seekless methods copy               # the ways to copy that work here
  seekless storage                    # devices and features of this directory
  seekless cache show .               # how much of its files is in memory
  seekless cmp one other              # where do two files differ?
  seekless cmp -r photos backup       # what differs in two trees
  seekless cp photos /backup          # copy a tree and all about it
  seekless dupes photos               # files with equal contents
  seekless holes show disk.img        # the holes of a file
  seekless update numbers.bin         # many small edits with few writes
  seekless runs                       # earlier measurements and results
  seekless report latest              # the newest run, as a page with plots
  seekless sim start hdd-2009         # a disk of 2009, simulated

Defaults can be changed in ~/.config/seekless/config.toml:
  budget = \"2m\"            # how long `seekless bench` may take
  runs = \"/data/seekless\"  # the folder of saved runs
  color = \"never\"          # auto, always or never

For details, see `seekless COMMAND --help`.
SEEKLESS_LOG=debug logs internal steps to standard error.";

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::Arguments>),
    Advise(advise::Arguments),
    Profile(profile::Arguments),
    Methods(methods::Arguments),
    Storage(storage::Arguments),
    Cache(cache::Arguments),
    Cmp(cmp::Arguments),
    Cp(Box<cp::Arguments>),
    Dupes(Box<dupes::Arguments>),
    Holes(holes::Arguments),
    Update(update::Arguments),
    Runs(runs::Arguments),
    Report(report::Arguments),
    #[cfg(feature = "sim")]
    Sim(sim::Arguments),
    /// Simulate a disk (not in this build).
    #[cfg(not(feature = "sim"))]
    Sim(absent::Arguments),
    Generate(generate::Arguments),
    /// Runs one trial that a parent describes on standard input.
    // A run starts it, in a process of its own, controlled over pipes.
    #[command(hide = true)]
    Trial,
    // Called by the completion scripts.
    /// Prints completions for the last word of a command line.
    #[command(hide = true)]
    Suggest(suggest::Arguments),
}

/// How a command fails.
pub enum Failure {
    /// A signal stopped it; what was done is kept.
    Stopped(u8),
    /// Something could not be done. Empty if the errors were already printed.
    Errors(Vec<anyhow::Error>),
    /// The command line was not one of a job: an error, or a call for help. It was answered, with this exit code.
    Refused(u8),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Errors(vec![error.into()])
    }
}

/// The number of descriptors that a walk holds at most, roughly.
const DESCRIPTORS_MAX: u64 = 1 << 16;

/// What the system says of a path.
fn stat(path: &Path) -> anyhow::Result<Metadata> {
    path.metadata()
        .with_context(|| format!("{}: cannot stat", path.display()))
}

/// Standard input, if it was open when the program was started.
fn standard_input() -> std::io::Result<impl BufRead> {
    Ok(BufReader::new(call::open_input()?))
}

/// Raises the soft limit of open files, which is low, because walks hold directories open. Call it before threads are started.
fn raise_open_files() {
    // The limit is the process's.
    if !call::is_process() {
        return;
    }
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let current = limit.maximum;
    // With a low limit, fewer directories are open at a time.
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, Rlimit { current, ..limit }) {
        tracing::debug!(%error, "the limit of open files stays");
    }
    // Linux doubles the table of descriptors when it is full, and a process with threads waits for all processors each time, 5
    // to 20 ms. A high number makes the table large now. It is only a matter of time, so errors do not matter.
    let highest = current.unwrap_or(u64::MAX).min(DESCRIPTORS_MAX) - 1;
    if let Ok(any) = std::fs::File::open("/") {
        drop(rustix::io::fcntl_dupfd_cloexec(&any, highest as i32));
    }
}

/// If another process opens a file under lease, the kernel sends this process SIGIO, which would end it.
fn expect_wishes() -> anyhow::Result<()> {
    survive(SIGIO).context("cannot catch SIGIO")
}

/// Fails if a signal stopped the command.
fn unless_stopped(caught: &CaughtSignal) -> Result<(), Failure> {
    caught.signal().map_or(Ok(()), |signal| Err(Failure::Stopped(signal)))
}

/// Fails with these errors, if there are any.
fn unless_failed(failed: Vec<anyhow::Error>) -> Result<(), Failure> {
    failed.is_empty().then_some(()).ok_or(Failure::Errors(failed))
}

/// Fails if an error was already printed.
fn unless_printed(has_failed: bool) -> Result<(), Failure> {
    if has_failed {
        return Err(Failure::Errors(Vec::new()));
    }
    Ok(())
}

/// The message if the output cannot be written; `done` is what was done before.
fn unwritten(done: Option<&str>) -> String {
    let done = done.map(|done| format!("{done}, but "));
    format!("{}cannot write the output", done.unwrap_or_default())
}

/// The same command. Its help is as wide as the terminal of the call; clap knows only that of the process.
fn as_wide_as_the_terminal(command: clap::Command) -> clap::Command {
    if call::is_process() {
        return command;
    }
    command.term_width(call::columns().min(COLUMNS_MAX))
}

/// The longest lines of help.
const COLUMNS_MAX: usize = 100;

/// Parses words, of which the first is the name of the program.
fn parsed<T: FromArgMatches>(command: clap::Command, words: &[OsString]) -> Result<T, clap::Error> {
    T::from_arg_matches(&as_wide_as_the_terminal(command).try_get_matches_from(words)?)
}

/// The error for a command that `seekless-hub` has now.
fn moved_to_hub(mut words: impl Iterator<Item = OsString>) -> Option<clap::Error> {
    words.next();
    let first = color::pass(&mut words)?;
    let of_runs = first == "runs" && words.next().is_some_and(|word| word == "share" || word == "fetch");
    let why = "this is done by another program now\nhint: `seekless-hub --help` lists its commands; docs/hub.md says how to install it\n";
    (of_runs || first == "hub").then(|| clap::Error::raw(ErrorKind::InvalidSubcommand, why))
}

/// Parses the command line, with the user's defaults.
pub fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let refused = dupes::foreign_words::refused(words.iter().cloned()).or_else(|| moved_to_hub(words.iter().cloned()));
    if let Some(error) = refused {
        return Err(error);
    }
    let mut command = Cli::command();
    if let Some(budget) = &config::get().budget {
        command = command.mut_subcommand("bench", |bench| {
            bench.mut_arg("budget", |budget_argument| budget_argument.default_value(budget))
        });
    }
    parsed(command, words)
}

/// Warns that the defaults are used instead of the configuration, in a command that takes only colors from it.
fn warn_unless(configured: anyhow::Result<()>) {
    if let Err(error) = configured {
        let sentence = format!("{error:#}");
        tracing::warn!("{}; it is ignored here", visible(&shortened(&sentence)));
    }
}

/// Runs a command. If it needs the user's configuration, that must have been loaded.
pub fn run(cli: Cli, configured: anyhow::Result<()>) -> Result<u8, Failure> {
    cli.no_profile.heed();
    match cli.command {
        Command::Bench(_) | Command::Runs(_) | Command::Report(_) => configured?,
        // The first is started by a command that loaded it, and completion is silent.
        Command::Trial | Command::Suggest(_) => {}
        _ => warn_unless(configured),
    }
    let (input, output) = (|| BufReader::new(call::input()), || LineWriter::new(call::output()));
    match cli.command {
        Command::Bench(arguments) => return bench::run(&arguments),
        Command::Methods(arguments) => methods::run(&arguments)?,
        Command::Storage(arguments) => storage::run(&arguments)?,
        Command::Cache(arguments) => cache::run(&arguments)?,
        // The arguments of `cmp` are parsed before clap sees them.
        Command::Cmp(_) => return Err(anyhow::anyhow!("cmp was not called as a command of its own").into()),
        Command::Cp(arguments) => return cp::run(&arguments),
        Command::Dupes(arguments) => return dupes::run(&arguments),
        Command::Holes(arguments) => holes::run(&arguments)?,
        Command::Update(arguments) => update::run(&arguments)?,
        Command::Advise(arguments) => advise::run(&arguments)?,
        Command::Profile(arguments) => profile::run(&arguments)?,
        Command::Runs(arguments) => runs::run(&arguments)?,
        Command::Report(arguments) => report::run(&arguments)?,
        #[cfg(feature = "sim")]
        Command::Sim(arguments) => sim::run(&arguments)?,
        #[cfg(not(feature = "sim"))]
        Command::Sim(_) => return Err(anyhow::anyhow!(absent::without("sim")).into()),
        Command::Generate(arguments) => generate::run(&arguments)?,
        Command::Suggest(arguments) => suggest::run(&arguments)?,
        Command::Trial => seekless_lab::trial::child::serve(&mut input(), &mut output())?,
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;

    /// The examples of a command and of those in it.
    fn examples(command: &Command, found: &mut Vec<String>) {
        let help = command.get_after_long_help().or(command.get_after_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        found.extend(lines.take_while(|line| line.starts_with("  ")).map(str::to_owned));
        command.get_subcommands().for_each(|inner| examples(inner, found));
    }

    /// The words of each call of `seekless` that a shell makes of a line.
    fn calls(line: &str) -> Vec<Vec<OsString>> {
        let home = tempfile::tempdir().unwrap();
        for directory in [".zfunc", "bin", "docs", ".config/fish/completions"] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        let script = format!(
            "seekless() {{ printf '%s\\n' \"$@\" '<end>' >> words; }}\n\
             sudo() {{ \"$@\"; }}\njq() {{ :; }}\nless() {{ :; }}\nman() {{ :; }}\nxargs() {{ :; }}\nset -e\n{line}\n"
        );
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &script])
            .current_dir(home.path())
            .env("HOME", home.path());
        assert!(shell.output().unwrap().status.success(), "{line}");
        let words = std::fs::read_to_string(home.path().join("words")).unwrap_or_default();
        let calls = words.split_terminator("<end>\n");
        calls.map(|words| words.lines().map(OsString::from).collect()).collect()
    }

    #[test]
    fn every_example_of_the_help_can_be_pasted_into_a_shell() {
        let mut found = Vec::new();
        examples(&Cli::command(), &mut found);
        examples(&cmp::command_of_trees(), &mut found);
        assert!(found.len() > 60, "{found:?}");
        for line in found {
            let calls = calls(&line);
            assert!(
                !calls.is_empty() || !line.trim_start().starts_with("seekless"),
                "{line}"
            );
            for words in calls {
                if words.first().is_some_and(|word| word == "cmp") {
                    assert!(cmp::is_understood(words[1..].to_vec()), "{line}: {words:?}");
                    continue;
                }
                let all = [OsString::from("seekless")].into_iter().chain(words);
                if let Err(error) = Cli::try_parse_from(all) {
                    panic!("{line}: {error}");
                }
            }
        }
    }
}
