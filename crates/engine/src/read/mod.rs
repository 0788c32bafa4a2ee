//! Reading: a file's bytes reach a consumer. One file a mechanism; `body` ties them to their rows.

mod double_buffer;
mod io_uring;
mod mmap;
mod posix_aio;
mod sync;
mod threads;

use std::ops::Range;
use std::path::Path;

pub(crate) use posix_aio::{InFlight as AioInFlight, slots as aio_slots};

use crate::Consumer;
use crate::consumer::Delivered;
use crate::error::Result;
use crate::facts::Facts;
use crate::files::Stretch;
use crate::part::{AsPart, Part};
use crate::plan::{self, Plan, Scan, Task};
use crate::setup::{Prepare, Prepared};
use crate::transfer::{Progress, Side, Transfer, Visits};
use seekless_method::{AccessPattern, Durability, MechanismId, Method, Operation, ReadMechanism};

/// The bodies of the mechanisms.
fn body(mechanism: ReadMechanism) -> Prepare<ReadSource> {
    match mechanism {
        ReadMechanism::Sync => sync::prepare,
        ReadMechanism::DoubleBuffer => double_buffer::prepare,
        ReadMechanism::PosixAio => posix_aio::prepare,
        ReadMechanism::IoUring => io_uring::prepare,
        ReadMechanism::Mmap => mmap::prepare,
        ReadMechanism::Threads => threads::prepare,
    }
}

