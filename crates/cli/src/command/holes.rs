//! `seekless holes`: showing, making and filling the holes of files.

use std::fs::Metadata;
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};

use seekless_engine::method::parse_size;
use seekless_engine::plan::Scan;
use seekless_results::bytes;
use seekless_tools::holes::{self, Dig, Dug, Filled, HoleEvent, HoleStretch, Shown};
use seekless_tools::walk::{FileAt, Selection};
use seekless_tools::{ClosureWatch, JobWatch, Stop};

use super::confirm::require_agreement;
use super::values::JsonOptions;
use super::{Failure, expect_wishes, raise_open_files, unless_printed, unless_stopped, unwritten};
use crate::show::{
    Amount, HoleLines, HolesPicture, HolesSum, PROGRESS, Page, Width, show_punched, showing, stdout, tell_scan,
    visible_path,
};
use crate::signals::stopping;

/// Show the holes of files, turn zeros into holes, and punch and fill holes.
///
/// A hole is a part of a file that has no blocks on the disk and reads as zeros. A file is changed only while no other
/// process has it open: seekless takes a lease, and a process that opens the file meanwhile waits. Freed space is as
/// reported by the file system.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless holes show disk.img          # data and holes, and a picture
  seekless holes dig disk.img           # zeros that take space become holes
  seekless holes punch log 0 1G         # the first GiB becomes a hole
  seekless holes fill disk.img          # allocate blocks for its holes

For details, see `seekless holes COMMAND --help`.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(Show),
    Dig(DigArguments),
    Punch(Punch),
    /// Allocate blocks for the holes of files, so that writing there cannot fail for lack of space.
    ///
    /// Bytes, size and times stay the same. The blocks are reserved: they read as zeros, without access to the device.
    #[command(after_help = "\
Examples:
  seekless holes fill disk.img          # before a virtual machine runs from it
  seekless holes fill -r databases      # all files in a directory")]
    Fill(Fill),
}

#[derive(Debug, Args)]
struct Fill {
    #[command(flatten)]
    which: FileArguments,
    #[command(flatten)]
    sharing: Sharing,
}

/// What others may do meanwhile.
#[derive(Debug, Args)]
struct Sharing {
    /// Work even where other processes cannot be kept out; what they write meanwhile may be lost
    #[arg(long = "unsafe")]
    is_unsafe: bool,
}

/// Show which parts of files are data and which are holes, and how much space they take.
///
/// In the picture, a full block is data, a lower block is data and holes (half of each is half as high), a light block
/// is reserved (allocated and never written), and a dot is a hole. --scan also reads the data and counts the zeros that
/// `dig` would turn into holes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless holes show disk.img                # a line and a picture
  seekless holes show --scan -r /srv/images   # how much digging would find
  seekless holes show --map disk.img          # the place of each hole
  seekless holes show --json *.img | jq '.results[].hole_bytes'")]
struct Show {
    #[command(flatten)]
    which: FileArguments,
    /// Read the data and look for zeros that take space
    #[arg(long)]
    scan: bool,
    /// List each stretch of data and each hole
    #[arg(long)]
    map: bool,
    /// Explain on standard error how it was scanned, with the predicted and actual time and the facts used
    #[arg(long, requires = "scan")]
    explain: bool,
}

/// Turn zeros that take space into holes.
///
/// A file's bytes, size, times, mode and owner stay the same, even if the process is killed. A file that another process
/// has open is refused. If another process opens it meanwhile, digging stops.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless holes dig disk.img               # in place
  seekless holes dig --dry-run -r images    # what it would find
  seekless holes dig --min 1M database      # leave short runs of zeros alone")]
struct DigArguments {
    #[command(flatten)]
    which: FileArguments,
    /// Skip runs of zeros that are shorter than SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "0", hide_default_value = true)]
    min: u64,
    /// Also free blocks that are reserved past the end of the file
    #[arg(long, conflicts_with = "dry_run")]
    past_end: bool,
    /// Only search for zeros; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Read each file before and after, and compare SHA-256 digests
    #[arg(long, conflicts_with = "dry_run")]
    verify: bool,
    /// Explain on standard error how zeros were found, with the predicted and actual time and the facts used
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    sharing: Sharing,
}

