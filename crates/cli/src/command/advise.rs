//! `seekless advise`: the method to use for a file, its predicted time, and what that rests on.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};
use seekless_engine::StorageFacts;
use seekless_engine::advice::{Question, advise};
use seekless_engine::method::{Durability, Operation};
use seekless_engine::plan::FILES_OF_SCAN;
use seekless_engine::profile::StorageName;

use seekless_results::{bytes, window_gain};

use super::methods::languages;
use super::values::{Word, one_of, size_of_at_least};
use super::{Failure, stat};
use crate::code::{LANGUAGES, Language};
use crate::config;
use crate::show::{Page, advice_json, directory_of, show_advice, show_settings, storage_settings, visible_path};

/// Say which method to use for a file, how long it will take, and how sure that is.
///
/// The answer rests on the profile of the storage, which `seekless bench` makes. Without one, it rests on what the system reports and
/// on a measurement of at most 100 ms. Apart from that, nothing is read, written or copied.
#[derive(Debug, Args)]
#[command(
    override_usage = "seekless advise [OPTIONS] <OPERATION> <PATH>\n       seekless advise [--json] <PATH> --settings",
    after_help = "\
Examples:
  seekless advise read big.iso                  # in its present cache state
  seekless advise read . --size 64M --cold      # a file that need not exist
  seekless advise read . --size 64M --cold --many  # prepared for many files
  seekless advise write /mnt/backup --size 1G --durability fsync
  seekless advise read big.iso --code python    # a program that does it
  seekless advise update pages.db --count 5000 --size 8K
  seekless advise scan photos/ --count 20000    # many small files
  seekless advise . --settings                  # what may cost time here
  seekless advise copy big.iso --json | jq -r .method"
)]
pub struct Arguments {
    /// The operation; omit it with --settings
    #[arg(value_name = "OPERATION", value_parser = SubjectParser)]
    subject: AdviceSubject,
    /// A file, or a directory in which a file of --size is assumed, or --count of them for a scan
    #[arg(required_unless_present = "settings")]
    path: Option<PathBuf>,
    /// Show the read-ahead window, scheduler and mount options of the storage of PATH, what each does, and what another
    /// read-ahead window gained in saved runs
    #[arg(long, conflicts_with_all = ["size", "count", "many", "cold", "warm", "durability", "code"])]
    settings: bool,
    /// The size of the file [default: that of PATH, or 64M in a directory]; for update, of each update [default: 4K]; for scan, of each
    /// file [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| size_of_at_least(1, "minimum is 1 byte", text))]
    size: Option<u64>,
    /// Number of evenly spaced updates, or of files in a scan [default: 1000]; otherwise of files for which a method is prepared once
    /// [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_UPDATES))]
    count: Option<u64>,
    /// Leave out set-up: buffers, rings and threads of a method that is prepared once for many files
    #[arg(long, conflicts_with = "count")]
    many: bool,
    /// Assume that none of the file is in the page cache
    #[arg(long, conflicts_with = "warm")]
    cold: bool,
    /// Assume that the whole file is in the page cache
    #[arg(long)]
    warm: bool,
    /// What must be on the device when a write, copy or update ends [default: none; of an update: fsync]
    #[arg(long, value_name = "WORD", value_parser = one_of(DURABILITIES))]
    durability: Option<Durability>,
    /// Print only a program that uses the method without seekless, with its flags, alignment and calls in a comment; only for read, write
    /// and copy
    #[arg(long, value_name = "LANGUAGE", value_parser = one_of(languages()), conflicts_with = "json")]
    code: Option<&'static Language>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The first word: an operation, or the path of which the settings are asked.
#[derive(Clone, Debug)]
enum AdviceSubject {
    Operation(Operation),
    Path(PathBuf),
}

#[derive(Clone)]
struct SubjectParser;

impl TypedValueParser for SubjectParser {
    type Value = AdviceSubject;

    fn parse_ref(&self, _: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<AdviceSubject, clap::Error> {
        let operation = value.to_str().and_then(Operation::named);
        Ok(operation.map_or_else(|| AdviceSubject::Path(value.into()), AdviceSubject::Operation))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            Operation::ALL.map(Operation::name).into_iter().map(PossibleValue::new),
        ))
    }
}

const DURABILITIES: [Word<Durability>; 3] = [
    ("none", "Nothing", Durability::None),
    ("fsync", "All data, after one fsync(2) at the end", Durability::Fsync),
    (
        "write-through",
        "All data; a write returns only when its data are on the device",
        Durability::WriteThrough,
    ),
];

/// The size of a file that is imagined.
const IMAGINED_BYTES: u64 = 64 << 20;
/// The size of each file of a scan.
const SCANNED_BYTES: u64 = 16 << 10;

