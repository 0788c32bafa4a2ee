//! The program `seekless-hub`: its commands, and what the administrator's ones print.

mod config;
mod share;
mod terminal;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use seekless_lab::experiment::KNOWN;
use seekless_lab::store::StoreError;
use seekless_results::{plural, visible};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::{Admin, Options, serve};

/// The exit code for bad input, and if something could not be done.
const EXIT_ERROR: u8 = 2;

/// A place for results: it shows which methods win on which storage, over many machines.
///
/// `seekless-hub serve` runs a hub. `share` sends a run that `seekless bench` saved to a hub, `withdraw` removes it there, and `fetch`
/// brings what others measured. The other commands are for the administrator of a hub.
#[derive(Debug, Parser)]
#[command(
    name = "seekless-hub",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  seekless-hub serve                      # http://127.0.0.1:8080/, in hub.db
  seekless-hub share --hub https://hub.example.org    # the latest run
  seekless-hub withdraw latest
  seekless-hub fetch --kind nvme          # what others measured
  seekless-hub verify                     # that all that is stored is whole
  seekless-hub export --output hub.jsonl  # a backup
  seekless-hub import --own hub.jsonl --database sqlite:other.db

For details, see `seekless-hub COMMAND --help`.
The exit code is 0 if all was done, and 2 for bad input or if something failed.
SEEKLESS_LOG=debug logs internal steps to standard error."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Database {
    /// The database
    #[arg(
        long = "database",
        value_name = "URL",
        default_value = "sqlite:hub.db",
        help = "The database: sqlite:FILE, or postgres://USER@HOST/DATABASE"
    )]
    url: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server.
    ///
    /// It speaks HTTP; for HTTPS, put a proxy such as nginx or Caddy before it. It keeps no accounts, sets no cookies and logs no
    /// addresses. Ctrl-C ends it.
    #[command(after_help = "\
Examples:
  seekless-hub serve
  seekless-hub serve --listen 0.0.0.0:80 --public-url https://hub.example
  seekless-hub serve --listen 127.0.0.1:8080 --behind-proxy
  seekless-hub serve --database postgres://seekless@db.example/hub")]
    Serve {
        #[command(flatten)]
        database: Database,
        /// The address and port to listen at; port 0 takes a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Where others reach it, for links in receipts [default: the address]
        #[arg(long, value_name = "URL")]
        public_url: Option<String>,
        /// Requests per second that one address may send; 0 for any number
        #[arg(long, value_name = "N", default_value_t = 20)]
        rate: u32,
        /// A proxy is in front: take addresses from its headers (X-Forwarded-For, Forwarded)
        #[arg(long)]
        behind_proxy: bool,
    },
    Share(share::Share),
    Withdraw(share::Withdraw),
    Fetch(share::Fetch),
    /// Remove runs.
    #[command(after_help = "\
Examples:
  seekless-hub remove 3f9c0a6b7d214e58a1b2c3d4e5f60718")]
    Remove {
        #[command(flatten)]
        database: Database,
        /// The IDs of the runs
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Remove all runs of a machine, and refuse further ones.
    #[command(after_help = "\
Examples:
  seekless-hub ban 3f9c0a6b7d214e58a1b2c3d4e5f60718")]
    Ban {
        #[command(flatten)]
        database: Database,
        /// A run of the machine, or its name as `export` writes it
        #[arg(value_name = "ID|MACHINE")]
        machine: String,
    },
    /// Check that each stored run is whole and that what is searched follows from it.
    #[command(after_help = "\
Examples:
  seekless-hub verify --database sqlite:backup.db")]
    Verify {
        #[command(flatten)]
        database: Database,
    },
    /// Write everything as lines of JSON: runs, digests of secrets, and banned machines.
    #[command(after_help = "\
Examples:
  seekless-hub export --output hub.jsonl
  seekless-hub export | gzip > hub.jsonl.gz")]
    Export {
        #[command(flatten)]
        database: Database,
        /// The file to write, which must not exist; `-` is standard output
        #[arg(long, short, value_name = "FILE", default_value = "-")]
        output: PathBuf,
    },
    /// Add the runs of an export, or of another hub's dump (/api/v1/dump.jsonl).
    ///
    /// Every run is checked as if it had been sent.
    #[command(after_help = "\
Examples:
  seekless-hub import --own hub.jsonl --database postgres://db.example/hub
  seekless-hub import others.jsonl")]
    Import {
        #[command(flatten)]
        database: Database,
        /// The file; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Take over its bans, secrets and marks, too: only for a dump of your own `seekless-hub export`
        #[arg(long)]
        own: bool,
    },
    /// Write a manual page for each command into an existing directory.
    #[command(after_help = "\
Examples:
  seekless-hub man --folder ~/.local/share/man/man1")]
    Man {
        /// The directory
        #[arg(long = "folder", value_name = "DIR")]
        directory: PathBuf,
    },
    /// Write a completion script for a shell to standard output.
    #[command(after_help = "\
Examples:
  seekless-hub completions bash > ~/.seekless-hub.bash
  seekless-hub completions zsh > ~/.zfunc/_seekless-hub")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// The commands and options that clap parses. Help, man pages and completions are made of them.
#[must_use]
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Runs the command that the arguments of this process name.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let asked = std::env::var("SEEKLESS_LOG")
        .ok()
        .and_then(|filter| filter.parse().ok());
    let filter: Targets = asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .without_time()
        // A panic message would go to standard error, which may be closed.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(log.with_filter(filter)).init();
    // A write past the file size limit (`ulimit -f`) then fails like a write to a full disk.
    if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()) {
        tracing::warn!(%error, "a write past the file size limit will end the program");
    }
    let errors = match execute(&cli.command) {
        Ok(errors) => errors,
        // The reader closed our output.
        Err(error) if is_closed_pipe(&error) => Vec::new(),
        Err(error) => vec![error],
    };
    errors.iter().for_each(complain);
    ExitCode::from(if errors.is_empty() { 0 } else { EXIT_ERROR })
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Prints the error to standard error, and a hint for those that have one.
fn complain(error: &anyhow::Error) {
    // An error is one line, so a line break in it is part of a name.
    let _ = writeln!(io::stderr(), "seekless-hub: {}", visible(&format!("{error:#}")));
    let hint = match error.chain().find_map(|cause| cause.downcast_ref()) {
        Some(StoreError::NoSuch { nearest, .. }) if nearest.is_empty() => "`seekless bench` measures one",
        Some(StoreError::NoSuch { .. }) => "`seekless runs` lists all runs; `latest` is the newest of your own",
        _ => return,
    };
    let _ = writeln!(io::stderr(), "hint: {hint}");
}

