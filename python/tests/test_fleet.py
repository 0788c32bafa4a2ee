"""Duplicates and results of many machines: both engines, compared with a naive finder."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import simulated_fleet as simulated

pyarrow = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
import pyarrow.parquet as parquet

import seekless
from seekless.fleet import _duplicates, _engine, _main, _results

Rows = list[dict[str, Any]]
DIGEST = pyarrow.binary(32)
SCHEMA = pyarrow.schema([
    ("host", pyarrow.string()), ("storage", pyarrow.string()), ("inode", pyarrow.int64()), ("device", pyarrow.int64()),
    ("path", pyarrow.binary()), ("size", pyarrow.int64()), ("mtime_ns", pyarrow.int64()), ("changed_ns", pyarrow.int64()),
    ("links", pyarrow.int32()), ("first", DIGEST), ("blake3", DIGEST)])


def write(directory: Path, rows: Rows, origins: dict[str, Any] | None = None) -> list[str]:
    """A catalogue for each host, as `seekless dupes catalogue` writes them: digests have a fixed length. `origins` are not simulated."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for host in sorted({row["host"] for row in rows}):
        path = directory / f"{len(list(directory.iterdir()))}.parquet"
        keys = simulated.metadata(host) | {"origin": json.dumps((origins or {}).get(host) or simulated.origin(host))}
        table = pyarrow.Table.from_pylist([row for row in rows if row["host"] == host], SCHEMA.with_metadata(keys))
        parquet.write_table(table, path)
        paths.append(str(path))
    return paths


def file(host: str, inode: int, path: bytes, size: int, content: int, **others: Any) -> dict[str, Any]:
    """A row; equal contents have equal numbers, and equal beginnings modulo 100."""
    first = (content % 100 if size > 4096 else content).to_bytes(4, "little") * 8 if size else None
    row = {"host": host, "storage": "disk", "inode": inode, "device": 1, "path": path, "size": size, "mtime_ns": inode, "changed_ns": inode,
           "links": 1, "first": first, "blake3": content.to_bytes(4, "little") * 8 if size else None}
    return row | others


def drawn(seed: int, count: int = 600) -> Rows:
    """Files of few sizes and contents: each case occurs often."""
    draw, rows = random.Random(seed), []
    for inode in range(count):
        host, size, content = f"host {draw.randrange(4)}", draw.choice([0, 1, 4096, 4097, 1 << 40]), draw.choice([1, 2, 3, 101, 102, inode])
        row = file(host, inode - 300, f"/d{draw.randrange(3)}/{inode}".encode(), size, content)
        if draw.random() < 0.3:
            row["blake3"] = None
        if draw.random() < 0.05:
            row["first"] = None
        rows.append(row)
        if draw.random() < 0.2:
            rows.append(row | {"path": f"/d{draw.randrange(3)}/link {inode}".encode()})
    return rows


def why_no_spark() -> str | None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed"
    return None if shutil.which("java") else "there is no Java"


