"""A fleet that does not exist: catalogues of many hosts, made by DuckDB from a seed, and a naive finder to compare with.

    python python/tests/simulated_fleet.py --rows 20000000 DIR

Sizes are lognormal with a Pareto tail (Agrawal et al., A Five-Year Study of File-System Metadata, FAST 2007, for the shape). Contents are
drawn by Zipf's law, so some are on every host and many on one. Besides: empty files, hard links, files without a whole digest, and
many equal small files in one directory of one host.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb

HOSTS = 50
# Of all rows.
EMPTY = 0.02
SAME = 0.05
LINKS = 0.02
# Of the others: those with contents of their own.
UNIQUE = 0.55
QUERY = """
WITH drawn AS (
    SELECT i, {salted}(i, 1) AS u, {salted}(i, 2) AS v, {salted}(i, 3) AS w, {salted}(i, 4) AS h, {salted}(i, 5) AS x FROM range({rows}) AS r(i)
), content AS (
    SELECT *, CASE WHEN u < {empty} THEN 'empty' WHEN u < {empty} + {same} THEN 'same'
            WHEN u < {empty} + {same} + {links} AND i > {hosts} THEN 'link' ELSE 'file' END AS kind,
        -- Zipf's law with an exponent of 1 over the contents that may be shared.
        CASE WHEN v < {unique} THEN {rows} + i ELSE CAST(floor(pow({rows} / 4 + 1, w)) AS BIGINT) END AS of_file
    FROM drawn
), sized AS (
    SELECT *, CASE kind WHEN 'empty' THEN 0 WHEN 'same' THEN -1 ELSE of_file END AS content,
        {salted}(of_file, 6) AS p, {salted}(of_file, 7) AS q, {salted}(of_file, 8) AS r
    FROM content
), placed AS (
    SELECT *, CASE WHEN kind = 'same' THEN 7 % {hosts} ELSE CAST(floor(h * {hosts}) AS INTEGER) END AS host_number,
        CASE kind WHEN 'empty' THEN 0 WHEN 'same' THEN 512
            -- Box and Muller: e^9 bytes, give or take a factor of e^2.4; a hundredth has a Pareto tail.
            ELSE CAST(CASE WHEN r < 0.01 THEN least(524288 / pow(p + 1e-9, 1 / 1.1), 1e12)
                ELSE 1 + exp(9 + 2.4 * sqrt(-2 * ln(p + 1e-12)) * cos(2 * pi() * q)) END AS BIGINT) END AS size
    FROM sized
)
SELECT printf('host-%03d', host_number) AS host, 'disk-' || CAST(i % 2 AS VARCHAR) AS storage,
    CAST(i AS BIGINT) AS inode, CAST(65024 + i % 2 AS BIGINT) AS device,
    CAST(printf('/srv/%s/%02d/%03d/file-%d.dat', CASE kind WHEN 'same' THEN 'same' ELSE 'data' END,
        CASE kind WHEN 'same' THEN 0 ELSE i % 41 END, CASE kind WHEN 'same' THEN 0 ELSE CAST(floor(x * 500) AS BIGINT) END, i) AS BLOB) AS path,
    size, CAST(1700000000000000000 + i * 1000003 AS BIGINT) AS mtime_ns, CAST(1700000000000000000 + i * 1000003 AS BIGINT) AS changed_ns,
    CASE kind WHEN 'link' THEN 2 ELSE 1 END AS links,
    CASE WHEN size > 0 THEN unhex(sha256('first' || content || '-' || size)) END AS first,
    CASE WHEN size BETWEEN 1 AND 4096 OR size > 4096 AND x >= 0.02 THEN unhex(sha256('whole' || content || '-' || size)) END AS blake3
