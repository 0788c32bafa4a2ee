//! Making files of a layout, and checking them with the file system.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use seekless_engine::files::{allocated_bytes, data_ranges};
use seekless_sys::{self as sys, Support};

use super::fragments::verify_fragmented;
use super::{Layout, StretchKind};
use crate::generator::Generator;

const PIECE_BYTES: usize = 1 << 20;

/// Makes a new file of a stream, written through to the device.
///
/// # Errors
/// The system's, of creating, writing and syncing.
pub(super) fn lay_out(path: &Path, pieces: &Layout, seed: u64) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    // Set the size first, because file systems preallocate past the end of a file that grows.
    file.set_len(pieces.bytes())?;
    let generator = Generator::new(seed);
    let mut buffer = vec![0; PIECE_BYTES];
    for (range, kind) in pieces.stretches().filter(|(_, kind)| *kind != StretchKind::Hole) {
        for at in range.clone().step_by(PIECE_BYTES) {
            let piece = &mut buffer[..(range.end - at).min(PIECE_BYTES as u64) as usize];
            if kind == StretchKind::Zeros {
                piece.fill(0);
            } else {
                generator.fill(at, piece);
            }
            file.write_all_at(piece, at)?;
        }
    }
    file.sync_all()
}

/// Compares a file with its layout: holes as requested, blocks elsewhere, and no more blocks than that. A sentence says
/// what is wrong.
///
/// # Errors
/// The system's, of opening and asking.
pub fn verify(path: &Path, pieces: &Layout) -> io::Result<Result<(), String>> {
    if *pieces == Layout::Fragmented {
        return verify_fragmented(path);
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.len() != pieces.bytes() {
        return Ok(Err(format!(
            "it has {} B instead of {} B",
            metadata.len(),
            pieces.bytes()
        )));
    }
    if let Support::Unavailable(reason) = sys::next_hole(&file, 0)? {
        return Ok(Err(reason.to_owned()));
    }
    let found: Vec<_> = data_ranges(&file, 0..pieces.bytes()).collect::<io::Result<_>>()?;
    let wished = pieces.allocated();
    if let Some(wrong) = first_difference(&wished, &found) {
        return Ok(Err(wrong));
    }
    // Holes that take space are not holes, whatever the map says. The file system's own blocks may be counted, too.
    let (taken, holes) = (allocated_bytes(&metadata), pieces.hole_bytes());
    let data = pieces.bytes() - holes;
    if holes > 0 && taken.saturating_sub(data) > holes / 2 {
        return Ok(Err(format!(
            "{} of data take {}: the file system makes no holes",
            seekless_results::chosen_size(data),
            seekless_results::chosen_size(taken)
        )));
    }
    Ok(Ok(()))
}

/// The first difference from the requested layout, in the order of the file.
fn first_difference(wished: &[Range<u64>], found: &[Range<u64>]) -> Option<String> {
    let pairs = wished.iter().zip(found);
    let at = match pairs.clone().position(|(wished, found)| wished != found) {
        None if wished.len() == found.len() => return None,
        None => wished.len().min(found.len()),
        Some(at) => at,
    };
    let words = |range: Option<&Range<u64>>| {
        range.map_or_else(
            || "no further data".to_owned(),
            |range| format!("data from byte {} to {}", range.start, range.end),
        )
    };
    Some(format!(
        "the file system created {} instead of {}, so the holes are not the requested ones",
        words(found.get(at)),
        words(wished.get(at))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Layout {
        text.parse().unwrap()
    }

    #[test]
    fn layout_refuses_dense_sparse_files_and_holes_in_dense_ones() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let is_refused = |text: &str, words: &str| {
            let why = verify(&path, &pieces(text)).unwrap().unwrap_err();
            assert!(why.contains(words), "{why}");
        };
        std::fs::write(&path, vec![0; (1 << 20) + (64 << 10)]).unwrap();
        is_refused("1M hole, 64K data", "data from byte 0");
        std::fs::remove_file(&path).unwrap();
        let sparse = pieces("64K data, 1M hole, 64K data");
        lay_out(&path, &sparse, 1).unwrap();
        let of_dense = "data from byte 0 to 65536 instead of data from byte 0 to 1179648";
        is_refused("64K data, 1M zeros, 64K data", of_dense);
        is_refused("64K data, 1M hole, 128K data", "B instead of");
        assert_eq!(verify(&path, &sparse).unwrap(), Ok(()));
    }

    #[test]
    fn a_file_is_not_laid_out_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (link, precious) = (directory.path().join("link"), directory.path().join("precious"));
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        lay_out(&link, &pieces("64K data, 1M hole"), 1).unwrap_err();
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn layout_difference_is_found_at_the_start_and_at_the_end() {
        let two: &[Range<u64>] = &[0..4096, 8192..12288];
        let one = &two[..1];
        assert_eq!(first_difference(two, two), None);
        assert_eq!(first_difference(&[], &[]), None);
        let missing = first_difference(two, one).unwrap();
        assert!(missing.contains("created no further data instead of data from byte 8192"));
        let further = first_difference(one, two).unwrap();
        assert!(further.contains("data from byte 8192 to 12288 instead of no further data"));
    }
}
