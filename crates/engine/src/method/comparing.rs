//! The options that two files have which are compared.

use super::size::format_size;
use super::{Accepts, CachePolicy, Options};

words! {
    /// What finds the first difference.
    Comparing {
        /// memcmp(3): the widest vectors that the processor has.
        #[default]
        Memcmp = "memcmp",
        /// A loop that looks at one byte of each after the other.
        Bytewise = "bytewise",
        /// The same, counting the lines on the way: what cmp did in 2012.
        Linewise = "linewise",
    }
}

/// In which order two files are read that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// A block of each in turn.
    #[default]
    Alternate,
    /// Each file once through the page cache, one after the other, and then in turn: what the 2009 document found faster.
    Preload,
    /// The same in windows of so many bytes.
    Window(u64),
    /// Both at once.
    Parallel,
}

impl Order {
    /// All of them, with the window that has no size given.
    pub const ALL: &'static [Self] = &[Self::Alternate, Self::Preload, Self::Window(64 << 20), Self::Parallel];

    /// As it is written in a method's text.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Alternate => "order=alternate".to_owned(),
            Self::Preload => "order=preload".to_owned(),
            Self::Window(bytes) => format!("window={}", format_size(bytes)),
            Self::Parallel => "order=parallel".to_owned(),
        }
    }

    /// Whether it reads through the page cache before it compares.
    #[must_use]
    pub fn preloads(self) -> bool {
        matches!(self, Self::Preload | Self::Window(_))
    }

    pub(super) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Accepts {
    /// Checks and completes the options that two files have; the error is what is refused.
    pub(super) fn complete_comparing(&self, options: &mut Options) -> Result<(), String> {
        let Some(&default) = self.comparing.first() else {
            let text = match options {
                Options { order, .. } if *order != Order::Alternate => order.text(),
                Options {
                    comparing: Some(comparing),
                    ..
                } => format!("kernel={}", comparing.name()),
                Options {
                    identity_ignored: true, ..
                } => "identity=ignore".to_owned(),
                Options {
                    holes_ignored: true, ..
                } => "holes=ignore".to_owned(),
                _ => return Ok(()),
            };
            return Err(text);
        };
        let comparing = options.comparing.unwrap_or(default);
        if !self.comparing.contains(&comparing) {
            return Err(format!("kernel={}", comparing.name()));
        }
        options.comparing = Some(comparing);
        let order = options.order;
        if order != Order::Alternate && !self.orders.iter().any(|known| known.is_like(order)) {
            return Err(order.text());
        }
        if order.preloads() && options.cache != CachePolicy::Cached {
            return Err(format!("{} with {}", order.text(), options.cache.name()));
        }
        if matches!(order, Order::Window(bytes) if !(4096..=1 << 40).contains(&bytes)) {
            return Err(format!("{} (a window has 4K to 1T)", order.text()));
        }
        if options.threads.is_some_and(|threads| threads > 1) {
            if comparing == Comparing::Linewise || order == Order::Parallel {
                return Err("several threads with kernel=linewise or order=parallel".to_owned());
            }
            // Threads take windows in turn: there are none where the file is mapped whole.
            options.block_bytes = options.block_bytes.or(Some(8 << 20));
        }
        Ok(())
    }
}
