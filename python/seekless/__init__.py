"""Read, write, copy, compare and update files by the methods that measured fastest on your storage.

    >>> import os, numpy, seekless
    >>> array = numpy.empty(os.path.getsize("weights.f32") // 4, numpy.float32)
    >>> seekless.read_into("weights.f32", array)
    Done(bytes=4294967296, method='read/threads=2,block=1M', why='the file is in the page cache, ...')

For each call, a planner chooses the method. It knows what the system says about the file, and what ``seekless bench`` has
measured on its storage. ``method=`` names a method instead (``seekless methods`` lists them); a call by that method does what
its name says, or fails. Sizes and offsets are in bytes, times in seconds. Paths are ``str``, ``bytes`` or ``os.PathLike``.

A failed system call raises the usual subclass of ``OSError``, with ``errno`` and ``filename``. :class:`Error`, also an
``OSError``, is raised where no system call failed. An invalid argument is a ``ValueError``. The GIL is released while bytes
move. Ctrl-C ends a call within a tenth of a second or the next 16 MiB, whichever is later.

``progress=`` is called about 25 times a second, in the calling thread, with the amount done and the total (0 while that is
unknown). An exception that it raises ends the call.

Only CPython on Linux is tested. A free-threaded build needs a wheel built for it; there as everywhere, no other thread may
change a buffer during a call. Importing the package in a subinterpreter fails.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, cast

from . import _seekless
from ._command import Profile, Run, advise, bench, command, storage
from ._file import File, open
from ._seekless import VERSION as __version__
from ._seekless import Error
from ._types import Durability, Memory, Path, Progress, bytes_of, name_of, natural

__all__ = [
    "Difference", "Done", "DuplicateGroup", "Duplicates", "Error", "File", "Plan", "Profile", "Run", "TreeCopy",
    "__version__", "advise", "allow_mapping", "bench", "blocks", "command", "compare", "copy", "copy_tree", "duplicates",
    "open", "plan", "read", "read_into", "storage", "update", "write",
]


def allow_mapping() -> None:
    """Allow the methods that map files, in this process.

    If a mapped file shrinks, the system sends SIGBUS. This call installs a handler that turns the signal into an ``OSError``.
    A library must not handle signals unasked, so importing the package does not. Until it is called, the ``mmap`` methods
    are unavailable.
    """
    _seekless.allow_mapping()


@dataclass(frozen=True)
class Done:
    """What was done."""

    bytes: int
    """Bytes moved, including holes; for an update, the bytes of all changes."""
    method: str
    """The method that was used."""
    why: str
    """Why it was chosen."""


@dataclass(frozen=True)
class Difference:
    """Where two files begin to differ."""

    offset: int
    """The number of equal bytes before it."""
    ended: Literal["one", "other"] | None = None
    """Which file is shorter, if they are equal up to its end."""


@dataclass(frozen=True)
class Plan:
    """A method, the time it will take, and why it was chosen."""

    method: str
    seconds: float
    seconds_low: float
    seconds_high: float
    why: str


@dataclass(frozen=True)
class DuplicateGroup:
    """Files with the same bytes."""

    bytes: int
    """The size of each."""
    gain_bytes: int
    """The space that is freed if all but one are removed."""
    files: tuple[tuple[str, ...], ...]
    """The names of each file: several, if it has hard links."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The first name of each file."""
        return tuple(names[0] for names in self.files)


class Duplicates(Iterator[DuplicateGroup]):
    """The groups of equal files, largest gain first."""

    def __init__(self, groups: list[tuple[int, int, list[list[str]]]], failures: list[tuple[str, str]]):
        self._groups = iter(groups)
        self.failures = failures
        """Paths that could not be read or that changed during the search, and why. They are in no group."""

    def __next__(self) -> DuplicateGroup:
        size, gain, files = next(self._groups)
        return DuplicateGroup(size, gain, tuple(tuple(names) for names in files))


@dataclass(frozen=True)
class TreeCopy:
    """What a copy of trees did."""

    summary: Mapping[str, Any]
    """Counts by name, such as ``files``, ``bytes``, ``directories``, ``resumed`` and ``failures``."""
    failures: tuple[tuple[str, str], ...]
    """Paths that could not be copied, and why."""


