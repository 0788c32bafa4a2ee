//! The list of checksums that `--checksums` writes, in the form of b3sum(1) and sha256sum(1).

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use seekless_engine::files::FileId;
use seekless_tools::cp::Checksum;

use super::Arguments;
use crate::output::{Output, require_own};
use crate::show::visible_path;

/// Where the checksums are written to: to no file that is copied or is a copy, and in place of nothing but an older list.
pub fn checksums_output(
    path: &Path,
    sources: &[PathBuf],
    target: &Path,
    arguments: &Arguments,
) -> anyhow::Result<Output> {
    let inputs = sources.iter().map(PathBuf::as_path);
    let output = Output::prepare(path, inputs).context("cannot write the checksums")?;
    if output.is_stdout() && (arguments.json || arguments.verbose) {
        bail!("standard output is named twice; write the checksums to a file");
    }
    let Some(file) = output.target() else {
        return Ok(output);
    };
    require_own(&file, "a list of checksums", is_list)?;
    let id = |path: &Path| fs::metadata(path).ok().map(|found| FileId::of(&found));
    let around: Vec<FileId> = file.ancestors().filter_map(id).collect();
    let is_into = !arguments.no_target_directory && target.is_dir();
    for source in sources {
        if id(source).is_some_and(|source| around.contains(&source)) {
            let (path, source) = (visible_path(path), visible_path(source));
            bail!("{path}: {source} is copied; write the checksums elsewhere");
        }
        let copy = copy_of(source, target, is_into);
        let within = copy.as_ref().ok().and_then(|copy| file.strip_prefix(copy).ok());
        if within.is_some_and(|within| within == Path::new("") || fs::symlink_metadata(source.join(within)).is_ok()) {
            bail!("{}: is a copy; write the checksums to another file", visible_path(path));
        }
    }
    Ok(output)
}

/// The path of the copy of a source, without links; `is_into` is whether the target is a directory to copy into.
fn copy_of(source: &Path, target: &Path, is_into: bool) -> io::Result<PathBuf> {
    // As `photos/.`, whose copies have no name of their own.
    let is_content = source.to_string_lossy().trim_end_matches('/').ends_with("/.");
    let copy = match source.file_name().filter(|_| is_into && !is_content) {
        Some(name) => target.join(name),
        None => target.to_owned(),
    };
    fs::canonicalize(&copy).or_else(|_| {
        let above = copy.parent().filter(|above| !above.as_os_str().is_empty());
        let above = fs::canonicalize(above.unwrap_or(Path::new(".")))?;
        Ok(above.join(copy.file_name().unwrap_or_default()))
    })
}

/// Whether a file begins with a line as b3sum and sha256sum write it.
fn is_list(path: &Path) -> bool {
    let mut line = Vec::new();
    let read = File::open(path).and_then(|file| BufReader::new(file.take(1 << 16)).read_until(b'\n', &mut line));
    let line = line.strip_prefix(b"\\").unwrap_or(&line);
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    read.is_ok() && digits == 64 && line[digits..].starts_with(b" ")
}

/// The checksum that a file of this name is to have.
pub fn checksum_of(path: &Path) -> Checksum {
    let name = path.as_os_str().as_bytes().to_ascii_lowercase();
    if name.ends_with(b"sha256") || name.ends_with(b"sha256sums") {
        Checksum::Sha256
    } else {
        Checksum::Blake3
    }
}

/// The line of a file. As these programs do, it escapes some characters of the name, and then begins with a backslash.
pub fn checksum_line(checksum: &str, path: &Path) -> Vec<u8> {
    let name = path.as_os_str().as_bytes();
    let is_escaped = name.iter().any(|byte| b"\\\n".contains(byte));
    let mark: &[u8] = if is_escaped { b"\\" } else { b"" };
    let mut line = [mark, checksum.as_bytes(), b"  "].concat();
    for byte in name {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            other => line.push(*other),
        }
    }
    line.push(b'\n');
    line
}
