//! Output files. A regular file is replaced as a whole or not at all. Anything else is written to, never replaced. `-`
//! is standard output.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use seekless_engine::files::{FileId, OutputPlace};

use crate::call;
use crate::show::visible_path;

/// The target of an output, checked before the work starts.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Where the path leads.
    Named(OutputPlace),
    /// Standard output, by the name `-`.
    Stdout,
}

impl Output {
    /// Checks that a file can be written at a path, and that it is none of the files that are read; `-` is standard output.
    pub fn prepare<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self {
                path: PathBuf::from("standard output"),
                place: Place::Stdout,
            });
        }
        refuse_input(path, inputs)?;
        // Formatted, because the reason may be a sentence of its own.
        let place = OutputPlace::find(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            place: Place::Named(place),
        })
    }

    /// The path, without links, of the file that will be replaced or created; `None` for a stream.
    pub fn target(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Named(OutputPlace::File(file)) => Some(file.path().to_owned()),
            Place::Stdout | Place::Named(OutputPlace::Stream(_)) => None,
        }
    }

    /// The same; a new file gets this mode, less the umask.
    pub fn with_mode(self, mode: u32) -> Self {
        let place = match self.place {
            Place::Named(OutputPlace::File(file)) => Place::Named(OutputPlace::File(file.with_mode(mode))),
            stream => stream,
        };
        Self { place, ..self }
    }

    /// Its name in errors.
    pub fn name(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Whether it is standard output; then nothing else is printed there.
    pub fn is_stdout(&self) -> bool {
        matches!(self.place, Place::Stdout)
    }

    /// Whether both are the same file.
    pub fn is_same(&self, other: &Self) -> bool {
        let targets = [self.target(), other.target()];
        (self.is_stdout() && other.is_stdout()) || (targets[0].is_some() && targets[0] == targets[1])
    }

    /// Writes a new file beside the old one, syncs it, and renames it over the old one. A stream is written directly.
    pub fn write(self, bytes: &[u8]) -> anyhow::Result<()> {
        self.write_by(|out| out.write_all(bytes))
    }

    /// Like [`write`](Self::write), for what `write` writes bit by bit. If that fails, the old file stays.
    pub fn write_by(self, write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> anyhow::Result<()> {
        let written = match self.place {
            Place::Named(place) => place.write_by(|file| write(file)),
            Place::Stdout => return write(&mut call::output()).context("cannot write the output"),
        };
        // Formatted, not kept as the source: a FIFO that lost its reader is an error, unlike a closed standard output.
        written.map_err(|error| anyhow!("{}: cannot write: {error}", self.path.display()))
    }
}

/// Fails if a file that will be written to is, by this or another name, one of the files that are read.
pub fn refuse_input<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    let id = |path: &Path| {
        let found = fs::metadata(path).ok().filter(Metadata::is_file);
        found.map(|found| FileId::of(&found))
    };
    let written = id(path);
    for input in inputs {
        if written.is_some() && id(input) == written {
            let (path, input) = (visible_path(path), visible_path(input));
            bail!("{path}: is the same file as {input}, which is read; write to another file");
        }
    }
    Ok(())
}

/// Fails if an output would replace a file that this program did not write. `kind` says what it writes there.
pub fn require_own(path: &Path, kind: &str, is_own: impl FnOnce(&Path) -> bool) -> anyhow::Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0) && !is_own(path) {
        let path = visible_path(path);
        bail!("{path}: exists and is not {kind}; remove it, or name another file");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        Output::prepare(path, [])?.write(bytes)
    }

    #[test]
    fn a_file_is_replaced_and_a_link_to_it_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::os::unix::fs::symlink("file", &link).unwrap();
        // First to where the link leads nowhere yet.
        for bytes in [b"one", b"two"] {
            write(&link, bytes).unwrap();
            assert_eq!(fs::read(&file).unwrap(), bytes);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_directory_a_missing_directory_and_a_ring_of_links_are_refused_before_anything_is_done() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |path: &Path| format!("{:#}", Output::prepare(path, []).unwrap_err());
        assert!(refused(directory.path()).contains("is a directory"));
        assert!(refused(&directory.path().join("missing/file")).contains("cannot create a file"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let ring = directory.path().join("ring");
        std::os::unix::fs::symlink("ring", &ring).unwrap();
        assert!(refused(&ring).contains("cannot stat"));
    }

    #[test]
    fn what_a_path_below_proc_stands_for_is_written_to_and_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, b"before ").unwrap();
        let open = fs::File::open(&path).unwrap();
        let handed_over = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open)));
        if !handed_over.exists() {
            println!("skipped: there is no /proc here");
            return;
        }
        write(&handed_over, b"after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before after");
        assert_eq!(fs::metadata(&path).unwrap().ino(), open.metadata().unwrap().ino());
    }
}
