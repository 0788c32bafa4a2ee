"""What runs the queries: DuckDB or Spark, behind one surface.

Both run the same SQL. Each table is written to the output directory as Parquet, and read again from there. So a step needs no more
memory than it needs itself, and Spark does not repeat finished steps when a worker dies.

Not here: the queries (``duplicates.sql``, ``results.sql``).
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import islice
from string import Template
from typing import Any

Row = tuple[Any, ...]
ROWS_AT_ONCE = 10_000
ROWS_OF_FILE = 50_000


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def run_queries(engine: DuckDb | Spark, script: str, **values: object) -> None:
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

        try:
            os.makedirs(output)
        except FileExistsError:
            raise ValueError(f"{output} exists; name a new directory") from None
        self.output = output
        config: dict[str, Any] = {"preserve_insertion_order": "false", "temp_directory": os.path.join(output, "work/spilled")}
        self.connection = duckdb.connect(config=config | settings)
        self.connection.execute("SET enable_progress_bar = false")
        self.connection.execute("CREATE MACRO explode(list) AS unnest(list)")
        self.connection.execute("CREATE MACRO sequence(first, last) AS generate_series(first, last)")

    def view(self, name: str, paths: list[str]) -> None:
        """Names the rows of Parquet files."""
        inside = [os.path.join(path, "**/*.parquet") if os.path.isdir(path) else path for path in paths]
        found = [file for path in inside for file in (glob.glob(path, recursive=True) if glob.has_magic(path) else [path])]
        listed = ", ".join(map(quoted, found))
        # The name of a directory is no column.
        self.connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{listed}], hive_partitioning = false)")
        if name == "catalogue":
            self.catalogues = found

    def table(self, name: str, sql: str) -> None:
        """Writes the answer to ``NAME.parquet`` in the output directory, and names it by the last part of its name."""
        path = os.path.join(self.output, f"{name}.parquet")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.connection.execute(f"COPY ({sql}) TO {quoted(path)} (FORMAT parquet, COMPRESSION zstd)".replace("\n", " \n"))
        self.view(os.path.basename(name), [path])

    def rows(self, sql: str) -> Iterator[Row]:
        """The rows of a short answer."""
        answer = self.connection.cursor().execute(sql)
        while rows := answer.fetchmany(ROWS_AT_ONCE):
            yield from rows

    def many_rows(self, name: str, sql: str) -> Iterator[Row]:
        """The same, for answers of any length; the name is that of a table that is removed with ``work``."""
        return self.rows(sql)

    def metadata(self) -> dict[str, dict[str, str]]:
        """What the footers of the files of the view ``catalogue`` say, by file."""
        found: dict[str, dict[str, str]] = {file: {} for file in self.catalogues}
        listed = ", ".join(map(quoted, self.catalogues))
        for file, key, value in self.rows(f"SELECT file_name, key, value FROM parquet_kv_metadata([{listed}])"):
            found[file][key.decode(errors="replace")] = value.decode(errors="replace")
        return found

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

        os.environ.setdefault("SPARK_HOME", os.path.dirname(pyspark.__file__))
        builder = SparkSession.builder.master(master).appName("seekless-fleet")
        defaults = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.parquet.compression.codec": "zstd"}
        if "://" not in output:
            # Local files that others read have no sums beside them. S3A needs the usual class for its own.
            defaults["spark.hadoop.fs.file.impl"] = "org.apache.hadoop.fs.RawLocalFileSystem"
        for key, value in (defaults | settings).items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()
        context: Any = self.session.sparkContext
        # A pattern among the paths is a warning with a trace of calls.
        context.setLogLevel("ERROR")
        self.java, self.hadoop = context._jvm, context._jsc.hadoopConfiguration()
        self.output = output
        if self._path("").getFileSystem(self.hadoop).exists(self._path("")):
            raise ValueError(f"{output} exists; name a new directory")

    def _path(self, name: str) -> Any:
        return self.java.org.apache.hadoop.fs.Path(os.path.join(self.output, name).rstrip("/"))

    def view(self, name: str, paths: list[str]) -> None:
        # The name of a directory is no column.
        data = self.session.read.option("recursiveFileLookup", "true").parquet(*paths)
        data.createOrReplaceTempView(name)
        if name == "catalogue":
            self.catalogues = data.inputFiles()

    def table(self, name: str, sql: str) -> None:
        path = os.path.join(self.output, f"{name}.parquet")
        self.session.sql(sql).write.parquet(path)
        self.view(os.path.basename(name), [path])

    def rows(self, sql: str) -> Iterator[Row]:
        return self._collected(self.session.sql(sql))

    def many_rows(self, name: str, sql: str) -> Iterator[Row]:
        # Spark hands over a part as a whole, and equal rows are small until then. So a part is a file of so many rows.
        path = self._path(f"work/{name}")
        self.session.sql(sql).write.option("maxRecordsPerFile", ROWS_OF_FILE).parquet(str(path))
        found = [str(one.getPath()) for one in path.getFileSystem(self.hadoop).listStatus(path)]
        # In the order of the rows.
        for file in sorted(file for file in found if file.endswith(".parquet")):
            yield from self._collected(self.session.read.parquet(file))

    @staticmethod
    def _collected(data: Any) -> Iterator[Row]:
        for row in data.collect():
            yield tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)

    def metadata(self) -> dict[str, dict[str, str]]:
        hadoop = self.java.org.apache.parquet.hadoop
        found = {}
        for file in self.catalogues:
            path = self.java.org.apache.hadoop.fs.Path(self.java.java.net.URI(file))
            with contextlib.closing(hadoop.ParquetFileReader.open(hadoop.util.HadoopInputFile.fromPath(path, self.hadoop))) as reader:
                found[file] = dict(reader.getFileMetaData().getKeyValueMetaData())
        return found

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
