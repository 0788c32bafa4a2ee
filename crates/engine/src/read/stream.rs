//! Reading ahead of the program: a thread reads a file by a method, and hands over its blocks in order.
//!
//! Long blocks are handed over in the buffers that the system filled; the method goes on with empty ones. Short blocks are
//! gathered, because to wake a thread takes as long as to copy some of them.

use std::fs::File;
use std::io;
use std::mem;
use std::ops::{ControlFlow, Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use seekless_method::{CachePolicy, Method};
use seekless_sys::{Buffer, lock_mutex};

use super::Reader;
use crate::error::{Error, Result};
use crate::file_range::FileRange;
use crate::setup::MEMORY_ALIGNMENT;
use crate::{Chunk, Consumer};

/// Blocks that wait to be consumed, at most, and about their bytes: the first touch of more memory takes longer than it
/// saves.
const BLOCKS_AHEAD: usize = 4;
const BYTES_AHEAD: u64 = 4 << 20;
/// Shorter blocks are gathered.
const WHOLE_BYTES: usize = 256 << 10;
/// Gathered blocks are handed over once there are as many bytes.
const GATHERED_BYTES: usize = 2 << 20;

/// Bytes of a file, in memory that goes back to the thread that reads ahead.
pub enum Block {
    /// The buffer of a block, and the bytes of it that were asked for.
    Whole(Buffer, Range<usize>),
    /// Several short blocks.
    Gathered(Vec<u8>),
}

impl Default for Block {
    fn default() -> Self {
        Self::Gathered(Vec::new())
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Whole(buffer, asked) => &buffer[asked.clone()],
            Self::Gathered(bytes) => bytes,
        }
    }
}

/// A thread that reads ahead. Dropping it ends the thread after the block that it reads.
pub struct BlockStream {
    path: PathBuf,
    blocks: Receiver<Result<Block>>,
    free: SyncSender<Block>,
    is_ended: bool,
}

impl BlockStream {
    /// Starts to read an open file, which errors name by a path, by the first of these methods that is available. The range
    /// is what it is to have.
    ///
    /// # Errors
    /// The system's, if it starts no thread.
    pub fn start(file: File, path: PathBuf, methods: [Method; 2], range: Range<u64>) -> io::Result<Self> {
        let block_bytes = methods[0].options().block_bytes().unwrap_or(1);
        let blocks_ahead = (BYTES_AHEAD / block_bytes).clamp(1, BLOCKS_AHEAD as u64) as usize;
        let (filled, blocks) = sync_channel(blocks_ahead);
        let (free, again) = sync_channel(blocks_ahead);
        let named = path.clone();
        let work = move || {
            let mut handover = Handover {
                filled,
                again: Mutex::new(again),
                gathered: Mutex::default(),
                skipped_bytes: 0,
            };
            let mut read = |method| read_open(&file, &named, method, &range, &mut handover);
            let read = match read(&methods[0]) {
                Err(error) if error.is_unavailable() && methods[1] != methods[0] => read(&methods[1]),
                read => read,
            };
            // Nobody may wait for it any more.
            let _ = handover.hand_over_gathered();
            let _ = handover.filled.send(read.map(|()| Block::default()));
        };
        thread::Builder::new().name("read-ahead".to_owned()).spawn(work)?;
        Ok(Self {
            path,
            blocks,
            free,
            is_ended: false,
        })
    }

    /// Waits for the next block, which is empty at the end of the range, and takes back the one before.
    ///
    /// # Errors
    /// As [`Reader::read`](super::Reader::read); [`Error::Resized`] if the file is shorter than the range.
    pub fn next(&mut self, used: Block) -> Result<Block> {
        if self.is_ended {
            return Ok(Block::default());
        }
        // The thread may have ended, or have enough of them.
        let _ = self.free.try_send(used);
        let died = |_| {
            Err(Error::system(
                &self.path,
                "read ahead",
                io::Error::other("its thread died"),
            ))
        };
        let block = self.blocks.recv().unwrap_or_else(died)?;
        self.is_ended = block.is_empty();
        Ok(block)
    }
}

/// Reads a range of an open file by a method.
fn read_open(file: &File, path: &Path, method: &Method, range: &Range<u64>, handover: &mut Handover) -> Result<()> {
    // Past the page cache, it needs its own description of the file, and starts where such reads may.
    let is_direct = method.options().cache() == CachePolicy::Direct;
    handover.skipped_bytes = if is_direct {
        range.start % MEMORY_ALIGNMENT as u64
    } else {
        0
    };
    let range = range.start - handover.skipped_bytes..range.end;
    let again = is_direct.then(|| seekless_sys::descriptor_path(file)).flatten();
    let from = match &again {
        Some(again) => FileRange::whole(again),
        None => FileRange::of_file(file).named(path),
    };
    let named = |error: Error| error.of_file(path);
    let mut reader = Reader::prepare_for(method, range.end).map_err(named)?;
    let read = reader.read(from.range(range.clone()), &*handover).map_err(named)?;
    let wanted_bytes = range.end - range.start;
    if read.bytes >= wanted_bytes || read.stopped {
        return Ok(());
    }
    Err(Error::Resized {
        path: path.to_owned(),
        method: *method,
        expected_bytes: range.end,
        found_bytes: range.start + read.bytes,
    })
}

