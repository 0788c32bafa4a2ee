"""A file object."""

from __future__ import annotations

import io
import operator
import os
from typing import TYPE_CHECKING, NoReturn

from . import _seekless
from ._types import Memory, bytes_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

# A plan takes about 50 µs. Smaller reads are done by one system call.
_PLANNED_FROM = 4 << 20


class File(io.RawIOBase):
    """A regular file, open for reading, for ``pickle``, ``pyarrow``, ``torch.load`` and the like.

    Reads of 4 MiB and more are planned, as :func:`seekless.read_into` does. A read returns fewer bytes than requested only at
    the end of the file. For many small reads, wrap it in an ``io.BufferedReader``. Appended bytes can be read.
    """

    def __init__(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]):
        self.name = path
        self.mode = "rb"
        self._at = 0
        self._path = os.fsdecode(path)
        self._descriptor = -1
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if not os.path.isfile(self._descriptor):
            self.close()
            is_directory = os.path.isdir(path)
            kind = (IsADirectoryError, 21, "Is a directory") if is_directory else (OSError, 22, "Not a regular file")
            raise kind[0](kind[1], kind[2], path)

    def close(self) -> None:
        if not self.closed and self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        super().close()

    def _open(self) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._descriptor

    def fileno(self) -> int:
        return self._open()

    def readable(self) -> bool:
        return self._open() >= 0

    def seekable(self) -> bool:
        return self._open() >= 0

    def size(self) -> int:
        """The size of the file now."""
        return os.fstat(self._open()).st_size

    def tell(self) -> int:
        self._open()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self.size()}
        if whence not in starts:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        at = starts[whence] + operator.index(offset)
        if at < 0:
            raise ValueError(f"negative seek position {at}")
        self._at = at
        return at

    def read_into_at(self, into: Memory, offset: int, method: str | None = None) -> int:
        """Fill a buffer with the bytes at an offset. Returns their number. The position does not move."""
        descriptor = self._open()
        view = bytes_of(into)
        if len(view) >= _PLANNED_FROM or method is not None:
            return _seekless.read_into(self._path, view, offset, method, descriptor, None)[0]
        done = 0
        while done < len(view):
            read = os.preadv(descriptor, [view[done:]], offset + done)
            if read == 0:
                break
            done += read
        return done

    def readinto(self, buffer: Buffer) -> int:
        done = self.read_into_at(buffer, self._at)
        self._at += done
        return done

    def read(self, size: int | None = -1, /) -> bytes:
        most = -1 if size is None else operator.index(size)
        rest = max(self.size() - self._at, 0)
        wanted = rest if most < 0 else min(most, rest)
        if rest == 0:
            data = self._past_size(most)
        elif wanted < _PLANNED_FROM:
            data = os.pread(self._open(), wanted, self._at)
        else:
            data = _seekless.read(self._path, self._at, wanted, None, self._open(), None)
        self._at += len(data)
        return data

    def write(self, data: Buffer, /) -> int:
        raise io.UnsupportedOperation("not writable")

    def readall(self) -> bytes:
        return self.read()

    def _past_size(self, most: int) -> bytes:
        """What can be read where the size says that nothing can: files of /proc have a size of 0."""
        found = bytearray()
        while len(found) != most:
            size = min(most - len(found), 1 << 16) if most >= 0 else 1 << 16
            part = os.pread(self._open(), size, self._at + len(found))
            if not part:
                break
            found += part
        return bytes(found)

    def __reduce__(self) -> NoReturn:
        # A copy would have the same descriptor, and close it, too.
        raise TypeError("cannot pickle or copy a seekless.File")

    def __repr__(self) -> str:
        return f"<seekless.File name={self.name!r}{' closed' if self.closed else ''}>"


def open(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> File:
    """Open a regular file for reading; see :class:`File`."""
    return File(path)
