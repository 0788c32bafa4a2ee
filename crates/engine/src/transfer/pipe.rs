//! Two buffers that circulate between a side that fills them and a side that takes their content, on two threads.
//!
//! They pass through std's bounded channels, which use atomics and sleep only if there is nothing to do. Each thread
//! owns its end. When a side stops early, by an error or a panic, its end is dropped, and the other side stops too.

use std::ops::{ControlFlow, Range};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use seekless_sys::Buffer;

use super::{Ahead, OpenFile};
use crate::error::Result;
use crate::setup::Setup;
use crate::threads::ThreadPool;

/// One is filled while the other is emptied.
const BUFFERS: usize = 2;

/// Two buffers, kept from file to file.
pub(crate) struct BufferPipe {
    setup: Setup,
    /// Buffers returned by the taking side.
    empty: Receiver<Buffer>,
}

/// The end of the side that fills buffers.
pub(crate) struct Filling<'a> {
    empty: &'a mut Receiver<Buffer>,
    filled: SyncSender<Result<Buffer>>,
}

/// The end of the side that takes their content.
pub(crate) struct Taking {
    filled: Receiver<Result<Buffer>>,
    empty: SyncSender<Buffer>,
}

impl BufferPipe {
    pub fn new(setup: Setup) -> Result<Self> {
        let (_, empty) = sync_channel(0);
        let mut pipe = Self { setup, empty };
        pipe.ends()?;
        Ok(pipe)
    }

    /// Both ends, with two empty buffers. Buffers that were lost when a side stopped early are replaced.
    pub fn ends(&mut self) -> Result<(Filling<'_>, Taking)> {
        let (give_back, empty) = sync_channel(BUFFERS);
        let (hand_over, filled) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            let kept = self.empty.try_recv().ok();
            let buffer = kept.map_or_else(|| self.setup.buffer(), Ok)?;
            // There is room for both, and the other end is here.
            let _ = give_back.send(buffer);
        }
        self.empty = empty;
        let filling = Filling {
            empty: &mut self.empty,
            filled: hand_over,
        };
        let taking = Taking {
            filled,
            empty: give_back,
        };
        Ok((filling, taking))
    }
}

impl Filling<'_> {
    /// Waits for an empty buffer, fills it, and hands it over, or the error. Returns whether to continue: not after an
    /// error, and not once the taking side has stopped.
    pub fn fill(&mut self, fill: impl FnOnce(&mut Buffer) -> Result<()>) -> bool {
        let Ok(mut buffer) = self.empty.recv() else {
            return false;
        };
        let filled = fill(&mut buffer).map(|()| buffer);
        let is_filled = filled.is_ok();
        self.filled.send(filled).is_ok() && is_filled
    }
}

impl Taking {
    /// Waits for a full buffer, or the error. None if the filling side panicked or has handed over its error already.
    pub fn take(&mut self) -> Result<Option<Buffer>> {
        self.filled.recv().ok().transpose()
    }

    pub fn give_back(&self, buffer: Buffer) {
        // There is room for both, and the pipe has the other end.
        let _ = self.empty.send(buffer);
    }
}

/// Which side runs on the thread of the pool. The other runs on the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helper {
    Fills,
    Takes,
}

/// The mechanism `double-buffer` of reading, writing and copying: a pipe, and a thread beside the caller's.
pub(crate) struct DoubleBuffer {
    setup: Setup,
    pool: ThreadPool,
    pipe: BufferPipe,
}

impl DoubleBuffer {
    pub fn new(setup: Setup) -> Result<Self> {
        Ok(Self {
            pipe: BufferPipe::new(setup)?,
            pool: setup.pool(1)?,
            setup,
        })
    }

    /// Reads the blocks of a range on the other thread, and has them taken in order on this one.
    pub fn read(
        &mut self,
        source: &OpenFile<'_>,
        range: Range<u64>,
        take: impl FnMut(&mut Buffer, u64, usize) -> Result<ControlFlow<()>> + Send,
    ) -> Result<ControlFlow<()>> {
        let mut ahead = Ahead::within(source, range.clone())?;
        let fill = |buffer: &mut Buffer, offset, length| {
            ahead.reading_at(offset)?;
            source.read_block(buffer, offset, length)
        };
        self.run(Helper::Fills, range, fill, take)
    }

    /// Fills the blocks of a range on one thread, and takes them in order on the other. Both closures get a buffer, the
    /// offset of its block and the block's length. Returns whether `take` ended it.
    pub fn run(
        &mut self,
        helper: Helper,
        range: Range<u64>,
        fill: impl FnMut(&mut Buffer, u64, usize) -> Result<()> + Send,
        take: impl FnMut(&mut Buffer, u64, usize) -> Result<ControlFlow<()>> + Send,
    ) -> Result<ControlFlow<()>> {
        let blocks = self.setup.blocks(range);
        let to_fill = blocks.clone();
        let (filling, taking) = self.pipe.ends()?;
        match helper {
            Helper::Fills => self.pool.in_place_scope(move |scope| {
                scope.spawn(move |_| fill_all(to_fill, filling, fill));
                take_all(blocks, taking, take)
            }),
            Helper::Takes => {
                let mut taken = Ok(ControlFlow::Continue(()));
                let result = &mut taken;
                self.pool.in_place_scope(move |scope| {
                    scope.spawn(move |_| *result = take_all(blocks, taking, take));
                    fill_all(to_fill, filling, fill);
                });
                taken
            }
        }
    }
}

fn fill_all(
    blocks: impl Iterator<Item = (u64, usize)>,
    mut filling: Filling<'_>,
    mut fill: impl FnMut(&mut Buffer, u64, usize) -> Result<()>,
) {
    for (offset, length) in blocks {
        if !filling.fill(|buffer| fill(buffer, offset, length)) {
            return;
        }
    }
}