/// The thread's end of the channels.
struct Handover {
    filled: SyncSender<Result<Block>>,
    again: Mutex<Receiver<Block>>,
    gathered: Mutex<Vec<u8>>,
    /// Bytes at the start of what is read that were not asked for.
    skipped_bytes: u64,
}

impl Handover {
    /// What was asked for of so many bytes at an offset.
    fn asked(&self, offset: u64, length: usize) -> Range<usize> {
        self.skipped_bytes.saturating_sub(offset).min(length as u64) as usize..length
    }

    fn hand_over(&self, block: Block) -> ControlFlow<()> {
        match self.filled.send(Ok(block)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn hand_over_gathered(&self) -> ControlFlow<()> {
        let gathered = mem::take(&mut *lock_mutex(&self.gathered));
        // An empty one would be the end of the file.
        if gathered.is_empty() {
            return ControlFlow::Continue(());
        }
        self.hand_over(Block::Gathered(gathered))
    }
}

impl Consumer for Handover {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        let mut gathered = lock_mutex(&self.gathered);
        if gathered.capacity() == 0
            && let Ok(Block::Gathered(mut free)) = lock_mutex(&self.again).try_recv()
        {
            free.clear();
            *gathered = free;
        }
        let _ = chunk.for_each_slice(|start, bytes| {
            gathered.extend_from_slice(&bytes[self.asked(offset + start as u64, bytes.len())]);
            ControlFlow::Continue(())
        });
        let is_enough = gathered.len() >= GATHERED_BYTES;
        drop(gathered);
        if is_enough {
            self.hand_over_gathered()
        } else {
            ControlFlow::Continue(())
        }
    }

    fn spare(&self, bytes: usize) -> Option<Buffer> {
        if bytes < WHOLE_BYTES {
            return None;
        }
        match lock_mutex(&self.again).try_recv() {
            Ok(Block::Whole(buffer, _)) if buffer.len() == bytes => Some(buffer),
            _ => Buffer::new(bytes, MEMORY_ALIGNMENT).ok(),
        }
    }

    fn filled(&self, offset: u64, buffer: Buffer, length: usize) -> ControlFlow<()> {
        self.hand_over_gathered()?;
        let asked = self.asked(offset, length);
        // An empty one would be the end of the file.
        if asked.is_empty() {
            return ControlFlow::Continue(());
        }
        self.hand_over(Block::Whole(buffer, asked))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::*;
    use crate::Error;

    /// All that is read, or the first error.
    fn read_all(path: &Path, methods: [&str; 2], start: u64) -> Result<Vec<u8>> {
        let file = File::open(path).map_err(|error| Error::system(path, "open", error))?;
        let bytes = file.metadata().unwrap().len();
        let methods = methods.map(|text| text.parse().unwrap());
        let range = start.min(bytes)..bytes;
        let mut stream = BlockStream::start(file, path.to_owned(), methods, range).unwrap();
        let (mut all, mut block) = (Vec::new(), Block::default());
        loop {
            block = stream.next(block)?;
            if block.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&block);
        }
    }

    #[test]
    fn block_stream_has_the_bytes_of_the_file_by_every_method() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..5_000_003_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        for method in [
            "sync,block=4K",
            "sync,block=256K",
            "sync,block=8M",
            "sync,direct,block=1M",
            "double-buffer,block=512K",
            "posix-aio,block=256K",
            "io_uring,depth=8,block=16K",
            "io_uring,depth=3,block=256K",
            "io_uring,depth=4,direct,block=512K",
        ] {
            let method = format!("read/{method}");
            for start in [0, 1, 4095, (1 << 20) - 1, 1 << 20, content.len() as u64, 9 << 20] {
                let read = match read_all(&path, [&method, &method], start) {
                    Err(error) if error.is_unavailable() => {
                        println!("skipped: {error}");
                        continue;
                    }
                    read => read.unwrap(),
                };
                let rest = content.get(start as usize..).unwrap_or_default();
                assert!(
                    read == rest,
                    "{method} from {start}: {} of {} bytes",
                    read.len(),
                    rest.len()
                );
            }
        }
    }

    #[test]
    fn block_stream_keeps_holes_between_whole_blocks_in_their_places() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = File::create(&path).unwrap();
        for at in [0, 3 << 20, 8 << 20] {
            file.write_all_at(&vec![1 + (at >> 20) as u8; (1 << 20) + 17], at)
                .unwrap();
        }
        let read = read_all(&path, ["read/sync,block=256K,holes=skip"; 2], 0).unwrap();
        assert!(read == std::fs::read(&path).unwrap());
    }

    #[test]
    fn block_stream_takes_the_other_method_where_the_first_is_unavailable() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        std::fs::write(file.path(), b"bytes").unwrap();
        // A consumer that needs order refuses it.
        let read = read_all(file.path(), ["read/threads,threads=2", "read/sync,block=64K"], 0);
        assert_eq!(read.unwrap(), b"bytes");
    }

    #[test]
    fn block_stream_tells_an_error_after_the_bytes_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let gone = read_all(&directory.path().join("gone"), ["read/sync,block=1M"; 2], 0);
        assert!(matches!(gone.unwrap_err(), Error::System { .. }));
    }
}
