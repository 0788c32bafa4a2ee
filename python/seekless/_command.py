"""The command `seekless` that the package includes, and its JSON output."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, cast

from ._types import Path as AnyPath


def command() -> str:
    """The path of the command `seekless` that belongs to this package. Measurements need it: each trial is a process."""
    try:
        files = distribution("seekless").files or []
    except PackageNotFoundError:
        files = []
    scripts = [file for file in files if file.name == "seekless" and file.parent.name in ("bin", "scripts", "Scripts")]
    # `pip install --target` puts it beside the package, and lists it elsewhere.
    beside = Path(__file__).parent.parent / "bin" / "seekless"
    for found in [*(Path(str(file.locate())) for file in scripts), beside]:
        if found.is_file():
            return str(found.resolve())
    raise FileNotFoundError(2, "this package was installed without the command; build it with its build backend", "seekless")


def _answer(arguments: list[str], errors: int | None = subprocess.PIPE) -> Any:
    """The JSON document that the command prints. Ctrl-C, or whatever a signal handler raises, ends the command as well."""
    words = [command(), *arguments]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as child:
        try:
            printed, complaints = child.communicate()
        except BaseException:
            # The command saves what it has measured. From a terminal, it got the signal itself, and counts both as one.
            # What it prints at the end is read and dropped: it would wait for ever at a full pipe.
            child.send_signal(signal.SIGINT)
            child.communicate()
            raise
    if child.returncode != 0:
        reason = (complaints or b"").decode(errors="replace").strip().removeprefix("seekless: ")
        raise OSError(5, reason or f"seekless {arguments[0]} failed with exit code {child.returncode}")
    return json.loads(printed)


def storage(path: AnyPath = ".") -> dict[str, Any]:
    """What the system says about the storage of a path: file system, mount, device, and which features work there."""
    found = _answer(["storage", "--json", "--", os.fsdecode(path)])
    return cast("dict[str, Any]", found[0])


def advise(operation: str, path: AnyPath = ".", *, size: int | None = None, count: int | None = None,
           cached: bool | None = None, durability: str | None = None) -> dict[str, Any]:
    """The method for a file of ``size`` bytes, the time it will take, how certain that is, and the alternatives.

    ``operation`` is ``read``, ``write``, ``copy``, ``compare``, ``update`` or ``scan``. ``cached`` assumes that all
    of the file, or none of it, is in the page cache; by default, the system is asked. ``count`` is the number of updates, or of
    files in a scan.
    """
    arguments = ["advise", operation, "--json"]
    arguments += [] if size is None else ["--size", str(size)]
    arguments += [] if count is None else ["--count", str(count)]
    arguments += [] if cached is None else ["--warm" if cached else "--cold"]
    arguments += [] if durability is None else ["--durability", durability]
    return cast("dict[str, Any]", _answer([*arguments, "--", os.fsdecode(path)]))


class _Document(Mapping[str, Any]):
    """A JSON object."""

    def __init__(self, data: dict[str, Any]):
        self._data = data

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


class Profile(_Document):
    """What all saved runs say about the methods on a storage: the document of ``seekless profile show --json``."""

    @classmethod
    def of(cls, path: AnyPath = ".") -> Profile:
        """The profile of the storage of a path. ``OSError`` if nothing was measured there."""
        return cls(_answer(["profile", "show", "--json", "--", os.fsdecode(path)]))


class Run(_Document):
    """A run of the lab: the document of ``seekless bench --json``, and all its samples."""

    def __init__(self, data: dict[str, Any], samples: str):
        super().__init__(data)
        self.csv = samples
        """Every trial, as ``seekless bench --export-csv`` writes it."""

    def rows(self) -> list[dict[str, str]]:
        """Every trial, as a dictionary from column to text."""
        return list(csv.DictReader(io.StringIO(self.csv)))

    def to_pandas(self) -> Any:
        """Every trial, as a ``pandas.DataFrame``; needs pandas."""
        import pandas  # type: ignore[import-untyped, unused-ignore]

        return pandas.read_csv(io.StringIO(self.csv))

    def to_arrow(self) -> Any:
        """Every trial, as a ``pyarrow.Table``; needs pyarrow."""
        import pyarrow.csv  # type: ignore[import-untyped, unused-ignore]

        return pyarrow.csv.read_csv(io.BytesIO(self.csv.encode()))

    def __repr__(self) -> str:
        return f"<seekless.Run {self.get('id', '')}: {len(self.rows())} trials>"


def bench(*experiments: str, directory: AnyPath = ".", quiet: bool = False, **options: Any) -> Run:
    """Measure methods on the storage of a directory, as ``seekless bench`` does, and save the run.

    Keywords are the command's options: ``budget="20s"``, ``size="64M"``, ``methods=["*direct*"]``, ``alone=True`` (conclude from
    this run alone). Progress goes to standard error, unless ``quiet``.
    """
    arguments = ["bench", "--json", "--dir", os.fsdecode(directory)]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in cast("list[Any]", values):
            if one is True:
                arguments.append(option)
            elif one is not False and one is not None:
                arguments.append(f"{option}={one}")
    with tempfile.TemporaryDirectory() as scratch:
        samples = Path(scratch, "samples.csv")
        arguments += ["--export-csv", str(samples), "--", *experiments]
        data = _answer(arguments, subprocess.PIPE if quiet else None)
        return Run(data, samples.read_text())
