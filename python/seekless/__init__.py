"""Read, write, copy, compare and update files by the methods that measured fastest on your storage.

    >>> import numpy, seekless
    >>> array = numpy.empty(os.path.getsize("weights.f32") // 4, numpy.float32)
    >>> seekless.read_into("weights.f32", array)
    Done(bytes=4294967296, method='read/threads=2,block=1M', why='the file is in the page cache, ...')

Each call asks a planner for a method, from what the system says of the file, and from what ``seekless bench`` measured on
its storage, if anything. ``method=`` names one instead, as ``seekless methods`` lists them: it does what its name says, or
fails. Sizes and offsets are in bytes, times in seconds. Paths are ``str``, ``bytes`` or ``os.PathLike``.

Errors of the system are the usual subclasses of ``OSError``, with ``errno`` and ``filename``; :class:`Error`, another one,
is what no system call refused. An argument that means nothing is a ``ValueError``. While bytes move, the GIL is released,
and Ctrl-C ends a call within a tenth of a second or the next 16 MiB, whichever is later.

``progress=`` is called about 25 times a second, in the calling thread, with what is done and the total (0 while that is
unknown). If it raises, the call ends with that.

Only CPython on Linux is tested. Free-threaded builds of it work with a wheel built for them; buffers that other threads
change meanwhile are as unsafe there as everywhere. Subinterpreters are refused at import.
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
from ._types import Durability, Memory, Path, Progress

__all__ = [
    "Difference", "Done", "DuplicateGroup", "Duplicates", "Error", "File", "Plan", "Profile", "Run", "TreeCopy",
    "__version__", "advise", "allow_mapping", "bench", "blocks", "command", "compare", "copy", "copy_tree", "duplicates",
    "open", "plan", "read", "read_into", "storage", "update", "write",
]


def allow_mapping() -> None:
    """Allow methods that map files, in this process.

    If a mapped file shrinks, the system sends SIGBUS; this installs a handler that turns the signal into an ``OSError``. A
    library must not handle a signal unasked, so importing this one does not. Without it, ``mmap`` methods are unavailable.
    """
    _seekless.allow_mapping()


@dataclass(frozen=True)
class Done:
    """What was done."""

    bytes: int
    """Bytes moved, holes included; of an update, bytes that change."""
    method: str
    """The method that did it."""
    why: str
    """Why this method."""


@dataclass(frozen=True)
class Difference:
    """Where two files begin to differ."""

    offset: int
    """How many bytes before it are equal."""
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
    """The space that is freed if one of them stays."""
    files: tuple[tuple[str, ...], ...]
    """For each file its names: several, if it has hard links."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The first name of each file."""
        return tuple(names[0] for names in self.files)


class Duplicates(Iterator[DuplicateGroup]):
    """The groups of equal files, those that save most first."""

    def __init__(self, groups: list[tuple[int, int, list[list[str]]]], failures: list[tuple[str, str]]):
        self._groups = iter(groups)
        self.failures = failures
        """Paths that could not be read or that changed meanwhile, and why. They are in no group."""

    def __next__(self) -> DuplicateGroup:
        size, gain, files = next(self._groups)
        return DuplicateGroup(size, gain, tuple(tuple(names) for names in files))


@dataclass(frozen=True)
class TreeCopy:
    """What a copy of trees did."""

    summary: Mapping[str, Any]
    """Counts by name, as in ``files``, ``bytes``, ``directories``, ``resumed`` and ``failures``."""
    failures: tuple[tuple[str, str], ...]
    """Paths that could not be copied, and why."""


def _with_shape(buffer: Memory) -> Any:
    """The same memory; of a single item, such as an array without dimensions, its bytes."""
    view = memoryview(cast("Any", buffer))
    return buffer if view.ndim else view.cast("B")


def read(path: Path, into: Memory | None = None, *, offset: int = 0, length: int | None = None,
         method: str | None = None, progress: Progress | None = None) -> bytes | Done:
    """Read a regular file, or ``length`` bytes of it from ``offset`` on.

    Returns new ``bytes``; or, with ``into``, fills that buffer and returns :class:`Done`, as :func:`read_into` does.
    Less comes back if the file ends earlier.
    """
    if into is not None:
        into = into if length is None else memoryview(cast("Any", into)).cast("B")[:length]
        return read_into(path, into, offset=offset, method=method, progress=progress)
    return _seekless.read(os.fsdecode(path), offset, length, method, progress)


def read_into(path: Path, into: Memory, *, offset: int = 0, method: str | None = None,
              progress: Progress | None = None) -> Done:
    """Fill a buffer with the bytes of a file from ``offset`` on.

    ``into`` is any writable, C-contiguous buffer of any shape and item: a NumPy array, ``bytearray``, ``mmap``, or
    ``memoryview``. Its bytes are those of the file; nothing is converted. If the file ends earlier, the rest stays as it
    is: compare :attr:`Done.bytes`. After an error, the buffer holds some of the bytes.
    """
    return Done(*_seekless.read_into(os.fsdecode(path), _with_shape(into), offset, method, None, progress))


def blocks(path: Path, size: int = 16 << 20, *, ahead: int = 2, method: str | None = None) -> Iterator[memoryview]:
    """Iterate over a file in blocks of ``size`` bytes; the last one may be shorter.

    A thread reads up to ``ahead`` blocks before they are asked for. Each block has memory of its own, which lives as long
    as its memoryview.
    """
    if size < 1 or ahead < 1:
        raise ValueError("size and ahead must be at least 1")
    return _blocks(open(path), size, ahead, method)