/// Runs a command; returns the errors of single runs if it goes on after them.
fn execute(command: &Command) -> anyhow::Result<Vec<anyhow::Error>> {
    let mut out = io::stdout();
    let mut failed = Vec::new();
    match command {
        Command::Serve {
            database,
            listen,
            public_url,
            rate,
            behind_proxy,
        } => {
            let options = Options {
                listen: *listen,
                database: database.url.clone(),
                public_url: public_url.clone(),
                rate: *rate,
                behind_proxy: *behind_proxy,
            };
            serve(&options, KNOWN, |address| {
                let told = writeln!(out, "The hub is at http://{address}/; Ctrl-C ends it.");
                let _ = told.and_then(|()| out.flush());
            })?;
        }
        Command::Share(arguments) => share::share(arguments, &mut out)?,
        Command::Withdraw(arguments) => share::withdraw(arguments, &mut out)?,
        Command::Fetch(arguments) => share::fetch(arguments, &mut out)?,
        Command::Remove { database, ids } => {
            let admin = Admin::open(&database.url)?;
            for id in ids {
                match admin.remove(id) {
                    Ok(true) => writeln!(out, "Removed  {}", visible(id))?,
                    Ok(false) => failed.push(anyhow!("{}: no such run", visible(id))),
                    Err(error) => failed.push(error.into()),
                }
            }
        }
        Command::Ban { database, machine } => {
            let (machine, removed) = Admin::open(&database.url)?.ban(machine)?;
            let removed = plural(removed, "run", "runs");
            writeln!(out, "Banned {}; {removed} removed.", visible(&machine))?;
        }
        Command::Verify { database } => {
            let verified = Admin::open(&database.url)?.verify(&KNOWN)?;
            failed.extend(verified.damaged.iter().map(|line| anyhow!("{}", visible(line))));
            let runs = plural(verified.runs as u64, "run", "runs");
            writeln!(out, "{runs}, {} damaged.", failed.len())?;
        }
        Command::Export { database, output } => {
            let admin = Admin::open(&database.url)?;
            if output == Path::new("-") {
                admin.export(out)?;
            } else {
                let doing = || format!("{}: cannot write", output.display());
                // An older backup is kept.
                let mut file = File::create_new(output).with_context(doing)?;
                admin.export(BufWriter::new(&mut file))?;
                file.sync_all().with_context(doing)?;
            }
        }
        Command::Import { database, file, own } => {
            let added = Admin::open(&database.url)?.import(opened(file)?, &KNOWN, *own)?;
            writeln!(out, "{} added.", plural(added as u64, "run", "runs"))?;
        }
        Command::Man { directory } => clap_mangen::generate_to(definition(), directory)
            .with_context(|| format!("{}: cannot write the pages", directory.display()))?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut definition(), "seekless-hub", &mut script);
            out.write_all(&script)?;
        }
    }
    Ok(failed)
}

fn opened(file: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).with_context(|| format!("{}: cannot open", file.display()))?;
    Ok(Box::new(BufReader::new(opened)))
}
