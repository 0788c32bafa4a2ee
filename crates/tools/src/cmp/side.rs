//! One side of a comparison: a file, standard input, or the target of a symbolic link.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use seekless_engine::files::FileId;
use seekless_sys as sys;

use super::CmpRequest;
use super::error::{CmpProblem, Error};

/// An open side, at its first byte to compare, or as near as it can be sought.
#[derive(Debug)]
pub(super) struct CmpInput {
    pub(super) name: OsString,
    pub(super) bytes: Bytes,
    /// Bytes to read before the first byte to compare, if it could not be sought.
    pub(super) unskipped_bytes: u64,
    /// The start of the comparison in the file, if it can be sought.
    pub(super) position: Option<u64>,
    metadata: Option<Metadata>,
}

/// The source of the bytes.
#[derive(Debug)]
pub(super) enum Bytes {
    File(Arc<File>),
    LinkText(io::Cursor<Vec<u8>>),
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.as_ref().read(buffer),
            Self::LinkText(text) => text.read(buffer),
        }
    }
}

/// Opens both as cmp(1) does: the first; the second unless it is the first by name; and asks for device and inode. `None` if
/// they are the same.
pub(super) fn open(request: &CmpRequest, identity_counts: bool) -> Result<Option<[CmpInput; 2]>, Error> {
    let [one, other] = &request.names;
    if !request.follow_links
        && let Some([one_text, other_text]) = link_texts(one, other)?
    {
        return Ok(Some([
            CmpInput::of_text(one, one_text, request.skip_bytes[0]),
            CmpInput::of_text(other, other_text, request.skip_bytes[1]),
        ]));
    }
    let same_name = identity_counts && one == other && request.skip_bytes[0] == request.skip_bytes[1];
    if same_name && is_standard_input(one) {
        return Ok(None);
    }
    let first = CmpInput::open(request, 0)?;
    if same_name {
        return Ok(None);
    }
    if is_standard_input(one) && is_standard_input(other) {
        // A stream cannot be read at two places.
        let error = io::Error::from(rustix::io::Errno::BADF);
        return Err(CmpProblem::Read(0, error).of(one));
    }
    let second = CmpInput::open(request, 1)?;
    let is_same = identity_counts && first.is_same_as(&second);
    Ok((!is_same).then_some([first, second]))
}

fn is_standard_input(name: &OsStr) -> bool {
    name == "-"
}

impl CmpInput {
    fn open(request: &CmpRequest, side: usize) -> Result<Self, Error> {
        let (name, skip_bytes) = (&request.names[side], request.skip_bytes[side]);
        let failed = |error| CmpProblem::Open(error).of(name);
        let is_standard_input = is_standard_input(name);
        let file = if is_standard_input {
            (request.standard_input)().map_err(failed)?
        } else {
            File::open(name).map_err(failed)?
        };
        let metadata = file.metadata().map_err(failed)?;
        let is_at_start = !is_standard_input && metadata.is_file();
        let position = match i64::try_from(skip_bytes) {
            Ok(0) if is_at_start => Some(0),
            Ok(skip) => (&file).seek(SeekFrom::Current(skip)).ok(),
            Err(_) => None,
        };
        Ok(Self {
            name: name.to_owned(),
            unskipped_bytes: if position.is_some() { 0 } else { skip_bytes },
            bytes: Bytes::File(Arc::new(file)),
            position,
            metadata: Some(metadata),
        })
    }

    fn of_text(name: &OsStr, text: Vec<u8>, skip_bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            bytes: Bytes::LinkText(io::Cursor::new(text)),
            unskipped_bytes: skip_bytes,
            position: None,
            metadata: None,
        }
    }

    /// The size, of a regular file.
    pub(super) fn regular_bytes(&self) -> Option<u64> {
        let metadata = self.metadata.as_ref().filter(|metadata| metadata.is_file());
        metadata.map(MetadataExt::size)
    }

    /// The open file, its position and the bytes to its end, if it is a regular file that can be sought.
    pub(super) fn regular(&self) -> Option<(&Arc<File>, u64, u64)> {
        match (&self.bytes, self.position, self.regular_bytes()) {
            (Bytes::File(file), Some(position), Some(bytes)) => Some((file, position, bytes.saturating_sub(position))),
            _ => None,
        }
    }

    /// The bytes after the position, if the size is known; negative if the position is past the end.
    pub(super) fn bytes_ahead(&self) -> Option<i128> {
        let position = self.position.unwrap_or(0);
        self.regular_bytes()
            .map(|bytes| i128::from(bytes) - i128::from(position))
    }

    /// Whether both are the same file at the same position, if inode numbers identify files on its file system.
    fn is_same_as(&self, other: &Self) -> bool {
        let (Bytes::File(one), Bytes::File(two)) = (&self.bytes, &other.bytes) else {
            return false;
        };
        let identity = |side: &Self| side.metadata.as_ref().map(FileId::of);
        // Numbers of pipes and devices come from the kernel.
        let is_sure = |file: &File| self.regular_bytes().is_none() || sys::inodes_identify(file).unwrap_or(false);
        identity(self) == identity(other) && self.position == other.position && is_sure(one) && is_sure(two)
    }
}

/// The targets of two symbolic links; `None` if neither name is one.
fn link_texts(one: &OsStr, other: &OsStr) -> Result<Option<[Vec<u8>; 2]>, Error> {
    let text = |name: &OsStr| {
        let read = std::fs::read_link(Path::new(name));
        read.ok().map(|path| path.into_os_string().into_vec())
    };
    match (text(one), text(other)) {
        (None, None) => Ok(None),
        (Some(one), Some(other)) => Ok(Some([one, other])),
        (Some(_), None) => Err(not_a_link(other)),
        (None, Some(_)) => Err(not_a_link(one)),
    }
}

fn not_a_link(name: &OsStr) -> Error {
    // A missing file is reported as missing, not as not being a link.
    let problem = match std::fs::symlink_metadata(name) {
        Err(error) if !is_standard_input(name) => CmpProblem::Open(error),
        _ => CmpProblem::NotALink,
    };
    problem.of(name)
}
