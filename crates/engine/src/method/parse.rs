//! Reading a method from its text.

use std::str::FromStr;

use super::alias::ALIASES;
use super::enumerate::mechanisms;
use super::size::parse_size;
use super::{
    CachePolicy, Comparing, Durability, Hint, Mechanism, Method, Operation, Options, Order, Preallocate, UpdateOrder,
};

/// Why a text is no method, with the nearest names where there are any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(super) fn new(sentence: String) -> Self {
        Self(sentence)
    }
}

impl FromStr for Method {
    type Err = ParseError;

    /// Reads `OPERATION/MECHANISM[,OPTION...]`, or a name of the 2014 document with options behind it.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (head, rest) = text.split_once(',').unwrap_or((text, ""));
        if let Some(alias) = ALIASES.iter().find(|alias| alias.name == head) {
            let base: Self = alias.method.parse()?;
            return Self::new(base.mechanism, read_options(text, *base.options(), rest)?);
        }
        let Some((operation, mechanism)) = head.split_once('/') else {
            return Err(unknown(text, head));
        };
        let operation = Operation::ALL.into_iter().find(|known| known.name() == operation);
        let operation = operation.ok_or_else(|| unknown(text, head))?;
        let (name, count) = match mechanism.split_once('=') {
            Some((name, count)) => (name, Some(count)),
            None => (mechanism, None),
        };
        let mechanism = mechanisms().find(|known| known.operation == operation && known.name == name);
        let mechanism: &'static Mechanism = mechanism.ok_or_else(|| unknown(text, head))?;
        let mut options = Options::default();
        if let Some(count) = count {
            options.threads = Some(read_count(text, count)?);
        }
        Self::new(mechanism, read_options(text, options, rest)?)
    }
}

/// Reads the options behind the mechanism, over those given.
fn read_options(text: &str, mut options: Options, rest: &str) -> Result<Options, ParseError> {
    let wrong = |option: &str, known: &str| {
        let meant = did_you_mean(&nearest(option, WORDS.iter().map(|&word| word.to_owned())));
        ParseError::new(format!(
            "`{option}` in `{text}` is no option{meant}; the options are {known}"
        ))
    };
    for option in rest.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "block" => options.block_bytes = Some(parse_size(value).map_err(ParseError::new)?),
            "depth" => options.depth = Some(read_count(text, value)?),
            "threads" => options.threads = Some(read_count(text, value)?),
            "cache" => options.cache = CachePolicy::from_name(value).ok_or_else(|| wrong(option, OPTIONS))?,
            "hint" => options.hint = Hint::from_name(value).ok_or_else(|| wrong(option, HINTS))?,
            "preallocate" => {
                options.preallocate = Preallocate::from_name(value).ok_or_else(|| wrong(option, OPTIONS))?;
            }
            "durability" => options.durability = Durability::from_name(value).ok_or_else(|| wrong(option, OPTIONS))?,
            "kernel" => {
                options.comparing = Some(Comparing::from_name(value).ok_or_else(|| wrong(option, OPTIONS))?);
            }
            "window" => options.order = Order::Window(parse_size(value).map_err(ParseError::new)?),
            "order" => {
                let mut known = Order::ALL.iter().filter(|order| !matches!(order, Order::Window(_)));
                if let Some(order) = known.find(|order| order.text() == option) {
                    options.order = *order;
                } else {
                    let of_updates = UpdateOrder::ALL.iter().find(|order| order.name() == value);
                    options.update_order = Some(*of_updates.ok_or_else(|| wrong(option, OPTIONS))?);
                }
            }
            "gap" => match options.update_order {
                None | Some(UpdateOrder::Coalesce(_)) => {
                    options.update_order = Some(UpdateOrder::Coalesce(parse_size(value).map_err(ParseError::new)?));
                }
                Some(order) => {
                    let order = order.text();
                    return Err(ParseError::new(format!("`{text}` has a gap, which {order} has not")));
                }
            },
            "identity" if value == "ignore" => options.identity_ignored = true,
            "holes" if value == "ignore" => (options.holes_ignored, options.holes_skipped) = (true, false),
            "holes" if value == "skip" => (options.holes_ignored, options.holes_skipped) = (false, true),
            word => match (CachePolicy::from_name(word), Durability::from_name(word)) {
                (Some(policy), _) if value.is_empty() => options.cache = policy,
                (_, Some(durability)) if value.is_empty() && word != "none" => options.durability = durability,
                _ => return Err(wrong(option, OPTIONS)),
            },
        }
    }
    Ok(options)
}

const OPTIONS: &str = "block=SIZE, depth=N, cached, direct, dontcache, hint=WORD, \
    preallocate=allocate|truncate|both, fsync, write-through, \
    of read and copy holes=skip, \
    and of compare threads=N, order=alternate|preload|parallel, window=SIZE, kernel=memcmp|bytewise|linewise, \
    identity=ignore, holes=ignore, \
    and of update order=ascending|as-given|rewrite|coalesce, gap=SIZE";