/// Punch a hole into a file: the data there is lost, and reads as zeros.
///
/// If there is data in the range, seekless says how much, and asks. Blocks that are only partly in the hole stay
/// allocated. The size of the file stays the same.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless holes punch log 0 1G         # the first GiB
  seekless holes punch disk.img 4K 64K  # 64 KiB, from byte 4096
  seekless holes punch --yes log 0 1G   # in a script, which cannot be asked")]
struct Punch {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the hole starts
    #[arg(value_parser = parse_size)]
    offset: u64,
    /// Length of the hole, which must end within the file
    #[arg(value_parser = parse_size)]
    length: u64,
    /// Punch without asking
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    sharing: Sharing,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct FileArguments {
    /// Files, and directories with -r
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
        Action::Show(arguments) => show(arguments),
        Action::Dig(arguments) => dig(arguments),
        Action::Fill(arguments) => fill(arguments),
        Action::Punch(arguments) => punch(arguments),
    }
}

fn show(arguments: &Show) -> Result<(), Failure> {
    let width = Width::of_stdout();
    let work = |file: &FileAt, watch: &dyn JobWatch| {
        let mut picture = HolesPicture::of(file.path(), width, arguments.map);
        let add = |stretch: &HoleStretch| {
            picture.add(stretch);
            ControlFlow::Continue(())
        };
        let watch = ClosureWatch::new(watch.stop(), |progress| watch.progress(progress), add);
        let shown = holes::show(file, arguments.scan, &watch)?;
        Ok((shown, picture))
    };
    let reads = arguments.scan.then_some(("scanning", 1));
    let sum = HolesSum::Shown(Shown::none(arguments.scan));
    let (which, explain) = (&arguments.which, arguments.explain);
    each(which, reads, sum, None, explain, work, |lines, (shown, picture)| {
        lines.shown(&shown, picture)
    })
}

fn dig(arguments: &DigArguments) -> Result<(), Failure> {
    let how = Dig {
        min_bytes: arguments.min,
        dry_run: arguments.dry_run,
        verify: arguments.verify,
        past_end: arguments.past_end,
        is_unsafe: arguments.sharing.is_unsafe,
    };
    let done = (!how.dry_run).then_some("dug");
    let work = |file: &FileAt, watch: &dyn JobWatch| holes::dig(file, how, watch);
    let reads = if how.verify { ("verifying", 3) } else { ("digging", 1) };
    let sum = HolesSum::Dug {
        sum: Dug::default(),
        how,
    };
    let (which, explain) = (&arguments.which, arguments.explain);
    each(which, Some(reads), sum, done, explain, work, |lines, dug| {
        lines.dug(&dug, how)
    })
}

fn fill(arguments: &Fill) -> Result<(), Failure> {
    let work = |file: &FileAt, _: &dyn JobWatch| holes::fill(file, arguments.sharing.is_unsafe);
    let sum = HolesSum::Filled(Filled::default());
    each(
        &arguments.which,
        None,
        sum,
        Some("filled"),
        false,
        work,
        |lines, filled| lines.filled(&filled),
    )
}

fn punch(arguments: &Punch) -> Result<(), Failure> {
    expect_wishes()?;
    let (file, shown) = (FileAt::named(&arguments.file), visible_path(&arguments.file));
    let is_unsafe = arguments.sharing.is_unsafe;
    let range = holes::punch_range(&file, arguments.offset, arguments.length, is_unsafe)?;
    if range.data_bytes > 0 && !arguments.yes {
        let (size, offset) = (bytes(range.data_bytes), range.offset);
        let data = format!("{shown}: {size} of data from byte {offset}");
        require_agreement(
            &format!("{data} will be lost. Punch it?"),
            &format!("{data} would be lost; use --yes to punch it, as nobody can be asked without a terminal"),
        )?;
    }
    let punched = holes::punch(&file, &range, is_unsafe)?;
    let told = show_punched(&mut Page::stdout(), &punched, arguments.json);
    let done = format!("{shown}: the hole is punched");
    Ok(told.with_context(|| unwritten(Some(&done)))?)
}

