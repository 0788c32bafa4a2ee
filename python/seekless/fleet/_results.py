"""``seekless-fleet results``: which methods win on which kind of storage, and which machine is slow for its kind.

Runs are documents of ``seekless bench``, or dumps of a hub. The queries are in ``results.sql``.
"""

from __future__ import annotations

import argparse
import glob
import json
import math
import os
import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from statistics import NormalDist, median
from typing import Any

from ._engine import DuckDb, ended, footers, quoted, run_queries
from ._page import Bytes, counted, page, said, table

# Those of a hub's dump.
COLUMNS = {name: "VARCHAR" for name in ["run", "machine", "kind", "model", "file_system", "kernel", "operation", "cache", "target",
                                        "durability", "work", "revision", "method"]}
COLUMNS |= {"size_bytes": "BIGINT", "ratio": "DOUBLE", "seconds": "DOUBLE"}
TYPES: dict[str, tuple[type, ...]] = {"VARCHAR": (str,), "BIGINT": (int,), "DOUBLE": (int, float)}
# What makes a contest another task, beside its operation, cache state, target, durability and size.
WORK = ["kernel", "work_ns_per_kib", "differ", "read_ahead_kib", "updates", "sustained", "random", "layout", "memory_bytes", "files",
        "cold_metadata", "part_of_bytes", "shared_blocks", "holes_skipped"]
MEMORY = re.compile(r"tmpfs|ramfs|hugetlbfs|devtmpfs")
NETWORK = re.compile(r"nfs4?|cifs|smb3|smbfs|9p|ceph|afs|lustre|gfs2|ocfs2|webdav|fuse\.(sshfs|glusterfs|s3fs|rclone|ceph-fuse)")
DRIVERS = {"loop": "loop", "dm": "volume", "md": "volume", "nbd": "network-disk", "rbd": "network-disk", "drbd": "network-disk",
           "zram": "memory", "ram": "memory", "pmem": "memory", "vd": "virtual-disk", "xvd": "virtual-disk", "nvme": "nvme",
           "mmcblk": "card"}
# A machine is called slow if fewer than this part of fleets of equal machines had one as slow.
ALARM = 0.01
# Fewer machines of a kind say nothing about one of them. `results.sql` has the same number.
FEWEST = 5
TRIALS = 2000


def run(arguments: argparse.Namespace) -> None:
    """Runs the subcommand."""
    engine = DuckDb(arguments.output, {})
    with ended(engine):
        compare(engine, [path for path in arguments.runs if not path.endswith(".parquet")],
                [path for path in arguments.runs if path.endswith(".parquet")])


def compare(engine: DuckDb, runs: list[str], dumps: list[str]) -> None:
    """Compares what runs and dumps have, and writes tables and the page."""
    engine.write("work/figures.json", (row for path in runs for row in figures_of(path)))
    of_runs = quoted(glob.escape(os.path.join(engine.output, "work/figures.json")))
    sources = [f"SELECT * FROM read_json({of_runs}, format = 'newline_delimited', columns = {COLUMNS})"]
    if dumps:
        found = footers(engine, dumps)
        for file, (_, columns) in found.items():
            if missing := COLUMNS.keys() - columns.keys():
                raise ValueError(f"{file} is not a dump of a hub: it has no column `{min(missing)}`")
        engine.view("dumped", list(found), ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in COLUMNS.items()))
        sources.append("SELECT * FROM dumped")
    engine.connection.execute(f"CREATE VIEW figures AS SELECT DISTINCT * FROM ({' UNION ALL '.join(sources)}) WHERE kind <> 'simulated'")
    run_queries(engine, "results.sql", fewest=FEWEST)
    engine.write("results.html", [page("Results of a fleet", parts(engine))])
    engine.remove("work")