fn take_all(
    blocks: impl Iterator<Item = (u64, usize)>,
    mut taking: Taking,
    mut take: impl FnMut(&mut Buffer, u64, usize) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    for (offset, length) in blocks {
        let Some(mut buffer) = taking.take()? else { break };
        let flow = take(&mut buffer, offset, length)?;
        taking.give_back(buffer);
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Mutex;
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::Duration;

    use super::*;
    use seekless_method::Method;

    const BLOCK: u64 = 4096;
    const BLOCKS: u64 = 5;

    /// Does something that could wait forever.
    pub(crate) fn in_time(something: impl FnOnce() + Send + 'static) {
        let (tell, told) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            something();
            let _ = tell.send(());
        });
        let is_late = told.recv_timeout(Duration::from_mins(1)) == Err(RecvTimeoutError::Timeout);
        assert!(!is_late, "it hangs");
        thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum End {
        Error,
        Panic,
        /// A consumer may end it; the filling side does not.
        Break,
    }

    /// How a side ends, and at which block.
    type Fault = Option<(End, u64)>;

    impl End {
        fn happen(setup: &Setup, fault: Fault, offset: u64) -> Result<ControlFlow<()>> {
            match fault.filter(|&(_, block)| offset == block * BLOCK) {
                None => Ok(ControlFlow::Continue(())),
                Some((Self::Break, _)) => Ok(ControlFlow::Break(())),
                Some((Self::Error, _)) => Err(setup.unavailable("as asked")),
                Some((Self::Panic, _)) => resume_unwind(Box::new("as asked")),
            }
        }
    }

    /// The blocks that were taken, and where the buffers lie.
    fn run(
        pipe: &mut DoubleBuffer,
        helper: Helper,
        filling: Fault,
        taking: Fault,
    ) -> (std::thread::Result<Result<ControlFlow<()>>>, u64, BTreeSet<usize>) {
        let setup = pipe.setup;
        let seen = Mutex::new((0, BTreeSet::new()));
        let result = catch_unwind(AssertUnwindSafe(|| {
            pipe.run(
                helper,
                0..BLOCKS * BLOCK - 1,
                |buffer, offset, length| {
                    buffer[..length].fill((offset / BLOCK) as u8);
                    End::happen(&setup, filling, offset).map(drop)
                },
                |buffer, offset, length| {
                    let mut seen = seen.lock().unwrap();
                    let (taken, buffers) = &mut *seen;
                    let expected = (*taken * BLOCK, BLOCK - u64::from(*taken == BLOCKS - 1));
                    assert_eq!((offset, length as u64), expected);
                    assert!(buffer[..length].iter().all(|&byte| u64::from(byte) == *taken));
                    *taken += 1;
                    buffers.insert(buffer.as_ptr() as usize);
                    drop(seen);
                    End::happen(&setup, taking, offset)
                },
            )
        }));
        let (taken, buffers) = seen.into_inner().unwrap();
        (result, taken, buffers)
    }

    fn faults(ends: &[End]) -> impl Iterator<Item = Fault> {
        let each = ends
            .iter()
            .flat_map(|&end| (0..BLOCKS).map(move |block| Some((end, block))));
        std::iter::once(None).chain(each)
    }

    #[test]
    fn whichever_side_ends_at_whichever_block_the_other_ends_too_and_the_next_file_is_whole() {
        in_time(|| {
            let method: Method = "read/double-buffer,block=4K".parse().unwrap();
            let mut pipe = DoubleBuffer::new(Setup::new(&method, u64::MAX >> 1)).unwrap();
            for helper in [Helper::Fills, Helper::Takes] {
                for filling in faults(&[End::Error, End::Panic]) {
                    for taking in faults(&[End::Error, End::Panic, End::Break]) {
                        let case = format!("{helper:?}: {filling:?}, {taking:?}");
                        let (result, taken, _) = run(&mut pipe, helper, filling, taking);
                        let filled = filling.map_or(BLOCKS, |(_, block)| block);
                        // Blocks that were filled before are taken, so the taking side may end first.
                        let met = taking.filter(|&(_, block)| block < filled);
                        assert_eq!(taken, met.map_or(filled, |(_, block)| block + 1), "{case}");
                        let end = |fault: Fault| fault.map(|(end, _)| end);
                        let ended_by = end(met.or(filling));
                        let is_right = match &result {
                            // The filling side may run ahead into its panic.
                            Err(_) => ended_by == Some(End::Panic) || end(filling) == Some(End::Panic),
                            Ok(Err(_)) => ended_by == Some(End::Error),
                            Ok(Ok(flow)) => ended_by == flow.is_break().then_some(End::Break),
                        };
                        assert!(is_right, "{case}: {result:?}");
                        let (result, taken, _) = run(&mut pipe, helper, None, None);
                        let expected = (ControlFlow::Continue(()), BLOCKS);
                        assert_eq!((result.unwrap().unwrap(), taken), expected, "{case}");
                    }
                }
            }
        });
    }

    #[test]
    fn buffers_are_kept_from_file_to_file() {
        in_time(|| {
            let method: Method = "write/double-buffer,block=4K".parse().unwrap();
            let mut pipe = DoubleBuffer::new(Setup::new(&method, u64::MAX >> 1)).unwrap();
            let (_, _, buffers) = run(&mut pipe, Helper::Takes, None, None);
            assert_eq!(buffers.len(), BUFFERS);
            for helper in [Helper::Fills, Helper::Takes] {
                assert_eq!(run(&mut pipe, helper, None, None).2, buffers);
            }
        });
    }
}
