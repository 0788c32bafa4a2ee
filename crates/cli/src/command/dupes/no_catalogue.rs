//! Catalogues in a program that was built without them: they are recognised, and refused.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::Arguments;
use crate::command::Failure;
use crate::command::absent::without;
use crate::show::visible_path;

pub use crate::command::absent::Arguments as CatalogueArguments;

/// The metadata of Parquet files of seekless has this word.
const MARK: &[u8] = b"seekless.catalogue";
/// The metadata of a large catalogue is longer, but its end has the word.
const END_BYTES: u64 = 1 << 16;

pub fn run(_: &CatalogueArguments) -> Result<u8, Failure> {
    Err(anyhow!(without("catalogue")).into())
}

pub fn against(_: &Arguments, _: &[PathBuf], catalogues: &[PathBuf]) -> Result<u8, Failure> {
    let first = catalogues.iter().find(|path| is_catalogue(path));
    let first = first.map(|path| visible_path(path)).unwrap_or_default();
    Err(anyhow!("--against {first}: a catalogue, but {}", without("catalogue")).into())
}

/// Returns whether a file is a catalogue, so that one is not taken for a file to compare with.
pub fn is_catalogue(path: &Path) -> bool {
    let looks_like_one = || {
        let mut file = File::open(path)?;
        let (mut begin, mut end) = ([0; 4], Vec::new());
        file.read_exact(&mut begin)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
        file.take(END_BYTES).read_to_end(&mut end)?;
        Ok::<_, std::io::Error>(&begin == b"PAR1" && end.windows(MARK.len()).any(|bytes| bytes == MARK))
    };
    // A pipe would wait for its writer.
    path.is_file() && looks_like_one().unwrap_or(false)
}
