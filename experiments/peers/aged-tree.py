#!/usr/bin/env python3
"""Makes a directory tree to look for duplicates in: new, or as if it had been in use for long.

    aged-tree.py DIR [--fresh] [--seed N] [--files N]

A third of the files are copies of others, and many others have the same size. An aged tree comes in 20 rounds, each of which is
synced: files come in any order, larger ones grow over several rounds, and half as many others come and go, which leaves gaps. The
tree follows from the seed; where a file system puts it does not.
"""
import argparse
import os
import random
import subprocess

ROUNDS = 20

parser = argparse.ArgumentParser()
parser.add_argument("directory")
parser.add_argument("--fresh", action="store_true")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--files", type=int, default=4000)
options = parser.parse_args()
rng = random.Random(options.seed)


def content_of(size, content):
    return random.Random(content * 7919 + options.seed).randbytes(size)


def append(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        file.write(data)


def sync():
    subprocess.run(["sync", "-f", options.directory], check=True)


def plan():
    """Path, size and content of each file."""
    sizes = [max(1, min(16 << 20, int(rng.lognormvariate(10, 1.8)))) for _ in range(options.files // 10)]
    files = []
    for number in range(options.files):
        size, content = rng.choice(sizes), number
        if number and rng.random() < 0.3:
            _, size, content = files[rng.randrange(len(files))]
        directory = f"{options.directory}/d{rng.randrange(options.files // 20):04}"
        files.append((f"{directory}/f{number:06}", size, content))
    return files


def write_a_part(pending, after_each=lambda path: None):
    """Appends the next part of each file, and returns those that have more."""
    for path, parts in pending:
        append(path, parts.pop(0))
        after_each(path)
    return [(path, parts) for path, parts in pending if parts]


def age(files):
    rng.shuffle(files)
    pending, temporary, made = [], [], 0

    def leave_another(path):
        nonlocal made
        if rng.random() < 0.5:
            made += 1
            temporary.append(f"{os.path.dirname(path)}/tmp{made}")
            append(temporary[-1], rng.randbytes(int(rng.lognormvariate(10, 1.5)) % (8 << 20)))

    for turn in range(ROUNDS):
        for path, size, content in files[turn * len(files) // ROUNDS : (turn + 1) * len(files) // ROUNDS]:
            data = content_of(size, content)
            parts = 1 if size < 65536 else rng.randint(1, 4)
            cuts = [len(data) * part // parts for part in range(parts + 1)]
            pending.append((path, [data[start:end] for start, end in zip(cuts, cuts[1:])]))
        rng.shuffle(pending)
        pending = write_a_part(pending, leave_another)
        sync()
        rng.shuffle(temporary)
        kept = len(temporary) // 3
        for path in temporary[kept:]:
            os.remove(path)
        temporary = temporary[:kept]
    while pending:
        pending = write_a_part(pending)
        sync()
    for path in temporary:
        os.remove(path)


files = plan()
different = len({(size, content) for _, size, content in files})
if options.fresh:
    for path, size, content in sorted(files):
        append(path, content_of(size, content))
else:
    age(files)
sync()
print(f"{len(files)} files, {sum(size for _, size, _ in files) >> 20} MiB, {different} different")
