//! `seekless hub`: a place for results of many machines.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use seekless_hub::{Admin, Options, serve};
use seekless_lab::experiment::KNOWN;
use seekless_results::{plural, visible};

use super::{Failure, standard_input, unless_failed};
use crate::call;
use crate::show::stdout;

/// Run a hub, a place for results: it shows which methods win on which storage, over many machines.
///
/// `seekless runs share` sends a run to it, and `seekless runs fetch` brings profiles from it. The hub is part of programs that
/// were built with it: `cargo run --release --features hub -- hub serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless hub serve                        # http://127.0.0.1:8080/, kept in hub.db
  seekless hub serve --listen 0.0.0.0:80 --public-url https://hub.example
  seekless hub serve --database postgres://seekless@db.example/hub
  seekless hub verify                       # that all that is stored is whole
  seekless hub export --output hub.jsonl    # a backup
  seekless hub import --own hub.jsonl --database sqlite:other.db

For details, see `seekless hub COMMAND --help`.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
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
enum Action {
    /// Run the server.
    ///
    /// It speaks HTTP; for HTTPS, put a proxy such as nginx or Caddy before it. It keeps no accounts, sets no cookies and logs no
    /// addresses. Ctrl-C ends it.
    #[command(after_help = "\
Examples:
  seekless hub serve
  seekless hub serve --listen 127.0.0.1:8080 --behind-proxy --public-url https://hub.example")]
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
    /// Remove runs.
    #[command(after_help = "\
Examples:
  seekless hub remove 3f9c0a6b7d214e58a1b2c3d4e5f60718")]
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
  seekless hub ban 3f9c0a6b7d214e58a1b2c3d4e5f60718")]
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
  seekless hub verify --database sqlite:backup.db")]
    Verify {
        #[command(flatten)]
        database: Database,
    },
    /// Write everything as lines of JSON: runs, digests of secrets, and banned machines.
    #[command(after_help = "\
Examples:
  seekless hub export --output hub.jsonl
  seekless hub export | gzip > hub.jsonl.gz")]
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
  seekless hub import --own hub.jsonl --database postgres://db.example/hub
  seekless hub import others.jsonl")]
    Import {
        #[command(flatten)]
        database: Database,
        /// The file; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Take over its bans, secrets and marks, too: only for a dump of your own `hub export`
        #[arg(long)]
        own: bool,
    },
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.action {
        Action::Serve {
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
                let told = writeln!(stdout(), "The hub is at http://{address}/; Ctrl-C ends it.");
                let _ = told.and_then(|()| stdout().flush());
            })?;
        }
        Action::Remove { database, ids } => {
            let admin = Admin::open(&database.url)?;
            let mut failed = Vec::new();
            for id in ids {
                match admin.remove(id) {
                    Ok(true) => writeln!(stdout(), "Removed  {}", visible(id))?,
                    Ok(false) => failed.push(anyhow!("{}: no such run", visible(id))),
                    Err(error) => failed.push(error.into()),
                }
            }
            unless_failed(failed)?;
        }
        Action::Ban { database, machine } => {
            let (machine, removed) = Admin::open(&database.url)?.ban(machine)?;
            writeln!(
                stdout(),
                "Banned {}; {} removed.",
                visible(&machine),
                plural(removed, "run", "runs")
            )?;
        }
        Action::Verify { database } => {
            let verified = Admin::open(&database.url)?.verify(&KNOWN)?;
            let damaged = verified.damaged.iter().map(|line| anyhow!("{}", visible(line)));
            let damaged: Vec<_> = damaged.collect();
            writeln!(
                stdout(),
                "{}, {} damaged.",
                plural(verified.runs as u64, "run", "runs"),
                damaged.len()
            )?;
            unless_failed(damaged)?;
        }
        Action::Export { database, output } => {
            let admin = Admin::open(&database.url)?;
            if output == Path::new("-") {
                admin.export(call::output())?;
            } else {
                let doing = || format!("{}: cannot write", output.display());
                // An older backup is kept.
                let mut file = File::create_new(output).with_context(doing)?;
                admin.export(BufWriter::new(&mut file))?;
                file.sync_all().with_context(doing)?;
            }
        }
        Action::Import { database, file, own } => {
            let added = Admin::open(&database.url)?.import(opened(file)?, &KNOWN, *own)?;
            writeln!(stdout(), "{} added.", plural(added as u64, "run", "runs"))?;
        }
    }
    Ok(())
}

fn opened(file: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(standard_input()?));
    }
    let opened = File::open(file).with_context(|| format!("{}: cannot open", file.display()))?;
    Ok(Box::new(BufReader::new(opened)))
}
