"""Load the shards of a dataset into one NumPy array, and hand it out in batches.

    python examples/shards.py DIRECTORY [BATCH]

A shard is a file of float32 rows. All bytes go to their final place in memory: nothing is copied twice, and no
shard is held in memory beside the array.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

import seekless

COLUMNS = 64


def load(shards: list[Path]) -> Any:
    """All rows of all shards, in the order of the shards."""
    row_bytes = COLUMNS * 4
    rows = [shard.stat().st_size // row_bytes for shard in shards]
    array = numpy.empty((sum(rows), COLUMNS), numpy.float32)
    start = 0
    for shard, count in zip(shards, rows):
        part = array[start:start + count]
        done = seekless.read_into(shard, part)
        if done.bytes != part.nbytes:
            raise OSError(5, f"ended after {done.bytes} of {part.nbytes} bytes", str(shard))
        start += count
    return array


def batches(array: Any, size: int, seed: int = 0) -> Iterator[Any]:
    """Rows in random order, in batches."""
    order = numpy.random.default_rng(seed).permutation(len(array))
    for start in range(0, len(order), size):
        yield array[order[start:start + size]]


def main() -> None:
    """Load, and say how fast that was."""
    shards = sorted(Path(sys.argv[1]).glob("*.f32"))
    start = time.perf_counter()
    array = load(shards)
    seconds = time.perf_counter() - start
    total = sum(batch.sum(dtype=numpy.float64) for batch in batches(array, int(sys.argv[2]) if len(sys.argv) > 2 else 256))
    print(f"{len(shards)} shards, {array.nbytes} bytes in {seconds:.3f} s ({array.nbytes / seconds / 1e9:.2f} GB/s), sum {total:.1f}")


if __name__ == "__main__":
    main()
