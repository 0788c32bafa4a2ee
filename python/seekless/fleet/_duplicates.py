"""``seekless-fleet duplicates``: which files are equal on many hosts, and what each host has to do."""

from __future__ import annotations

import argparse
import contextlib
import os
import urllib.parse
from collections.abc import Iterator
from itertools import groupby

from . import _plans
from ._engine import DuckDb, Engine, Spark, run_queries
from ._page import Bytes, page, said, table

VERSION = "1"
# A host that has contents more often than this gets salts for them.
HEAVY = 50_000
SHOWN = 20


def run(arguments: argparse.Namespace) -> None:
    """Runs the subcommand."""
    if wrong := [one for one in arguments.set if "=" not in one]:
        raise ValueError(f"--set {wrong[0]}: it needs KEY=VALUE")
    settings = dict(one.split("=", 1) for one in arguments.set)
    spark = arguments.engine == "spark"
    engine: Engine = Spark(arguments.output, settings, arguments.master) if spark else DuckDb(arguments.output, settings)
    with contextlib.closing(engine):
        find(engine, arguments.catalogues, arguments.min_size, arguments.action)


def find(engine: Engine, catalogues: list[str], min_size: int, action: str) -> None:
    """Finds the duplicates, and writes tables, lists, plans and the page."""
    engine.view("catalogue", catalogues)
    hosts: dict[str, list[dict[str, str]]] = {}
    for file, keys in engine.metadata().items():
        if keys.get("seekless.catalogue") != VERSION or "host" not in keys:
            raise ValueError(f"{file} is not a catalogue of version {VERSION}")
        hosts.setdefault(keys["host"], []).append(keys)
    run_queries(engine, "duplicates.sql", min_size=max(min_size, 1), heavy=HEAVY)
    for host, rows in groupby(engine.many_rows("lists", "SELECT host, path FROM wanted ORDER BY host, path"), lambda row: str(row[0])):
        engine.write(f"wanted/{file_name(host)}.list", (row[1] + b"\0" for row in rows))
    for host, rows in groupby(engine.many_rows("lines", _plans.query(action)), lambda row: str(row[0])):
        origin = _plans.origin_of(hosts.get(host, []))
        if origin is not None:
            engine.write(f"plans/{file_name(host)}.plan", _plans.plan(host, origin, action, rows))
    engine.write("duplicates.html", [page("Duplicates in a fleet", parts(engine, hosts, min_size))])
    engine.remove("work")


def file_name(host: str) -> str:
    """A name for a host's file."""
    return urllib.parse.quote(host, safe="") or "unnamed"


def parts(engine: Engine, hosts: dict[str, list[dict[str, str]]], min_size: int) -> Iterator[str]:
    """The page."""
    files, size, empty, wanted, wanted_bytes = next(engine.rows(
        "SELECT " + ", ".join(f"coalesce(sum({name}), 0)" for name in ["inodes", "bytes", "empty_files", "wanted", "wanted_bytes"])
        + " FROM hosts"))
    groups, gain = next(engine.rows("SELECT count(*), coalesce(sum(gain), 0) FROM groups"))
    started = sorted(keys.get("started", "") for all_of in hosts.values() for keys in all_of)
    yield said(f"{len(hosts):,} hosts, {int(files):,} files of {Bytes(size)}. {int(groups):,} groups of equal files: {Bytes(gain)} would be "
               "freed if one file of each stayed in the whole fleet.")
    yield said(f"It rests on {sum(map(len, hosts.values())):,} catalogues, made between {started[0]} and {started[-1]}: on sizes and BLAKE3 "
               "digests, not on bytes that were compared. Files may have changed since. Names of one file (hard links) count as one "
               f"file. {int(empty):,} empty files are left out{f', and files of less than {Bytes(min_size)}' if min_size > 1 else ''}.")
    if wanted:
        yield said(f"Not finished: {int(wanted):,} files of {Bytes(wanted_bytes)} have the size and the beginning of another file, but no digest "
                   "of the whole. The lists in wanted/ name them.")
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
