"""``seekless-fleet duplicates``: which files are equal on many hosts, and what each host has to do."""

from __future__ import annotations

import argparse
import hashlib
import os
import urllib.parse
from collections.abc import Iterator
from itertools import groupby

from . import _plans
from ._engine import DuckDb, Engine, Spark, ended, footers, run_queries
from ._page import Bytes, counted, page, said, table

VERSION = "1"
# Columns of a catalogue, with their types in Parquet and in SQL. Digests may be missing, and have a fixed length.
COLUMNS = {"host": ("BYTE_ARRAY", "STRING"), "storage": ("BYTE_ARRAY", "STRING"), "path": ("BYTE_ARRAY", "BINARY")}
COLUMNS |= dict.fromkeys(["inode", "device", "size", "mtime_ns", "changed_ns"], ("INT64", "BIGINT"))
DIGESTS = dict.fromkeys(["first", "blake3"], ("BYTE_ARRAY", "BINARY"))
# Bytes in all that can be counted. No figure of an answer is larger.
MOST = 1 << 62
# A host that has contents more often than this gets salts for them.
HEAVY = 50_000
SHOWN = 20
# Of the name of a file, without its ending.
LONGEST = 240


def run(arguments: argparse.Namespace) -> None:
    """Runs the subcommand."""
    if wrong := [one for one in arguments.set if "=" not in one]:
        raise ValueError(f"--set {wrong[0]}: it needs KEY=VALUE")
    settings = dict(one.split("=", 1) for one in arguments.set)
    spark = arguments.engine == "spark"
    engine: Engine = Spark(arguments.output, settings, arguments.master) if spark else DuckDb(arguments.output, settings)
    with ended(engine):
        find(engine, arguments.catalogues, arguments.min_size, arguments.action)


def find(engine: Engine, catalogues: list[str], min_size: int, action: str) -> None:
    """Finds the duplicates, and writes tables, lists, plans and the page."""
    hosts = read(engine, catalogues)
    run_queries(engine, "duplicates.sql", min_size=min(max(min_size, 1), MOST), heavy=HEAVY)
    for host, rows in groupby(engine.many_rows("lists", "SELECT host, path FROM wanted ORDER BY host, path"), lambda row: str(row[0])):
        engine.write(f"wanted/{file_name(host)}.list", (row[1] + b"\0" for row in rows))
    for host, rows in groupby(engine.many_rows("lines", _plans.query(action)), lambda row: str(row[0])):
        origin = _plans.origin_of(hosts[host])
        if origin is not None:
            engine.write(f"plans/{file_name(host)}.plan", _plans.plan(host, origin, action, rows))
    engine.write("duplicates.html", [page("Duplicates in a fleet", parts(engine, hosts, min_size))])
    engine.remove("work")


def read(engine: Engine, paths: list[str]) -> dict[str, list[dict[str, str]]]:
    """Names the rows of catalogues ``catalogue``, and returns what their footers say, by host. ``ValueError`` names a file that is
    not a catalogue, or speaks for another host than its own."""
    hosts: dict[str, list[dict[str, str]]] = {}
    host_of = {}
    for file, (keys, columns) in footers(engine, paths).items():
        if keys.get("seekless.catalogue") != VERSION or not keys.get("host"):
            raise ValueError(f"{file} is not a catalogue of version {VERSION}")
        for name, (kind, _) in (COLUMNS | DIGESTS).items():
            if columns.get(name, "").removeprefix("FIXED_LEN_" if name in DIGESTS else "") != kind:
                raise ValueError(f"{file}: its column `{name}` is not that of a catalogue")
        hosts.setdefault(keys["host"], []).append(keys)
        host_of[file] = keys["host"]
    cast = [f"CAST({name} AS {kind}) AS {name}" for name, (_, kind) in (COLUMNS | DIGESTS).items()]
    engine.view("catalogue", list(host_of), ", ".join([*cast, "its_file"]))
    odd = " OR ".join(["size < 0", *(f"{name} IS NULL" for name in COLUMNS)])
    figures = f"min(host), max(host), sum(CASE WHEN {odd} THEN 1 ELSE 0 END), sum(CAST(size AS DOUBLE))"
    total, most = 0.0, (0.0, "")
    for file, *named, odd_rows, size in engine.by_file("catalogue", figures):
        if odd_rows:
            raise ValueError(f"{file} is not a catalogue: it has a row without one of {', '.join(COLUMNS)}, or with a negative size")
        if other := set(named) - {host_of[file]}:
            raise ValueError(f"{file} is the catalogue of host {host_of[file]!r}, and has files of host {other.pop()!r}; leave it out, or make "
                             "it again")
        total, most = total + size, max(most, (size, file))
    if total > MOST:
        raise ValueError(f"the files have {total:.3g} bytes in all, too many to count; leave out {most[1]}, which has {most[0]:.3g}")
    return hosts


