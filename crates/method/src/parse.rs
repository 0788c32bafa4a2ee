//! Reading a method from its text.

use std::str::FromStr;

use crate::alias::ALIASES;
use crate::error::{ParseError, nearest};
use crate::options::{Number, OPTIONS, OptionId, OptionRow, Options, Setting, Value};
use crate::size::parse_size;
use crate::{MECHANISMS, Mechanism, Method};

impl FromStr for Method {
    type Err = ParseError;

    /// Parses `OPERATION/MECHANISM[,OPTION...]`, or a name of one of the documents, which options may follow.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (head, rest) = text.split_once(',').unwrap_or((text, ""));
        if let Some(alias) = ALIASES.iter().find(|alias| alias.name == head) {
            let base: Self = alias.method.parse()?;
            return Self::new(
                base.mechanism,
                read_options(text, base.mechanism, *base.options(), rest)?,
            );
        }
        let (name, count) = match head.split_once('=') {
            Some((name, count)) => (name, Some(count)),
            None => (head, None),
        };
        let mechanism = name.split_once('/').and_then(|(operation, name)| {
            let is_meant = |known: &&Mechanism| known.operation.name() == operation && known.name == name;
            MECHANISMS.iter().find(is_meant)
        });
        let mechanism = mechanism.filter(|known| count.is_none() || known.is_named_with(OptionId::Threads));
        let mechanism = mechanism.ok_or_else(|| unknown_method(text, head))?;
        let mut options = Options::default();
        if let (Some(count), Some(number)) = (count, &OptionId::Threads.row().number) {
            options = options.with(Setting(OptionId::Threads, Some(read_number(number, head, count)?)));
        }
        Self::new(mechanism, read_options(text, mechanism, options, rest)?)
    }
}

/// Parses the options after the mechanism, which override those given.
fn read_options(text: &str, mechanism: &Mechanism, mut options: Options, rest: &str) -> Result<Options, ParseError> {
    for option in rest.split(',').filter(|option| !option.is_empty()) {
        // Options of two operations may have the same name. An option that the operation does not have is refused
        // later.
        let rows_of = |is_own: bool| {
            let is_wanted = move |row: &&OptionRow| row.operations.contains(&mechanism.operation) == is_own;
            OPTIONS.iter().filter(is_wanted)
        };
        let mut rows = rows_of(true).chain(rows_of(false));
        let found = rows.find_map(|row| Some((row, row.read(option)?)));
        let (row, value) = found.ok_or_else(|| unknown_option(text, option, mechanism))?;
        let value = value?;
        if let Some(before) = options.get(row.id)
            && std::mem::discriminant(&before) != std::mem::discriminant(&value)
        {
            return Err(mechanism.refusal(format!("{} with {}", row.text(before), row.text(value))));
        }
        options = options.with(Setting(row.id, Some(value)));
    }
    Ok(options)
}

impl OptionRow {
    /// The value of this option in a text, if the text is for this option.
    fn read(&self, option: &str) -> Option<Result<Value, ParseError>> {
        let (key, value) = option.split_once('=').unwrap_or(("", option));
        let is_named = key == self.key || Some(key) == self.former_key;
        let word = if is_named || (self.is_bare && key.is_empty() && value != "none") {
            self.words.iter().position(|word| *word == value)
        } else {
            None
        };
        if let Some(at) = word {
            return Some(Ok(Value::Word(at as u8)));
        }
        let number = self.number.as_ref()?;
        match number.word {
            Some((word, stands_for)) if key == self.key && word == value => Some(Ok(Value::Number(stands_for))),
            _ if key == number.key => Some(read_number(number, option, value)),
            _ => None,
        }
    }

    /// All texts of this option.
    fn texts(&self) -> impl Iterator<Item = String> {
        let words = (0..self.words.len()).map(|at| self.text(Value::Word(at as u8)));
        words.chain(self.number.as_ref().map(|number| format!("{}=", number.key)))
    }
}

fn read_number(number: &Number, option: &str, text: &str) -> Result<Value, ParseError> {
    let read = if number.is_size {
        parse_size(text)
    } else {
        text.parse().map_err(|_| "not a number".to_owned())
    };
    match read {
        Ok(value) if (number.min..=number.max).contains(&value) => Ok(Value::Number(value)),
        Ok(_) => Err(ParseError::out_of_bounds(option.to_owned(), number)),
        Err(reason) => Err(ParseError::BadNumber {
            text: option.to_owned(),
            reason,
        }),
    }
}

fn unknown_option(text: &str, option: &str, mechanism: &Mechanism) -> ParseError {
    ParseError::UnknownOption {
        text: text.to_owned(),
        option: option.to_owned(),
        nearest: nearest(option, OPTIONS.iter().flat_map(OptionRow::texts)),
        mechanism: format!("{mechanism:?}"),
        taken: mechanism.options_in_words(),
    }
}

