//! Documents as they are sent and stored.

use std::io::{Read, Result, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// A text, compressed.
pub fn compressed(text: &[u8]) -> Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(text)?;
    out.finish()
}

/// What [`compressed`] wrote; at most one byte more than `most` of it.
pub fn decompressed(text: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    GzDecoder::new(text).take(most as u64 + 1).read_to_end(&mut out)?;
    Ok(out)
}
