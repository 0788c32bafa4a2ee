"""What the calls do, compared with what Python's own do."""

import ctypes
import errno
import filecmp
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seekless

SIZES = [0, 1, 4095, 4097, 1 << 20, (17 << 20) + 3]


def sample(size: int, seed: int = 1) -> bytes:
    return numpy.random.default_rng(seed).bytes(size)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(sample((17 << 20) + 3))
    return path


@pytest.mark.parametrize("size", SIZES)
def test_reads_are_those_of_open(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(sample(size))
    expected = path.read_bytes()
    assert seekless.read(path) == seekless.read(str(path)) == seekless.read(os.fsencode(path)) == expected
    assert seekless.read(path, offset=3, length=5000) == expected[3:5003]
    array = numpy.zeros(size + 8, numpy.uint8)
    done = seekless.read_into(path, array)
    assert done.bytes == size and done.method.startswith("read/") and done.why
    assert array.tobytes() == expected + bytes(8)
    assert b"".join(seekless.blocks(path, 4099)) == expected
    assert [len(block) for block in seekless.blocks(path, 1 << 20)] == [
        min(1 << 20, size - start) for start in range(0, size, 1 << 20)]


@settings(max_examples=60, deadline=None)
@given(size=st.integers(0, 70_000), offset=st.integers(0, 80_000), length=st.integers(0, 80_000),
       block=st.sampled_from(["4K", "16K", "1M"]), mechanism=st.sampled_from(["sync", "threads=3", "double-buffer"]))
def test_buffers_of_odd_sizes_at_odd_places(tmp_path_factory: Any, size: int, offset: int, length: int, block: str,
                                            mechanism: str) -> None:
    path = tmp_path_factory.getbasetemp() / "odd"
    path.write_bytes(sample(size))
    memory = bytearray(b"x" * (length + 2))
    done = seekless.read_into(path, memoryview(memory)[1:length + 1], offset=offset, method=f"read/{mechanism},block={block}")
    expected = path.read_bytes()[offset:offset + length]
    assert done.bytes == len(expected)
    assert bytes(memory) == b"x" + expected + b"x" * (length - len(expected)) + b"x"


def test_arrays_of_any_item_and_shape_are_filled_and_written(tmp_path: Path) -> None:
    path = tmp_path / "array"
    for array in [numpy.arange(24.0).reshape(2, 3, 4), numpy.arange(7, dtype="complex64"), numpy.array(3, "int16")]:
        seekless.write(path, array, overwrite=True)
        assert path.read_bytes() == array.tobytes()
        again = numpy.empty_like(array)
        seekless.read_into(path, again)
        assert (again == array).all()


def test_buffers_that_cannot_be_filled_are_refused(file: Path) -> None:
    for buffer in [b"fixed", memoryview(b"fixed"), numpy.zeros((8, 8))[:, 1], numpy.zeros(8)[::2]]:
        with pytest.raises(BufferError):
            seekless.read_into(file, buffer)
    with pytest.raises(TypeError):
        seekless.read_into(file, "text")  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        seekless.write(file.with_name("new"), numpy.zeros(8)[::2])
    assert not file.with_name("new").exists()
    # While a buffer is filled, it cannot be resized; afterwards it can.
    grown = bytearray(10)
    seekless.read_into(file, grown)
    grown.extend(b"more")


def test_buffers_of_ctypes_are_filled_and_references_are_not(file: Path) -> None:
    class Pair(ctypes.Structure):
        _fields_ = [("Owner", ctypes.c_int), ("value", ctypes.c_double)]

    class Holder(ctypes.Structure):
        _fields_ = [("number", ctypes.c_int), ("held", ctypes.py_object)]

    start = file.read_bytes()[:64]
    for buffer in [(ctypes.c_int * 8)(), (Pair * 2)(), Pair(), numpy.zeros(3, [("Other", "i4"), ("b", "f8")])]:
        seekless.read_into(file, buffer)
        assert bytes(buffer) == start[:len(bytes(buffer))]
        with seekless.open(file) as opened:
            assert opened.readinto(buffer) == len(bytes(buffer))  # type: ignore[arg-type]
    held = object()
    for buffer in [numpy.array([held], dtype=object), Holder(), numpy.zeros(1, [("a", "O")])]:
        for call in [lambda: seekless.read_into(file, buffer), lambda: seekless.write(file, buffer, overwrite=True),
                     lambda: seekless.update(file, {0: buffer}), lambda: seekless.open(file).readinto(buffer)]:
            with pytest.raises(TypeError, match="Python objects"):
                call()
    assert file.read_bytes()[:64] == start
    with seekless.open(file) as opened:
        assert opened.readinto(numpy.zeros((0, 4))) == 0  # type: ignore[arg-type]


def test_negative_offsets_and_lengths_are_refused(file: Path) -> None:
    before = file.read_bytes()
    memory = bytearray(10)
    for call in [lambda: seekless.read(file, offset=-1), lambda: seekless.read(file, length=-1),
                 lambda: seekless.read(file, memory, length=-1), lambda: seekless.read_into(file, memory, offset=-1),
                 lambda: seekless.update(file, {-1: b"x"}), lambda: seekless.plan("write", file, bytes=-1),
                 lambda: seekless.duplicates(file, min_bytes=-1), lambda: seekless.duplicates(file, max_bytes=-1)]:
        with pytest.raises(ValueError, match="negative"):
            call()
    assert memory == bytes(10) and file.read_bytes() == before


def test_a_durability_holds_beside_a_method(tmp_path: Path, file: Path) -> None:
    for method, durability, expected in [("write/sync,block=1M", "fsync", ",fsync"), ("write/sync,block=1M", "none", ""),
                                         ("write/sync,block=1M,write-through", "fsync", ",write-through"),
                                         ("write/sync,block=1M,fsync", "none", ",fsync")]:
        done = seekless.write(tmp_path / "new", b"bytes", durability, method=method, overwrite=True)  # type: ignore[arg-type]
        assert done.method == "write/sync,block=1M" + expected
    assert "fsync" in seekless.update(file, {0: b"x"}, method="update/sync").method
    for wrong in [lambda: seekless.write(tmp_path / "other", b"", method="copy/sync"), lambda: seekless.plan("read", file, file),
                  lambda: seekless.write(tmp_path / "other", b"", "always", method="write/sync")]:  # type: ignore[arg-type]
        with pytest.raises(ValueError):
            wrong()
    assert not (tmp_path / "other").exists()


def test_blocks_of_a_file_that_changes_leave_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    data = sample(40_000)
    path.write_bytes(data[:6000])

    def grows(opened: seekless.File) -> int:
        size = path.stat().st_size
        path.write_bytes(data[:size + 3000])
        return size

    with monkeypatch.context() as patched:
        patched.setattr(seekless.File, "size", grows)
        read = b"".join(seekless.blocks(path, 4096))
    assert len(read) >= 6000 and read == data[:len(read)]
    blocks = seekless.blocks(path, 4096, ahead=1)
    first = bytes(next(blocks))
    os.truncate(path, 0)
    rest = b"".join(blocks)
    assert first + rest == data[:4096 + len(rest)] and len(rest) < 9000


def test_blocks_that_are_left_early_read_no_more(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = seekless.File.read_into_at

    def slow(opened: seekless.File, into: Any, offset: int, method: Any = None) -> int:
        read.append(offset)
        time.sleep(0.1)
        return real(opened, into, offset, method)

    monkeypatch.setattr(seekless.File, "read_into_at", slow)
    blocks = seekless.blocks(file, 1 << 20, ahead=10)
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    assert len(read) <= 2


def test_written_copied_and_updated_files_are_those_of_python(tmp_path: Path, file: Path) -> None:
    data = file.read_bytes()
    for durability in ["none", "fsync"]:
        new = tmp_path / f"new-{durability}"
        assert seekless.write(new, data, durability).bytes == len(data)  # type: ignore[arg-type]
        assert new.read_bytes() == data
        with pytest.raises(FileExistsError):
            seekless.write(new, b"")
        assert new.read_bytes() == data
        seekless.write(new, memoryview(data)[:5], overwrite=True)
        assert new.read_bytes() == data[:5]
        seekless.copy(file, new, durability, overwrite=True)  # type: ignore[arg-type]
        assert filecmp.cmp(file, new, shallow=False) and seekless.compare(file, new) is None
    for safety in ["in-place", "journal", "replace"]:
        expected = bytearray(new.read_bytes())
        changes = {1: b"one", 4096: bytearray(b"two"), len(data) - 3: numpy.frombuffer(b"end", numpy.uint8)}
        for offset, change in changes.items():
            expected[offset:offset + 3] = bytes(change)
        assert seekless.update(new, changes, safety=safety).bytes == 9  # type: ignore[arg-type]
        assert new.read_bytes() == expected
    assert seekless.compare(file, new) == seekless.Difference(1)
    with open(new, "ab") as appended:
        appended.write(b"!")
    seekless.copy(file, new.with_name("shorter"))
    assert seekless.compare(file, new.with_name("shorter")) is None
    os.truncate(new.with_name("shorter"), 100)
    assert seekless.compare(file, new.with_name("shorter")) == seekless.Difference(100, "other")
    assert [path for path in os.listdir(tmp_path) if path.startswith(".")] == []


def test_errors_are_those_of_the_system_with_number_and_name(tmp_path: Path, file: Path) -> None:
    missing = tmp_path / "missing"
    for call in [lambda: seekless.read(missing), lambda: seekless.read_into(missing, bytearray(9)),
                 lambda: list(seekless.blocks(missing)), lambda: seekless.open(missing), lambda: seekless.compare(missing, file),
                 lambda: seekless.copy(missing, tmp_path / "copy"), lambda: seekless.update(missing, {0: b"1"}),
                 lambda: seekless.plan("read", missing), lambda: seekless.write(missing / "file", b"")]:
        with pytest.raises(FileNotFoundError) as raised:
            call()
        assert raised.value.errno == errno.ENOENT and str(raised.value.filename).startswith(str(missing))
    for call in [lambda: seekless.read(tmp_path), lambda: seekless.open(tmp_path)]:
        with pytest.raises(IsADirectoryError) as raised:
            call()
        assert str(raised.value.filename) == str(tmp_path)
    with pytest.raises(seekless.Error) as refused:
        seekless.copy(file, file, overwrite=True)
    assert isinstance(refused.value, OSError) and refused.value.errno == errno.EINVAL
    assert refused.value.filename == str(file)
    for wrong in [lambda: seekless.read(file, method="read/nothing"), lambda: seekless.write(missing, b"", "perhaps"),  # type: ignore[arg-type]
                  lambda: seekless.read(file, method="read/sync,depth=4"), lambda: seekless.plan("copy", file),
                  lambda: seekless.duplicates(), lambda: seekless.blocks(file, 0)]:
        with pytest.raises(ValueError):
            wrong()
    for call in [seekless.read, seekless.open, seekless.duplicates, lambda path: seekless.read_into(path, bytearray(9)),
                 lambda path: seekless.write(path, b""), lambda path: seekless.copy(file, path)]:
        with pytest.raises(ValueError, match="null"):
            call("a\0b")  # type: ignore[operator]
    strange = tmp_path / os.fsdecode(b"not utf-8 \xff")
    strange.write_bytes(b"found")
    assert seekless.read(strange) == seekless.read(os.fsencode(strange)) == b"found"


def test_methods_that_map_need_to_be_allowed_by_name(file: Path) -> None:
    import subprocess
    import sys
    program = """if True:
        import signal, sys, seekless
        try:
            seekless.read(sys.argv[1], method="read/mmap")
        except seekless.Error as error:
            print(error.errno)
        seekless.allow_mapping()
        print(len(seekless.read(sys.argv[1], method="read/mmap")))
    """
    printed = subprocess.run([sys.executable, "-c", program, file], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert printed.split() == [str(errno.EOPNOTSUPP), str(file.stat().st_size)]


def test_duplicates_are_found_in_groups_and_nothing_is_changed(tmp_path: Path) -> None:
    for name, data in {"a": b"same" * 3000, "b": b"same" * 3000, "c": b"other" * 3000, "d/e": b"same" * 3000}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    os.link(tmp_path / "a", tmp_path / "link")
    told: list[tuple[int, int]] = []
    found = seekless.duplicates(tmp_path, progress=lambda done, of: told.append((done, of)))
    group, = found
    assert group.bytes == 12000 and group.gain_bytes >= 12000 and told
    assert {frozenset(names) for names in group.files} == {
        frozenset({str(tmp_path / "a"), str(tmp_path / "link")}), frozenset({str(tmp_path / "b")}),
        frozenset({str(tmp_path / "d/e")})}
    assert found.failures == [] and len(group.paths) == 3
    assert list(seekless.duplicates(tmp_path, exclude=["d", "a", "link"])) == []
    group, = seekless.duplicates(tmp_path, exclude="link")
    assert len(group.files) == 3
    assert seekless.duplicates(tmp_path / "none").failures == [(str(tmp_path / "none"), "cannot stat: No such file or directory")]


def test_trees_are_copied_with_all_they_have(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "below").mkdir(parents=True)
    (source / "below/file").write_bytes(sample(100_000))
    (source / "below/file").chmod(0o640)
    os.symlink("below/file", source / "link")
    os.link(source / "below/file", source / "second")
    done = seekless.copy_tree(source, target, verify=True)
    assert done.failures == () and done.summary["files"] == 1 and done.summary["hard_links"] == 1
    assert filecmp.cmp(source / "second", target / "second", shallow=False)
    assert os.readlink(target / "link") == "below/file"
    assert (target / "second").stat().st_nlink == 2 and (target / "below/file").stat().st_mode & 0o777 == 0o640
    shutil.rmtree(target)
    with pytest.raises(OSError):
        seekless.copy_tree([source, source / "below"], source / "second")


def test_plans_say_method_time_and_reason(file: Path) -> None:
    plan = seekless.plan("read", file)
    assert plan.method.startswith("read/") and plan.seconds_low <= plan.seconds <= plan.seconds_high and plan.why
    assert seekless.plan("write", file, bytes=1 << 20, durability="fsync").method.endswith("fsync")
    assert seekless.plan("copy", file, file.with_name("new")).method.startswith("copy/")
    assert not file.with_name("new").exists()
    assert seekless.plan("compare", file, file).method.startswith("compare/")