/// The error for a head that is neither mechanism nor alias, with the nearest of both.
fn unknown_method(text: &str, head: &str) -> ParseError {
    let names = MECHANISMS.iter().map(|known| format!("{known:?}"));
    let names = names.chain(ALIASES.iter().map(|alias| alias.name.to_owned()));
    ParseError::UnknownMethod {
        text: text.to_owned(),
        nearest: nearest(head, names),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::variants;

    fn canonical(text: &str) -> String {
        text.parse::<Method>()
            .map_or_else(|error| format!("error: {error}"), |method| method.to_string())
    }

    #[test]
    fn method_prints_options_in_one_order_with_defaults() {
        for (text, printed) in [
            ("read/sync", "read/sync,block=128K"),
            ("read/sync,block=1M,cache=direct", "read/sync,direct,block=1M"),
            (
                "read/io_uring,block=1M,direct,depth=8",
                "read/io_uring,depth=8,direct,block=1M",
            ),
            ("read/threads=4", "read/threads=4,block=1M"),
            ("read/sync,holes=skip,direct", "read/sync,direct,block=128K,holes=skip"),
            ("write/sync,fsync,block=4096", "write/sync,block=4K,fsync"),
            ("write/mmap", "write/mmap,preallocate=truncate"),
            ("compare/sync,order=alternate,threads=1", "compare/sync,block=128K"),
            ("compare/mmap,threads=2", "compare/mmap,threads=2,block=8M"),
            ("compare/stdio,differ=bytewise", "compare/stdio"),
            (
                "compare/sync,block=4K,kernel=linewise",
                "compare/sync,block=4K,differ=linewise",
            ),
            // It does so anyway.
            ("compare/mmap,holes=skip", "compare/mmap"),
        ] {
            assert_eq!(canonical(text), printed);
        }
        let all = "compare/sync,holes=ignore,window=64M,differ=bytewise";
        let ordered = "compare/sync,block=128K,window=64M,differ=bytewise,holes=ignore";
        assert_eq!(canonical(all), ordered);
        assert_eq!(canonical("read_direct,block=64K"), "read/sync,direct,block=64K");
        for alias in ALIASES {
            assert_eq!(canonical(alias.name), canonical(alias.method), "{}", alias.name);
        }
    }

    #[test]
    fn errors_name_the_nearest() {
        for (text, words) in [
            ("read/snyc", "`read/sync`"),
            ("read_dircet", "`read_direct`"),
            ("read/sync,block=0", "block must be between 1 and 1G"),
            ("read/sync,depth=8", "does not take"),
            ("read/sync,blok=8", "is not an option"),
            ("copy/clonefile,direct", "no options"),
            ("read/sync,order=preload", "does not take order=preload"),
            ("compare/sync,direct,window=1M", "does not take window=1M with direct"),
            ("compare/sync,order=window", "is not an option"),
            (
                "update/sync,order=rewrite,gap=4K",
                "does not take order=rewrite with gap=4K",
            ),
            ("compare/stdio,differ=memcmp", "does not take"),
            ("write/sync,holes=skip", "does not take holes=skip"),
            ("copy/reflink,holes=skip", "does not take holes=skip"),
            ("read/sync,holes=ignore", "does not take holes=ignore"),
            (
                "copy/sync,preallocate=both,holes=skip",
                "holes=skip with preallocate=both",
            ),
        ] {
            let error = canonical(text);
            assert!(error.starts_with("error") && error.contains(words), "{error}");
        }
        // What does no work is no method.
        for operation in ["read", "write", "copy", "compare", "update"] {
            assert!(canonical(&format!("{operation}/null")).starts_with("error"));
        }
    }

    #[test]
    fn every_variant_of_every_mechanism_reads_as_it_prints() {
        let mut seen = std::collections::BTreeSet::new();
        for method in MECHANISMS.iter().flat_map(variants) {
            assert_eq!(method.to_string().parse(), Ok(method));
            assert!(seen.insert(method.to_string()), "{method} comes twice");
        }
        assert!(seen.len() > 300, "{}", seen.len());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = text.parse::<Method>();
        }

        #[test]
        fn no_text_of_our_words_panics_and_what_parses_round_trips(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "read", "write", "copy", "compare", "/", "sync", "order=preload", "window=", "holes=skip", "kernel=", "bytewise", "io_uring", "mmap", "threads", "=", "4", "block", "64K", ",",
                    "direct", "hint", "sequential", "fsync", "depth", "preallocate", "both", "none", "0",
                ]),
                1..12,
            ),
        ) {
            if let Ok(method) = words.concat().parse::<Method>() {
                prop_assert_eq!(method.to_string().parse(), Ok(method));
            }
        }
    }
}