def read(path: Path, into: Memory | None = None, *, offset: int = 0, length: int | None = None,
         method: str | None = None, progress: Progress | None = None) -> bytes | Done:
    """Read a regular file from ``offset`` to its end, or ``length`` bytes of it.

    Returns ``bytes``. With ``into``, fills that buffer and returns :class:`Done`, as :func:`read_into` does. If the file ends
    earlier, fewer bytes are read.
    """
    if into is not None:
        into = into if length is None else bytes_of(into)[:natural(length, "length")]
        return read_into(path, into, offset=offset, method=method, progress=progress)
    length = None if length is None else natural(length, "length")
    return _seekless.read(name_of(path), natural(offset, "offset"), length, method, None, progress)


def read_into(path: Path, into: Memory, *, offset: int = 0, method: str | None = None,
              progress: Progress | None = None) -> Done:
    """Fill a buffer with the bytes of a file, starting at ``offset``.

    ``into`` is a writable, C-contiguous buffer of any shape and item type except Python objects: a NumPy array,
    ``bytearray``, ``mmap`` or ``memoryview``. Nothing is converted. If the file ends earlier, the rest of the buffer is
    unchanged, and :attr:`Done.bytes` is smaller than the buffer. After an error, the buffer holds some of the bytes.
    """
    return Done(*_seekless.read_into(name_of(path), bytes_of(into), natural(offset, "offset"), method, None, progress))


def blocks(path: Path, size: int = 16 << 20, *, ahead: int = 2, method: str | None = None) -> Iterator[memoryview]:
    """Iterate over a file in blocks of ``size`` bytes; the last one may be shorter.

    A thread reads up to ``ahead`` blocks in advance. Each block has its own memory, which lives as long as its memoryview.
    Bytes that are appended after the first block is requested are not read. If the file shrinks, the iteration ends early.
    """
    if size < 1 or ahead < 1:
        raise ValueError("size and ahead must be at least 1")
    return _blocks(open(path), size, ahead, method)


def _blocks(file: File, size: int, ahead: int, method: str | None) -> Iterator[memoryview]:
    # Read once: if a later look found a larger file, what was appended after a short block would be skipped.
    end = file.size()

    def block(offset: int) -> memoryview:
        view = memoryview(bytearray(min(size, end - offset)))
        return view[:file.read_into_at(view, offset, method)]

    waiting: deque[tuple[int, Future[memoryview]]] = deque()
    with file, ThreadPoolExecutor(1, "seekless-blocks") as pool:
        try:
            asked = 0
            while True:
                while asked < end and len(waiting) <= ahead:
                    waiting.append((min(size, end - asked), pool.submit(block, asked)))
                    asked += size
                if not waiting:
                    return
                wanted, future = waiting.popleft()
                found = future.result()
                if found:
                    yield found
                if len(found) < wanted:
                    return
        finally:
            for _, future in waiting:
                future.cancel()


def write(path: Path, data: Memory, durability: Durability = "fsync", *, overwrite: bool = False,
          method: str | None = None, progress: Progress | None = None) -> Done:
    """Write the bytes of a C-contiguous buffer to a file.

    The file must not exist, unless ``overwrite`` is true: then an existing file is written from its start and gets the new
    size at the end; after a crash, it may hold both old and new bytes. With ``fsync``, the bytes are on the device when this
    returns; with ``none``, they are in the page cache. A ``method`` that names a durability keeps its own. A new file that
    could not be completed is removed.
    """
    return Done(*_seekless.write(name_of(path), bytes_of(data), durability, overwrite and os.path.lexists(path), method,
                                 progress))


def copy(source: Path, target: Path, durability: Durability = "none", *, overwrite: bool = False,
         method: str | None = None, progress: Progress | None = None) -> Done:
    """Copy the bytes and holes of a file, but not its mode, owner or times; :func:`copy_tree` copies those too.

    ``overwrite`` and ``durability`` mean the same as in :func:`write`.
    """
    return Done(*_seekless.copy(name_of(source), name_of(target), durability,
                                overwrite and os.path.lexists(target), method, progress))


