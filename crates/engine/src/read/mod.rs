//! Reading a file into a consumer. One source file per mechanism; `body` connects them to their rows.

mod double_buffer;
mod io_uring;
mod mmap;
mod posix_aio;
mod stream;
mod sync;
mod threads;

use std::fs::{File, Metadata};
use std::mem;
use std::ops::{ControlFlow, Range};
use std::path::Path;

pub(crate) use posix_aio::{InFlight as AioInFlight, slots as aio_slots};
pub use stream::{Block, BlockStream};

use crate::consumer::Delivered;
use crate::error::Result;
use crate::facts::{Facts, Planner};
use crate::file_range::{AsFileRange, FileRange};
use crate::files::Stretch;
use crate::plan::{self, Plan, Task};
use crate::setup::{Prepare, Prepared};
use crate::transfer::{OpenFile, Progress, Transfer, Visits};
use crate::{Chunk, Consumer};
use seekless_method::{AccessPattern, CachePolicy, Durability, MechanismId, Method, Operation, ReadMechanism};
use seekless_sys::Buffer;

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

/// A prepared mechanism of reading: passes a range of the source, which is not empty, to the consumer. Returns whether
/// the consumer ended it.
type ReadSource = dyn FnMut(&OpenFile<'_>, Range<u64>, &dyn Consumer) -> Result<Stopped> + Send;
type PreparedRead = Result<Box<ReadSource>>;

/// Whether the consumer ended the read early.
type Stopped = bool;

/// Reads files by one method. Buffers, rings and threads are made once, before the first read.
pub struct Reader(Prepared<ReadSource>);

impl Reader {
    /// Plans reading a file, after examining it. If the plan depends on it, or with `is_predicted`, it measures for at
    /// most 50 ms, with reads of at most 8 MiB.
    ///
    /// # Errors
    /// [`Error::NotRegular`](crate::Error::NotRegular), and the system's errors of opening and examining.
    pub fn plan(from: impl AsFileRange, is_predicted: bool) -> Result<Plan> {
        Self::plan_with(&from.as_file_range(), is_predicted, Planner::default())
    }

    /// The same by a planner.
    ///
    /// # Errors
    /// As [`Reader::plan`].
    pub fn plan_with(part: &FileRange<'_>, is_predicted: bool, planner: Planner<'_>) -> Result<Plan> {
        let (file, metadata) = part.open()?;
        let opened = (&file, &metadata);
        Ok(Self::plan_by(plan::read, part, opened, is_predicted, planner))
    }

    /// Plans reading an open file, or this range of it, to be read at once: it is not examined where there is too little for another
    /// method to pay.
    #[must_use]
    pub fn plan_open(part: &FileRange<'_>, file: &File, metadata: &Metadata, planner: Planner<'_>) -> Plan {
        let range = part.within(metadata.len());
        if range.end - range.start < plan::SMALL_BYTES {
            return Plan::little(Operation::Read);
        }
        Self::plan_by(plan::read, part, (file, metadata), false, planner)
    }

    /// Plans reading a file into the caller's memory.
    pub(crate) fn plan_into_memory(part: &FileRange<'_>, planner: Planner<'_>) -> Result<Plan> {
        if part.bytes_max() < plan::SMALL_BYTES {
            return Ok(Plan::little(Operation::Read));
        }
        let (file, metadata) = part.open()?;
        let opened = (&file, &metadata);
        Ok(Self::plan_by(plan::read_into_memory, part, opened, false, planner))
    }

    fn plan_by(
        by: fn(&Task, &Facts) -> Plan,
        part: &FileRange<'_>,
        (file, metadata): (&File, &Metadata),
        is_predicted: bool,
        planner: Planner<'_>,
    ) -> Plan {
        let path = part.path_to_measure();
        let mut facts = Facts::of_part(part, file, metadata).with(planner);
        let range = part.within(metadata.len());
        let request = Task {
            files: 1,
            bytes: range.end - range.start,
            durability: Durability::None,
        };
        facts.ask(&path, request.bytes, request.durability);
        let plan = by(&request, &facts);
        if !is_predicted && (plan.is_certain || !facts.pays_measuring()) {
            return plan;
        }
        facts.measure_reading(&path, file);
        by(&request, &facts)
    }

    /// Prepares a method for files of any size.
    ///
    /// # Errors
    /// [`Error::WrongOperation`](crate::Error::WrongOperation) for a method that does not read,
    /// [`Error::Unavailable`](crate::Error::Unavailable) if the system lacks it, and the system's error if there is no
    /// memory.
    pub fn prepare(method: &Method) -> Result<Self> {
        Self::prepare_for(method, u64::MAX >> 1)
    }

    /// Prepares a method for files of up to this many bytes, with buffers no larger than these need. Longer files can
    /// be read, too; they need a second preparation.
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

    /// Opens a file, or takes a [`FileRange`], passes its bytes to the consumer, and closes it. The size is
    /// that at opening; bytes that are appended meanwhile are not read.
    ///
    /// A method with `holes=skip` reads only the data ranges that the file system reports, and passes each hole to
    /// [`Consumer::zeros`]. Allocated blocks that were never written count as holes; data that is not yet written back
    /// does not. If the file system reports no holes, all bytes are read, and [`Probe`](crate::Probe) calls the method
    /// unavailable, because it does not do what its name says. Bytes that other processes write into a hole during the
    /// read may be missed, just as bytes written before the reader's position.
    ///
    /// A method with `access=random` reads all blocks in random order, and needs a consumer that takes them in any
    /// order.
    ///
    /// # Errors
    /// Every [`Error`](crate::Error); [`Error::Resized`](crate::Error::Resized) if the file shrank meanwhile, so that
    /// the consumer did not get the whole file.
    pub fn read(&mut self, from: impl AsFileRange, consumer: impl Consumer) -> Result<Transfer> {
        self.read_told(&from.as_file_range(), &consumer, None, None)
    }

    /// Opens a file, passes the blocks of `visits` to the consumer in their order, and closes the file. The method has
    /// `access=random`; its block and the file's size are those for which the visits were drawn. The consumer takes
    /// blocks in any order.
    ///
    /// # Errors
    /// Every [`Error`](crate::Error); [`Error::Resized`](crate::Error::Resized) if the file has another size.
    pub fn visit(&mut self, path: impl AsRef<Path>, visits: &Visits, consumer: impl Consumer) -> Result<Transfer> {
        self.read_told(&FileRange::whole(&path), &consumer, Some(visits), None)
    }

    pub(crate) fn read_told(
        &mut self,
        part: &FileRange<'_>,
        consumer: &dyn Consumer,
        drawn: Option<&Visits>,
        progress: Option<&dyn Progress>,
    ) -> Result<Transfer> {
        let method = self.0.setup.method;
        let mut source = OpenFile::open_source(part, &method)?;
        if method.options().access() == AccessPattern::Random && consumer.needs_order() {
            return Err(source.unavailable("it delivers blocks out of order, but this consumer needs them in order"));
        }
        if let Some(visits) = drawn {
            source.begin(visits)?;
        }
        source.keep_to(part)?;
        (source.visits, source.progress) = (drawn, progress);
        let mechanism = self.0.for_bytes(source.bytes)?;
        let delivered = Delivered::to(consumer, &source);
        let stopped = feed(mechanism, &source, &delivered)?;
        if let Some(error) = delivered.ended.into_inner() {
            return Err(error);
        }
        Ok(Transfer {
            bytes: delivered.bytes.into_inner(),
            hole_bytes: delivered.hole_bytes.into_inner(),
            calls: source.calls(),
            stopped,
            ..Transfer::default()
        })
    }
}

/// Whether blocks are read to where the consumer has places for them. Past the page cache, only buffers are aligned.
fn has_places(source: &OpenFile<'_>, consumer: &dyn Consumer) -> bool {
    source.alignment == 1 && source.method.options().cache() != CachePolicy::DontCache && consumer.has_places()
}

/// Reads a block to where it belongs; returns whether the consumer has a place for it.
fn place(source: &OpenFile<'_>, consumer: &dyn Consumer, offset: u64, length: usize) -> Result<bool> {
    let Some(place) = consumer.place(offset, length) else {
        return Ok(false);
    };
    let started = source.request_start();
    source.read_place(place, offset)?;
    source.request_done(offset, started);
    Ok(true)
}

/// Passes a whole block to the consumer: the buffer itself to one that keeps buffers.
fn deliver(consumer: &dyn Consumer, offset: u64, buffer: &mut Buffer, length: usize) -> ControlFlow<()> {
    match consumer.spare(buffer.len()) {
        Some(spare) => consumer.filled(offset, mem::replace(buffer, spare), length),
        None => consumer.data(offset, Chunk::Memory(&buffer[..length])),
    }
}

fn feed(mechanism: &mut ReadSource, source: &OpenFile<'_>, consumer: &dyn Consumer) -> Result<Stopped> {
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
    // If the file shrank within a hole, no read has noticed it.
    source.check_not_shrunk()?;
    Ok(false)
}
