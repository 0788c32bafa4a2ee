"""What runs the queries: DuckDB or Spark, behind one surface.

Both run the same SQL. Each table is written to the output directory as Parquet, and read again from there. So a step needs no more
memory than it needs itself, and Spark does not repeat finished steps when a worker dies.

Not here: the queries (``duplicates.sql``, ``results.sql``).
"""

from __future__ import annotations

import contextlib
import glob
import json
import logging
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import islice
from string import Template
from typing import Any

Row = tuple[Any, ...]
# The keys of a footer, and the physical types of its columns.
Footer = tuple[dict[str, str], dict[str, str]]
ROWS_AT_ONCE = 10_000
ROWS_OF_FILE = 50_000
EXISTS = "{} exists; name a new directory"
NOTHING = "{}: no files found; name files, a pattern, or a directory with *.parquet"
# What can be done about an engine's error, by what it says.
HINTS = {
    "No space left on device": "free some space, or name another place with --output",
    "Out of Memory|OutOfMemory|heap space": "allow more memory, as in --set memory_limit=4GB or --set spark.executor.memory=8g",
    "[Ff]ailed to read file|error while reading|Could not read enough": "if the file is damaged, make it again or leave it out",
    "masters are unresponsive": "is the cluster of --master running?",
    "S3AFileSystem": "S3 needs --set spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, the version of Spark's Hadoop",
    "Java gateway": "Spark needs Java 17; what Java said is above",
}


def told(error: Exception) -> str | None:
    """What an engine says in an error, without its SQL and its calls; ``None`` if the error is not an engine's."""
    origin, text = type(error).__module__.partition(".")[0], str(error)
    if origin in ("duckdb", "_duckdb"):
        inner = re.search(r'"exception_message":("(?:[^"\\]|\\.)*")', text)
        said = json.loads(inner[1]) if inner else re.sub(r"^[\w ]+ Error: ", "", text.partition("\n\n")[0])
    elif origin in ("py4j", "pyspark"):
        cause = getattr(error, "java_exception", None)
        lines = [] if cause else [text]
        while cause:
            lines.append(cause.getMessage() or cause.getClass().getSimpleName())
            cause = cause.getCause()
        # Without names of conditions, classes and tasks.
        noise = r"^\[[\w.]+\] | *SQLSTATE: \w+\.?|(?:\w+\.)+\w+(?:Exception|Error): |Job aborted .*?\(TID \d+\) \(.*?\): "
        said = ": ".join(dict.fromkeys(re.sub(noise, "", line.partition("\n")[0]).strip(" .") for line in lines))
    else:
        return None
    hint = next((hint for pattern, hint in HINTS.items() if re.search(pattern, text)), None)
    return f"{said}\nhint: {hint}" if hint else said


@contextlib.contextmanager
def ended(engine: Engine) -> Iterator[None]:
    """Ends the engine. After an error, its output is removed, which would be in the way of the next try."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            engine.close()
            engine.remove("")
        raise
    engine.close()


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def footers(engine: Engine, paths: list[str]) -> dict[str, Footer]:
    """The footers of the files that are meant by paths, patterns and directories."""
    found = {}
    for file in engine.find(paths):
        try:
            found[file] = engine.footer(file)
        except Exception as error:
            raise ValueError(f"{file} cannot be read as Parquet: {told(error) or error}") from error
    return found


def run_queries(engine: Engine, script: str, **values: object) -> None:
    """Makes the tables of a script in this package, in their order. A table's header is ``-- table NAME``."""
    text = Template(files("seekless.fleet").joinpath(script).read_text()).substitute({key: str(value) for key, value in values.items()})
    for name, query in re.findall(r"^-- table ([^:\n]+).*\n((?:(?!-- table ).*\n)+)", text, re.MULTILINE):
        start = time.monotonic()
        engine.table(name, query)
        print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