/// Works on each file. `reads` is the verb of the progress line and how often the bytes are read; `done` is the
/// participle for what was done, if files are changed.
fn each<T: Send>(
    which: &FileArguments,
    reads: Option<(&'static str, u64)>,
    sum: HolesSum,
    done: Option<&str>,
    explain: bool,
    work: impl Fn(&FileAt, &dyn JobWatch) -> holes::Result<T> + Sync,
    tell: impl Fn(&mut HoleLines<'_>, T) -> io::Result<()> + Sync,
) -> Result<(), Failure> {
    expect_wishes()?;
    let (stop, caught) = stopping(Stop::stop)?;
    let started = Instant::now();
    let page = Page::new(BufWriter::new(stdout()), Width::of_stdout());
    let mut lines = HoleLines::new(page, which.json.form(), sum);
    let selection = which.selection(&mut lines).context(unwritten(None))?;
    if let Some((doing, times)) = reads {
        let bytes = which.bytes().map(|bytes| times * bytes);
        PROGRESS.begin(true, doing, visible_path(&which.paths[0]), Amount::Bytes(bytes));
    }
    let mut untold = None;
    let each = |HoleEvent { path, result }: HoleEvent<'_, holes::Result<T>>| {
        let written = match result {
            Ok(Ok(it)) => tell(&mut lines, it),
            Ok(Err(error)) => lines.failed(path, &error.into()),
            Err(reason) => lines.failed(path, &anyhow!("{}: {reason}", path.display())),
        };
        let Err(error) = written else {
            return ControlFlow::Continue(());
        };
        let later = if which.recursive {
            ", and later files may be"
        } else {
            ""
        };
        let done = done.map(|done| format!("{}: was {done}{later}", visible_path(path)));
        untold = Some(anyhow!(error).context(unwritten(done.as_deref())));
        ControlFlow::Break(())
    };
    let work = |file: &FileAt, watch: &dyn JobWatch| {
        PROGRESS.name(|| visible_path(file.path()));
        work(file, watch)
    };
    let watch = showing(&stop, each);
    let left = holes::each_file(&selection, work, &watch);
    PROGRESS.end();
    if untold.is_none() {
        let done = done.map(|done| format!("the files were {done}"));
        let finished = lines.finish(&left, caught.signal().is_some());
        untold = finished.context(unwritten(done.as_deref())).err();
    }
    if explain {
        tell_how(&which.paths[0], lines.scanned(), started);
    }
    if let Some(untold) = untold {
        return Err(untold.into());
    }
    unless_stopped(&caught)?;
    unless_printed(lines.has_failed())
}

impl FileArguments {
    /// The files to work on. Directories are refused, except with -r.
    fn selection(&self, lines: &mut HoleLines<'_>) -> io::Result<Selection> {
        let is_refused = |path: &&PathBuf| !self.recursive && path.is_dir();
        let (refused, taken): (Vec<_>, Vec<_>) = self.paths.iter().partition(is_refused);
        for path in refused {
            let error = anyhow!("{}: is a directory; use -r for the files in it", path.display());
            lines.failed(path, &error)?;
        }
        Ok(Selection::new(taken, self.all_file_systems))
    }

    /// The sum of the sizes of files; `None` with -r, as it is not known before they are found.
    fn bytes(&self) -> Option<u64> {
        let files = self.paths.iter().filter_map(|path| path.metadata().ok());
        let bytes = files.filter(Metadata::is_file).map(|file| file.len());
        (!self.recursive).then(|| bytes.sum())
    }
}

/// How files were scanned for zeros.
fn tell_how(path: &Path, [files, scanned_bytes]: [u64; 2], started: Instant) {
    let scan = Scan {
        files,
        bytes: scanned_bytes,
        resident: None,
    };
    let (together, piece) = (bytes(holes::BUFFER_BYTES as u64), bytes(holes::PIECE_BYTES));
    let why = format!(
        "data is read {together} at a time, which costs less than mapping it; files longer than {piece} are split among threads"
    );
    tell_scan("holes", path, &scan, ["scan", &why], started.elapsed());
}