def file_name(host: str) -> str:
    """A name for a host's file, which no other host has. An ``@`` is in no name that is not cut."""
    name = urllib.parse.quote(host, safe="")
    return name if len(name) <= LONGEST else f"{name[:LONGEST - 65]}@{hashlib.sha256(host.encode()).hexdigest()}"


def parts(engine: Engine, hosts: dict[str, list[dict[str, str]]], min_size: int) -> Iterator[str]:
    """The page."""
    files, size, empty, wanted, wanted_bytes = next(engine.rows(
        "SELECT " + ", ".join(f"coalesce(sum({name}), 0)" for name in ["inodes", "bytes", "empty_files", "wanted", "wanted_bytes"])
        + " FROM hosts"))
    groups, gain = next(engine.rows("SELECT count(*), coalesce(sum(gain), 0) FROM groups"))
    started = sorted(keys.get("started", "") for all_of in hosts.values() for keys in all_of)
    made = f"between {started[0]} and {started[-1]}" if started[0] < started[-1] else f"at {started[0]}"
    yield said(f"{counted(len(hosts), 'host')}, {counted(files, 'file')} of {Bytes(size)}. {counted(groups, 'group')} of equal files: "
               f"{Bytes(gain)} would be freed if one file of each stayed in the whole fleet.")
    yield said(f"Based on {counted(sum(map(len, hosts.values())), 'catalogue')}, made {made}: on sizes and BLAKE3 "
               "digests, not on bytes that were compared. Files may have changed since. Names of one file (hard links) count as one "
               f"file. Left out: {counted(empty, 'empty file')}{f', and files of less than {Bytes(min_size)}' if min_size > 1 else ''}.")
    if wanted:
        yield said(f"Not finished: {counted(wanted, 'file')} of {Bytes(wanted_bytes)}, with the size and the beginning of another file, but "
                   "without a digest of the whole. The lists in wanted/ name them.")
    top = f"LIMIT {SHOWN}"
    rows = engine.rows(f"SELECT host, inodes, bytes, gain, shared, wanted_bytes FROM hosts ORDER BY gain DESC, host {top}")
    yield table("Hosts", "Freed on the host if one file of each group stays there, which its plan does; and what other hosts have, too.",
                ["host", "files", "size", "gain", "also elsewhere", "to be digested"],
                ([host, count, *map(Bytes, sizes)] for host, count, *sizes in rows))
    rows = engine.rows(f"SELECT host, other, groups, bytes FROM pairs ORDER BY bytes DESC, host, other {top}")
    yield table("Pairs of hosts", "What both have, one copy of each; without what more than 64 hosts have.",
                ["host", "other", "groups", "bytes"], ([*names, count, Bytes(bytes_)] for *names, count, bytes_ in rows))
    rows = engine.rows(f"SELECT hosts, groups, inodes, gain FROM spread ORDER BY gain DESC {top}")
    yield table("By the number of hosts", "Groups whose files are on so many hosts.", ["hosts", "groups", "files", "gain"],
                ([*counts, Bytes(gain)] for *counts, gain in rows))
    rows = engine.rows(f"SELECT host, directory, inodes, gain FROM directories ORDER BY gain DESC, host, directory {top}")
    yield table("Directories", "Freed there if one file of each group stays anywhere in the fleet; without directories below.",
                ["host", "directory", "files", "gain"],
                ([host, os.fsdecode(path) or "/", count, Bytes(gain)] for host, path, count, gain in rows))
    rows = engine.rows(f"SELECT hex(blake3), size, hosts, inodes, gain FROM groups ORDER BY gain DESC, size, blake3 {top}")
    yield table("Groups", "Equal files, those with most to gain first.", ["BLAKE3", "size", "hosts", "files", "gain"],
                ([digest[:16].lower(), Bytes(size), hosts, count, Bytes(gain)] for digest, size, hosts, count, gain in rows))
