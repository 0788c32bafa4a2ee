"""The arguments of ``seekless-fleet``."""

from __future__ import annotations

import argparse
import sys

from . import _duplicates, _results
from ._engine import told
from ._plans import ACTIONS

INTERRUPTED = 130


def main() -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser("seekless-fleet", description="Duplicates and measurements of many machines.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    duplicates = commands.add_parser("duplicates", help="find equal files in the catalogues of many hosts",
                                     description="Find equal files in catalogues, which `seekless dupes catalogue` makes on each "
                                                 "host. Nothing is changed on any host.")
    duplicates.set_defaults(run=_duplicates.run)
    duplicates.add_argument("catalogues", nargs="+", metavar="CATALOGUE",
                            help="Parquet files or patterns; with Spark also s3a:// and hdfs://")
    duplicates.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb",
                            help="what runs the queries: DuckDB, in this process (default), or Spark, which needs Java 17")
    duplicates.add_argument("--master", metavar="URL", default="local[*]", help="the cluster of Spark (default: this machine)")
    duplicates.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                            help="a setting of the engine, as in memory_limit=4GB or spark.executor.memory=8g")
    duplicates.add_argument("--min-size", type=int, default=1, metavar="BYTES", help="only files of BYTES or more (default: 1)")
    duplicates.add_argument("--action", choices=ACTIONS, default="hardlink",
                            help="what the plans for each host propose (default: hardlink)")
    results = commands.add_parser("results", help="compare what `seekless bench` measured on many machines",
                                  description="Compare what `seekless bench` measured on many machines. Each machine counts once.")
    results.set_defaults(run=_results.run)
    results.add_argument("runs", nargs="+", metavar="RUN",
                         help="runs as JSON, or a dump of a hub: dump.jsonl, or dump.parquet and the like")
    for command in (duplicates, results):
        command.add_argument("--output", required=True, metavar="DIR", help="a new directory for tables and a page")
    arguments = parser.parse_args()
    try:
        arguments.output.encode()
        arguments.run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        said = told(error)
        # So DuckDB says it.
        if str(error) == "Query interrupted":
            return INTERRUPTED
        if isinstance(error, ImportError):
            said = f"{error}; pip install 'seekless[fleet]' brings it"
        elif isinstance(error, UnicodeEncodeError):
            said = f"{error.object[:1000]!a} is not in UTF-8; rename it"
        elif isinstance(error, OSError) and error.filename:
            said = f"{error.filename}: {error.strerror}"
        elif isinstance(error, (OSError, ValueError)):
            said = str(error)
        if said is None:
            raise
        print(f"seekless-fleet: {said}", file=sys.stderr)
        return 2
    return 0