FROM placed
"""
# A hard link is a second row of a file with another path.
LINKED = """SELECT * FROM rows UNION ALL
SELECT host, storage, inode, device, path || CAST('.link' AS BLOB), size, mtime_ns, changed_ns, links, first, blake3 FROM rows WHERE links > 1"""


def origin(host: str) -> dict[str, Any]:
    """Where its catalogue was made."""
    systems = [{"device": 65024 + at, "name": f"ext4 {at + 1:016x}"} for at in range(2)]
    roots = [{"given": "/srv", "path": "/srv", "is_reference": False}]
    return {"version": 1, "machine": f"machine of {host}", "directory": "/", "roots": roots, "file_systems": systems}


def metadata(host: str) -> dict[str, str]:
    """What the footer of its catalogue says."""
    return {"seekless.catalogue": "1", "host": host, "roots": '["/srv"]',
            "started": "2026-11-20T14:03:22Z", "origin": json.dumps(origin(host))}


def make(directory: Path, rows: int, seed: int = 1, hosts: int = HOSTS, memory: str = "4GB") -> list[str]:
    """Writes a catalogue for each host. Returns their paths. The same arguments give the same rows."""
    directory.mkdir(parents=True)
    connection = duckdb.connect(config={"memory_limit": memory, "temp_directory": str(directory / "spilled")})
    # A uniform number of two integers.
    connection.execute(f"CREATE MACRO salted(i, n) AS (hash(i, n, {seed}) >> 11) / 9007199254740992.0")
    query = QUERY.format(salted="salted", rows=rows, hosts=hosts, empty=EMPTY, same=SAME, links=LINKS, unique=UNIQUE)
    whole = directory / "all.parquet"
    connection.execute(f"COPY (SELECT * FROM ({query}) ORDER BY host) TO '{whole}' (FORMAT parquet, COMPRESSION snappy)")
    connection.execute(f"CREATE VIEW rows AS SELECT * FROM '{whole}'")
    paths = []
    for (host,) in connection.execute("SELECT DISTINCT host FROM rows ORDER BY host").fetchall():
        path = directory / f"{host}.parquet"
        keys = ", ".join("'{}': '{}'".format(key, value) for key, value in metadata(host).items())
        connection.execute(f"COPY (SELECT * FROM ({LINKED}) WHERE host = '{host}') TO '{path}' "
                           f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{keys}}})")
        paths.append(str(path))
    whole.unlink()
    return paths


def naive(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer, one file after the other."""
    inodes: dict[tuple[str, str, int], dict[str, Any]] = {}
    paths = defaultdict(set)
    for row in rows:
        key = row["host"], row["storage"], row["inode"]
        paths[key].add(row["path"])
        old = inodes.get(key)
        if old is None or (row["changed_ns"], row["blake3"] is not None) > (old["changed_ns"], old["blake3"] is not None):
            inodes[key] = row
    groups, firsts = defaultdict(list), defaultdict(list)
    for key, row in inodes.items():
        if row["size"] > 0:
            whole = row["blake3"]
            firsts[row["size"], row["first"]].append((key, whole))
            if whole is not None:
                groups[row["size"], whole].append(key)
    groups = defaultdict(list, {key: files for key, files in groups.items() if len(files) > 1})
    wanted = {(key[0], path) for (_, first), files in firsts.items() for key, whole in files
              if whole is None and (first is None or len(files) > 1) for path in paths[key]}
    answer: dict[str, Any] = {"wanted": wanted, "groups": set(), "hosts": defaultdict(int), "pairs": defaultdict(int),
                              "directories": defaultdict(int)}
    for (size, whole), files in groups.items():
        on = defaultdict(int)
        directories: defaultdict[tuple[str, bytes], int] = defaultdict(int)
        for key in files:
            on[key[0]] += 1
            directories[key[0], min(paths[key]).rpartition(b"/")[0]] += 1
        answer["groups"].add((size, whole, len(on), sum(len(paths[key]) for key in files), len(files), size * (len(files) - 1)))
        for host, count in on.items():
            answer["hosts"][host] += size * (count - 1)
            for other in on:
                if host < other and len(on) <= 64:
                    answer["pairs"][host, other] += size
        for place, count in directories.items():
            answer["directories"][place] += size * min(count, len(files) - 1)
    return answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write catalogues of a simulated fleet.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    make(arguments.directory, arguments.rows, arguments.seed, memory=arguments.memory)
