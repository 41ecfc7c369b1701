"""Sends damaged files to `fuzz_readers`, a program of the core's readers alone, built with sanitizers: fast long runs.

cmake --preset asan-ubsan && cmake --build --preset asan-ubsan --target fuzz_readers
python tests/badinput/fuzz_core.py build/asan-ubsan/tests/cpp/fuzz_readers --count 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tilesim as ts
from support.damage import damaged
from support.format_graphs import CHIP
from support.formats import OWN

LETTERS = {
    "graph": "g", "weights by path": "g", "graph .tsim": "t", "compiled": "t", "program": "p", "machine": "m",
    "DRAM part": "d", "network": "n", "result": "r", "DRAM trace": "c",
}  # fmt: skip
SECONDS = 45.0  # of process time for one file: 5 s to read it and 1 s for each of its uses, eight times as slow here
PATIENCE = 900.0  # of wall time: a process that waits for something uses none
AT_ONCE = 64
BETWEEN = 60.0  # seconds between lines of progress
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096:hard_rss_limit_mb=6000",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


class Readers:
    """The process, started again when it has died."""

    def __init__(self, program: str, folder: str) -> None:
        """Starts it."""
        self.command, self.errors = [program, folder], ""
        self.start()

    def start(self) -> None:
        """Another process."""
        pipe = subprocess.PIPE
        self.process: Any = subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **OPTIONS}
        )

    def answers(self, frames: list[bytes]) -> str:
        """A letter for each; fewer where the process has died or hangs on one."""

        def send() -> None:
            try:
                self.process.stdin.write(b"".join(frames))
                self.process.stdin.flush()
            except BrokenPipeError:
                pass

        threading.Thread(target=send, daemon=True).start()
        found = b""
        while len(found) < len(frames):
            new = os.read(self.process.stdout.fileno(), len(frames)) if self.answered() else b""
            if not new:
                break
            found += new
        return found.decode()

    def used(self) -> float:
        """Seconds of process time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def answered(self) -> bool:
        """Waits for an answer, as long as one may take."""
        begin, before = time.monotonic(), self.used()
        while not select.select([self.process.stdout], [], [], 1.0)[0]:
            if self.used() - before > SECONDS or time.monotonic() - begin > PATIENCE:
                return False
        return True

    def ended(self) -> str:
        """Why it died; another one is started."""
        hung = self.process.poll() is None and not select.select([self.process.stdout], [], [], 0)[0]
        self.process.kill()
        text = self.process.communicate()[1].decode("utf-8", "replace")
        self.start()
        return f"{'took too long' if hung else f'ended with {self.process.returncode}'}: {text[:5000]}"


def run(program: str, names: str, count: int, seed: int, seconds: float, keep: str) -> int:
    """Files of the formats named, or of all, in turn; what is wrong is printed and kept. The number of faults."""
    wanted = names.split(";") if names else list(LETTERS)
    formats = [format for format in OWN if format.name in LETTERS and format.name in wanted]
    counts: Counter[str] = Counter()
    wrong, start, number = 0, time.monotonic(), 0
    told = start
    with tempfile.TemporaryDirectory() as folder:
        samples = {format.name: list(format.samples(Path(folder))) for format in formats}
        (Path(folder) / "machine.json").write_text(json.dumps(CHIP.to_dict()), encoding="utf-8")
        part = ts.memory.Part.load("DDR4-3200").to_dict()
        (Path(folder) / "part.json").write_text(json.dumps(part), encoding="utf-8")
        (Path(folder) / "w.bin").write_bytes(bytes(range(12)))
        readers = Readers(program, folder)
        while number < count and (not seconds or time.monotonic() - start < seconds):
            frames = []
            for _ in range(AT_ONCE):
                format = formats[number % len(formats)]
                choose = Random(f"{seed}:core:{number}")
                data = damaged(choose.choice(samples[format.name]), format.form, choose, samples[format.name])
                frames.append(LETTERS[format.name].encode() + len(data).to_bytes(4, "little") + data)
                number += 1
            while frames:
                letters = readers.answers(frames)
                counts.update(letters)
                if len(letters) == len(frames):
                    break
                bad, wrong = frames[len(letters)], wrong + 1
                print(f"WRONG {bad[:1]!r} near {number}: {readers.ended()}", flush=True)
                if keep:
                    Path(keep).mkdir(parents=True, exist_ok=True)
                    (Path(keep) / f"{seed}-{number}-{wrong}.{chr(bad[0])}").write_bytes(bad[5:])
                frames = frames[len(letters) + 1 :]
            if time.monotonic() - told > BETWEEN:
                told = time.monotonic()
                print(f"{number} files, {dict(counts)}, {told - start:.0f} s", flush=True)
        readers.process.kill()
    summary = f"read {counts['r']}, refused {counts['x']}, interrupted {counts['l']}, wrong {wrong}"
    print(f"{number} files: {summary}, {time.monotonic() - start:.0f} s")
    return wrong


def main() -> int:
    """As the options say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="fuzz_readers")
    parser.add_argument("--formats", default="", help="names joined by ;, else all")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="at most; 0: no limit")
    parser.add_argument("--keep", default="", help="folder for files that are wrong")
    options = parser.parse_args()
    return 1 if run(options.program, options.formats, options.count, options.seed, options.seconds, options.keep) else 0


if __name__ == "__main__":
    sys.exit(main())
