//! One walk over every field of a run: bounds, showing and anonymising are visitors of it.
//!
//! Each struct names all of its fields below, by what they are; a field that is missing there does not compile.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::{
    Column, Command, Conclusion, Contest, Device, DeviceId, DeviceUse, Entry, Finding, Interval, LabCost, Latency,
    Machine, Mode, NoiseFloor, OptionEffect, Published, RandomAccess, Run, Sittings, Standing, Status, Storage,
    StorageId, Subject, Summary, SystemUse, Trial, UpdateAccount, UpdatePattern,
};

/// What a text is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields below say it")]
pub enum Text {
    /// What is nobody else's business: names, reasons and remarks of the owner's.
    Private,
    /// What may mention methods, and is concluded or given: sentences, options, published names.
    Mention,
    Version,
    Started,
    Experiment,
    System,
    Architecture,
    Processor,
    Hypervisor,
    Governor,
    Path,
    FileSystem,
    MountOptions,
    Device,
    Scheduler,
    WriteCache,
    Consumer,
    Layout,
    Method,
    CommandName,
    Label,
    Unavailable,
    Dropped,
    Failed,
    Unmeasured,
    Invalid,
}

/// The least and the most that a measurement gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

const fn bounds(least: f64, most: f64) -> Bounds {
    Bounds { least, most }
}

/// 30 years: no run and no trial takes longer.
const MOST_SECONDS: f64 = 1e9;
const SECONDS: Bounds = bounds(0.0, MOST_SECONDS);
const SECONDS_DIFFERENCE: Bounds = bounds(-MOST_SECONDS, MOST_SECONDS);
const NANOSECONDS_DIFFERENCE: Bounds = bounds(-1e9 * MOST_SECONDS, 1e9 * MOST_SECONDS);
/// 2^60: no file, memory or counter of bytes holds more.
const MOST_COUNT: f64 = (1u64 << 60) as f64;
const COUNT: Bounds = bounds(0.0, MOST_COUNT);
const POSITIVE: Bounds = bounds(1.0, MOST_COUNT);
const COUNT_DIFFERENCE: Bounds = bounds(-MOST_COUNT, MOST_COUNT);
const FILES: Bounds = bounds(1.0, 1e6);
const PART: Bounds = bounds(0.0, 1.0);
/// Rates and ratios: the largest file in the shortest time, and the longest trial over the shortest, are less.
const RATIO: Bounds = bounds(0.0, 1e30);

/// The place of a field in a document, as in `trials[3].seconds`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(String);

