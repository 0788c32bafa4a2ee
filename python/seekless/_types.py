"""What the calls take."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, Union

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
