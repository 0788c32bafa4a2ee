//! Does once what a method says, and nothing else: `once METHOD FILE [OTHER]`.
//!
//! A method that writes or updates changes FILE, one that copies copies FILE to OTHER, and one that compares compares
//! FILE with OTHER. One that scans reads FILE several times. `once nothing` ends at once: the cost of a method is the difference from that.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use seekless_engine::update::{Batch, Commit, commit};
use seekless_engine::{
    Chunk, Comparer, Consumer, Copier, Destination, Method, Operation, Reader, ScanFile, Scanner, Writer,
};

/// The bytes to write to FILE if it does not exist.
const WRITTEN_BYTES: u64 = 4 << 20;
/// How often FILE is scanned, as if it were several files.
const SCANNED: usize = 64;
/// The distance between two updates of four bytes.
const UPDATED_BYTES: u64 = 10_000;

/// Takes all bytes and uses none; pages of a mapped file are brought into memory.
struct Touch;

impl Consumer for Touch {
    fn data(&self, _offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        chunk.touch();
        ControlFlow::Continue(())
    }

    fn zeros(&self, _offset: u64, _length: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn needs_order(&self) -> bool {
        false
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (method, paths) = words.split_first().ok_or("once METHOD FILE [OTHER]")?;
    seekless_engine::allow_mapping()?;
    if method == "nothing" {
        return Ok(());
    }
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let path = |at: usize| paths.get(at).map(PathBuf::as_path).ok_or("a path is missing");
    run(&method.parse()?, path(0)?, path(1).ok())
}

fn run(method: &Method, path: &Path, other: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let bytes = std::fs::metadata(path).map_or(WRITTEN_BYTES, |metadata| metadata.len());
    let destination = |path: &Path| {
        if path.exists() {
            Destination::Overwrite
        } else {
            Destination::New
        }
    };
    let other = || other.ok_or("the other path is missing");
    match method.operation() {
        Operation::Read => {
            Reader::prepare_for(method, bytes)?.read(path, Touch)?;
        }
        Operation::Scan => {
            let consumer = &Touch;
            Scanner::prepare(method)?.scan(&[ScanFile { path, bytes, consumer }; SCANNED])?;
        }
        Operation::Write => {
            let mut writer = Writer::prepare_for(method, bytes)?;
            let sevens = |_: u64, bytes: &mut [u8]| {
                bytes.fill(7);
                Ok(())
            };
            writer.write(path, destination(path), bytes, &sevens)?;
        }
        Operation::Copy => {
            let mut copier = Copier::prepare_for(method, bytes)?;
            copier.copy(path, other()?, destination(other()?))?;
        }
        Operation::Compare => {
            Comparer::prepare_for(method, bytes)?.compare(path, other()?)?;
        }
        Operation::Update => {
            let mut batch = Batch::new();
            for offset in (0..bytes.saturating_sub(3)).step_by(UPDATED_BYTES as usize) {
                batch.push(offset, b"once")?;
            }
            let how = Commit::by(*method);
            commit(path, &batch.resolve(), &how)?;
        }
    }
    Ok(())
}
