#!/usr/bin/env python3
"""Runs the tests that GNU and uutils have for cp(1) with another program as `cp`, and counts how they end.

    cp-tests.py SOURCE [--cp 'seekless cp'] [-v] [TEST...]

SOURCE is the source of coreutils: of GNU, a release or a clone with gnulib's tests/init.sh, or of uutils, whose tests are built by
cargo. `seekless cp` copies as `cp -a` does, so the options that give the defaults of cp(1) are added, and its summary is dropped.
As root, GNU's tests see a copy of /dev; those that root skips run as nobody, and so do all of uutils'. -v prints the output of tests
that failed. They end as `refused` if seekless does not have an option, as `message` if only what is printed differs, and otherwise
as `different`: cp-tests.txt says why. The exit code is 1 if others are different, or these are not.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

DIFFERENT = {}
for line in pathlib.Path(__file__).with_suffix(".txt").read_text().splitlines():
    names, _, reason = line.partition(": ")
    DIFFERENT.update(dict.fromkeys(names.split(), reason))
# These wait for a copy of the bytes of a FIFO, and would write to a device.
ENDLESS = ["test_copy_contents_fifo", "test_cp_from_stream", "test_cp_stream_to_full"]

REFUSED = "does not support|unexpected argument|cannot be used with|none-fail"
MESSAGE = "does not contain|Diff <|stdout to be empty"
WRAPPER = r"""#!/bin/bash
[[ ${{0##*/}} = cp ]] || {{ [[ $1 = cp ]] || exec {coreutils} "$@"; shift; }}
short= options=()
for word; do [[ $word =~ ^-[a-zA-Z]+$ ]] && short+=$word; done
[[ $short =~ [adrR] || "$*" =~ --(recursive|archive|no-deref) ]] || options+=(-L)
[[ $short =~ p ]] && options+=(--preserve)
[[ $short =~ d ]] && options+=(--preserve=links)
[[ $short =~ [adp] || "$*" =~ --(preserve|archive) ]] || options+=(--preserve=links --no-preserve=links)
[[ $short =~ v || "$*" =~ --verbose ]] || exec > /dev/null
{{ complaint=$({place}/other-cp {words} "${{options[@]}}" "$@" 2>&1 >&3 3>&-); code=$?; }} 3>&1
[[ $complaint =~ {refused} ]] && echo "$complaint" >> {place}/refused
[[ $complaint ]] && printf '%s\n' "$complaint" >&2
exit $code
"""
OWN_DEV = "mkdir -p {0} && mount -t tmpfs dev {0} && /bin/cp -ax /dev/. {0} && mount --bind {0} /dev && exec \"$@\""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

parser = argparse.ArgumentParser()
parser.add_argument("source", type=pathlib.Path)
parser.add_argument("--cp", default="seekless cp")
parser.add_argument("-v", action="store_true")
parser.add_argument("tests", nargs="*")
arguments = parser.parse_intermixed_args()
source, is_root = arguments.source.resolve(), os.geteuid() == 0
counts, unexpected = {}, []

def ended(name, end, output):
    counts[end] = counts.get(end, 0) + 1
    if (end == "different") != (name in DIFFERENT):
        unexpected.append(name)
    print(f"{end:9} {name}", DIFFERENT.get(name, "") if end == "different" else "", flush=True)
    if arguments.v and end in ["different", "message", "refused"]:
        print(output)

def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)

def gnu(place, alone):
    executable(place / "src/getlimits", "echo INT_MAX=2147483647 INT_OFLOW=2147483648 IO_BUFSIZE=262144 "
               "SIZE_MAX=18446744073709551615 \"ENOTSUP='Operation not supported' EACCES='Permission denied'\"\n")
    config = ["HAVE_CAP", "HAVE_LINKAT", "HAVE_OPENAT", "HAVE_LUTIMES", "HAVE_UTIMENSAT", "USE_ACL", "USE_XATTR"]
    (place / "config.h").write_text("".join(f"#define {name} 1\n" for name in config))
    environment = {
        **{name: str(source) for name in ["srcdir", "abs_srcdir", "abs_top_srcdir", "top_srcdir"]},
        "PATH": f"{place}/src:{os.environ['PATH']}", "LC_ALL": "C", "SHELL": "/bin/sh", "AWK": "awk", "PERL": "perl",
        "CC": "gcc", "EGREP": "grep -E", "fail": "0", "CONFIG_HEADER": str(place / "config.h"), "HOME": str(place),
        "built_programs": "cp mv dd chroot mkfifo ln printf", "RUN_EXPENSIVE_TESTS": "yes", "RUN_VERY_EXPENSIVE_TESTS": "yes",
        "TMPDIR": "/tmp", "LOCALE_FR": "none", "LOCALE_FR_UTF8": "none", "PACKAGE_VERSION": "0",
    }
    for name in arguments.tests or sorted(path.stem for path in (source / "tests/cp").glob("*.sh")):
        for user in [alone, NOBODY] if is_root else [[]]:
            (place / "refused").unlink(missing_ok=True)
            command = ["timeout", "-s", "KILL", "60", *user, "bash", "-c", 'exec bash "$0" 9>&2', source / f"tests/cp/{name}.sh"]
            done = subprocess.run(command, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
            output = (done.stdout + done.stderr).decode(errors="replace")
            if done.returncode != 77 or "non-root" not in output:
                break
        wrong = "refused" if (place / "refused").exists() else "different"
        ended(name, {0: "passed", 77: "skipped"}.get(done.returncode, wrong), output)

def uutils(place):
    runner = [*NOBODY, "env", f"HOME={place}"] if is_root else []
    cargo = ["cargo", "test", "--no-default-features", "--features", "cp,truncate", "--test", "tests", "--config"]
    cargo += [f"target.'cfg(all())'.runner={['timeout', '-s', 'KILL', '600', *runner]}", "--", "--test-threads=2"]
    cargo += [word for name in ENDLESS for word in ["--skip", name]] + (arguments.tests or ["test_cp::"])
    environment = {**os.environ, "UUTESTS_BINARY_PATH": str(place / "coreutils"), "RUST_BACKTRACE": "0", "TMPDIR": "/tmp"}
    output = subprocess.run(cargo, cwd=source, env=environment, capture_output=True, text=True, errors="replace").stdout
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    said = dict(re.findall(r"(?ms)^---- (\S+) stdout ----\n(.*?)(?=^----|^failures:)", output))
    for name, end in re.findall(r"(?m)^test (\S+) \.\.\. (?:.*?)(ok|FAILED|ignored)$", output):
        text = said.get(name, "")
        wrong = "refused" if re.search(REFUSED, text) else "message" if re.search(MESSAGE, text) else "different"
        ended(name.removeprefix("test_cp::"), {"ok": "passed", "ignored": "skipped"}.get(end, wrong), text)

with tempfile.TemporaryDirectory(prefix="cp-tests-") as place:
    place = pathlib.Path(place)
    place.chmod(0o777)
    (place / "src").mkdir()
    program, *words = arguments.cp.split()
    shutil.copy(shutil.which(program), place / "other-cp")
    refused = f"'{REFUSED}'".replace("|", "'|'")
    for name in ["src/cp", "coreutils"]:
        executable(place / name, WRAPPER.format(place=place, words=" ".join(words), refused=refused,
                                                coreutils=source / "target/debug/coreutils"))
    if (source / "tests/cp").is_dir():
        gnu(place, ["unshare", "--mount", "sh", "-c", OWN_DEV.format(place / "dev"), "sh"])
    else:
        uutils(place)
    print(", ".join(f"{count} {end}" for end, count in sorted(counts.items())))
    if unexpected and not arguments.tests:
        raise SystemExit("not as in DIFFERENT: " + " ".join(unexpected))
