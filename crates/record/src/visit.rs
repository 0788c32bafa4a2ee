//! One walk over every field of a run: bounds, showing and anonymising are visitors of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use seekless_method::{Durability, Operation};

use crate::{Cache, Differ, Draw, DropScope, Ended, ExitCode, FindingKind, Phase, Target};

/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields below say it")]
pub enum Text {
    /// Free text: the owner's names and remarks, sentences, published words.
    Private,
    /// Why an entry or a trial does not count.
    Reason,
    Version,
    Started,
    Experiment,
    Host,
    System,
    Architecture,
    Processor,
    Hypervisor,
    Governor,
    Path,
    FileSystem,
    MountOptions,
    Device,
    Model,
    Scheduler,
    WriteCache,
    Consumer,
    Layout,
    Method,
    CommandName,
    Label,
}

/// The bounds of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

const fn bounds(least: f64, most: f64) -> Bounds {
    Bounds { least, most }
}

/// 30 years: no run and no trial takes longer.
const MOST_SECONDS: f64 = 1e9;
/// 2^60: no file, memory or counter of bytes holds more.
const MOST_COUNT: f64 = (1u64 << 60) as f64;

impl Bounds {
    pub(crate) const SECONDS: Self = bounds(0.0, MOST_SECONDS);
    pub(crate) const SECONDS_DIFFERENCE: Self = bounds(-MOST_SECONDS, MOST_SECONDS);
    pub(crate) const NANOSECONDS: Self = bounds(0.0, 1e9 * MOST_SECONDS);
    pub(crate) const NANOSECONDS_DIFFERENCE: Self = bounds(-1e9 * MOST_SECONDS, 1e9 * MOST_SECONDS);
    pub(crate) const COUNT: Self = bounds(0.0, MOST_COUNT);
    pub(crate) const POSITIVE: Self = bounds(1.0, MOST_COUNT);
    pub(crate) const COUNT_DIFFERENCE: Self = bounds(-MOST_COUNT, MOST_COUNT);
    pub(crate) const FILES: Self = bounds(1.0, 1e6);
    pub(crate) const PART: Self = bounds(0.0, 1.0);
    /// Rates and ratios: the largest file in the shortest time, and the longest trial over the shortest, are less.
    pub(crate) const RATIO: Self = bounds(0.0, 1e30);
    /// Any number.
    pub(crate) const SEED: Self = bounds(0.0, u64::MAX as f64);
}

/// Receives every text, figure and list of a run, with its place in the document, as in `trials[3].seconds`.
pub trait Visitor {
    /// A text, which may be changed. Returns whether to keep it. If not, an optional text becomes `None`, one in a list
    /// or map is removed, and any other stays as this call left it.
    fn text(&mut self, place: &str, about: Text, text: &mut String) -> bool;

    /// A figure.
    fn figure(&mut self, _place: &str, _bounds: Bounds, _figure: f64) {}

    /// The number of items of a list.
    fn list(&mut self, _place: &str, _items: usize) {}
}

/// Visits a field of a given kind. Returns false if it is to be removed.
pub(crate) trait Field<What: Copy> {
    fn visit(&mut self, place: &mut String, what: What, visitor: &mut dyn Visitor) -> bool;
}

impl Field<Text> for String {
    fn visit(&mut self, place: &mut String, about: Text, visitor: &mut dyn Visitor) -> bool {
        visitor.text(place, about, self)
    }
}

macro_rules! figures {
    ($($type:ty)*) => {
        $(impl Field<Bounds> for $type {
            #[allow(clippy::cast_lossless, reason = "it is not of all of these types")]
            fn visit(&mut self, place: &mut String, bounds: Bounds, visitor: &mut dyn Visitor) -> bool {
                visitor.figure(place, bounds, *self as f64);
                true
            }
        })*
    };
}

figures!(f64 u64 u32 i64);

impl<What: Copy, T: Field<What>> Field<What> for Option<T> {
    fn visit(&mut self, place: &mut String, what: What, visitor: &mut dyn Visitor) -> bool {
        if !self.as_mut().is_none_or(|item| item.visit(place, what, visitor)) {
            *self = None;
        }
        true
    }
}

impl<What: Copy, T: Field<What>> Field<What> for Vec<T> {
    fn visit(&mut self, place: &mut String, what: What, visitor: &mut dyn Visitor) -> bool {
        visitor.list(place, self.len());
        let (length, mut index) = (place.len(), 0);
        self.retain_mut(|item| {
            let _ = write!(place, "[{index}]");
            index += 1;
            let is_kept = item.visit(place, what, visitor);
            place.truncate(length);
            is_kept
        });
        true
    }
}

/// Names and values alike.
impl Field<Text> for BTreeMap<String, String> {
    fn visit(&mut self, place: &mut String, about: Text, visitor: &mut dyn Visitor) -> bool {
        visitor.list(place, self.len());
        let visited = std::mem::take(self).into_iter().filter_map(|(mut name, mut value)| {
            let is_kept = visitor.text(place, about, &mut name) && visitor.text(place, about, &mut value);
            is_kept.then_some((name, value))
        });
        *self = visited.collect();
        true
    }
}

// `dyn`, because each field of a run would be a copy of it.
pub(crate) fn step(place: &mut String, name: &'static str, visit: &mut dyn FnMut(&mut String) -> bool) -> bool {
    let length = place.len();
    if length > 0 {
        place.push('.');
    }
    place.push_str(name);
    let is_kept = visit(place);
    place.truncate(length);
    is_kept
}

/// Structs of a document: `documents! { /// About it. pub struct Name { /// About the field. pub field: Type => What, }
/// }`. After `=>` comes the kind of a field's texts ([`Text`]) or figures ([`Bounds`]). Fields that are documents, or
/// whose type bounds them, need none; texts and other figures do not compile without it.
macro_rules! documents {
    ($($(#[$about:meta])* pub struct $name:ident {
        $($(#[$field_about:meta])* pub $field:ident: $type:ty $(=> $what:expr)?,)+
    })+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$field_about])* pub $field: $type),+ }

        impl $crate::visit::Field<()> for $name {
            fn visit(&mut self, place: &mut String, (): (), visitor: &mut dyn $crate::Visitor) -> bool {
                $({
                    let field = &mut self.$field;
                    let what = ($($what)?);
                    let mut visit = |place: &mut String| $crate::visit::Field::visit(field, place, what, visitor);
                    $crate::visit::step(place, stringify!($field), &mut visit);
                })+
                true
            }
        }
    )+};
}

/// Types that need no bounds: words of an enum, indices, small numbers.
macro_rules! bounded {
    ($($type:ty)*) => {
        $(impl Field<()> for $type {
            fn visit(&mut self, _place: &mut String, (): (), _visitor: &mut dyn Visitor) -> bool {
                true
            }
        })*
    };
}

bounded!((u32, u32) bool u8 u32 usize Operation Durability);
bounded!(Cache Differ Draw DropScope Ended ExitCode FindingKind Phase Target);
