//! `compare/double-buffer`: other threads read the next block of each while this one compares; one thread for both files
//! in turn, or one for each.

use std::ops::Range;

use super::pair::Pair;
use super::sync::preload_blocks;
use super::{CompareBytes, PrepareCompare};
use crate::error::Result;
use crate::setup::Setup;
use crate::threads::ThreadPool;
use crate::transfer::{Ahead, BufferPipe, Filling, Taking};
use seekless_method::Order;

pub(super) const PREPARE: PrepareCompare = |setup| {
    let is_parallel = setup.method.options().order() == Order::Parallel;
    Ok(Box::new(DoubleBuffer {
        setup,
        pool: setup.pool(if is_parallel { 2 } else { 1 })?,
        pipes: [BufferPipe::new(setup)?, BufferPipe::new(setup)?],
    }))
};

struct DoubleBuffer {
    setup: Setup,
    pool: ThreadPool,
    /// One pipe for each file.
    pipes: [BufferPipe; 2],
}

/// The reading side of one file.
struct Reading<'a> {
    file: usize,
    ahead: Ahead<'a>,
    filling: Filling<'a>,
}

impl CompareBytes for DoubleBuffer {
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()> {
        let (mut filling, mut taking) = self.pipes[0].ends()?;
        filling.fill(|buffer| preload_blocks(pair, file, range, buffer));
        if let Some(buffer) = taking.take()? {
            taking.give_back(buffer);
        }
        Ok(())
    }

    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
        let [first, second] = &mut self.pipes;
        let (one, take_one) = ends(pair, 0, first, &range)?;
        let (other, take_other) = ends(pair, 1, second, &range)?;
        let blocks = self.setup.blocks(range);
        let has_thread_for_each = self.pool.current_num_threads() > 1;
        self.pool.in_place_scope(move |scope| {
            let (to_fill, also_to_fill) = (blocks.clone(), blocks.clone());
            if has_thread_for_each {
                scope.spawn(move |_| fill(pair, to_fill, &mut [one]));
                scope.spawn(move |_| fill(pair, also_to_fill, &mut [other]));
            } else {
                scope.spawn(move |_| fill(pair, to_fill, &mut [one, other]));
            }
            compare_filled(pair, blocks, [take_one, take_other], newlines)
        })
    }
}

/// The two ends of one file's pipe.
fn ends<'a>(
    pair: &'a Pair<'a>,
    file: usize,
    pipe: &'a mut BufferPipe,
    range: &Range<u64>,
) -> Result<(Reading<'a>, Taking)> {
    let ahead = Ahead::within(&pair.sides[file], pair.place(file, range))?;
    let (filling, taking) = pipe.ends()?;
    Ok((Reading { file, ahead, filling }, taking))
}

/// Fills buffers of the files in turn.
fn fill(pair: &Pair<'_>, blocks: impl Iterator<Item = (u64, usize)>, files: &mut [Reading<'_>]) {
    for (at, length) in blocks {
        for Reading { file, ahead, filling } in &mut *files {
            let goes_on = filling.fill(|buffer| {
                ahead.reading_at(pair.starts[*file] + at)?;
                pair.read(*file, buffer, at, length)
            });
            if !goes_on {
                return;
            }
        }
    }
}

fn compare_filled(
    pair: &Pair<'_>,
    blocks: impl Iterator<Item = (u64, usize)>,
    mut files: [Taking; 2],
    newlines: &mut u64,
) -> Result<Option<u64>> {
    for (at, length) in blocks {
        // The reading side ends early only after an error, which is received first.
        let mut take = |file: usize| files[file].take()?.ok_or_else(|| pair.sides[file].resized(at));
        let buffers = [take(0)?, take(1)?];
        let [one, other] = buffers.each_ref().map(|buffer| &buffer[..length]);
        let found = pair.difference(one, other, newlines);
        for (file, buffer) in files.iter().zip(buffers) {
            file.give_back(buffer);
        }
        if let Some(found) = found {
            return Ok(Some(at + found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::compare::FileRange;
    use crate::error::Error;
    use crate::transfer::in_time;
    use seekless_method::Method;

    const BLOCK: u64 = 4096;
    const BLOCKS: u64 = 5;

    #[test]
    fn whichever_file_ends_or_differs_at_whichever_block_both_reading_sides_end_and_the_next_two_are_compared() {
        in_time(|| {
            let directory = tempfile::tempdir().unwrap();
            let paths = ["one", "other"].map(|name| directory.path().join(name));
            let bytes = vec![7; (BLOCK * BLOCKS) as usize];
            for order in ["order=alternate", "order=parallel"] {
                let method: Method = format!("compare/double-buffer,block=4K,{order}").parse().unwrap();
                let mut mechanism = PREPARE(Setup::new(&method, BLOCK * BLOCKS)).unwrap();
                for (file, block) in (0..2).flat_map(|file| (0..BLOCKS).map(move |block| (file, block))) {
                    let case = format!("{order}, file {file}, block {block}");
                    let mut compare_changed = |change: &dyn Fn()| {
                        for path in &paths {
                            fs::write(path, &bytes).unwrap();
                        }
                        let parts = paths.each_ref().map(FileRange::whole);
                        let pair = Pair::open(parts.each_ref(), &method).unwrap();
                        change();
                        mechanism.compare(&pair, 0..pair.bytes, &mut 0)
                    };
                    let changed = || File::options().write(true).open(&paths[file]).unwrap();
                    let shrunk = compare_changed(&|| changed().set_len(block * BLOCK).unwrap());
                    let Err(Error::Resized { path, found_bytes, .. }) = shrunk else {
                        panic!("{case}: {shrunk:?}")
                    };
                    assert_eq!((path, found_bytes), (paths[file].clone(), block * BLOCK), "{case}");
                    let differing = compare_changed(&|| {
                        changed().write_all_at(b"!", block * BLOCK + 9).unwrap();
                    });
                    assert_eq!(differing.unwrap(), Some(block * BLOCK + 9), "{case}");
                    assert_eq!(compare_changed(&|| ()).unwrap(), None, "{case}");
                }
            }
        });
    }
}
