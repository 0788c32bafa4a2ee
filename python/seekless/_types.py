"""The types of arguments, and checks of them."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, Union, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer


class HasArrayInterface(Protocol):
    """A NumPy array. Its stubs say that it is a buffer for Python 3.12 and newer only."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


Memory = Union["Buffer", HasArrayInterface]
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Progress = Callable[[int, int], object]
Durability = Literal["none", "fsync"]


def bytes_of(buffer: Memory) -> memoryview:
    """The memory of a buffer as bytes. Bytes of a file would corrupt references to objects, so such items are refused."""
    view = memoryview(cast("Any", buffer))
    if "O" in re.sub(":[^:]*:", "", view.format):
        raise TypeError("the items of the buffer are Python objects; give one of numbers or bytes")
    if not view.c_contiguous:
        raise BufferError("the buffer has gaps; give one that is contiguous in C order")
    return view.cast("B") if view.nbytes else memoryview(bytearray())


def name_of(path: Path) -> str:
    """A path as text, with the bytes that are not UTF-8 as surrogates."""
    name = os.fsdecode(path)
    if "\0" in name:
        raise ValueError("embedded null byte")
    return name


def natural(number: SupportsIndex, name: str) -> int:
    """An offset or length, which is not negative."""
    whole = operator.index(number)
    if whole < 0:
        raise ValueError(f"{name} must not be negative: {whole}")
    return whole