/// A prepared mechanism of reading: feeds a stretch of the source, which is not empty, to the consumer. Tells whether the
/// consumer stopped it.
type ReadSource = dyn FnMut(&Side<'_>, Range<u64>, &dyn Consumer) -> Result<Stopped> + Send;
type PreparedRead = Result<Box<ReadSource>>;

/// Whether the consumer ended the read early.
type Stopped = bool;

/// Reads files by one method. Buffers, rings and threads are made once, before the first read.
pub struct Reader(Prepared<ReadSource>);

impl Reader {
    /// The plan for reading, after a look at the file, and at most 50 ms and 8 MiB of measuring where that decides, or where a
    /// time is to be predicted.
    ///
    /// # Errors
    /// [`Error::NotRegular`](crate::Error::NotRegular), and the system's errors of opening and looking.
    #[doc(hidden)]
    pub fn plan(from: impl AsPart, is_predicted: bool) -> Result<Plan> {
        let part = from.as_part();
        let (file, metadata) = part.open()?;
        let path = part.path_to_measure();
        let mut facts = Facts::of_part(&part, &file, &metadata);
        let range = part.within(metadata.len());
        let request = Task {
            bytes: range.end - range.start,
            durability: Durability::None,
        };
        let plan = plan::read(&request, &facts);
        if plan.is_certain && !is_predicted {
            return Ok(plan);
        }
        facts.measure_reading(&path, &file);
        Ok(plan::read(&request, &facts))
    }

    /// What going through many files at or below a path will take, after some ms of measuring what memory costs.
    ///
    /// # Errors
    /// The system's, where the path cannot be opened and looked at.
    #[doc(hidden)]
    pub fn plan_many(path: impl AsRef<Path>, many: &Scan) -> Result<Plan> {
        Ok(plan::scan(many, &Facts::of_many(path.as_ref())?))
    }

    /// Prepares a method for files of any size.
    ///
    /// # Errors
    /// [`Error::WrongOperation`](crate::Error::WrongOperation) for a method that does not read, [`Error::Unavailable`](crate::Error::Unavailable) where the system lacks it, and
    /// the system's error where there is no memory.
    pub fn prepare(method: &Method) -> Result<Self> {
        Self::prepare_for(method, u64::MAX >> 1)
    }

    /// Prepares a method for files of up to this many bytes, with buffers no longer than these need. A longer file is
    /// read nevertheless, after preparing again.
    ///
    /// # Errors
    /// As [`Reader::prepare`].
    pub fn prepare_for(method: &Method, longest_file_bytes: u64) -> Result<Self> {
        let make = match method.mechanism().id {
            MechanismId::Read(mechanism) => Some(body(mechanism)),
            _ => None,
        };
        Prepared::new(method, Operation::Read, make, longest_file_bytes).map(Self)
    }

    /// Opens a file, or takes a [`Part`](crate::Part), feeds it to the consumer, and closes it. The size is the one it has when
    /// it is opened: what grows meanwhile is read up to that size.
    ///
    /// A method with `holes=skip` reads the stretches of data that the file system tells of, and hands over each hole by
    /// [`Consumer::zeros`]: what was allocated and never written is a hole too, what waits to be written back is not. Where
    /// the file system tells of no holes, all bytes are read; [`Probe`](crate::Probe) calls the method unavailable there,
    /// because it would not do what its name says. Bytes that others write into a hole while the file is read may be missed,
    /// as those behind a reader are.
    ///
    /// A method with `access=random` reads all blocks in an order of its own, and needs a consumer that takes them in any
    /// order.
    ///
    /// # Errors
    /// Every [`Error`](crate::Error); [`Error::Resized`](crate::Error::Resized) where the file became shorter meanwhile: then what the consumer saw is not
    /// the file.
    pub fn read(&mut self, from: impl AsPart, consumer: impl Consumer) -> Result<Transfer> {
        self.read_told(&from.as_part(), &consumer, None, None)
    }

    /// Opens a file, feeds blocks of it to the consumer in the order drawn, and closes it. The method has `access=random`,
    /// and the block and the file's size are those that the blocks were drawn for. The consumer takes them in any order.
    ///
    /// # Errors
    /// Every [`Error`](crate::Error); [`Error::Resized`](crate::Error::Resized) where the file has another size.
    #[doc(hidden)]
    pub fn visit(&mut self, path: impl AsRef<Path>, visits: &Visits, consumer: impl Consumer) -> Result<Transfer> {
        self.read_told(&Part::whole(&path), &consumer, Some(visits), None)
    }

    pub(crate) fn read_told(
        &mut self,
        part: &Part<'_>,
        consumer: &dyn Consumer,
        drawn: Option<&Visits>,
        progress: Option<&dyn Progress>,
    ) -> Result<Transfer> {
        let method = self.0.method;
        let mut source = Side::open_source(part, &method)?;
        if method.options().access() == AccessPattern::Random && consumer.needs_order() {
            return Err(source.unavailable("it delivers blocks out of order, but this consumer needs them in order"));
        }
        if let Some(visits) = drawn {
            visits.begin(&source)?;
        }
        source.keep_to(part)?;
        (source.visits, source.progress) = (drawn, progress);
        let mechanism = self.0.for_bytes(source.bytes)?;
        let delivered = Delivered::to(consumer, source.start());
        let stopped = feed(mechanism, &source, &delivered)?;
        Ok(Transfer {
            bytes: delivered.bytes.into_inner(),
            hole_bytes: delivered.hole_bytes.into_inner(),
            calls: source.calls(),
            stopped,
            ..Transfer::default()
        })
    }
}

fn feed(mechanism: &mut ReadSource, source: &Side<'_>, consumer: &dyn Consumer) -> Result<Stopped> {
    let range = source.range();
    if range.is_empty() {
        return Ok(false);
    }
    if !source.method.options().holes_skipped() {
        return source.in_pieces(range, |piece| mechanism(source, piece, consumer));
    }
    for stretch in source.stretches(range, source.alignment) {
        let stopped = match stretch? {
            Stretch::Data(range) => source.in_pieces(range, |piece| mechanism(source, piece, consumer))?,
            Stretch::Hole(range) => consumer.zeros(range.start, range.end - range.start).is_break(),
        };
        if stopped {
            return Ok(true);
        }
    }
    // Nobody asked for bytes in a hole, so nobody was told that there are none any more.
    source.check_not_shrunk()?;
    Ok(false)
}
