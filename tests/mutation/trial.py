"""One mutant and its tests: a copy of the tree that is changed, built and tested in a child of this process."""

from __future__ import annotations

import enum
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from mutation.cpp_edits import cpp_edits
from mutation.mutants import Mutant, drawn
from mutation.python_edits import in_signature, is_python, python_edits, scope_lines
from mutation.rooms import python_tests
from support.boost_cases import programs_of_rooms

#: What tests import and what takes long; never Tilesim, which differs from mutant to mutant.
HEAVY = ("numpy", "ml_dtypes", "typer", "pandas", "torch", "jax", "onnx", "scipy.optimize", "pytest")
FIRST, FIRST_OF_A_FILE = 16, 3
COPIED = (
    "cpp", "bindings", "cmake", "python", "configs", "tests", "CMakeLists.txt", "CMakePresets.json",
    "pyproject.toml",
)  # fmt: skip
#: Rooms whose tests in C++ take longer than those in Python.
LONG = ("engine",)
#: Mutants are compiled quickly, and an unused variable is no error in them; what is not changed comes from ccache.
LAUNCHER = """#!/bin/sh
if [ -n "$TILESIM_MUTANT" ]; then
  for word; do
    shift
    case "$word" in -Werror) ;; -O2 | -O3) set -- "$@" -O1 ;; *) set -- "$@" "$word" ;; esac
  done
elif command -v ccache > /dev/null; then
  set -- ccache "$@"
fi
exec "$@"
"""


class Fate(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"
    BROKEN = "does not compile"


class Trial(ABC):
    """Where mutants of one language are made and tried."""

    suffix: str
    folder: str

    def __init__(self, root: Path, seconds: float, tests: list[str]) -> None:
        self.root, self.seconds, self.given = root, seconds, tests
        self.place = root / "build" / "mutation"
        self.place.mkdir(parents=True, exist_ok=True)
        for name in HEAVY:
            try:
                __import__(name)
            except ImportError:
                print(f"without {name}", file=sys.stderr)

    def mutants(self, seed: int, rooms: list[str], without: list[str]) -> Iterator[Mutant]:
        """Those of a seed, without end before the lines are used up."""
        base = self.root / self.folder
        names = sorted(path.relative_to(base).as_posix() for path in base.rglob(f"*{self.suffix}"))
        chosen = [
            name
            for name in names
            if name.startswith(tuple(rooms) or "") and not name.startswith(tuple(without) or "\0")
        ]
        sources = {f"{self.folder}/{name}": (base / name).read_text() for name in chosen}
        edits = {path: self.edits(text) for path, text in sources.items()}
        return (mutant for mutant in drawn(edits, sources, seed) if self.is_valid(mutant))

    def is_valid(self, mutant: Mutant) -> bool:
        return True

    @abstractmethod
    def edits(self, source: str) -> list:
        """Of one file."""

    @abstractmethod
    def fate(self, mutant: Mutant) -> tuple[Fate, str]:
        """Tries a mutant: what became of it, and which test said so."""

    def pytest(self, package: Path, tests: list[str], seconds: float) -> tuple[Fate, str]:
        """The tests in a child whose Tilesim lies below `package`."""
        log = self.place / f"{self.suffix[1:]}.log"
        child = os.fork()
        if child == 0:
            self._in_child(package, tests, log, seconds)
        end = time.monotonic() + 10 * seconds
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                if code == -signal.SIGXCPU:
                    return Fate.TIMEOUT, f"after {seconds:.0f} s of processor time"
                return (Fate.SURVIVED, "") if code in (0, 5) else (Fate.KILLED, f"{_first_failure(log)} (exit {code})")
            time.sleep(0.05)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return Fate.TIMEOUT, f"after {10 * seconds:.0f} s"

    def _in_child(self, package: Path, tests: list[str], log: Path, seconds: float) -> None:
        os.setsid()
        used = int(sum(os.times()[:2]))  # none, in a fresh child
        resource.setrlimit(resource.RLIMIT_CPU, (used + int(seconds), used + int(seconds) + 5))
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ["PYTHONPATH"] = str(package)
        os.environ["PYTHONDONTWRITEBYTECODE"] = os.environ["TILESIM_MUTANT"] = "1"
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(package))
        os.chdir(self.root)
        code = 99
        try:
            import pytest

            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", *tests]))
        except BaseException:  # whatever a mutant does: the child ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _first_failure(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0][:160] if lines else ""


