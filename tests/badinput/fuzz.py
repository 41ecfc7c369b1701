"""Damages files of every format and does with them what is done with files; nothing but a `ts.Error` may come of it.

    python tests/badinput/fuzz.py --count 1000000 --keep found         # all formats, in processes of their own
    python tests/badinput/fuzz.py --formats ONNX,npz --count 10000
    python tests/badinput/fuzz.py --formats graph --seed 3 --only 4711  # one file again, with its traceback

Every file hangs on the seed, the format and its number alone. The core may be built with sanitizers
(`cmake --preset asan-ubsan -DTILESIM_PYTHON=ON -DTILESIM_UNITY=ON`, target _core): put its directory first on
PYTHONPATH, LD_PRELOAD libasan.so and libstdc++.so, and set ASAN_OPTIONS to
detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib.util
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.damage import damaged
from support.foreign_formats import FOREIGN
from support.formats import OWN
from support.isa_formats import ISA
from tilesim import _core

SECONDS = 5.0  # of process time for reading a file, and for what ends it
PATIENCE = 0.25  # of process time for what a legal file asks for: then it is interrupted, as by Ctrl-C
HANG = 240.0  # of wall time, generous for a loaded machine
MEMORY = 4 << 30
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
SLOWER = 8 if SANITIZED else 1


def _ring(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


class Bench:
    """One format, its samples, a folder for its files."""

    def __init__(self, format: Any, folder: Path, seed: int) -> None:
        """Makes samples, reads each undamaged, and sees to it that each use can be made of one."""
        self.format, self.seed = format, seed
        self.folder = folder / "".join(letter if letter.isalnum() else "-" for letter in format.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.samples = list(format.samples(self.folder))
        if format.beside:
            format.beside(self.folder)
        self.path = self.folder / format.file
        made: set[int] = set()
        told: list[str] = []
        for sample in self.samples:
            self.write(sample)
            read = format.read(self.path)
            for index, use in enumerate(format.uses):
                try:
                    use(read, self.folder)
                    made.add(index)
                except _core.UserError as error:  # a loop that data end is not compiled, say
                    told.append(f"{getattr(use, '__name__', use)}: {error}")
        if len(made) < len(format.uses):
            raise AssertionError(f"{format.name}: a use that no sample allows: {told}")

    def write(self, data: bytes) -> None:
        """The file, without what was left of an earlier one."""
        for ending in ("-wal", "-shm", "-journal") if self.format.form == "store" else ():
            Path(f"{self.path}{ending}").unlink(missing_ok=True)
        self.path.write_bytes(data)

    def data(self, number: int) -> tuple[bytes, Random]:
        """The damaged file of this number, and what goes on choosing."""
        choose = Random(f"{self.seed}:{self.format.name}:{number}")
        return damaged(choose.choice(self.samples), self.format.form, choose, self.samples), choose

    def one(self, number: int) -> str:
        """What became of one file: read, refused, long, or what is wrong."""
        data, choose = self.data(number)
        self.write(data)
        start = time.process_time()
        outcome = self._used(choose)
        took = time.process_time() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
        return outcome if took < SECONDS * SLOWER + 1 else f"{took:.0f} s of process time, {outcome}"

    def _used(self, choose: Random) -> str:
        stage = "reading"
        faulthandler.dump_traceback_later(HANG * SLOWER, exit=True)
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS * SLOWER)
            read = self.format.read(self.path)
            if not self.format.uses:
                return "read"
            stage = "using"
            signal.setitimer(signal.ITIMER_PROF, PATIENCE * SLOWER)
            choose.choice(self.format.uses)(read, self.folder)
            return "read"
        except _core.InternalError as error:
            return _told(error)
        except _core.Error as error:
            return "refused" if str(error).strip() else _told(error)
        except KeyboardInterrupt as error:
            return "long" if stage == "using" else f"reading takes {SECONDS} s: " + _told(error)
        except MemoryError as error:
            return "large" if stage == "using" else _told(error)
        except Exception as error:
            return _told(error)


def _told(error: BaseException) -> str:
    """An exception with the places of the package that it came through: equal texts are one fault."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "tilesim" in f.filename]
    places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-3:]]
    return f"{type(error).__name__}: {str(error)[:200]!r} at {' < '.join(reversed(places))}"


def chosen(names: str) -> list[Any]:
    """Formats by name, of which the libraries are there; all where none is named."""
    known = {format.name: format for format in [*OWN, *FOREIGN, *ISA]}
    wanted = [known[name.strip()] for name in names.split(";")] if names else list(known.values())
    return [format for format in wanted if not format.needs or importlib.util.find_spec(format.needs)]