def figures_of(path: str) -> Iterator[bytes]:
    """The rows of all runs of a file, as lines of JSON."""
    try:
        for row in (row for document in documents(path) for row in figures(document)):
            if wrong := [name for name, kind in COLUMNS.items() if not isinstance(row[name], TYPES[kind])]:
                raise TypeError(f"{wrong[0]} is {row[wrong[0]]!r:.50}")
            if math.isfinite(row["seconds"]) and math.isfinite(row["ratio"]) and abs(row["size_bytes"]) < 1 << 63:
                yield json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} has something that is not a run of seekless: {type(error).__name__}: {error}") from error


def documents(path: str) -> Iterator[dict[str, Any]]:
    """The runs of a file: one document, several, a list, or the lines of a dump."""
    with open(path, encoding="utf-8") as file:
        text, decoder, at = file.read(), json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        found, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        for one in found if isinstance(found, list) else [found]:
            # What a hub has marked does not count.
            if not one.get("marks"):
                yield one.get("document", one)


def figures(run: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each method of each contest, as a hub has them."""
    machine, revision = run["machine"], run.get("revision") or {"protocol": 0, "mechanisms": 0}
    # Machines without a name are told apart by their make.
    name = machine.get("host") or f"{machine.get('processor')}, {machine.get('processors')} processors, {machine.get('memory_bytes')} bytes"
    version = re.match(r"\d+\.\d+", machine["kernel"])
    for contest in run["contests"]:
        storage = run["storages"][contest["storage"]]
        timed = [(entry, entry["summary"]["seconds"]["median"]) for entry in contest["entries"] if entry.get("summary")]
        best = min((seconds for _, seconds in timed), default=0.0)
        for entry, seconds in timed:
            if "command" not in entry:
                standing = entry.get("standing")
                yield {"run": run["id"], "machine": name, "kind": kind_of(storage["file_system"], storage.get("device")),
                       "model": (storage.get("device") or {}).get("model") or "", "file_system": storage["file_system"],
                       "kernel": f"{machine['system']} {version[0] if version else ''}",
                       **{key: contest[key] for key in ("operation", "cache", "target", "durability", "size_bytes")},
                       "work": json.dumps({key: contest[key] for key in WORK if contest.get(key)}),
                       "revision": "{protocol}.{mechanisms}".format(**revision),
                       "method": entry.get("method") or entry["plan"],
                       "ratio": standing["ratio"]["median"] if standing else seconds / best if best else 1.0,
                       "seconds": seconds / max(contest["files"], 1)}


def kind_of(file_system: str, device: dict[str, Any] | None) -> str:
    """The kind of a storage, as ``seekless runs table`` tells it."""
    if MEMORY.fullmatch(file_system) or NETWORK.fullmatch(file_system):
        return "memory" if MEMORY.fullmatch(file_system) else "network"
    if device is None:
        return "fuse" if file_system.startswith("fuse") else "unknown"
    if device["name"].startswith("simulated"):
        return "simulated"
    name = re.match(r"[a-z]*", device["name"])
    kind = DRIVERS.get(name[0][:-1] if name and name[0][:2] in ("vd", "xv") else name[0] if name else "")
    if kind == "volume":
        below = {kind_of("", {**device, "name": one, "below": []}) for one in device["below"]}
        return below.pop() if len(below) == 1 and below != {"unknown"} else kind
    if kind is None and device.get("is_virtual"):
        return "virtual-disk"
    if kind is None and re.match(r"[sh]d", device["name"]):
        return {True: "hdd-sata", False: "ssd-sata", None: "disk"}[device.get("claims_rotational")]
    return kind or "unknown"


@cache
def alarm(machines: int) -> float:
    """The robust z that the slowest of so many equal machines exceeds with a probability of ``ALARM``: by simulation with normal
    logarithms, as few machines have an uncertain deviation. From 200 on, at least the quantile of the largest of normal figures."""
    draw, most = random.Random(1), []
    for _ in range(TRIALS):
        figures = [draw.gauss() for _ in range(min(machines, 200))]
        middle = median(figures)
        most.append((max(figures) - middle) / (1.4826 * median(abs(one - middle) for one in figures)))
    simulated = sorted(most)[math.ceil(TRIALS * (1 - ALARM)) - 1]
    return max(simulated, NormalDist().inv_cdf((1 - ALARM) ** (1 / machines)))


def bounds(changes: list[float]) -> str:
    """Bounds of a median, by order statistics, with at least 95 %; there are none below 6 samples."""
    count, rank, below = len(changes), 0, 0.0
    # Factorials of many machines are large.
    while (below := below + math.exp(math.lgamma(count + 1) - math.lgamma(rank + 1) - math.lgamma(count - rank + 1)
                                     - count * math.log(2))) <= 0.025:
        rank += 1
    ordered = sorted(changes)
    return f"{math.exp(ordered[rank - 1]):.2f} to {math.exp(ordered[-rank]):.2f}" if rank else "fewer than 6 machines"


def parts(engine: DuckDb) -> Iterator[str]:
    """The page."""
    machines, runs = next(engine.rows("SELECT count(DISTINCT machine), count(DISTINCT run) FROM figures"))
    yield said(f"{counted(machines, 'machine')}, {counted(runs, 'run')}. Each machine counts once, by the medians of its runs. Storages of one "
               "kind and model are compared at the same task: operation, size, cache state, target and durability. Simulated disks are left "
               "out.")
    slow = [row for row in engine.rows("SELECT kind, model, machine, machines, tasks, slower, z FROM hosts ORDER BY z DESC NULLS LAST")
            if row[-1] is not None and row[3] >= FEWEST and row[-1] > alarm(row[3])]
    yield table("Slow for their kind", "Slower than the middle machine of the kind by more robust deviations than the slowest of so many equal "
                f"machines in {1 - ALARM:.0%} of fleets, if logarithms of times are normal. Kinds of fewer than {FEWEST} machines are not judged. "
                "A disk that dies is one reason; another load is one, too: measure again.",
                ["kind", "model", "machine", "machines", "tasks", "slower", "deviations", "bound"],
                ([*row[:5], f"{row[5]:.2f}x", f"{row[6]:.1f}", f"{alarm(row[3]):.1f}"] for row in slow))
    rows = engine.rows("""SELECT kind, operation, cache, target, durability, size_bytes, method, wins, machines, ratio FROM winners
        QUALIFY row_number() OVER (PARTITION BY kind, operation, cache, target, durability, work, revision, size_bytes
                                   ORDER BY wins DESC, ratio, method) = 1
        ORDER BY kind, machines DESC, operation, cache, target, size_bytes LIMIT 200""")
    yield table("Methods that win", "The method that is the fastest on most machines of a kind, and its time over that of the best.",
                ["kind", "operation", "cache", "target", "durability", "size", "method", "wins", "machines", "ratio"],
                ([*row[:5], Bytes(row[5]), *row[6:9], f"{row[9]:.2f}x"] for row in rows))
    rows = engine.rows("""SELECT kind, model, count(*), max(machines), median(factor), max(range) FROM differences
        GROUP BY ALL ORDER BY max(machines) DESC, kind, model LIMIT 50""")
    yield table("How far machines of one kind differ", "The robust standard deviation of a task's time as a factor, in the middle of all tasks; and "
                "the slowest over the fastest machine, at the task where they are farthest apart.",
                ["kind", "model", "tasks", "machines", "factor", "range"], ([*row[:4], f"{row[4]:.2f}x", f"{row[5]:.2f}x"] for row in rows))
    pairs = groupby(engine.rows("SELECT kind, older, newer, change FROM kernels ORDER BY ALL"), lambda row: row[:3])
    changes = [([str(name) for name in names], [float(row[3]) for row in rows]) for names, rows in pairs]
    yield table("Drift over kernels", "The time under the newer kernel over that under the older, on machines that ran both; the median, with bounds.",
                ["kind", "older", "newer", "machines", "ratio", "bounds"],
                ([*names, len(all_of), f"{math.exp(median(all_of)):.2f}x", bounds(all_of)] for names, all_of in changes))