def _blocks(file: File, size: int, ahead: int, method: str | None) -> Iterator[memoryview]:
    def block(offset: int) -> memoryview:
        view = memoryview(bytearray(min(size, max(file.size() - offset, 0))))
        return view[:file.read_into_at(view, offset, method)]

    waiting: deque[Future[memoryview]] = deque()
    with file, ThreadPoolExecutor(1, "seekless-blocks") as pool:
        offset, is_more = 0, True
        while is_more or waiting:
            while is_more and len(waiting) <= ahead:
                waiting.append(pool.submit(block, offset))
                offset += size
                is_more = offset < file.size()
            found = waiting.popleft().result()
            if not found:
                break
            yield found


def write(path: Path, data: Memory, durability: Durability = "fsync", *, overwrite: bool = False,
          method: str | None = None, progress: Progress | None = None) -> Done:
    """Write the bytes of a C-contiguous buffer to a file.

    The file must not exist, or ``overwrite`` is true: then an existing one is written from its start, and has the new size
    at the end; after a crash, it may hold some of both. With ``fsync``, the bytes are on the device when this returns; with
    ``none``, they are in the page cache.
    A new file that could not be completed is removed.
    """
    return Done(*_seekless.write(os.fsdecode(path), _with_shape(data), durability, overwrite and os.path.lexists(path), method,
                                 progress))


def copy(source: Path, target: Path, durability: Durability = "none", *, overwrite: bool = False,
         method: str | None = None, progress: Progress | None = None) -> Done:
    """Copy the bytes and holes of a file, but not its mode, owner and times; :func:`copy_tree` copies these, too.

    ``overwrite`` and ``durability`` are those of :func:`write`.
    """
    return Done(*_seekless.copy(os.fsdecode(source), os.fsdecode(target), durability,
                                overwrite and os.path.lexists(target), method, progress))


def copy_tree(sources: Path | Iterable[Path], target: Path, *, existing: Literal["replace", "keep", "update"] = "replace",
              durability: Literal["none", "end", "fsync"] = "none", preserve: bool = True, verify: bool = False,
              progress: Progress | None = None) -> TreeCopy:
    """Copy files and trees as ``seekless cp`` does: into ``target`` if that is a directory, else to that name.

    ``preserve`` keeps modes, owners, times, hard links and extended attributes. ``existing`` says what is done with files of
    the target that exist; ``update`` replaces those that are older. ``durability`` ``end`` syncs the file system once,
    ``fsync`` each file. ``verify`` compares each copy with its source, as read from the device. A copy that was ended is
    gone on with by the same call. What could not be copied is in ``failures``; an error that ends all is an ``OSError``.
    """
    several = [sources] if isinstance(sources, (str, bytes, os.PathLike)) else list(sources)
    summary, failures = _seekless.copy_tree([os.fsdecode(path) for path in several], os.fsdecode(target), existing,
                                            durability, preserve, verify, progress)
    return TreeCopy(json.loads(summary), tuple(failures))


def compare(one: Path, other: Path, *, method: str | None = None, progress: Progress | None = None) -> Difference | None:
    """The first difference of two regular files; ``None`` if they are equal."""
    found = _seekless.compare(os.fsdecode(one), os.fsdecode(other), method, progress)
    if found is None:
        return None
    offset, ended = found
    return Difference(offset, ended)


def update(path: Path, changes: Mapping[int, Memory] | Iterable[tuple[int, Memory]], durability: Durability | Literal["write-through"] = "fsync", *,
           safety: Literal["in-place", "journal", "replace"] = "in-place", grows: bool = False, method: str | None = None,
           progress: Progress | None = None) -> Done:
    """Write bytes at offsets of a file that exists, in few writes.

    Later changes win where they overlap. The file keeps its size, unless ``grows``. ``safety`` is the state after an update
    that ends early: some of the changes are in the file (``in-place``); all or none are, by a journal beside the file, which
    the next update or ``seekless update --recover`` finishes (``journal``); or it is as before, because the changes go to a
    new file that takes its name (``replace``).
    """
    pairs = cast("Mapping[int, Memory]", changes).items() if isinstance(changes, Mapping) else changes
    return Done(*_seekless.update(os.fsdecode(path), list(pairs), durability, safety, grows, method, progress))


def plan(operation: Literal["read", "write", "copy", "compare"], path: Path, other: Path | None = None, *, bytes: int = 0,
         durability: Durability = "none") -> Plan:
    """How an operation would be done, and how long it would take.

    ``copy`` and ``compare`` take a second path, ``write`` the number of ``bytes``. Nothing is written; at most 8 MiB are
    read to measure, in at most 100 ms. :func:`advise` says more, and plans updates and files that do not exist.
    """
    second = None if other is None else os.fsdecode(other)
    method, (seconds, low, high), why = _seekless.plan(operation, os.fsdecode(path), second, bytes, durability)
    return Plan(method, seconds, low, high, why)


def duplicates(*paths: Path, min_bytes: int = 1, max_bytes: int | None = None, exclude: Iterable[str] = (),
               one_file_system: bool = True, paranoid: bool = False, cache: Path | None = None,
               progress: Progress | None = None) -> Duplicates:
    """Find files with the same bytes below the paths; an iterator over the groups, those that save most first.

    ``exclude`` has globs of names or paths. ``paranoid`` compares bytes even where that reads files twice. ``cache`` is a file
    that keeps digests for the next search. Nothing is changed: ``seekless dupes`` also links and removes. A path that does not
    exist is among the ``failures`` of the result.
    """
    if not paths:
        raise ValueError("name at least one path")
    kept = None if cache is None else os.fsdecode(cache)
    groups, failures = _seekless.duplicates([os.fsdecode(path) for path in paths], min_bytes, max_bytes, list(exclude),
                                            one_file_system, paranoid, kept, progress)
    return Duplicates(groups, failures)