def shares(names: str, count: int) -> list[tuple[Any, int]]:
    """Formats, and how many files of each: as said behind a name ("graph=300;npz=20"), or by shares of `count`."""
    if "=" in names:
        said = dict(part.rsplit("=", 1) for part in names.split(";"))
        return [(format, int(said[format.name])) for format in chosen(";".join(said))]
    formats = chosen(names)
    whole = sum(format.share for format in formats)
    return [(format, -(-count * format.share // whole)) for format in formats]


def work(options: argparse.Namespace) -> None:
    """Files of formats, from one number on; a line for every outcome that is wrong, one of counts after each format."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _ring)
    at = os.open(Path(options.folder) / "at", os.O_CREAT | os.O_WRONLY)
    first = options.first
    for format, count in shares(options.formats, options.count):
        start, before = time.monotonic(), time.process_time()
        os.pwrite(at, f"{format.name}\n-1".ljust(100).encode(), 0)
        bench = Bench(format, Path(options.folder), options.seed)
        counts: Counter[str] = Counter()
        said: set[str] = set()
        with bounded():
            for number in range(first, options.begin + count):
                if options.seconds and time.monotonic() - start > options.seconds:
                    break
                os.pwrite(at, f"{format.name}\n{number}".ljust(100).encode(), 0)
                outcome = bench.one(number)
                known = outcome in ("read", "refused", "long", "large")
                counts[outcome if known else "wrong"] += 1
                short = outcome.partition(" at ")[2] + outcome[:12]
                if not known and short not in said:
                    said.add(short)
                    print(json.dumps({"format": format.name, "number": number, "wrong": outcome}), flush=True)
        faulthandler.cancel_dump_traceback_later()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        seconds = round(time.process_time() - before, 1)
        print(json.dumps({"format": format.name, "counts": counts, "peak": peak, "seconds": seconds}), flush=True)
        first = options.begin


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Memory beyond MEMORY fails as MemoryError."""
    if SANITIZED:  # whose shadow is many terabytes
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def supervised(options: argparse.Namespace, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """A process for the files, another behind every one that dies: outcomes and faults."""
    table: dict[str, Any] = {}
    wrong: list[dict[str, Any]] = []
    left, first, peak = (
        [(format.name, count) for format, count in shares(options.formats, options.count)],
        options.begin,
        0,
    )
    while left:
        command = [sys.executable, __file__, "--work", "--formats", ";".join(f"{name}={count}" for name, count in left)]
        command += ["--seed", str(options.seed), "--first", str(first), "--begin", str(options.begin)]
        command += ["--folder", str(folder), "--seconds", str(options.seconds)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as child:
            errors: list[str] = []
            reader = threading.Thread(target=lambda child=child, errors=errors: errors.append(child.stderr.read()))
            reader.start()
            for line in child.stdout:
                if not line.startswith('{"format"'):
                    continue
                row = json.loads(line)
                if "wrong" in row:
                    wrong.append(row)
                    tell(f"WRONG {row['format']} {row['number']}: {row['wrong']}")
                    continue
                table[row["format"]] = dict(Counter(table.get(row["format"], {})) + Counter(row["counts"]))
                peak, first = max(peak, row["peak"]), options.begin
                left = left[1:]
                tell(f"{row['format']}: {table[row['format']]}, {row['seconds']} s, {row['peak'] >> 20} MiB")
            reader.join()
        if left:
            name, number = (folder / "at").read_text(encoding="utf-8").strip().split("\n")
            row = {
                "format": name,
                "number": int(number),
                "wrong": f"ended with {child.returncode}: {errors[0][-options.told :]}",
            }
            wrong.append(row)
            tell(f"WRONG {row['format']} {row['number']}: {row['wrong']}")
            table[name] = dict(
                Counter(table.get(name, {})) + Counter({"before": max(0, int(number) - first), "wrong": 1})
            )
            left, first = (left, int(number) + 1) if number != "-1" else (left[1:], options.begin)
    return {"wrong": wrong, "formats": table, "peak": peak}


def again(options: argparse.Namespace) -> None:
    """One file with its traceback, kept."""
    (format,) = chosen(options.formats)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(format, Path(folder), options.seed)
        data, choose = bench.data(options.only)
        bench.write(data)
        if options.keep:
            Path(options.keep).mkdir(parents=True, exist_ok=True)
            (Path(options.keep) / f"{options.only}-{format.file}").write_bytes(data)
        print(data[:3000])
        read = format.read(bench.path)
        use = choose.choice(format.uses)
        print("read:", read, "used by", getattr(use, "__name__", use))
        use(read, bench.folder)


def run(options: argparse.Namespace, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """All formats, each with its share of the files."""
    home = Path(tempfile.mkdtemp())
    try:
        outcome = supervised(options, home, tell)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    total: Counter[str] = Counter()
    for counts in outcome["formats"].values():
        total.update(counts)
    return {"total": dict(total), "files": sum(total.values()), **outcome}


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--formats", default="", help="names joined by ;, a number of files behind each or not: graph=300;npz=20"
    )
    parser.add_argument("--count", type=int, default=20000, help="files in all")
    parser.add_argument("--begin", type=int, default=0, help="number of the first file of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="for one format at most; 0: no limit")
    parser.add_argument("--only", type=int, help="one number, of one format")
    parser.add_argument("--keep", default="", help="folder for the file of --only")
    parser.add_argument("--told", type=int, default=4000, help="characters of what a process that died said")
    parser.add_argument("--json", default="", help="where to write the outcome")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> int:
    """As the options say."""
    options = parsed()
    if options.work:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # a limit of the starter's own is not ours
        work(options)
        return 0
    if options.only is not None:
        again(options)
        return 0
    outcome = run(options)
    if options.json:
        Path(options.json).write_text(json.dumps(outcome, indent=1), encoding="utf-8")
    print(f"{outcome['files']} files: {outcome['total']}, {len(outcome['wrong'])} faults, {outcome['peak'] >> 20} MiB")
    return 1 if outcome["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
