//! The values of a method's options, stored by row.

use super::{COUNT, OPTIONS, OptionId, Order, ROWS, UpdateOrder, Value};

/// An option with a value, or with none for the mechanism's default.
#[derive(Clone, Copy, Debug)]
pub struct Setting(pub(crate) OptionId, pub(crate) Option<Value>);

impl Setting {
    /// Bytes per call.
    #[must_use]
    pub fn block_bytes(bytes: impl Into<Option<u64>>) -> Self {
        Self(OptionId::Block, bytes.into().map(Value::Number))
    }

    /// Requests in flight.
    #[must_use]
    pub fn depth(count: impl Into<Option<u32>>) -> Self {
        Self(OptionId::Depth, count.into().map(|count| Value::Number(count.into())))
    }

    /// Threads that share the work.
    #[must_use]
    pub fn threads(count: impl Into<Option<u32>>) -> Self {
        Self(OptionId::Threads, count.into().map(|count| Value::Number(count.into())))
    }

    /// Bytes per call that writes, if it is not that of calls that read.
    #[must_use]
    pub fn write_block_bytes(bytes: impl Into<Option<u64>>) -> Self {
        Self(OptionId::WriteBlock, bytes.into().map(Value::Number))
    }

    /// Per cent of blocks at random that are read instead of written.
    #[must_use]
    pub fn reads_percent(percent: impl Into<Option<u32>>) -> Self {
        Self(
            OptionId::Reads,
            percent.into().map(|percent| Value::Number(percent.into())),
        )
    }

    /// Whether holes are skipped.
    #[must_use]
    pub fn holes_skipped(are_skipped: bool) -> Self {
        Self(OptionId::HolesSkipped, are_skipped.then_some(Value::Word(0)))
    }

    /// Whether holes are read like everything else when two files are compared.
    #[must_use]
    pub fn holes_ignored(are_ignored: bool) -> Self {
        Self(OptionId::HolesIgnored, are_ignored.then_some(Value::Word(0)))
    }
}

impl From<Order> for Setting {
    fn from(order: Order) -> Self {
        Self(OptionId::Order, Some(order.value()))
    }
}

impl From<UpdateOrder> for Setting {
    fn from(order: UpdateOrder) -> Self {
        Self(OptionId::UpdateOrder, Some(order.value()))
    }
}

/// The values of a method's options. The type is small, because errors contain it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// By row: 0 for the plain value, [`IS_NUMBER`], or one more than the index of its word.
    kinds: [u8; COUNT],
    numbers: [u64; NUMBERS],
}

const IS_NUMBER: u8 = u8::MAX;
/// By row, how many of the rows before it take a number.
const SLOTS: [usize; COUNT] = {
    let mut slots = [0; COUNT];
    let mut at = 1;
    while at < COUNT {
        slots[at] = slots[at - 1] + ROWS[at - 1].number.is_some() as usize;
        at += 1;
    }
    slots
};
const NUMBERS: usize = SLOTS[COUNT - 1] + ROWS[COUNT - 1].number.is_some() as usize;

impl Options {
    /// The value of an option; `None` if it is plain, or the method does not accept it.
    #[inline]
    #[must_use]
    pub fn get(&self, option: OptionId) -> Option<Value> {
        match self.kinds[option as usize] {
            0 => None,
            IS_NUMBER => Some(Value::Number(self.numbers[SLOTS[option as usize]])),
            word => Some(Value::Word(word - 1)),
        }
    }

    /// Sets a value; a plain value is stored as none, so that equal methods have equal options.
    pub(crate) fn set(&mut self, option: OptionId, value: Option<Value>) {
        let row = option.row();
        let value = value.filter(|value| row.plain != Some(*value));
        if row.number.is_some() {
            self.numbers[SLOTS[option as usize]] = match value {
                Some(Value::Number(number)) => number,
                _ => 0,
            };
        }
        self.kinds[option as usize] = match value {
            None => 0,
            Some(Value::Word(at)) => at + 1,
            Some(Value::Number(_)) => IS_NUMBER,
        };
    }

    /// The same options, with another value for one.
    #[must_use]
    pub fn with(mut self, setting: impl Into<Setting>) -> Self {
        let Setting(option, value) = setting.into();
        self.set(option, value);
        self
    }

    #[inline]
    fn number(&self, option: OptionId) -> Option<u64> {
        match self.get(option) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// Ranges read in parallel.
    #[inline]
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.number(OptionId::Threads).map_or(1, |threads| threads as u32)
    }

    /// Requests in flight; none if the mechanism has one at a time.
    #[inline]
    #[must_use]
    pub fn depth(&self) -> Option<u32> {
        self.number(OptionId::Depth).map(|depth| depth as u32)
    }

    /// Per cent of blocks at random that are read instead of written.
    #[inline]
    #[must_use]
    pub fn reads_percent(&self) -> u32 {
        self.number(OptionId::Reads).map_or(0, |percent| percent as u32)
    }

    /// Bytes per call; none if everything is moved at once.
    #[inline]
    #[must_use]
    pub fn block_bytes(&self) -> Option<u64> {
        self.number(OptionId::Block)
    }

    /// Bytes per call that writes, if it is not that of calls that read.
    #[inline]
    #[must_use]
    pub fn write_block_bytes(&self) -> Option<u64> {
        self.number(OptionId::WriteBlock)
    }

    /// The order in which two files are read.
    #[inline]
    #[must_use]
    pub fn order(&self) -> Order {
        match self.get(OptionId::Order) {
            Some(Value::Number(bytes)) => Order::Window(bytes),
            Some(Value::Word(1)) => Order::Preload,
            Some(Value::Word(2)) => Order::Parallel,
            _ => Order::Alternate,
        }
    }

    /// The order in which updates are written.
    #[inline]
    #[must_use]
    pub fn update_order(&self) -> UpdateOrder {
        match self.get(OptionId::UpdateOrder) {
            Some(Value::Number(gap_bytes)) => UpdateOrder::Coalesce(gap_bytes),
            Some(Value::Word(1)) => UpdateOrder::AsGiven,
            Some(Value::Word(2)) => UpdateOrder::Rewrite,
            _ => UpdateOrder::Ascending,
        }
    }

    /// Whether a file that is compared with itself is read.
    #[inline]
    #[must_use]
    pub fn identity_ignored(&self) -> bool {
        self.get(OptionId::Identity).is_some()
    }

    /// Whether holes and shared extents are read like everything else where two files are compared.
    #[inline]
    #[must_use]
    pub fn holes_ignored(&self) -> bool {
        self.get(OptionId::HolesIgnored).is_some()
    }

    /// Whether reads and copies skip holes; a copy then has the same holes.
    #[inline]
    #[must_use]
    pub fn holes_skipped(&self) -> bool {
        self.get(OptionId::HolesSkipped).is_some()
    }

    pub(crate) fn count_complications(&self) -> u32 {
        let complicated = OPTIONS
            .iter()
            .filter(|row| row.complicates && self.get(row.id).is_some());
        complicated.count() as u32
    }
}
