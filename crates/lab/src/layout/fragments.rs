//! Files with data throughout, scattered over the device, like files that grew slowly on a full disk.
//!
//! A file system keeps a file together even if it is written in random order, so every other piece is cut out of a file
//! of twice the size. If that is not supported, pieces are written in random order, each through to the device.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use seekless_sys::{self as sys, Support};

use super::BLOCK_BYTES;
use crate::generator::Generator;

/// The usual piece: what a file gets at a time that is appended to slowly.
const PIECE_BYTES: u64 = 64 << 10;
/// The fewest pieces of a file, unless they would be smaller than a block.
pub const FEWEST_PIECES: u64 = 64;
/// The most pieces of a file: each is cut out or synced on its own.
const MOST_PIECES: u64 = 1024;

/// The size of the pieces of a file.
fn piece_bytes(bytes: u64) -> u64 {
    let usual = (bytes / FEWEST_PIECES).clamp(BLOCK_BYTES, PIECE_BYTES);
    usual.max(bytes.div_ceil(MOST_PIECES)).next_power_of_two()
}

/// Makes a new file of the stream of a seed, written through to the device. Meanwhile, it takes twice its space.
///
/// # Errors
/// The system's, of creating, writing and syncing.
pub(super) fn make_fragmented(path: &Path, bytes: u64, seed: u64) -> io::Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let content = Generator::new(seed);
    let pieces: Vec<u64> = (0..bytes).step_by(piece_bytes(bytes) as usize).collect();
    if cut_out(&file, bytes, &pieces, &content)? {
        return file.sync_all();
    }
    file.set_len(0)?;
    let mut shuffled = pieces;
    fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
    for at in shuffled {
        write_piece(&file, at, at, bytes, &content)?;
        file.sync_data()?;
    }
    file.sync_all()
}

/// Writes each piece followed by a second one, then cuts the second ones out, the last first. Returns false if the file
/// system cannot do that.
fn cut_out(file: &File, bytes: u64, pieces: &[u64], content: &Generator) -> io::Result<bool> {
    for &at in pieces {
        write_piece(file, at, 2 * at, bytes, content)?;
        if at + piece_bytes(bytes) < bytes {
            write_piece(file, at, 2 * at + piece_bytes(bytes), bytes, content)?;
        }
    }
    file.sync_all()?;
    for &at in pieces.iter().rev().skip(1) {
        match sys::collapse_range(file, 2 * at + piece_bytes(bytes), piece_bytes(bytes))? {
            Support::Available(()) => {}
            Support::Unavailable(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// Writes the bytes for the final offset `at` to the current offset `to`.
fn write_piece(file: &File, at: u64, to: u64, bytes: u64, content: &Generator) -> io::Result<()> {
    let mut piece = vec![0; (bytes - at).min(piece_bytes(bytes)) as usize];
    content.fill(at, &mut piece);
    file.write_all_at(&piece, to)
}

/// Checks that at least half of the pieces do not follow their predecessor on the device. A sentence says what is
/// wrong.
///
/// # Errors
/// The system's, of opening and asking.
pub(super) fn verify_fragmented(path: &Path) -> io::Result<Result<(), String>> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let extents = match sys::extents(&file, sys::WHOLE_FILE)? {
        Support::Available(extents) => extents,
        Support::Unavailable(reason) => return Ok(Err(reason.to_owned())),
    };
    if extents.iter().any(|extent| extent.flags.is_doubtful()) {
        return Ok(Err(
            "the file system does not report where on the device the file is".to_owned()
        ));
    }
    let pairs = extents.iter().zip(extents.iter().skip(1));
    let breaks = pairs
        .filter(|(one, next)| one.physical + one.length != next.physical)
        .count() as u64;
    let wanted = bytes.div_ceil(piece_bytes(bytes)) / 2;
    Ok(if wanted == 0 {
        Err("a file of one block cannot have fragments".to_owned())
    } else if breaks < wanted {
        Err(format!(
            "the file system keeps files together: {} fragments instead of {}",
            breaks + 1,
            wanted + 1
        ))
    } else {
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_neither_many_nor_few() {
        for (bytes, piece) in [
            (1, 4 << 10),
            (100 << 10, 4 << 10),
            (1 << 20, 16 << 10),
            (64 << 20, 64 << 10),
            (1 << 30, 1 << 20),
            ((1 << 30) + 1, 2 << 20),
        ] {
            assert_eq!(piece_bytes(bytes), piece, "{bytes}");
        }
    }

    #[test]
    fn a_fragmented_file_has_the_bytes_of_the_stream_and_lies_apart() {
        let directory = tempfile::tempdir().unwrap();
        for bytes in [8192, 1_000_001, 3 << 20] {
            let path = directory.path().join(bytes.to_string());
            make_fragmented(&path, bytes, 7).unwrap();
            let mut expected = vec![0; bytes as usize];
            Generator::new(7).fill(0, &mut expected);
            assert!(std::fs::read(&path).unwrap() == expected, "{bytes}");
            match verify_fragmented(&path).unwrap() {
                Ok(()) => {}
                Err(why) => println!("skipped: {why}"),
            }
        }
    }

    #[test]
    fn a_file_that_lies_together_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let why = verify_fragmented(&path).unwrap().unwrap_err();
        assert!(!why.is_empty());
    }
}
