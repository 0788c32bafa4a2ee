"""Plan files of ``seekless dupes act --plan``, for each host.

The form is that of the plans that seekless itself writes: a header in JSON, which says where the search was made, and a line for each
name of a file. Each host compares the bytes again before it does anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

from ._engine import Row

ACTIONS = ["hardlink", "reflink", "remove"]
# In the order of a plan: the first file of each group stays.
QUERY = """SELECT host, size, digest, {storage} AS place, mtime_ns, storage, inode, path
FROM names WHERE is_whole AND here > 1 ORDER BY host, size DESC, digest, place, mtime_ns, storage, inode, path"""
ABOUT = """
# A plan of seekless-fleet. To act, on {host}: seekless dupes act --plan FILE
# Each line has a word and a path. You may change `{action}` to `keep` to leave a file alone,
# `keep` to `{action}` if another file of the group is kept, and delete lines. A blank line ends
# a group. Leave the line above as it is. The oldest file of each group is kept.
"""
VERSION = 2


def query(action: str) -> str:
    """What the plans are made of. Links do not leave a storage, so one file stays on each."""
    return QUERY.format(storage="''" if action == "remove" else "storage")


def origin_of(metadata: Collection[dict[str, str]]) -> dict[str, Any] | None:
    """Where the searches of a host were made; ``None`` if a catalogue does not say it.

    ``ValueError`` if they were made on several machines.
    """
    origins = [one for one in map(_origin, metadata) if one is not None]
    if len(origins) < len(metadata):
        return None
    if len({one["machine"] for one in origins}) > 1:
        raise ValueError(f"two machines have the same name, {next(iter(metadata))['host']!r}; make their catalogues with --host")
    # Each root once, in their order. Catalogues of earlier versions also have what plans no longer need.
    roots = list({json.dumps(one): one for origin in origins for one in origin["roots"]}.values())
    return {key: origins[0].get(key) for key in ("machine", "directory")} | {"roots": roots, "version": VERSION}


def _origin(metadata: dict[str, str]) -> dict[str, Any] | None:
    try:
        found = json.loads(metadata.get("origin", ""))
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    kinds = {"machine": str, "directory": str, "roots": list}
    return found if isinstance(found, dict) and all(isinstance(found.get(key), kind) for key, kind in kinds.items()) else None


def plan(host: str, origin: dict[str, Any], action: str, rows: Iterable[Row]) -> Iterator[bytes]:
    """The text of the plan of a host, from rows in the order of the query."""
    header = json.dumps(origin | {"action": action}, sort_keys=True, separators=(",", ":"))
    about = ABOUT.format(host=_written(host.encode()), action=action)
    yield f"plan {header}\n".encode() + about.encode()
    width = max(len(action), len("keep"))
    for (size, *_), group in groupby(rows, lambda row: row[1:4]):
        kept = f"\n# Equal files of {size} B\n".encode()
        for at, (_file, names) in enumerate(groupby(group, lambda row: row[4:7])):
            word = f"{action if at else 'keep':{width}}"
            lines = b"".join(f"{word} {_written(row[-1])}\n".encode() for row in names)
            if at == 0:
                kept += lines
            else:
                # One file alone, as on one of two storages, is no group.
                yield kept + lines
                kept = b""


def _written(path: bytes) -> str:
    """A path, or a host, as a plan has it: what is not printable, a backslash, and a space at the end are escaped."""
    text = path.decode(errors="surrogateescape")
    if text.isprintable() and "\\" not in text and not text.endswith(" "):
        return text
    text = "".join(one if one.isprintable() else "".join(f"\\x{byte:02x}" for byte in one.encode(errors="surrogateescape"))
                   for one in text.replace("\\", "\\\\"))
    return text.removesuffix(" ") + "\\x20" if text.endswith(" ") else text
