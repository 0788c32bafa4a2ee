//! Where an output goes: into a file that is replaced as a whole, or into a stream.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use seekless_sys::{self as sys, Access, Opening, PathWalk};

use super::FileId;
use super::atomic::{AtomicFile, end_of_links};

/// Where the bytes go that are written to a path.
#[derive(Debug)]
pub enum OutputPlace {
    /// A regular file, which need not exist yet, with links followed.
    File(AtomicFile),
    /// A device, a FIFO, or an open file of a process, below `/proc`. It stays open until it is written: closing a FIFO
    /// earlier would end its reader's input.
    Stream(File),
}

impl OutputPlace {
    /// Finds where a path leads, and checks that it can be written there.
    ///
    /// # Errors
    /// A sentence that says what cannot be done, and the system's reason. Directories, block devices and FIFOs without a reader
    /// are refused, and what somebody else put into a sticky directory open to all.
    pub fn find(path: &Path) -> io::Result<Self> {
        let cannot =
            |action: &str, error: &io::Error| io::Error::new(error.kind(), format!("cannot {action}: {error}"));
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(io::Error::other("is a directory; name a file to write to")),
            Ok(found) if found.file_type().is_block_device() => Err(io::Error::other(
                "is a block device; writing to it would destroy its data",
            )),
            Ok(found) => match (standard_stream(&found), found.is_file()) {
                (Some(stream), _) => Ok(Self::Stream(stream)),
                (None, true) => match AtomicFile::find(path) {
                    Ok(Some(file)) => Ok(Self::File(file)),
                    Ok(None) => open_stream(path),
                    Err(error) => Err(cannot("replace it", &error)),
                },
                (None, false) => open_stream(path),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => match AtomicFile::find(path) {
                Ok(Some(file)) => Ok(Self::File(file)),
                Ok(None) => Err(io::Error::other("the link leads nowhere")),
                Err(error) => Err(cannot("create a file in its directory", &error)),
            },
            Err(error) => Err(cannot("stat", &error)),
        }
    }

    /// Writes a new file beside the old one, syncs it, and renames it over the old one. A stream is written directly.
    ///
    /// # Errors
    /// The system's, and those of `write`; a file is then unchanged.
    pub fn write_by(self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_by(write),
            Self::Stream(mut stream) => write(&mut stream),
        }
    }
}

/// The standard output or error of this process, if it is this file. Opened again, it would begin at byte 0, and both would overwrite
/// each other.
fn standard_stream(found: &Metadata) -> Option<File> {
    let (output, error) = (io::stdout(), io::stderr());
    let streams = [output.as_fd(), error.as_fd()].map(|stream| stream.try_clone_to_owned().map(File::from));
    let id = |stream: &File| stream.metadata().map(|found| FileId::of(&found)).ok();
    let mut streams = streams.into_iter().flatten();
    streams.find(|stream| id(stream) == Some(FileId::of(found)))
}

/// Opens a stream for appending. A FIFO without a reader is refused; a plain open would block.
fn open_stream(path: &Path) -> io::Result<OutputPlace> {
    let cannot_open = |error: io::Error| match error.raw_os_error() {
        Some(code) if code == Errno::NXIO.raw_os_error() => io::Error::other("the FIFO has no reader; start one first"),
        _ => io::Error::new(error.kind(), format!("cannot open for writing: {error}")),
    };
    let open = || match end_of_links(path)? {
        Some(PathWalk { directory, name, .. }) => {
            let opened = directory.open_plain(&name.unwrap_or_default(), Access::Append)?;
            // By the open file, so that no other takes its place.
            sys::refuse_planted(&directory, opened.metadata()?.uid())?;
            Ok(opened)
        }
        None => sys::open(path, Opening::plain(Access::Append))?.required(),
    };
    let file = open().map_err(cannot_open)?;
    let waiting = rustix::fs::fcntl_getfl(&file).and_then(|flags| {
        let flags = flags - OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&file, flags)
    });
    waiting.map_err(|error| io::Error::other(format!("cannot clear O_NONBLOCK: {error}")))?;
    Ok(OutputPlace::Stream(file))
}
