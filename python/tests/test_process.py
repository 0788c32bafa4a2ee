"""What concerns the process: signals, threads, interpreters, and the command."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest

import seekless

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(argument) for argument in arguments]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large"
    path.write_bytes(numpy.random.default_rng(3).bytes(64 << 20))
    return path


def test_ctrl_c_ends_a_call_at_once_and_leaves_no_new_file(large: Path, tmp_path: Path) -> None:
    # Writing through in small blocks takes many seconds for 64 MiB on most disks; so does reading 4 KiB at a time, 50 times.
    program = """if True:
        import sys, time, seekless
        sys.stdout.write("ready\\n"); sys.stdout.flush()
        try:
            for _ in range(2000):
                seekless.copy(sys.argv[1], sys.argv[2], overwrite=True, method="copy/sync,block=4K")
        except KeyboardInterrupt:
            print(time.monotonic())
    """
    child = subprocess.Popen([sys.executable, "-c", program, large, tmp_path / "copy"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    waits = []
    time.sleep(0.7)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    printed, _ = child.communicate(timeout=60)
    waits.append(float(printed) - sent)
    assert child.returncode == 0 and waits[0] < 1.0, waits


def test_a_call_returns_as_soon_as_its_work_is_done(large: Path) -> None:
    memory = bytearray(2 << 20)
    times = []
    for _ in range(50):
        start = time.perf_counter()
        seekless.read_into(large, memory)
        times.append(time.perf_counter() - start)
    # The calling thread looks for signals every 40 ms.
    assert sorted(times)[25] < 0.02, times


def test_the_gil_is_free_while_bytes_move(large: Path) -> None:
    counted = 0
    ended = threading.Event()

    def count() -> None:
        nonlocal counted
        while not ended.is_set():
            counted += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    memory = bytearray(64 << 20)
    before = time.monotonic()
    while time.monotonic() - before < 0.5:
        seekless.read_into(large, memory, method="read/sync,block=4K")
    ended.set()
    counter.join()
    assert counted > 20


def test_threads_read_and_write_at_the_same_time(large: Path, tmp_path: Path) -> None:
    expected = large.read_bytes()
    wrong: list[str] = []

    def work(number: int) -> None:
        memory = bytearray(8 << 20)
        for turn in range(4):
            offset = (number * 7 + turn) << 20
            seekless.read_into(large, memory, offset=offset)
            if memory != expected[offset:offset + len(memory)]:
                wrong.append(f"{number}, {turn}")
            seekless.write(tmp_path / f"{number}", memory, "none", overwrite=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_progress_raises_ends_the_call(large: Path, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: int, of: int) -> None:
        raise Enough

    for call in [lambda: seekless.read(large, progress=stop), lambda: seekless.copy(large, tmp_path / "new", progress=stop)]:
        with pytest.raises(Enough):
            call()
    told: list[tuple[int, int]] = []
    seekless.read(large, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (64 << 20, 64 << 20)


def test_without_more_threads_the_calling_one_works(large: Path) -> None:
    program = """if True:
        import os, resource, sys, seekless
        if os.getuid() == 0:
            os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        memory = bytearray(64 << 20)
        file = seekless.open("/dev/stdin")
        print(file.read_into_at(memory, 0, "read/sync,block=1M"))
    """
    with open(large, "rb") as opened:
        ended = subprocess.run([sys.executable, "-c", program], stdin=opened, stdout=subprocess.PIPE, text=True, timeout=60)
    assert ended.stdout.split() == [str(64 << 20)], ended


def test_a_handler_that_raises_ends_the_command_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    class Enough(Exception):
        pass

    def enough(*_: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGALRM, enough)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    start = time.monotonic()
    try:
        with pytest.raises(Enough):
            seekless.bench("read", directory=tmp_path, quiet=True, budget="60s", size="64M", cache="warm")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 30
    assert os.listdir(tmp_path) in ([], ["data"])


def test_subinterpreters_are_refused_clearly() -> None:
    program = """if True:
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        code = "try:\\n import seekless\\nexcept ImportError as error:\\n print(error, flush=True)"
        interpreters.run_string(interpreters.create(), code)
        import seekless
        print("imported here", flush=True)
    """
    ended = run(sys.executable, "-c", program)
    first, second = ended.stdout.splitlines()
    assert "subinterpreter" in first and second == "imported here", ended


def test_importing_installs_no_handler() -> None:
    program = """if True:
        import pathlib, re
        def caught():
            return re.search("SigCgt:\\\\s*(\\\\S+)", pathlib.Path("/proc/self/status").read_text())[1]
        before = caught()
        import seekless
        assert before == caught()
        seekless.allow_mapping()
        assert before != caught()
    """
    ended = run(sys.executable, "-c", program)
    assert ended.returncode == 0, ended.stderr


def test_the_command_is_the_script_and_the_module(tmp_path: Path) -> None:
    script = Path(seekless.command())
    for words in [[script], [sys.executable, "-m", "seekless"]]:
        assert run(*words, "--version").stdout == f"seekless {seekless.__version__}\n"
        (tmp_path / "one").write_text("1")
        (tmp_path / "two").write_text("2")
        ended = run(*words, "cmp", tmp_path / "one", tmp_path / "two")
        assert ended.returncode == 1 and "differ" in ended.stdout


def test_the_command_is_found_beside_a_package_in_a_directory(tmp_path: Path) -> None:
    shutil.copytree(Path(seekless.__file__).parent, tmp_path / "seekless")
    (tmp_path / "bin").mkdir()
    shutil.copy(seekless.command(), tmp_path / "bin")
    program = f"import sys; sys.path.append({str(tmp_path)!r}); import seekless; print(seekless.command())"
    ended = run(sys.executable, "-I", "-S", "-c", program)
    assert ended.stdout == f"{tmp_path}/bin/seekless\n", ended


def test_bench_measures_and_its_samples_are_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    measured = tmp_path / "measured"
    measured.mkdir()
    made = seekless.bench("read", directory=measured, quiet=True, rounds=2, size="1M", methods=["read/sync,block=1M", "read/sync,block=128K"],
                          cache="warm", no_wait=True)
    rows = made.rows()
    assert len(rows) >= 4 and made["id"] and "trials" in repr(made)
    assert len(made.to_pandas()) == len(rows)
    assert pytest.importorskip("pyarrow", reason="pyarrow is not installed") and made.to_arrow().num_rows == len(rows)
    with pytest.raises(OSError, match="no-such"):
        seekless.bench("no-such", directory=measured, quiet=True)
    assert seekless.advise("read", measured, size=1 << 20, cached=False)["operation"] == "read"
    assert isinstance(seekless.Profile.of(measured), seekless.Profile)


def test_the_example_loads_all_shards(tmp_path: Path) -> None:
    rows = numpy.random.default_rng(4).random((700, 64), numpy.float32)
    for number, (start, end) in enumerate([(0, 100), (100, 350), (350, 700)]):
        rows[start:end].tofile(tmp_path / f"{number}.f32")
    ended = run(sys.executable, EXAMPLES / "shards.py", tmp_path, 64)
    assert ended.returncode == 0, ended.stderr
    assert f"3 shards, {rows.nbytes} bytes" in ended.stdout
    assert ended.stdout.rstrip().endswith(f"sum {rows.sum(dtype=numpy.float64):.1f}")