/// The updates that are imagined: how many, the bytes of each, and the most that are counted in a second.
const UPDATES: u64 = 1000;
const UPDATE_BYTES: u64 = 4 << 10;
const MOST_UPDATES: u64 = 100_000_000;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (operation, path) = match (&arguments.subject, &arguments.path) {
        (AdviceSubject::Path(path), None) | (AdviceSubject::Operation(_), Some(path)) if arguments.settings => {
            return settings(path, arguments.json);
        }
        (AdviceSubject::Operation(operation), Some(path)) => (*operation, path),
        (AdviceSubject::Operation(operation), None) => return settings(Path::new(operation.name()), arguments.json),
        (AdviceSubject::Path(word), _) => {
            let words = Operation::ALL.map(Operation::name).join(", ");
            return Err(anyhow!("{}: not an operation; the operations are {words}", word.display()).into());
        }
    };
    let question = question(arguments, operation, path)?;
    let advice = advise(&question)?;
    let method = &advice.plan.method;
    let mut page = Page::stdout();
    if let Some(language) = arguments.code {
        write!(page, "{}", language.program_of_plan(method)?)?;
    } else if arguments.json {
        page.json(&advice_json(&question, &advice))?;
    } else {
        let has_program = |language: &&Language| language.program_of_plan(method).is_ok();
        let languages = LANGUAGES.iter().filter(has_program);
        let words: Vec<&str> = languages.map(|language| language.word).collect();
        show_advice(&mut page, &question, &advice, &words)?;
    }
    Ok(page.flush()?)
}

/// The question that the options ask about an operation. Fails if they do not fit it.
fn question<'a>(arguments: &Arguments, operation: Operation, path: &'a Path) -> anyhow::Result<Question<'a>> {
    let (is_update, is_scan) = (operation == Operation::Update, operation == Operation::Scan);
    if arguments.many && (is_update || is_scan) {
        bail!("--many is only for reads, writes, copies and comparisons of one file each");
    }
    let changes_files = matches!(operation, Operation::Write | Operation::Copy | Operation::Update);
    if arguments.durability.is_some() && !changes_files {
        bail!("--durability is only for writes, copies and updates");
    }
    let updates = is_update.then(|| {
        let (count, size) = (arguments.count, arguments.size);
        (count.unwrap_or(UPDATES), size.unwrap_or(UPDATE_BYTES))
    });
    if let Some(updates) = updates {
        refuse_too_many(path, updates)?;
    }
    let imagined = match operation {
        Operation::Scan => Some(SCANNED_BYTES),
        _ => path.is_dir().then_some(IMAGINED_BYTES),
    };
    let count = arguments.count.filter(|_| is_scan);
    Ok(Question {
        operation,
        path,
        bytes: arguments.size.or(imagined),
        resident: match (arguments.cold, arguments.warm) {
            (true, _) => Some(0.0),
            (_, true) => Some(1.0),
            _ => None,
        },
        durability: match (operation, arguments.durability) {
            (Operation::Update, None) => Durability::Fsync,
            (_, asked) => asked.unwrap_or_default(),
        },
        prepared_for: match arguments.count {
            _ if arguments.many => u64::MAX,
            Some(count) if !is_update && !is_scan => count,
            _ => 1,
        },
        files: count.unwrap_or(if is_scan { FILES_OF_SCAN } else { 1 }),
        updates,
    })
}

/// Shows the settings of the storage of a path that may cost time.
fn settings(path: &Path, is_json: bool) -> Result<(), Failure> {
    let facts = StorageFacts::of(path)?;
    let directory = directory_of(path);
    let gain = facts.read_ahead_kib.and_then(|kib| {
        let name = StorageName::of(directory).ok()?.file;
        let runs = config::store().ok()?.runs_of(&name).ok()?;
        runs.iter().find_map(|run| window_gain(run, kib))
    });
    let settings = storage_settings(&facts, gain);
    let mut page = Page::stdout();
    if is_json {
        page.json(&settings)?;
    } else {
        show_settings(&mut page, &settings, &visible_path(directory))?;
    }
    Ok(page.flush()?)
}

/// Fails if updates at equal distances would overlap.
fn refuse_too_many(path: &Path, (count, each): (u64, u64)) -> anyhow::Result<()> {
    let found = stat(path)?;
    if found.is_file() && count.saturating_mul(each) > found.len() {
        let [all, file] = [each, found.len()].map(bytes);
        bail!(
            "{}: {count} updates of {all} do not fit into {file}; reduce --count or --size",
            path.display()
        );
    }
    Ok(())
}
