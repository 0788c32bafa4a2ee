//! `seekless holes`: what of files is holes, and making and filling them.

use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use seekless::Operation;
use seekless::method::parse_size;
use seekless::plan::{SCAN, Scan};
use seekless_results::bytes;
use seekless_tools::Stop;
use seekless_tools::holes::{self, Dig, Dug, Filled, Shown};
use seekless_tools::walk::{FileAt, Selection};
use signal_hook::consts::SIGIO;

use super::values::JsonOptions;
use super::{Failure, raise_open_files, unless_stopped, unwritten};
use crate::show::{HoleLines, Page, Picture, Sum, Width, show_punched, tell_scan, visible_path};
use crate::signals::{stopping, survive};

/// Shows holes of files, makes them where zeros are, punches and fills them.
///
/// A hole is a part of a file that has no blocks on the disk and reads as zeros. A file is changed only while nobody else
/// has it open (a lease is taken, and who wants to open it waits), and what was freed is what the file system says
/// afterwards.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless holes show disk.img          # data and holes, and a picture
  seekless holes dig disk.img           # zeros that take space become holes
  seekless holes punch log 0 1G         # the first GiB becomes a hole
  seekless holes fill disk.img          # allocate what it may grow into

`seekless holes show --help` and so on say more.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(Show),
    Dig(DigArguments),
    Punch(Punch),
    /// Gives the holes of files blocks again, so that writing there cannot find the disk full.
    ///
    /// Bytes, size and times stay what they are. The blocks are reserved: they still read as zeros, without being read.
    #[command(after_help = "\
Examples:
  seekless holes fill disk.img          # before a machine runs from it
  seekless holes fill -r databases      # all files in a directory")]
    Fill(Which),
}

/// Shows what of files is data, what holes, and what they take.
///
/// In the picture a full block is data, a light one reserved (allocated and never written), a dot a hole. Zeros in the data,
/// which `dig` would make holes of, are looked for with --scan: that reads the files.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless holes show disk.img                # a line and a picture
  seekless holes show --scan -r /srv/images   # how much digging would find
  seekless holes show --map disk.img          # each stretch
  seekless holes show --json *.img | jq '.results[].hole_bytes'")]
struct Show {
    #[command(flatten)]
    which: Which,
    /// Read the data and look for zeros that take space
    #[arg(long)]
    scan: bool,
    /// Each stretch of data and each hole
    #[arg(long)]
    map: bool,
    /// Explain on standard error how it was scanned, with the predicted and actual time and the facts used
    #[arg(long, requires = "scan")]
    explain: bool,
}

/// Makes holes of zeros that take space.
///
/// A file's bytes, size, times, mode and owner stay what they are; a kill in the middle leaves its bytes as they were.
/// Refused where somebody else has the file open, and ended where somebody wants to.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless holes dig disk.img               # in place
  seekless holes dig --dry-run -r images    # what it would find
  seekless holes dig --min 1M database      # leave short runs of zeros alone")]
struct DigArguments {
    #[command(flatten)]
    which: Which,
    /// Leave runs of zeros that are shorter
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "0", hide_default_value = true)]
    min: u64,
    /// Only look for zeros, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Read all of a file before and after, and compare digests (SHA-256)
    #[arg(long, conflicts_with = "dry_run")]
    verify: bool,
    /// Explain on standard error how zeros were found, with the predicted and actual time and the facts used
    #[arg(long)]
    explain: bool,
}

/// Makes a hole of a part of a file: what was there is gone, and reads as zeros.
///
/// Blocks of which only a part is in the hole take their space as before. The size stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless holes punch log 0 1G         # the first GiB
  seekless holes punch disk.img 4K 64K  # 64 KiB, from byte 4096")]