class DuckDb:
    """DuckDB in this process; paths are those of this machine."""

    def __init__(self, output: str, settings: dict[str, str]):
        import duckdb

        if "://" in output:
            raise ValueError(f"DuckDB writes to this machine only; --engine spark writes to {output}")
        # DuckDB has a meaning for `~` of its own.
        self.output = os.path.abspath(output)
        config: dict[str, Any] = {"preserve_insertion_order": "false", "temp_directory": os.path.join(self.output, "work/spilled")}
        try:
            self.connection = duckdb.connect(config=config | settings)
            self.connection.execute("SET enable_progress_bar = false")
        except duckdb.Error as error:
            raise ValueError(f"DuckDB does not start with these settings: {told(error)}") from error
        self.connection.execute("CREATE MACRO explode(list) AS unnest(list)")
        self.connection.execute("CREATE MACRO sequence(first, last) AS generate_series(first, last)")
        try:
            os.makedirs(output)
        except FileExistsError:
            raise ValueError(EXISTS.format(output)) from None

    def find(self, paths: list[str]) -> list[str]:
        """The files that are meant by paths, patterns and directories, whose files are ``*.parquet``."""
        found: list[str] = []
        for path in paths:
            pattern = os.path.join(glob.escape(path), "**/*.parquet") if os.path.isdir(path) else path
            matched = [path] if os.path.isfile(path) else sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
            if not matched:
                raise ValueError(NOTHING.format(path))
            found += map(os.path.abspath, matched)
        return list(dict.fromkeys(found))

    def footer(self, file: str) -> Footer:
        """What the footer of a Parquet file says."""
        keys = self.rows(f"SELECT key, value FROM parquet_kv_metadata({self._listed([file])})")
        columns = self.rows(f"SELECT name, type FROM parquet_schema({self._listed([file])})")
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in keys}, dict(columns)

    def view(self, name: str, found: list[str], columns: str = "*") -> None:
        """Names the rows of Parquet files. ``columns`` are in SQL, where ``its_file`` is the name of a row's file."""
        named = "" if columns == "*" else ", filename = 'its_file'"
        # The name of a directory is no column.
        self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT {columns} FROM "
                                f"read_parquet({self._listed(found)}, hive_partitioning = false{named})")

    @staticmethod
    def _listed(found: list[str]) -> str:
        # DuckDB takes each for a pattern.
        return f"[{', '.join(quoted(glob.escape(file)) for file in found)}]"

    def table(self, name: str, sql: str) -> None:
        """Writes the answer to ``NAME.parquet`` in the output directory, and names it by the last part of its name."""
        path = os.path.join(self.output, f"{name}.parquet")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.connection.execute(f"COPY ({sql}) TO {quoted(path)} (FORMAT parquet, COMPRESSION zstd)".replace("\n", " \n"))
        self.view(os.path.basename(name), [path])

    def by_file(self, name: str, what: str) -> Iterator[Row]:
        """The rows of ``SELECT its_file, WHAT FROM NAME GROUP BY its_file``."""
        return self.rows(f"SELECT its_file, {what} FROM {name} GROUP BY its_file")

    def rows(self, sql: str) -> Iterator[Row]:
        """The rows of a short answer."""
        answer = self.connection.cursor().execute(sql)
        while rows := answer.fetchmany(ROWS_AT_ONCE):
            yield from rows

    def many_rows(self, name: str, sql: str) -> Iterator[Row]:
        """The same, for answers of any length; the name is that of a table that is removed with ``work``."""
        return self.rows(sql)

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """Writes a file to the output directory."""
        path = os.path.join(self.output, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.writelines(parts)

    def remove(self, name: str) -> None:
        """Removes a directory of the output."""
        shutil.rmtree(os.path.join(self.output, name), ignore_errors=True)

    def close(self) -> None:
        """Ends the engine."""
        self.connection.close()


class Spark:
    """Spark, from one machine to a cluster, with the methods of ``DuckDb``; paths are those of Hadoop."""

    def __init__(self, output: str, settings: dict[str, str], master: str):
        import pyspark
        from pyspark.sql import SparkSession

        if not shutil.which(os.path.join(os.environ["JAVA_HOME"], "bin/java") if "JAVA_HOME" in os.environ else "java"):
            raise ValueError("there is no Java; Spark needs Java 17, in PATH or JAVA_HOME. --engine duckdb does without")
        # Spark itself says this with calls, or ignores the setting.
        if not re.match("local|spark://|k8s://|yarn", master):
            raise ValueError(f"--master {master} is not a cluster; it is as in local[*], spark://HOST:7077 or yarn")
        if wrong := [key for key in settings if not key.startswith("spark.")]:
            raise ValueError(f"--set {wrong[0]}: settings of Spark begin with `spark.`")
        os.environ.setdefault("SPARK_HOME", os.path.dirname(pyspark.__file__ or ""))
        builder = SparkSession.builder.master(master).appName("seekless-fleet")
        # What Spark logs of errors are calls; they are told as they arrive here.
        defaults = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.parquet.compression.codec": "zstd",
                    "spark.log.level": "FATAL"}
        if "://" not in output:
            # Local files that others read have no sums beside them. S3A needs the usual class for its own.
            defaults["spark.hadoop.fs.file.impl"] = "org.apache.hadoop.fs.RawLocalFileSystem"
        for key, value in (defaults | settings).items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()
        # Spark's own handler sends a message in the middle of another one. Interruptions are logged, with calls.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logging.disable()
        context: Any = self.session.sparkContext
        java, self.hadoop = context._jvm, context._jsc.hadoopConfiguration()
        self.Path, self.URI = java.org.apache.hadoop.fs.Path, java.java.net.URI
        self.reader, self.input_file = java.org.apache.parquet.hadoop.ParquetFileReader, java.org.apache.parquet.hadoop.util.HadoopInputFile
        self.output = output
        path = self._path("")
        if path.getFileSystem(self.hadoop).exists(path):
            raise ValueError(EXISTS.format(output))
        if not path.getFileSystem(self.hadoop).mkdirs(path):
            raise ValueError(f"{output} cannot be made; name a directory where you may write")

    def _path(self, name: str) -> Any:
        return self.Path(os.path.join(self.output, name).rstrip("/"))

    def find(self, paths: list[str]) -> list[str]:
        found: list[str] = []
        for path in paths:
            pattern = self.Path(path)
            system = pattern.getFileSystem(self.hadoop)
            # What is there is no pattern.
            meant = [system.getFileStatus(pattern)] if system.exists(pattern) else system.globStatus(pattern) or []
            matched = [str(one.getPath()) for one in meant if one.isFile()]
            for directory in (one.getPath() for one in meant if one.isDirectory()):
                inside = system.listFiles(directory, True)
                while inside.hasNext():
                    matched += [name for name in [str(inside.next().getPath())] if name.endswith(".parquet")]
            if not matched:
                raise ValueError(NOTHING.format(path))
            found += sorted(matched)
        return list(dict.fromkeys(found))

    def footer(self, file: str) -> Footer:
        with contextlib.closing(self.reader.open(self.input_file.fromPath(self.Path(file), self.hadoop))) as reader:
            footer = reader.getFileMetaData()
            # Each call is a message to another process; the schema is one text.
            columns = re.findall(r"^ *(?:required|optional) (\w+)(?:\(\d+\))? (\w+)", str(footer.getSchema()), re.MULTILINE)
            return dict(footer.getKeyValueMetaData()), {name: kind.upper().replace("BINARY", "BYTE_ARRAY") for kind, name in columns}

    def view(self, name: str, found: list[str], columns: str = "*") -> None:
        # Spark takes each for a pattern. The name of a directory is no column.
        listed = [re.sub(r"([\[\]{}*?\\])", r"\\\1", file) for file in found]
        data = self.session.read.option("recursiveFileLookup", "true").parquet(*listed)
        if columns != "*":
            data.selectExpr("*", "input_file_name() AS its_file").createOrReplaceTempView("read")
            data = self.session.sql(f"SELECT {columns} FROM read")
        data.createOrReplaceTempView(name)

    def table(self, name: str, sql: str) -> None:
        path = os.path.join(self.output, f"{name}.parquet")
        self.session.sql(sql).write.parquet(path)
        self.view(os.path.basename(name), [path])

    def by_file(self, name: str, what: str) -> Iterator[Row]:
        for file, *row in self.rows(f"SELECT its_file, {what} FROM {name} GROUP BY its_file"):
            yield str(self.Path(self.URI(file))), *row

    def rows(self, sql: str) -> Iterator[Row]:
        for row in self.session.sql(sql).collect():
            yield tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)

    def many_rows(self, name: str, sql: str) -> Iterator[Row]:
        # Spark hands over a part as a whole, and equal rows are small until then. So a part is a file of so many rows.
        path = self._path(f"work/{name}")
        self.session.sql(sql).write.option("maxRecordsPerFile", ROWS_OF_FILE).parquet(str(path))
        # In the order of the rows.
        for file in self.find([str(path)]):
            self.view(name, [file])
            yield from self.rows(f"SELECT * FROM {name}")

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        path, rest = self._path(name), iter(parts)
        # Each write is a message to another process.
        with contextlib.closing(path.getFileSystem(self.hadoop).create(path)) as file:
            for part in iter(lambda: b"".join(islice(rest, ROWS_AT_ONCE)), b""):
                file.write(bytearray(part))

    def remove(self, name: str) -> None:
        self._path("").getFileSystem(self.hadoop).delete(self._path(name), True)

    def close(self) -> None:
        self.session.stop()


Engine = DuckDb | Spark
