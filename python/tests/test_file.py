"""The file object, beside that of Python."""

import array
import copy
import io
import os
import pickle
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seekless

SIZE = (5 << 20) + 11


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "file"
    path.write_bytes(numpy.random.default_rng(2).bytes(SIZE))
    return path


class TestRaw:
    """The cases of CPython's test_io that a file opened for reading has."""

    def test_is_a_raw_file(self, path: Path) -> None:
        with seekless.open(path) as file:
            assert isinstance(file, io.RawIOBase)
            assert file.readable() and file.seekable() and not file.writable() and not file.isatty()
            assert (file.mode, file.name, file.closed) == ("rb", path, False)
            assert os.fstat(file.fileno()).st_size == file.size() == SIZE
            assert "seekless.File" in repr(file)

    def test_seeks_and_tells(self, path: Path) -> None:
        with seekless.open(path) as file, io.FileIO(path) as other:
            for offset, whence in [(5, 0), (3, 1), (-3, 1), (-7, 2), (0, 2), (100, 2), (0, 0)]:
                assert file.seek(offset, whence) == other.seek(offset, whence)
                assert file.tell() == other.tell()
                assert file.read(10) == other.read(10)
            for wrong in [(-1, 0), (0, 9)]:
                with pytest.raises(ValueError):
                    file.seek(*wrong)
            with pytest.raises(TypeError):
                file.seek(1.5)  # type: ignore[arg-type]

    def test_reads_all_and_none(self, path: Path) -> None:
        expected = path.read_bytes()
        with seekless.open(path) as file:
            assert file.read(0) == b"" and file.read() == expected and file.read() == b"" and file.read(9) == b""
            file.seek(0)
            assert file.readall() == expected
            file.seek(7)
            assert file.read(None) == expected[7:]

    def test_fills_buffers(self, path: Path) -> None:
        expected = path.read_bytes()
        with seekless.open(path) as file:
            numbers = array.array("i", [0] * 5)
            assert file.readinto(numbers) == 20 and numbers.tobytes() == expected[:20]
            whole = bytearray(SIZE + 5)
            file.seek(0)
            assert file.readinto(whole) == SIZE and whole == expected + bytes(5) and file.readinto(whole) == 0
            with pytest.raises((TypeError, BufferError)):
                file.readinto(b"fixed")
            assert file.readinto(bytearray()) == 0

    def test_lines(self, tmp_path: Path) -> None:
        text = tmp_path / "text"
        text.write_bytes(b"abc\ndef\nxyzzy\nfoo\x00bar\nanother line")
        with seekless.open(text) as file, io.FileIO(text) as other:
            assert file.readline() == other.readline() == b"abc\n"
            assert file.readline(4) == other.readline(4) and file.readlines() == other.readlines()
        with seekless.open(text) as file:
            assert list(file) == text.read_bytes().splitlines(keepends=True)
        with io.TextIOWrapper(io.BufferedReader(seekless.open(text)), "latin-1") as words:
            assert words.read().encode("latin-1") == text.read_bytes()

    def test_reads_files_that_say_they_are_empty(self) -> None:
        with seekless.open("/proc/self/limits") as file, open("/proc/self/limits", "rb") as other:
            assert file.read(20) == other.read(20) and file.read() == other.read() and file.tell() > 100
            assert file.read() == b""

    def test_cannot_write(self, path: Path) -> None:
        with seekless.open(path) as file:
            for call in [lambda: file.write(b""), lambda: file.truncate(0)]:  # type: ignore[attr-defined]
                with pytest.raises((io.UnsupportedOperation, AttributeError)):
                    call()
        assert path.stat().st_size == SIZE

    def test_is_closed_once_and_for_all(self, path: Path) -> None:
        file = seekless.open(path)
        descriptor = file.fileno()
        file.close()
        file.close()
        assert file.closed
        with pytest.raises(OSError):
            os.fstat(descriptor)
        for call in [file.read, file.tell, file.fileno, file.readable, lambda: file.seek(0), lambda: file.readinto(bytearray(9))]:
            with pytest.raises(ValueError):
                call()

    def test_cannot_be_copied_with_its_descriptor(self, path: Path) -> None:
        with seekless.open(path) as file:
            for call in [pickle.dumps, copy.copy, copy.deepcopy]:
                with pytest.raises(TypeError, match="pickle or copy"):
                    call(file)

    def test_sees_what_is_appended(self, tmp_path: Path) -> None:
        grown = tmp_path / "grown"
        grown.write_bytes(b"a")
        with seekless.open(grown) as file:
            assert file.read() == b"a"
            with open(grown, "ab") as end:
                end.write(b"b" * SIZE)
            assert file.read() == b"b" * SIZE


@settings(max_examples=50, deadline=None)
@given(calls=st.lists(st.tuples(st.sampled_from(["read", "into", "seek", "line"]), st.integers(0, SIZE + 100)), max_size=8))
def test_any_calls_do_what_those_of_python_do(path: Path, calls: list[tuple[str, int]]) -> None:
    with seekless.open(path) as file, open(path, "rb") as other:
        for what, number in calls:
            if what == "read":
                assert file.read(number) == other.read(number)
            elif what == "into":
                one, two = bytearray(number), bytearray(number)
                assert file.readinto(one) == other.readinto(two) and one == two
            elif what == "seek":
                assert file.seek(number) == other.seek(number)
            else:
                assert file.readline(number % 300) == other.readline(number % 300)
            assert file.tell() == other.tell()


def test_pickle_numpy_and_arrow_read_from_it(tmp_path: Path) -> None:
    value = {"array": numpy.arange(1 << 20), "text": ["one"] * 1000}
    stored = tmp_path / "stored"
    with open(stored, "wb") as out:
        pickle.dump(value, out, protocol=5)
    with seekless.open(stored) as file:
        found = pickle.load(file)
    assert (found["array"] == value["array"]).all() and found["text"] == value["text"]
    numpy.savez(tmp_path / "arrays.npz", value["array"])
    with seekless.open(tmp_path / "arrays.npz") as file, numpy.load(file) as arrays:
        assert (arrays["arr_0"] == value["array"]).all()
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pyarrow.table({"number": list(range(1000))})
    with pyarrow.OSFile(str(tmp_path / "table"), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with seekless.open(tmp_path / "table") as file:
        assert pyarrow.ipc.open_file(file).read_all().equals(table)


def test_torch_and_safetensors_read_from_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensors = {"weight": torch.arange(100_000, dtype=torch.float32)}
    torch.save(tensors, tmp_path / "saved.pt")
    with seekless.open(tmp_path / "saved.pt") as file:
        assert torch.equal(torch.load(file)["weight"], tensors["weight"])
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    safetensors.save_file(tensors, tmp_path / "saved.safetensors")
    with seekless.open(tmp_path / "saved.safetensors") as file:
        assert torch.equal(safetensors.load(file.read())["weight"], tensors["weight"])