def copy_tree(sources: Path | Iterable[Path], target: Path, *, existing: Literal["replace", "keep", "update"] = "replace",
              durability: Literal["none", "end", "fsync"] = "none", preserve: bool = True, verify: bool = False,
              progress: Progress | None = None) -> TreeCopy:
    """Copy files and trees as ``seekless cp`` does: into ``target`` if that is a directory, otherwise to that name.

    ``preserve`` keeps modes, owners, times, hard links and extended attributes. ``existing`` says what to do with files that
    exist in the target; ``update`` replaces those that are older. ``durability="end"`` syncs the file system once, ``fsync``
    each file. ``verify`` reads each copy from the device and compares it with its source. The same call resumes a copy that
    was interrupted. ``failures`` has what could not be copied; an error that ends the whole copy raises an ``OSError``.
    """
    several = [sources] if isinstance(sources, (str, bytes, os.PathLike)) else list(sources)
    summary, failures = _seekless.copy_tree([name_of(path) for path in several], name_of(target), existing,
                                            durability, preserve, verify, progress)
    return TreeCopy(json.loads(summary), tuple(failures))


def compare(one: Path, other: Path, *, method: str | None = None, progress: Progress | None = None) -> Difference | None:
    """The first difference between two regular files, or ``None`` if they are equal."""
    found = _seekless.compare(name_of(one), name_of(other), method, progress)
    if found is None:
        return None
    offset, ended = found
    return Difference(offset, ended)


def update(path: Path, changes: Mapping[int, Memory] | Iterable[tuple[int, Memory]],
           durability: Durability | Literal["write-through"] = "fsync", *,
           safety: Literal["in-place", "journal", "replace"] = "in-place", grows: bool = False, method: str | None = None,
           progress: Progress | None = None) -> Done:
    """Write bytes at offsets of an existing file, in few writes.

    Where changes overlap, the later one wins. The file keeps its size, unless ``grows`` is true. ``safety`` is the state of
    the file after an interruption. ``in-place``: some changes are applied. ``journal``: an error undoes all changes; after a
    crash, updates of the file are refused until ``seekless update --recover`` has finished or undone this one. ``replace``: it
    is unchanged, because the changes go to a new file that takes its name.
    """
    pairs = cast("Mapping[int, Memory]", changes).items() if isinstance(changes, Mapping) else changes
    changed = [(natural(offset, "offset"), bytes_of(data)) for offset, data in pairs]
    return Done(*_seekless.update(name_of(path), changed, durability, safety, grows, method, progress))


def plan(operation: Literal["read", "write", "copy", "compare"], path: Path, other: Path | None = None, *, bytes: int = 0,
         durability: Durability = "none") -> Plan:
    """Which method an operation would use, and how long it would take.

    ``copy`` and ``compare`` take a second path, ``write`` the number of ``bytes``. Nothing is written. Measuring reads at most
    8 MiB and takes at most 100 ms. :func:`advise` says more, and also plans updates and files that do not exist.
    """
    second = None if other is None else name_of(other)
    method, (seconds, low, high), why = _seekless.plan(operation, name_of(path), second, natural(bytes, "bytes"), durability)
    return Plan(method, seconds, low, high, why)


def duplicates(*paths: Path, min_bytes: int = 1, max_bytes: int | None = None, exclude: str | Iterable[str] = (),
               one_file_system: bool = True, paranoid: bool = False, cache: Path | None = None,
               progress: Progress | None = None) -> Duplicates:
    """Find files with the same bytes below the paths. Returns an iterator over the groups, largest gain first.

    ``exclude`` is a glob of names or paths, or several. ``paranoid`` compares bytes even where that reads files twice. ``cache`` is a file
    that keeps digests for the next search. Nothing is changed; ``seekless dupes`` can also link and remove. A path that does
    not exist is in the ``failures`` of the result.
    """
    if not paths:
        raise ValueError("name at least one path")
    kept = None if cache is None else name_of(cache)
    globs = [exclude] if isinstance(exclude, str) else list(exclude)
    largest = None if max_bytes is None else natural(max_bytes, "max_bytes")
    groups, failures = _seekless.duplicates([name_of(path) for path in paths], natural(min_bytes, "min_bytes"), largest, globs,
                                            one_file_system, paranoid, kept, progress)
    return Duplicates(groups, failures)
