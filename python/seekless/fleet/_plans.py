"""Plan files of ``seekless dupes act --plan``, for each host.

The form is that of the plans that seekless itself writes: a header in JSON, which says where the search was made and has a digest of
itself, and a line for each name of a file, with a mark, which is a digest of what the file was. So each host proves each line
again, and compares the bytes, before it does anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

from ._engine import Row

ACTIONS = ["hardlink", "reflink", "remove"]
# In the order of a plan: the first file of each group stays.
QUERY = """SELECT host, size, digest, {storage} AS place, mtime_ns, storage, device, inode, changed_ns, path
FROM names WHERE is_whole AND here > 1 ORDER BY host, size DESC, digest, place, mtime_ns, storage, inode, path"""
ABOUT = """
# A plan of seekless-fleet. To act, on {host}: seekless dupes act --plan FILE
# Each line has a word, a mark and a path. You may change `{action}` to `keep` to leave a file
# alone, `keep` to `{action}` if another file of the group is kept, and delete lines.
# Leave the marks and the line above as they are. The oldest file of each group is kept.
"""
WORD = 0xFFFF_FFFF_FFFF_FFFF


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
    merged = {key: value for key, value in origins[0].items() if key != "digest"}
    for key in ("roots", "file_systems"):
        # Each once, in their order.
        merged[key] = list({json.dumps(one): one for origin in origins for one in origin[key]}.values())
    return merged


def _origin(metadata: dict[str, str]) -> dict[str, Any] | None:
    try:
        found = json.loads(metadata.get("origin", ""))
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    kinds = {"machine": str, "roots": list, "file_systems": list}
    return found if isinstance(found, dict) and all(isinstance(found.get(key), kind) for key, kind in kinds.items()) else None


def plan(host: str, origin: dict[str, Any], action: str, rows: Iterable[Row]) -> Iterator[bytes]:
    """The text of the plan of a host, from rows in the order of the query."""
    def dump(value: dict[str, Any], ascii: bool) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii)

    header = origin | {"action": action}
    digest = _digest("seekless dupes: where a report was made", dump(header, False).encode(), 16)
    about = ABOUT.format(host=_written(host.encode()), action=action)
    yield f"plan {dump(header | {'digest': digest}, True)}\n".encode() + about.encode()
    width = max(len(action), len("keep"))
    for number, ((size, *_), group) in enumerate(groupby(rows, lambda row: row[1:4]), 1):
        kept = f"\n# Equal files of {size} B\n".encode()
        for at, (state, names) in enumerate(groupby(group, lambda row: row[4:9])):
            mtime_ns, _storage, device, inode, changed_ns = state
            text = f"{digest} {number} false false {device & WORD} {inode & WORD} {size} {mtime_ns} {changed_ns}"
            mark = f"{number}-{_digest('seekless dupes: mark of a file in a plan', text.encode(), 8)}"
            word = f"{action if at else 'keep':{width}}"
            lines = b"".join(f"{word} {mark} {_written(row[-1])}\n".encode() for row in names)
            if at == 0:
                kept += lines
            else:
                # One file alone, as on one of two storages, is no group.
                yield kept + lines
                kept = b""


def _digest(context: str, text: bytes, length: int) -> str:
    from blake3 import blake3

    return blake3(text, derive_key_context=context).hexdigest(length)


def _written(path: bytes) -> str:
    """A path, or a host, as a plan has it: what is not printable, a backslash, and a space at the end are escaped."""
    text = path.decode(errors="surrogateescape")
    if text.isprintable() and "\\" not in text and not text.endswith(" "):
        return text
    text = "".join(one if one.isprintable() else "".join(f"\\x{byte:02x}" for byte in one.encode(errors="surrogateescape"))
                   for one in text.replace("\\", "\\\\"))
    return text.removesuffix(" ") + "\\x20" if text.endswith(" ") else text