class PythonTrial(Trial):
    """Mutants of the Python package beside the module that build/release has."""

    suffix, folder = ".py", "python/tilesim"

    def __init__(self, root: Path, seconds: float, tests: list[str]) -> None:
        super().__init__(root, seconds, tests)
        built = root / "build" / "release" / "python" / "tilesim"
        self.package = self.place / "python"
        shutil.rmtree(self.package, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / self.folder, self.package / "tilesim", ignore=ignored)
        (self.package / "tilesim" / "configs").symlink_to(root / "configs")
        for module in built.glob("_core*.so"):
            shutil.copy2(module, self.package / "tilesim" / module.name)
        known = json.loads((self.place / "covered.json").read_text())
        self.tests, self.lines = list(known["tests"].items()), known["lines"]

    def edits(self, source: str) -> list:
        return python_edits(source)

    def is_valid(self, mutant: Mutant) -> bool:
        return is_python(mutant.text)

    def fate(self, mutant: Mutant) -> tuple[Fate, str]:
        mutated = self.package / "tilesim" / Path(mutant.path).relative_to(self.folder)
        original = mutated.read_text()
        mutated.write_text(mutant.text)
        try:
            fate, by, total = Fate.SURVIVED, "", 0
            for tests in self.batches(mutant):
                total += len(tests)
                fate, by = self.pytest(self.package, tests, 2 * self.seconds)
                if fate is not Fate.SURVIVED:
                    return fate, by
            return fate, f"{total} tests"
        finally:
            mutated.write_text(original)

    def batches(self, mutant: Mutant) -> Iterator[list[str]]:
        """A few quick tests of each file that runs the line, then the others, then those that run its function."""
        if self.given:
            yield self.given
            return
        path = Path(mutant.path).relative_to(self.folder).as_posix()
        lines = self.lines.get(path, {})
        near: set[int] = set().union(*(lines.get(str(line), ()) for line in range(mutant.first, mutant.last + 1)))
        around = set().union(*(lines.get(str(line), ()) for line in scope_lines(mutant.text, mutant.first)))
        first, of_file, rest, seconds = [], {}, [], 0.0
        for index in sorted(near, key=lambda index: self.tests[index][1]):
            name, cost = self.tests[index]
            file = name.partition("::")[0]
            of_file[file] = of_file.get(file, 0) + 1
            seconds += cost
            if len(first) < FIRST and of_file[file] <= FIRST_OF_A_FILE and seconds < self.seconds:
                first.append(name)
            elif seconds < self.seconds:
                rest.append(name)
        for index in sorted(around - near, key=lambda index: self.tests[index][1])[:400]:
            seconds += self.tests[index][1]
            if seconds < self.seconds:
                rest.append(self.tests[index][0])
        if in_signature(mutant.text, mutant.first):
            first.append("tests/project/test_public_names.py")
        yield from (sorted(batch) for batch in (first, rest) if batch)


class CppTrial(Trial):
    """Mutants of the core in a copy of the tree with a build of its own."""

    suffix, folder = ".cpp", "cpp/tilesim"

    def __init__(self, root: Path, seconds: float, tests: list[str]) -> None:
        super().__init__(root, seconds, tests)
        self.tree = Path(os.environ.get("TILESIM_MUTANT_TREE", self.place / "tree"))
        for name in COPIED:
            _copy(root / name, self.tree / name)
        self.build = self.tree / "build" / "release"
        launcher = self.place / "launcher.sh"
        launcher.write_text(LAUNCHER)
        launcher.chmod(0o755)
        settings = [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"]
        if not self._run(["cmake", "--preset", "release", *settings]) or not self._build("_core"):
            raise SystemExit(f"the tree does not compile: {self.place / 'build.log'}")

    def _run(self, command: list[str], seconds: float | None = None, **environment: str) -> bool:
        with (self.place / "build.log").open("w") as log:
            done = subprocess.run(
                command, cwd=self.tree, stdout=log, stderr=log, timeout=seconds, env={**os.environ, **environment},
                check=False,
            )  # fmt: skip
        return done.returncode == 0

    def _build(self, *targets: str, **environment: str) -> bool:
        return self._run(["cmake", "--build", str(self.build), "-j1", "--target", *targets], **environment)

    def edits(self, source: str) -> list:
        return cpp_edits(source)

    def fate(self, mutant: Mutant) -> tuple[Fate, str]:
        mutated = self.tree / mutant.path
        original = mutated.read_text()
        mutated.write_text(mutant.text)
        try:
            return self._tried(mutant)
        finally:
            mutated.write_text(original)
            self._build(f"tilesim_{_room(mutant)}")

    def _tried(self, mutant: Mutant) -> tuple[Fate, str]:
        room, tests = _room(mutant), self.given or python_tests(mutant.path.removeprefix(f"{self.folder}/"))
        programs = programs_of_rooms(self.root / "tests" / "cpp")
        own = [] if self.given or room not in programs else [f"test_{programs[room]}"]
        if not self._build("_core", TILESIM_MUTANT="1"):
            return Fate.BROKEN, ""
        steps = [lambda: self._own(own), lambda: self.pytest(self.build / "python", tests, 3 * self.seconds)]
        for step in reversed(steps) if room in LONG else steps:
            fate, by = step()
            if fate is not Fate.SURVIVED:
                return fate, by
        return Fate.SURVIVED, ""

    def _own(self, programs: list[str]) -> tuple[Fate, str]:
        """The tests in C++ of the room."""
        for name in programs:
            if not self._build(name, TILESIM_MUTANT="1"):
                return Fate.BROKEN, name
            try:
                if not self._run([str(self.build / "tests" / "cpp" / name)], 20 * self.seconds):
                    return Fate.KILLED, name
            except subprocess.TimeoutExpired:
                return Fate.TIMEOUT, name
        return Fate.SURVIVED, ""


def _room(mutant: Mutant) -> str:
    return mutant.path.removeprefix(f"{CppTrial.folder}/").partition("/")[0]


def _copy(source: Path, target: Path) -> None:
    """Makes `target` equal; what is equal keeps its time, so that it is not built again."""
    if source.is_file():
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
        return
    names = {path.name for path in source.iterdir() if path.name != "__pycache__"}
    for path in target.iterdir() if target.is_dir() else ():
        if path.name not in names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in names:
        _copy(source / name, target / name)