struct Punch {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the hole begins
    #[arg(value_parser = parse_size)]
    offset: u64,
    /// How long it is; what lies behind the end of the file does not count
    #[arg(value_parser = parse_size)]
    length: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Which {
    /// Files, and with -r directories
    #[arg(value_name = "FILE", required = true)]
    paths: Vec<PathBuf>,
    /// Process directories recursively; symbolic links inside them are not followed
    #[arg(long, short)]
    recursive: bool,
    /// Enter directories of other file systems, too
    #[arg(long, requires = "recursive")]
    all_file_systems: bool,
    #[command(flatten)]
    json: JsonOptions,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    raise_open_files();
    match &arguments.action {
        Action::Show(show) => {
            let width = Width::of_stdout();
            let work = |file: &FileAt, stop: &Stop| {
                let mut picture = Picture::of(file.path(), width, show.map);
                let shown = holes::show(file, show.scan, stop, &mut |stretch| picture.add(stretch))?;
                Ok((shown, picture))
            };
            let sum = Sum::Shown(Shown::none(show.scan));
            each(&show.which, sum, None, show.explain, work, |lines, (shown, picture)| {
                lines.shown(&shown, picture)
            })
        }
        Action::Dig(dig) => {
            let how = Dig {
                min_bytes: dig.min,
                dry_run: dig.dry_run,
                verify: dig.verify,
            };
            let done = (!dig.dry_run).then_some("dug");
            let work = |file: &FileAt, stop: &Stop| holes::dig(file, how, stop);
            let sum = Sum::Dug(Dug::default(), how);
            each(&dig.which, sum, done, dig.explain, work, |lines, dug| {
                lines.dug(&dug, how)
            })
        }
        Action::Fill(fill) => {
            let work = |file: &FileAt, _: &Stop| holes::fill(file);
            let sum = Sum::Filled(Filled::default());
            each(fill, sum, Some("filled"), false, work, |lines, filled| {
                lines.filled(&filled)
            })
        }
        Action::Punch(punch) => {
            expect_wishes()?;
            let punched = holes::punch(&FileAt::named(&punch.file), punch.offset, punch.length)?;
            let told = show_punched(&mut Page::stdout(), &punched, punch.json);
            let done = format!("{}: the hole is punched", visible_path(&punch.file));
            Ok(told.with_context(|| unwritten(Some(&done)))?)
        }
    }
}

/// Who wants to open a file that is held has this process told by a signal that would end it.
fn expect_wishes() -> anyhow::Result<()> {
    survive(SIGIO).context("catching SIGIO failed")
}

/// Works on each of the files; `done` is the word for what has become of a file behind it, where it is changed.
fn each<T: Send>(
    which: &Which,
    sum: Sum,
    done: Option<&str>,
    explain: bool,
    work: impl Fn(&FileAt, &Stop) -> holes::Result<T> + Sync,
    tell: impl Fn(&mut HoleLines<'_>, T) -> std::io::Result<()>,
) -> Result<(), Failure> {
    expect_wishes()?;
    let (stop, caught) = stopping(Stop::stop)?;
    let started = Instant::now();
    let out = BufWriter::new(anstream::stdout().lock());
    let mut lines = HoleLines::new(Page::new(out, Width::of_stdout()), which.json.form(), sum);
    let (refused, taken): (Vec<_>, Vec<_>) = (which.paths.iter()).partition(|path| !which.recursive && path.is_dir());
    for path in refused {
        let error = anyhow!("{}: is a directory; use -r for the files in it", path.display());
        lines.failed(path, &error).context(unwritten(None))?;
    }
    let selection = Selection::new(taken, which.all_file_systems);
    let mut untold = None;
    let each = |path: &Path, worked: Result<holes::Result<T>, String>| {
        let written = match worked {
            Ok(Ok(it)) => tell(&mut lines, it),
            Ok(Err(error)) => lines.failed(path, &error.into()),
            Err(reason) => lines.failed(path, &anyhow!("{}: {reason}", path.display())),
        };
        let Err(error) = written else {
            return ControlFlow::Continue(());
        };
        let behind = if which.recursive {
            ", and files behind it may be"
        } else {
            ""
        };
        let done = done.map(|done| format!("{}: is {done}{behind}", visible_path(path)));
        untold = Some(anyhow!(error).context(unwritten(done.as_deref())));
        ControlFlow::Break(())
    };
    let left = holes::each_file(&selection, &stop, |file| work(file, &stop), each);
    if untold.is_none() {
        let done = done.map(|done| format!("what could be is {done}"));
        let finished = lines.finish(&left, caught.signal().is_some());
        untold = finished.context(unwritten(done.as_deref())).err();
    }
    if explain {
        let [files, bytes] = lines.scanned();
        tell_how(&which.paths[0], files, bytes, started);
    }
    if let Some(untold) = untold {
        return Err(untold.into());
    }
    unless_stopped(&caught)?;
    // They were told as they came.
    lines.is_all_done().then_some(()).ok_or(Failure::Errors(Vec::new()))
}

/// How files were scanned for zeros.
fn tell_how(path: &Path, files: u64, scanned_bytes: u64, started: Instant) {
    let scan = Scan {
        operation: Operation::Read,
        files,
        bytes: scanned_bytes,
        resident: None,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let why = format!(
        "data is read {} at a time, which costs less than mapping it; files longer than {} are split among threads",
        bytes(SCAN.buffer_bytes as u64),
        bytes(SCAN.piece_bytes)
    );
    tell_scan("holes", path, &scan, ["scan", &why], started.elapsed());
}