# For short runs: compiling well takes longer than they do.
SPARK = {"spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
         "spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
         "spark.executor.memory": "512m", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


def answer(output: Path) -> dict[str, Any]:
    """The tables, in the form of the naive answer."""
    read = {name: parquet.read_table(output / f"{name}.parquet").to_pylist() for name in
            ["groups", "wanted", "hosts", "pairs", "directories"]}
    assert len(read["wanted"]) == len({tuple(row.values()) for row in read["wanted"]})
    return {"groups": {tuple(row[key] for key in ("size", "blake3", "hosts", "files", "inodes", "gain")) for row in read["groups"]},
            "wanted": {(row["host"], row["path"]) for row in read["wanted"]},
            "hosts": {row["host"]: row["gain"] for row in read["hosts"] if row["gain"]},
            "pairs": {(row["host"], row["other"]): row["bytes"] for row in read["pairs"]},
            "directories": {(row["host"], row["directory"]): row["gain"] for row in read["directories"]}}


def find(engine: _engine.Engine, output: Path, catalogues: list[str], rows: Rows) -> None:
    """Finds the duplicates, and compares them with the naive answer. What a host has more often than five times gets salts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_duplicates, "HEAVY", 5)
        _duplicates.find(engine, catalogues, 1, "remove")
    expected = simulated.naive(rows)
    expected["hosts"] = {host: gain for host, gain in expected["hosts"].items() if gain}
    assert answer(output) == expected
    assert not list(output.rglob("*.crc")) and not (output / "work").exists()


# Each case has a size of its own.
LINKS, EMPTY, PATHS, NEWEST = 10, 0, 11, 5000
NAMES = [b"/new\nline/'quote'\"/\xff\xfe/\\ ", b"/\xc3\xa4/\x1b[31m<b>", b"/rooted"]
CASES = [file("links a", 1, b"/x", LINKS, 1, links=2), file("links a", 1, b"/y", LINKS, 1, links=2), file("links a", 2, b"/e", EMPTY, 0),
         file("links b", 2, b"/e", EMPTY, 0), file("links b", -1, b"/z", LINKS, 2), file("links b", 1, b"/z2", LINKS, 2, storage="other"),
         *(file("h'o\"st<b>/..", inode, path, PATHS, 1) for inode, path in enumerate(NAMES)),
         file("new a", 1, b"/x", NEWEST, 1, blake3=None), file("new b", 1, b"/x", NEWEST, 1, blake3=None), file("new b", 2, b"/y", NEWEST, 1),
         file("new a", 1, b"/x", NEWEST, 1), file("new b", 1, b"/x", NEWEST + 1, 1, changed_ns=7)]


def real_files(place: Path) -> tuple[Rows, dict[str, Any]]:
    """Four equal files, one of them with two names, and where they were found."""
    place.mkdir()
    for at, name in enumerate([b"a", b"b", b"c\n\xff ", b"changed"]):
        path = place / os.fsdecode(name)
        path.write_bytes(b"equal" * 2000)
        os.utime(path, ns=(at, at))
    os.link(place / "b", place / "b too")
    report = json.loads(subprocess.run([seekless.command(), "dupes", "--json", place], check=True, capture_output=True).stdout)
    rows = []
    for entry in os.scandir(os.fsencode(place)):
        stat = entry.stat()
        device = (stat.st_dev + (1 << 63)) % (1 << 64) - (1 << 63)
        rows.append(file("here", stat.st_ino, entry.path, stat.st_size, 1, device=device, links=stat.st_nlink,
                         mtime_ns=stat.st_mtime_ns, changed_ns=stat.st_ctime_ns))
    return rows, {key: report["summary"][key] for key in ("machine", "directory", "roots")}


def wrong_catalogues(place: Path) -> dict[str, list[str]]:
    """Files that are not catalogues of one host, and what is said of each."""
    good = [file("a", inode, b"/%d" % inode, 5000 + inode, inode) for inode in range(2000)]
    without = SCHEMA.remove(SCHEMA.get_field_index("storage"))
    cases: dict[str, tuple[Rows, Any, list[str]]] = {
        "other host": ([*good, file("b", 1, b"/etc", 5000, 1)], SCHEMA, ["host 'a', and has files of host 'b'"]),
        "no host": ([*good, good[0] | {"host": None}], SCHEMA, ["a row without one of host"]),
        "no path": ([*good, good[0] | {"path": None}], SCHEMA, ["a row without one of host, storage, path"]),
        "negative": ([file("a", 1, b"/x", -1, 1)], SCHEMA, ["a negative size"]),
        "huge": ([file("a", inode, b"/%d" % inode, 2**63 - 1, 1) for inode in range(3)], SCHEMA, ["too many to count; leave out", "huge.parquet"]),
        "no column": (good, without, ["its column `storage` is not that of a catalogue"]),
        "damaged": (good, SCHEMA, ["damaged.parquet", "\nhint: if the file is damaged, make it again"]),
        "cut": (good, SCHEMA, ["cut.parquet cannot be read as Parquet"]), "text": (good, SCHEMA, ["text.parquet cannot be read as Parquet"])}
    place.mkdir()
    for name, (rows, schema, _) in cases.items():
        table = pyarrow.Table.from_pylist(rows, schema.with_metadata(simulated.metadata("a")))
        parquet.write_table(table, place / f"{name}.parquet")
        bytes_ = bytearray((place / f"{name}.parquet").read_bytes())
        if name == "damaged":
            bytes_[30_000:40_000] = random.Random(1).randbytes(10_000)
        (place / f"{name}.parquet").write_bytes({"cut": bytes_[:9000], "text": b"a text"}.get(name, bytes_))
    (place / "none").mkdir()
    none = {path: ["no files found"] for path in [str(place / "none"), str(place / "missing.parquet"), str(place / "missing*")]}
    return {str(place / f"{name}.parquet"): [f"{name}.parquet", *said] for name, (_, _, said) in cases.items()} | none


def solve(place: Path, engine: _engine.Engine) -> None:
    """Finds all cases: `output` is what was found, `files` are those of the host that is this one, and `told` is of other files."""
    here, origin = real_files(place / "files")
    rows = drawn(1) + CASES + here
    catalogues = write(place / "catalogues", rows, {"here": origin})
    find(engine, place / "output", [*catalogues[1:], str(place / "catalogues")], rows)
    told = {}
    for path in wrong_catalogues(place / "wrong"):
        try:
            _duplicates.read(engine, [path])
        except Exception as error:
            told[path] = _engine.told(error) or f"{type(error).__name__}: {error}"
    (place / "told").write_text(json.dumps(told))


def solve_while_a_worker_is_killed(place: Path) -> None:
    """The same on a cluster, one of whose executors is killed while the files are joined with their counts."""
    def kill() -> None:
        while not (place / "output/work/heavy.parquet/_SUCCESS").exists():
            time.sleep(0.01)
        executors = [int(process) for process in os.listdir("/proc") if process.isdigit() and is_mine(int(process))]
        os.kill(executors[0], signal.SIGKILL)
        print(f"killed one of {len(executors)}", flush=True)

    threading.Thread(target=kill, daemon=True).start()
    solve(place, _engine.Spark(str(place / "output"), SPARK, "local-cluster[2,1,1024]"))


def is_mine(process: int) -> bool:
    """Whether a process is an executor that this one started."""
    try:
        if b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_bytes():
            return False
        while process > 1 and process != os.getpid():
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return process == os.getpid()


@pytest.fixture(scope="module", params=["duckdb", "spark"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an engine has found all cases; Spark although a worker was killed."""
    # What is in its name is no pattern.
    place = tmp_path_factory.mktemp(request.param) / "it's [1]{a,b}*?"
    place.mkdir()
    if request.param == "duckdb":
        solve(place, _engine.DuckDb(str(place / "output"), {}))
    elif reason := why_no_spark():
        pytest.skip(reason)
    else:
        # In a process of its own, whose executors are its descendants.
        run = subprocess.run([sys.executable, __file__, place], check=False, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stderr[-4000:]
        assert "killed one of" in run.stdout
    return place


def groups_of(place: Path, *sizes: int) -> set[tuple[int, ...]]:
    """Hosts, files, inodes and gain of the groups of these sizes."""
    return {row[2:] for row in answer(place / "output")["groups"] if row[0] in sizes}


def test_both_engines_find_what_a_naive_finder_finds_and_list_what_is_wanted(found: Path) -> None:
    wanted = answer(found / "output")["wanted"]
    listed = {(host, path) for host in {host for host, _ in wanted}
              for path in (found / "output/wanted" / f"{host.replace(' ', '%20')}.list").read_bytes().split(b"\0") if path}
    assert listed == wanted and len(wanted) > 50


def test_what_is_no_catalogue_of_one_host_is_named_without_sql_and_calls(found: Path) -> None:
    told, expected = json.loads((found / "told").read_text()), wrong_catalogues(found / "wrong again")
    assert [Path(path).name for path in told] == [Path(path).name for path in expected]
    for text, words in zip(told.values(), expected.values()):
        assert all(word in text for word in words), (words, text)
        assert not any(word in text for word in ["SELECT", "SQLSTATE", "\tat ", "Exception", "LINE "]) and text.count("\n") < 2, text


def test_names_of_one_file_are_no_gain_and_empty_files_are_no_group(found: Path) -> None:
    assert groups_of(found, LINKS, EMPTY) == {(1, 2, 2, 10)}
    hosts = parquet.read_table(found / "output/hosts.parquet").to_pylist()
    assert [row["empty_files"] for row in hosts if row["host"].startswith("links")] == [1, 1]
    assert not (found / "output/plans/links%20a.plan").exists()


def test_paths_are_bytes(found: Path) -> None:
    page = (found / "output/duplicates.html").read_text()
    assert "<b>" not in page and "h&#x27;o&quot;st&lt;b&gt;/.." in page
    plan = (found / "output/plans/h%27o%22st%3Cb%3E%2F...plan").read_text()
    lines = [line.split(" ", 1)[1].strip() for line in plan.splitlines() if line.startswith(("keep", "remove"))]
    assert lines == ["/new\\x0aline/'quote'\"/\\xff\\xfe/\\\\\\x20", "/ä/\\x1b[31m<b>", "/rooted"]


def test_the_newest_row_of_a_file_counts_and_its_digest(found: Path) -> None:
    assert groups_of(found, NEWEST, NEWEST + 1) == {(2, 2, 2, NEWEST)}


def test_plans_of_the_fleet_are_carried_out_by_seekless_which_proves_each_line(found: Path) -> None:
    with (found / "files/changed").open("ab") as changed:
        changed.write(b"!")
    act = subprocess.run([seekless.command(), "dupes", "act", "--plan", found / "output/plans/here.plan", "--yes", "--json"],
                         check=False, capture_output=True)
    summary = json.loads(act.stdout)["summary"]
    assert (summary["done"], summary["refused"]) == (2, 1), act
    assert sorted(os.listdir(found / "files")) == ["a", "changed"]


def test_a_simulated_fleet_is_the_same_for_a_seed_and_is_solved(tmp_path: Path) -> None:
    paths = simulated.make(tmp_path / "one", 20_000, seed=3, hosts=5)
    again = simulated.make(tmp_path / "two", 20_000, seed=3, hosts=5)
    rows = [row for path in paths for row in parquet.read_table(path).to_pylist()]
    assert sorted(map(str, rows)) == sorted(str(row) for path in again for row in parquet.read_table(path).to_pylist())
    _duplicates.find(_engine.DuckDb(str(tmp_path / "output"), {}), paths, 1, "hardlink")
    found, expected = answer(tmp_path / "output"), simulated.naive(rows)
    assert found == expected | {"hosts": {host: gain for host, gain in expected["hosts"].items() if gain}}
    assert max(row[4] for row in found["groups"]) > 900


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs the command with an output directory, `output`; returns its exit code and what it says."""
    def called(*arguments: object, output: object = tmp_path / "output") -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["seekless-fleet", *map(str, arguments), "--output", str(output)])
        return _main.main(), capsys.readouterr().err
    return called


def two_files(host: str) -> Rows:
    return [file(host, inode, b"/%d" % inode, 5000, 1) for inode in range(2)]


@pytest.mark.parametrize("what", ["no catalogue", "no metadata", "two machines"])
def test_what_cannot_be_right_is_an_error(what: str, tmp_path: Path, call: Callable[..., tuple[int, str]]) -> None:
    rows = two_files("a")
    paths = write(tmp_path / "1", rows) + write(tmp_path / "2", rows, {"a": simulated.origin("another a")})
    if what == "no catalogue":
        parquet.write_table(pyarrow.Table.from_pylist(rows, SCHEMA), tmp_path / "plain.parquet")
        paths = [str(tmp_path / "plain.parquet")]
    if what == "no metadata":
        duckdb.sql(f"COPY (SELECT * FROM '{paths[0]}') TO '{tmp_path / 'plain.parquet'}' (FORMAT parquet)")
        paths = [paths[0], str(tmp_path / "plain.parquet")]
    code, told = call("duplicates", *paths)
    expected = {"two machines": "two machines have the same name, 'a'"}
    assert code == 2 and expected.get(what, "plain.parquet is not a catalogue of version 1") in told


@pytest.mark.parametrize(("arguments", "output", "told"), [
    (["--set", "nonsense=1"], "output", "these settings: The following options were not recognized: nonsense"),
    (["--set", "nonsense"], "output", "--set nonsense: it needs KEY=VALUE"),
    (["--set", "memory_limit=1MB"], "output", "\nhint: allow more memory, as in --set memory_limit=4GB"),
    ([], "s3a://bucket/output", "--engine spark writes to s3a://bucket/output"), ([], "a.parquet/output", "a.parquet/output: Not a directory"),
    ([], "\udcff", "'\\udcff' is not in UTF-8"), ([], "a.parquet", "a.parquet exists; name a new directory")])
def test_settings_and_outputs_that_cannot_be_are_told_in_a_line(arguments: list[str], output: str, told: str, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str]]) -> None:
    shutil.move(*write(tmp_path / "1", two_files("a")), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    code, said = call("duplicates", "a.parquet", *arguments, output=output)
    assert code == 2 and told in said and "LINE 1" not in said
    assert sorted(os.listdir()) == ["1", "a.parquet"]


@pytest.mark.parametrize(("arguments", "java", "told"), [
    ([], False, "there is no Java; Spark needs Java 17"), (["--master", "nonsense"], True, "--master nonsense is not a cluster"),
    (["--set", "memory_limit=1GB"], True, "--set memory_limit: settings of Spark begin with `spark.`")])
def test_what_spark_cannot_start_with_is_told_in_a_line(arguments: list[str], java: bool, told: str, monkeypatch: pytest.MonkeyPatch,
                                                        tmp_path: Path, call: Callable[..., tuple[int, str]]) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "bin").mkdir()
    if java:
        (tmp_path / "bin/java").touch(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, said = call("duplicates", "x", "--engine", "spark", *arguments)
    assert code == 2 and said.startswith(f"seekless-fleet: {told}") and said.count("\n") == 1


def test_a_run_that_failed_or_was_interrupted_leaves_no_output_and_touches_no_other(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., tuple[int, str]]) -> None:
    paths = write(tmp_path / "catalogues", two_files("a"))
    assert call("duplicates", tmp_path / "missing")[0] == call("results", tmp_path / "missing")[0] == 2
    for error, code in [(KeyboardInterrupt(), 130), (OSError("full"), 2), (RuntimeError("Query interrupted"), 130)]:
        with monkeypatch.context() as patch:
            patch.setattr(_duplicates, "parts", Mock(side_effect=error))
            assert call("duplicates", *paths)[0] == code
        assert os.listdir(tmp_path) == ["catalogues"]
    assert call("duplicates", *paths)[0] == 0
    before = sorted((tmp_path / "output").rglob("*"))
    assert call("duplicates", *paths) == (2, f"seekless-fleet: {tmp_path / 'output'} exists; name a new directory\n")
    assert sorted((tmp_path / "output").rglob("*")) == before


def test_hosts_with_long_names_have_files_of_their_own(tmp_path: Path) -> None:
    hosts = ["h" * 300 + end for end in "ab"] + ["\U0001f600" * 60]
    rows = [row for host in hosts for row in two_files(host)] + [file(host, 9, b"/wanted", 5000, 1, blake3=None) for host in hosts]
    _duplicates.find(_engine.DuckDb(str(tmp_path / "output"), {}), write(tmp_path / "catalogues", rows), 1, "remove")
    assert [len(list((tmp_path / "output" / name).iterdir())) for name in ["wanted", "plans"]] == [3, 3]
    cut = _duplicates.file_name(hosts[0])
    assert len({*map(_duplicates.file_name, [*hosts, cut, "A", "a", ".", "/", "%2F"])}) == 9


def test_a_host_whose_origin_is_odd_gets_no_plan(tmp_path: Path) -> None:
    odd = ["5", "{", "[" * 5000, '{"machine": {}, "directory": "", "roots": []}', '{"machine": "\\ud800", "directory": "", "roots": []}']
    for at, text in enumerate(odd):
        table = pyarrow.Table.from_pylist(two_files(f"{at}"), SCHEMA.with_metadata(simulated.metadata(f"{at}") | {"origin": text}))
        parquet.write_table(table, tmp_path / f"{at}.parquet")
    _duplicates.find(_engine.DuckDb(str(tmp_path / "output"), {}), [str(tmp_path)], 1, "remove")
    assert not (tmp_path / "output/plans").exists()


def test_names_of_directories_are_no_columns_and_a_catalogue_may_be_empty(tmp_path: Path) -> None:
    rows = [file("a", inode, b"/%d" % inode, 5000, 1) for inode in range(2)]
    paths = write(tmp_path / "host=other/size=7", rows)
    output = tmp_path / "it's/host=else"
    _duplicates.find(_engine.DuckDb(str(output), {}), paths, 1, "remove")
    assert (output / "plans/a.plan").exists()
    assert [row[:2] + row[2:4] for row in answer(output)["groups"]] == [(5000, rows[0]["blake3"], 1, 2)]
    table = pyarrow.Table.from_pylist([], SCHEMA.with_metadata(simulated.metadata("empty")))
    parquet.write_table(table, tmp_path / "empty.parquet")
    _duplicates.find(_engine.DuckDb(str(tmp_path / "none"), {}), [str(tmp_path / "empty.parquet")], 1, "remove")
    assert "1 host, 0 files of 0 B. 0 groups" in (tmp_path / "none/duplicates.html").read_text()
    assert "Based on 1 catalogue, made at 2026" in (tmp_path / "none/duplicates.html").read_text()


def test_a_line_of_a_host_name_is_no_line_of_its_plan(tmp_path: Path) -> None:
    rows = [file("a\nremove x /etc/passwd", inode, b"/%d" % inode, 5000, 1) for inode in range(2)]
    _duplicates.find(_engine.DuckDb(str(tmp_path / "output"), {}), write(tmp_path / "catalogues", rows), 1, "remove")
    (plan,) = (tmp_path / "output/plans").iterdir()
    assert not any(line.endswith("/etc/passwd") for line in plan.read_text().splitlines() if not line.startswith("#"))


@pytest.mark.parametrize("text", ["null", "5", "{}", "[" * 100_000, '{"machine": {"kernel": 6}, "contests": []}', "{", "id", "size", "host"])
def test_what_is_no_run_is_named(text: str, tmp_path: Path, call: Callable[..., tuple[int, str]]) -> None:
    run = a_run("\ud800" if text == "host" else "a", 0.1)
    if text == "size":
        run["contests"][0]["size_bytes"] = "large"
    (tmp_path / "run.json").write_text({"id": json.dumps(run | {"id": {}}), "size": json.dumps(run), "host": json.dumps(run)}.get(text, text))
    code, told = call("results", tmp_path / "run.json")
    assert code == 2 and "run.json has something that is not a run of seekless" in told


def test_a_dump_without_a_column_is_named(tmp_path: Path, call: Callable[..., tuple[int, str]]) -> None:
    parquet.write_table(pyarrow.table({"run": ["a"]}), tmp_path / "dump.parquet")
    assert call("results", tmp_path / "dump.parquet") == (
        2, f"seekless-fleet: {tmp_path}/dump.parquet is not a dump of a hub: it has no column `cache`\n")


def test_times_that_are_no_numbers_do_not_count(tmp_path: Path) -> None:
    run = a_run("a", float("nan"))
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert not list(_results.figures_of(str(tmp_path / "run.json")))


def a_run(host: str, seconds: float, kernel: str = "6.1.0", method: str = "read/sync", number: int = 0) -> dict[str, Any]:
    """A run with two methods; the named one is twice as fast."""
    def entry(name: str, seconds: float) -> dict[str, Any]:
        return {"method": name, "summary": {"seconds": {"median": seconds}}}

    other = {"read/sync": "read/mmap", "read/mmap": "read/sync"}[method]
    contest = {"operation": "read", "storage": 0, "size_bytes": 1 << 20, "files": 2, "cache": "cold", "target": "fresh", "kernel": "count",
               "work_ns_per_kib": 0, "durability": "none", "entries": [entry(method, seconds), entry(other, 2 * seconds)]}
    return {"id": f"{host} {number}", "machine": {"host": host, "system": "Linux", "kernel": kernel}, "contests": [contest],
            "storages": [{"file_system": "ext4", "device": {"name": "sda", "below": [], "claims_rotational": True, "model": "Disk"}}]}


def results(tmp_path: Path, runs: list[dict[str, Any]]) -> tuple[dict[str, Rows], str]:
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, runs)) + "\n")
    output = tmp_path / "results[1]"
    _results.run(type("Arguments", (), {"runs": [str(tmp_path / "runs.jsonl")], "output": str(output)}))  # type: ignore[arg-type]
    tables = {path.stem: parquet.read_table(path).to_pylist() for path in output.glob("*.parquet")}
    return tables, (output / "results.html").read_text()


def test_a_machine_counts_once_and_the_dying_disk_is_told(tmp_path: Path) -> None:
    draw = random.Random(1)
    runs = [a_run(f"host-{at}", 0.01 * draw.lognormvariate(0, 0.05), number=again) for at in range(12) for again in range(1 + at % 3)]
    runs += [a_run("dying", 0.03, method="read/mmap", number=again) for again in range(50)]
    runs.append({"marks": "odd", "document": a_run("marked", 9.0)})
    tables, page = results(tmp_path, runs)
    assert {(row["method"], row["wins"], row["machines"]) for row in tables["winners"]} == {("read/sync", 12, 13), ("read/mmap", 1, 13)}
    assert {row["kind"] for row in tables["winners"]} == {"hdd-sata"}
    slow = page.partition("Slow for their kind")[2].partition("<h2>")[0]
    assert "dying" in slow and "host-" not in slow and "marked" not in page
    [dying] = [row for row in tables["hosts"] if row["machine"] == "dying"]
    assert 2.5 < dying["slower"] < 3.5


def test_saved_runs_and_the_dump_of_a_hub_are_read_together(tmp_path: Path) -> None:
    saved = sorted((Path(__file__).parents[2] / "crates/record/testdata/runs").glob("*.json"))
    row = dict.fromkeys(_results.COLUMNS, "") | {"run": "r", "day": "d", "machine": "machine-1", "kind": "nvme", "method": "read/sync",
                                                 "size_bytes": 1, "is_best": 1, "ratio": 1.0, "seconds": 1.0}
    simulated_disk = row | {"machine": "machine-2", "kind": "simulated"}
    parquet.write_table(pyarrow.Table.from_pylist([row, simulated_disk]), tmp_path / "dump.parquet")
    output = tmp_path / "results"
    arguments = {"runs": [*map(str, saved), str(tmp_path / "dump.parquet")], "output": str(output)}
    _results.run(type("Arguments", (), arguments))  # type: ignore[arg-type]
    winners = parquet.read_table(output / "winners.parquet").to_pylist()
    assert {row["kind"] for row in winners} >= {"nvme", "virtual-disk"} and "simulated" not in {row["kind"] for row in winners}
    assert {row["operation"] for row in winners} >= {"read", "write", "copy", "compare", "update"}
    assert all(row["method"].startswith(row["operation"] + "/") for row in winners if row["operation"])
    assert "read/planned" in {row["method"] for row in winners}
    assert min(row["ratio"] for row in winners if row["wins"]) > 0.2


def test_few_machines_need_more_to_be_told_apart() -> None:
    assert _results.alarm(5) > 2 * _results.alarm(20) > 2 * 3.5
    assert _results.alarm(10_000) > _results.alarm(100) - 0.5
    draw, told = random.Random(5), 0
    for _ in range(1000):
        figures = [draw.gauss() for _ in range(6)]
        middle = sorted(figures)[2:4]
        deviations = sorted(abs(one - sum(middle) / 2) for one in figures)
        told += (max(figures) - sum(middle) / 2) / (1.4826 * sum(deviations[2:4]) / 2) > _results.alarm(6)
    assert told < 30


def test_kernels_are_compared_on_machines_that_ran_both(tmp_path: Path) -> None:
    # Machines differ by far more than kernels.
    runs = [a_run(f"host-{at}", 0.01 * 2**at * factor, kernel) for at in range(7) for kernel, factor in [("6.9.1", 1.0), ("6.18.2", 1.1)]]
    tables, page = results(tmp_path, [*runs, a_run("only old", 1.0, "6.9.1"), a_run("odd", 1.0, "9" * 30 + ".1")])
    assert {(row["older"], row["newer"]) for row in tables["kernels"]} == {("Linux 6.9", "Linux 6.18")}
    assert len(tables["kernels"]) == 7
    assert "<td class=n>7</td><td>1.10x</td><td>1.10 to 1.10</td>" in page


def test_bounds_of_a_median_are_those_of_order_statistics() -> None:
    assert _results.bounds([0.0] * 5) == "fewer than 6 machines"
    assert _results.bounds([float(at) / 10 for at in range(6)]) == "1.00 to 1.65"
    assert _results.bounds([float(at) / 10 for at in range(9)]) == "1.11 to 2.01"
    for count in range(6, 201):
        rank, below = 0, 1
        while 40 * below <= 2**count:
            rank += 1
            below += math.comb(count, rank)
        assert _results.bounds([math.log(at) for at in range(1, count + 1)]) == f"{rank}.00 to {count + 1 - rank}.00"


def test_bounds_of_many_machines_take_no_time() -> None:
    start = time.process_time()
    assert _results.bounds([at / 20_000 for at in range(20_000)]) == "1.64 to 1.66"
    assert time.process_time() - start < 2


@pytest.mark.parametrize(("file_system", "name", "virtual", "kind"), [
    ("tmpfs", None, None, "memory"), ("nfs4", None, None, "network"), ("fuse.bindfs", None, None, "fuse"), ("ext4", "nvme0n1p2", False, "nvme"),
    ("ext4", "vda1", True, "virtual-disk"), ("xfs", "xvdb", None, "virtual-disk"), ("ext4", "sda1", True, "virtual-disk"),
    ("ext4", "sda1", False, "hdd-sata"), ("ext4", "dm-0", None, "hdd-sata"), ("ext4", "mmcblk0p1", None, "card"), ("ext4", "loop3", None, "loop"),
    ("ext4", "md127", None, "hdd-sata"), ("ext4", "md5", None, "volume"), ("ext4", "zram0", None, "memory"), ("ext4", "simulated-x", None, "simulated")])
def test_kinds_are_those_of_the_command(file_system: str, name: str | None, virtual: bool | None, kind: str) -> None:
    below = {"dm-0": ["sdb", "sdc"], "md127": ["sdb", "sdc"], "md5": ["sdb", "odd0"]}.get(name or "", [])
    device = {"name": name, "below": below, "is_virtual": virtual, "claims_rotational": True}
    assert _results.kind_of(file_system, device if name else None) == kind


if __name__ == "__main__":
    solve_while_a_worker_is_killed(Path(sys.argv[1]))
