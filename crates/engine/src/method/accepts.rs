//! What a mechanism accepts of the options, and completing them with its defaults.

use super::parse::ParseError;
use super::{CachePolicy, Comparing, Durability, Hint, Mechanism, Options, Order, Preallocate, UpdateOrder};

/// The options that a mechanism accepts. An empty list or `None` means that it does not take the option.
#[derive(Clone, Copy, Debug)]
pub struct Accepts {
    /// Whether it takes a block, and the one it has where none is given (`Some(None)`: all at once).
    pub block: Option<Option<u64>>,
    /// Whether it takes a depth, and its default.
    pub depth: Option<u32>,
    /// Whether it takes a number of threads, and its default.
    pub threads: Option<u32>,
    /// The cache policies beside `cached`.
    pub cache: &'static [CachePolicy],
    /// The hints beside `none`.
    pub hints: &'static [Hint],
    /// The preallocations; the first is the default.
    pub preallocate: &'static [Preallocate],
    /// The durabilities beside `none`.
    pub durability: &'static [Durability],
    /// The orders beside `alternate`, a window standing for all.
    pub orders: &'static [Order],
    /// What may find the first difference; the first is the default. Empty where nothing is compared.
    pub comparing: &'static [Comparing],
    /// The orders of updates; the first is the default, and one gap stands for all. Empty where nothing is updated.
    pub update_orders: &'static [UpdateOrder],
    /// Whether it can pass over the holes of what it reads.
    pub skips_holes: bool,
}

/// The largest block: what one call can move on Linux, rounded down to a power of two.
const MAX_BLOCK_BYTES: u64 = 1 << 30;
/// The largest queue depth and number of threads.
const MAX_DEPTH: u32 = 4096;

impl Accepts {
    /// Nothing at all: for mechanisms that have no options.
    pub const NOTHING: Self = Self {
        block: None,
        depth: None,
        threads: None,
        cache: &[],
        hints: &[],
        preallocate: &[Preallocate::None],
        durability: &[],
        orders: &[],
        comparing: &[],
        update_orders: &[],
        skips_holes: false,
    };

    /// Checks options and fills in the defaults.
    pub(super) fn complete(&self, mechanism: &Mechanism, given: Options) -> Result<Options, ParseError> {
        let refuse = |option: &str, accepted: String| {
            ParseError::new(format!("{mechanism:?} does not take {option}; it takes {accepted}"))
        };
        let mut options = given;
        options.block_bytes = match (self.block, given.block_bytes) {
            (None, Some(_)) => return Err(refuse("a block", self.in_words())),
            (None, None) => None,
            (Some(default), block) => block.or(default),
        };
        options.depth = bounded(self.depth, given.depth).map_err(|()| refuse("this depth", self.in_words()))?;
        options.threads =
            bounded(self.threads, given.threads).map_err(|()| refuse("so many threads", self.in_words()))?;
        if options
            .block_bytes
            .is_some_and(|bytes| bytes == 0 || bytes > MAX_BLOCK_BYTES)
        {
            return Err(ParseError::new("a block has 1 byte to 1G".to_owned()));
        }
        if given.cache != CachePolicy::Cached && !self.cache.contains(&given.cache) {
            return Err(refuse(given.cache.name(), self.in_words()));
        }
        if given.hint != Hint::None && !self.hints.contains(&given.hint) {
            return Err(refuse(&format!("hint={}", given.hint.name()), self.in_words()));
        }
        if !self.preallocate.contains(&given.preallocate) {
            if given.preallocate != Preallocate::None {
                return Err(refuse(
                    &format!("preallocate={}", given.preallocate.name()),
                    self.in_words(),
                ));
            }
            options.preallocate = self.preallocate[0];
        }
        if given.durability != Durability::None && !self.durability.contains(&given.durability) {
            return Err(refuse(given.durability.name(), self.in_words()));
        }
        options.update_order = given.update_order.or(self.update_orders.first().copied());
        if let Some(order) = options.update_order
            && !self.update_orders.iter().any(|known| known.is_like(order))
        {
            return Err(refuse(&order.text(), self.in_words()));
        }
        self.complete_holes(&mut options)
            .and_then(|()| self.complete_comparing(&mut options))
            .map_err(|option| refuse(&option, self.in_words()))?;
        Ok(options)
    }

    /// The same for holes; the error is what is refused.
    fn complete_holes(&self, options: &mut Options) -> Result<(), String> {
        if !options.holes_skipped {
            return Ok(());
        }
        if !self.comparing.is_empty() {
            // What comparing does anyway is not written.
            options.holes_skipped = false;
            return Ok(());
        }
        if !self.skips_holes {
            return Err("holes=skip".to_owned());
        }
        if matches!(options.preallocate, Preallocate::Allocate | Preallocate::Both) {
            return Err(format!("holes=skip with preallocate={}", options.preallocate.name()));
        }
        Ok(())
    }

    /// The accepted options as a list for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.block.is_some() {
            words.push("block=SIZE".to_owned());
        }
        if self.depth.is_some() {
            words.push("depth=N".to_owned());
        }
        if self.threads.is_some() && !self.comparing.is_empty() {
            words.push("threads=N".to_owned());
        }
        words.extend(self.cache.iter().map(|policy| policy.name().to_owned()));
        if !self.hints.is_empty() {
            words.push(format!("hint={}", joined(self.hints.iter().map(|hint| hint.name()))));
        }
        let preallocations = self.preallocate.iter().filter(|way| **way != Preallocate::None);
        let preallocations = joined(preallocations.map(|way| way.name()));
        if !preallocations.is_empty() {
            words.push(format!("preallocate={preallocations}"));
        }
        words.extend(self.durability.iter().map(|durability| durability.name().to_owned()));
        let orders = self.orders.iter().filter(|order| !matches!(order, Order::Window(_)));
        let orders: Vec<_> = orders.map(|order| order.text().replace("order=", "")).collect();
        if !orders.is_empty() {
            words.push(format!("order={}", orders.join("|")));
        }
        if self.orders.iter().any(|order| matches!(order, Order::Window(_))) {
            words.push("window=SIZE".to_owned());
        }
        if !self.update_orders.is_empty() {
            let orders = joined(self.update_orders.iter().map(|order| order.name()));
            words.push(format!("order={orders}"));
        }
        if self.update_orders.iter().any(|order| order.fills_gaps()) {
            words.push("gap=SIZE".to_owned());
        }
        if !self.comparing.is_empty() {
            let kernels = joined(self.comparing.iter().map(|kernel| kernel.name()));
            words.extend([
                format!("kernel={kernels}"),
                "identity=ignore".to_owned(),
                "holes=ignore".to_owned(),
            ]);
        }
        if self.skips_holes {
            words.push("holes=skip".to_owned());
        }
        if words.is_empty() {
            "no options".to_owned()
        } else {
            words.join(", ")
        }
    }
}

fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join("|")
}

/// A count that a mechanism takes, between 1 and [`MAX_DEPTH`].
fn bounded(default: Option<u32>, given: Option<u32>) -> Result<Option<u32>, ()> {
    match (default, given) {
        (None, None) => Ok(None),
        (Some(default), None) => Ok(Some(default)),
        (Some(_), Some(count)) if (1..=MAX_DEPTH).contains(&count) => Ok(Some(count)),
        (_, Some(_)) => Err(()),
    }
}