/// What options are written as, for those who mistype one.
const WORDS: &[&str] = &[
    "block=",
    "depth=",
    "threads=",
    "cached",
    "direct",
    "dontcache",
    "hint=none",
    "hint=sequential",
    "hint=sequential-noreuse",
    "hint=willneed",
    "hint=readahead",
    "hint=populate",
    "hint=rdahead",
    "hint=rdadvise",
    "preallocate=none",
    "preallocate=allocate",
    "preallocate=truncate",
    "preallocate=both",
    "fsync",
    "write-through",
    "order=alternate",
    "order=preload",
    "order=parallel",
    "window=",
    "kernel=memcmp",
    "kernel=bytewise",
    "kernel=linewise",
    "identity=ignore",
    "holes=ignore",
    "holes=skip",
    "order=ascending",
    "order=as-given",
    "order=rewrite",
    "order=coalesce",
    "gap=",
];
const HINTS: &str = "hint=none|sequential|sequential-noreuse|willneed|readahead|populate|rdahead|rdadvise";

fn read_count(text: &str, count: &str) -> Result<u32, ParseError> {
    count
        .parse()
        .map_err(|_| ParseError::new(format!("`{count}` in `{text}` is no number of 1 to 4096")))
}

/// The error for a head that is neither mechanism nor alias, with the nearest of both.
fn unknown(text: &str, head: &str) -> ParseError {
    let names = mechanisms().map(|known| format!("{known:?}"));
    let names = names.chain(ALIASES.iter().map(|alias| alias.name.to_owned()));
    let meant = did_you_mean(&nearest(head, names));
    ParseError::new(format!("`{text}` is no method{meant}; `seekless methods` lists all"))
}

/// A question about the names that look like the one given, in brackets, or nothing.
fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() {
        String::new()
    } else {
        format!(" (did you mean {}?)", nearest.join(" or "))
    }
}

/// Up to three names that look like `given`.
pub(crate) fn nearest(given: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let mut scored: Vec<(f64, String)> = names
        .map(|name| (strsim::jaro_winkler(given, &name), name))
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored
        .into_iter()
        .take(3)
        .map(|(_, name)| format!("`{name}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::method::variants;

    fn canonical(text: &str) -> String {
        text.parse::<Method>()
            .map_or_else(|error| format!("error: {error}"), |method| method.to_string())
    }

    #[test]
    fn options_print_in_one_order_with_defaults_filled_in() {
        assert_eq!(canonical("read/sync"), "read/sync,block=128K");
        assert_eq!(
            canonical("read/sync,block=1M,cache=direct"),
            "read/sync,direct,block=1M"
        );
        assert_eq!(
            canonical("read/io_uring,block=1M,direct,depth=8"),
            "read/io_uring,depth=8,direct,block=1M"
        );
        assert_eq!(canonical("read/threads=4"), "read/threads=4,block=1M");
        assert_eq!(canonical("write/sync,fsync,block=4096"), "write/sync,block=4K,fsync");
        assert_eq!(canonical("write/mmap"), "write/mmap,preallocate=truncate");
        assert_eq!(
            canonical("compare/sync,order=alternate,threads=1"),
            "compare/sync,block=128K"
        );
        assert_eq!(
            canonical("compare/sync,holes=ignore,window=64M,kernel=bytewise"),
            "compare/sync,block=128K,window=64M,kernel=bytewise,holes=ignore"
        );
        assert_eq!(canonical("compare/mmap,threads=2"), "compare/mmap,threads=2,block=8M");
        assert_eq!(canonical("compare/stdio,kernel=bytewise"), "compare/stdio");
        assert_eq!(
            canonical("read/sync,holes=skip,direct"),
            "read/sync,direct,block=128K,holes=skip"
        );
        assert_eq!(
            canonical("compare/mmap,holes=skip"),
            "compare/mmap",
            "it does so anyway"
        );
    }

    #[test]
    fn names_of_2014_are_accepted_with_options() {
        assert_eq!(canonical("read_direct,block=64K"), "read/sync,direct,block=64K");
        for alias in ALIASES {
            let method: Method = alias
                .name
                .parse()
                .unwrap_or_else(|error| panic!("{}: {error}", alias.name));
            assert_eq!(method.to_string(), canonical(alias.method), "{}", alias.name);
        }
    }

    #[test]
    fn errors_name_the_nearest() {
        assert!(
            canonical("read/snyc").contains("`read/sync`"),
            "{}",
            canonical("read/snyc")
        );
        assert!(canonical("read_dircet").contains("`read_direct`"));
        assert!(canonical("read/sync,block=0").starts_with("error: a block"));
        assert!(canonical("read/sync,depth=8").contains("does not take"));
        assert!(canonical("read/sync,blok=8").contains("is no option"));
        assert!(canonical("copy/clonefile,direct").contains("no options"));
        // What does no work is no method.
        for operation in ["read", "write", "copy", "compare", "update"] {
            assert!(canonical(&format!("{operation}/null")).starts_with("error"));
        }
        assert!(canonical("read/sync,order=preload").contains("does not take order=preload"));
        assert!(canonical("compare/sync,direct,window=1M").contains("does not take window=1M with direct"));
        assert!(canonical("compare/sync,order=window").contains("is no option"));
        assert!(canonical("compare/stdio,kernel=memcmp").contains("does not take"));
        assert!(canonical("write/sync,holes=skip").contains("does not take holes=skip"));
        assert!(canonical("copy/reflink,holes=skip").contains("does not take holes=skip"));
        assert!(canonical("read/sync,holes=ignore").contains("does not take holes=ignore"));
        assert!(canonical("copy/sync,preallocate=both,holes=skip").contains("holes=skip with preallocate=both"));
    }

    #[test]
    fn every_variant_of_every_mechanism_reads_as_it_prints() {
        let mut seen = std::collections::BTreeSet::new();
        for method in mechanisms().flat_map(variants) {
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
