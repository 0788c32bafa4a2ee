//! `seekless advise`: the method to use for a file, its predicted time, and what that rests on.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use seekless::advice::{Question, advise};
use seekless::method::{Durability, Operation};

use super::Failure;
use super::values::{Word, one_of};
use crate::code::LANGUAGES;
use crate::show::{Page, advice_json, json_text, show_advice};

/// Say which method to use for a file, how long it will take, and how sure that is.
///
/// The answer rests on what `seekless bench` measured on the storage (its profile), and otherwise on a measurement of at most 100
/// ms and on what the system reports. Apart from that, nothing is read, written or copied.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless advise read big.iso                  # in its present cache state
  seekless advise read . --size 64M --cold      # a file that need not exist
  seekless advise write /mnt/backup --size 1G --durability fsync
  seekless advise copy big.iso --json | jq -r .method")]
pub struct Arguments {
    /// The operation
    #[arg(value_parser = operations())]
    operation: Operation,
    /// A file, or a directory for a file that need not exist
    path: PathBuf,
    /// The size of the file [default: that of PATH, or 64M in a directory]
    #[arg(long, value_name = "SIZE", value_parser = seekless::method::parse_size)]
    size: Option<u64>,
    /// Assume that none of the file is in the page cache
    #[arg(long, conflicts_with = "warm")]
    cold: bool,
    /// Assume that the whole file is in the page cache
    #[arg(long)]
    warm: bool,
    /// What must be on the device when a write or copy ends
    #[arg(long, value_name = "WORD", value_parser = one_of(DURABILITIES), default_value = "none")]
    durability: Durability,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The operations on which there is advice.
const OPERATIONS: [&str; 4] = ["read", "write", "copy", "compare"];

fn operations() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(OPERATIONS).try_map(|word| Operation::named(&word).ok_or("no such word"))
}

const DURABILITIES: [Word<Durability>; 3] = [
    ("none", "Nothing", Durability::None),
    ("fsync", "All of it, by fsync(2) at the end", Durability::Fsync),
    ("write-through", "Each write when it returns", Durability::WriteThrough),
];

/// The size of a file that is imagined.
const IMAGINED_BYTES: u64 = 64 << 20;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let operation = arguments.operation;
    let is_written = matches!(operation, Operation::Write | Operation::Copy);
    let imagined = arguments.path.is_dir().then_some(IMAGINED_BYTES);
    let question = Question {
        operation,
        path: &arguments.path,
        bytes: arguments.size.or(imagined),
        resident: match (arguments.cold, arguments.warm) {
            (true, _) => Some(0.0),
            (_, true) => Some(1.0),
            _ => None,
        },
        durability: if is_written {
            arguments.durability
        } else {
            Durability::None
        },
    };
    let advice = advise(&question)?;
    let mut page = Page::stdout();
    if arguments.json {
        write!(page, "{}", json_text(&advice_json(&question, &advice))?)?;
    } else {
        let can_print = LANGUAGES
            .iter()
            .any(|language| language.program(&advice.plan.method).is_ok());
        show_advice(&mut page, &question, &advice, can_print)?;
    }
    Ok(page.flush()?)
}