impl Place {
    /// The name of the innermost field.
    #[must_use]
    pub fn field(&self) -> &str {
        let last = self.0.rsplit('.').next().unwrap_or_default();
        last.split('[').next().unwrap_or_default()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who is handed every text, figure and list of a run.
pub trait Visitor {
    /// A text, which may be changed. Returns whether to keep it. If not, an optional text becomes `None`, one in a list
    /// or map is removed, and any other stays as this call left it.
    fn text(&mut self, place: &Place, about: Text, text: &mut String) -> bool;

    /// A number that was measured.
    fn figure(&mut self, _place: &Place, _bounds: Bounds, _figure: f64) {}

    /// The number of items of a list.
    fn list(&mut self, _place: &Place, _items: usize) {}
}

impl Run {
    /// Hands every text, figure and list over, in the order of the document.
    pub fn visit(&mut self, visitor: &mut dyn Visitor) {
        Field::visit(self, &mut Place::default(), (), visitor);
    }
}

/// A field, given what it is. False where it is to be taken out.
trait Field<What: Copy> {
    fn visit(&mut self, place: &mut Place, what: What, visitor: &mut dyn Visitor) -> bool;
}

impl Field<Text> for String {
    fn visit(&mut self, place: &mut Place, about: Text, visitor: &mut dyn Visitor) -> bool {
        visitor.text(place, about, self)
    }
}

macro_rules! figures {
    ($($type:ty)*) => {
        $(impl Field<Bounds> for $type {
            #[allow(clippy::cast_lossless, reason = "it is not of all of these types")]
            fn visit(&mut self, place: &mut Place, bounds: Bounds, visitor: &mut dyn Visitor) -> bool {
                visitor.figure(place, bounds, *self as f64);
                true
            }
        })*
    };
}

figures!(f64 u64 u32 i64);

impl Field<Bounds> for Interval {
    fn visit(&mut self, place: &mut Place, of_median: Bounds, visitor: &mut dyn Visitor) -> bool {
        let below = bounds(of_median.least, self.median);
        let above = bounds(self.median, of_median.most);
        step(place, "median", |place| self.median.visit(place, of_median, visitor));
        step(place, "low", |place| self.low.visit(place, below, visitor));
        step(place, "high", |place| self.high.visit(place, above, visitor));
        step(place, "coverage", |place| self.coverage.visit(place, PART, visitor))
    }
}

impl<What: Copy, T: Field<What>> Field<What> for Option<T> {
    fn visit(&mut self, place: &mut Place, what: What, visitor: &mut dyn Visitor) -> bool {
        if !self.as_mut().is_none_or(|item| item.visit(place, what, visitor)) {
            *self = None;
        }
        true
    }
}

impl<What: Copy, T: Field<What>> Field<What> for Vec<T> {
    fn visit(&mut self, place: &mut Place, what: What, visitor: &mut dyn Visitor) -> bool {
        visitor.list(place, self.len());
        let (length, mut index) = (place.0.len(), 0);
        self.retain_mut(|item| {
            let _ = write!(place.0, "[{index}]");
            index += 1;
            let is_kept = item.visit(place, what, visitor);
            place.0.truncate(length);
            is_kept
        });
        true
    }
}

/// Names and values alike.
impl Field<Text> for BTreeMap<String, String> {
    fn visit(&mut self, place: &mut Place, about: Text, visitor: &mut dyn Visitor) -> bool {
        visitor.list(place, self.len());
        let visited = std::mem::take(self).into_iter().filter_map(|(mut name, mut value)| {
            let is_kept = visitor.text(place, about, &mut name) && visitor.text(place, about, &mut value);
            is_kept.then_some((name, value))
        });
        *self = visited.collect();
        true
    }
}

fn step(place: &mut Place, name: &'static str, visit: impl FnOnce(&mut Place) -> bool) -> bool {
    let length = place.0.len();
    if length > 0 {
        place.0.push('.');
    }
    place.0.push_str(name);
    let is_kept = visit(place);
    place.0.truncate(length);
    is_kept
}

/// What is behind `=>` is what the fields before it are: a text, bounds, or a part with fields of its own. Fields in
/// brackets are not visited: words of an enum, indices and whatever else a type alone keeps in bounds.
macro_rules! fields {
    ($($type:ident { $($($name:ident)+ => $what:expr;)* $([$($other:ident)+])? })*) => {
        $(impl Field<()> for $type {
            fn visit(&mut self, place: &mut Place, (): (), visitor: &mut dyn Visitor) -> bool {
                let Self { $($($name,)+)* $($($other: _,)+)? } = self;
                $($(step(place, stringify!($name), |place| $name.visit(place, $what, visitor));)+)*
                true
            }
        })*
    };
}

const PARTS: () = ();

fields! {
    Run {
        id choices warnings => Text::Private;
        seekless => Text::Version;
        started => Text::Started;
        elapsed_seconds budget_seconds resumed_at_seconds => SECONDS;
        experiments => Text::Experiment;
        machine storages contests trials lab_cost noise published columns => PARTS;
        [version ended seed drop revision]
    }
    Machine {
        host => Text::Private;
        system => Text::System;
        kernel => Text::Version;
        architecture => Text::Architecture;
        processor => Text::Processor;
        hypervisor => Text::Hypervisor;
        governor => Text::Governor;
        memory_bytes memory_available_bytes level_1_cache_bytes level_2_cache_bytes => COUNT;
        [processors on_battery]
    }
    Storage {
        path mount_point => Text::Path;
        file_system => Text::FileSystem;
        mount_options => Text::MountOptions;
        facts => Text::Private;
        block_bytes free_bytes => COUNT;
        alternating_ns => NANOSECONDS_DIFFERENCE;
        device id => PARTS;
        [direct_alignment_bytes]
    }
    StorageId {
        file_system => Text::FileSystem;
        uuid => Text::Private;
        kernel => Text::Version;
        read_ahead_kib => COUNT;
        devices => PARTS;
    }
    DeviceId {
        name => Text::Device;
        model serial => Text::Private;
    }
    Device {
        name below => Text::Device;
        model => Text::Private;
        scheduler => Text::Scheduler;
        write_cache => Text::WriteCache;
        read_ahead_kib logical_block_bytes max_request_kib => COUNT;
        [claims_rotational is_virtual]
    }
    Contest {
        experiment => Text::Experiment;
        kernel => Text::Consumer;
        layout => Text::Layout;
        size_bytes work_ns_per_kib read_ahead_kib memory_bytes => COUNT;
        files => FILES;
        updates random mode entries conclusion => PARTS;
        [operation storage other_storage size_chosen cache cold_metadata target differ sustained shared_blocks holes_skipped
            durability]
    }
    UpdatePattern {
        bytes every_bytes => COUNT;
        [draw]
    }
    RandomAccess {
        block_bytes depth requests => POSITIVE;
    }
    Latency {
        requests mean_ns p50_ns p90_ns p99_ns p99_9_ns max_ns => COUNT;
    }
    Mode {
        count => COUNT;
        [byte]
    }
    Command {
        name => Text::CommandName;
        argv before note => Text::Private;
        [exit_code]
    }
    Summary {
        seconds mean_seconds deviation_seconds p90_seconds cpu_seconds fsync_seconds setup_seconds user_seconds system_seconds
            predicted_seconds => SECONDS;
        bytes_per_second => RATIO;
        calls device_reads device_request_bytes amplification => COUNT;
        planned => Text::Method;
        latency system => PARTS;
        [rounds invalid]
    }
    Standing {
        ratio => RATIO;
        [pairs verdict]
    }
    Conclusion {
        sentence => Text::Mention;
        recommended until_decided best best_synchronous best_overlapping => Text::Method;
        costs_at_most equal_within decided_by_times => COUNT;
        confirmed_bytes_per_second => RATIO;
        effects sittings => PARTS;
    }
    Sittings {
        deviation => RATIO;
        [count agreeing needed]
    }
    OptionEffect {
        option => Text::Mention;
        without with => Text::Method;
        ratio => RATIO;
        cpu_seconds_difference => SECONDS_DIFFERENCE;
    }
    Trial {
        at_seconds seconds fsync_seconds setup_seconds user_seconds system_seconds segment_seconds
            predicted_seconds => SECONDS;
        bytes compared_bytes calls hole_bytes source_bytes sink_bytes extents checked_bytes peak_memory_bytes voluntary_switches
            involuntary_switches minor_faults major_faults => COUNT;
        resident_before resident_after => PART;
        invalid => Text::Invalid;
        planned => Text::Method;
        device system updated latency => PARTS;
        [contest entry round phase valid]
    }
    DeviceUse {
        reads read_bytes read_merges writes write_bytes => COUNT;
        [reliable]
    }
    SystemUse {
        user system idle wait stolen => PART;
        switches_per_second interrupts_per_second blocks_in_kib_per_second => RATIO;
        cache_growth_bytes => COUNT_DIFFERENCE;
    }
    UpdateAccount {
        writes requested_bytes written_bytes => COUNT;
    }
    LabCost {
        null_seconds => SECONDS;
        producer_bytes_per_second first_touch_bytes_per_second second_touch_bytes_per_second => RATIO;
    }
    NoiseFloor {
        stolen others other_io => PART;
    }
    Published {
        experiment => Text::Experiment;
        source machine => Text::Mention;
        findings => PARTS;
    }
    Finding {
        method block layout => Text::Mention;
        at_least_bytes below_bytes => COUNT;
        seconds cpu_seconds => SECONDS;
        bytes_per_second => RATIO;
        system => PARTS;
        [operation kind cache durability]
    }
    Column {
        experiment => Text::Experiment;
        name methods => Text::Mention;
        [operation target draw]
    }
}

/// As it is written: a method, plan or command is a field of the entry.
impl Field<()> for Entry {
    fn visit(&mut self, place: &mut Place, (): (), visitor: &mut dyn Visitor) -> bool {
        match &mut self.subject {
            Subject::Method(text) => step(place, "method", |place| text.visit(place, Text::Method, visitor)),
            Subject::Plan(_) => true,
            Subject::Command(command) => step(place, "command", |place| command.visit(place, (), visitor)),
        };
        step(place, "label", |place| self.label.visit(place, Text::Label, visitor));
        step(place, "status", |place| self.status.visit(place, (), visitor));
        step(place, "summary", |place| self.summary.visit(place, (), visitor));
        step(place, "standing", |place| self.standing.visit(place, (), visitor))
    }
}

impl Field<()> for Status {
    fn visit(&mut self, place: &mut Place, (): (), visitor: &mut dyn Visitor) -> bool {
        let (about, why) = match self {
            Self::Measured => return true,
            Self::Unavailable(why) => (Text::Unavailable, why),
            Self::Dropped(why) => (Text::Dropped, why),
            Self::Failed(why) => (Text::Failed, why),
            Self::Unmeasured(why) => (Text::Unmeasured, why),
        };
        visitor.text(place, about, why)
    }
}
